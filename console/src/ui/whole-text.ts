/**
 * A text that ends in an ellipsis shows the whole of it on hover, wherever it stands: what is cut depends on
 * the width of the window, so it is looked at when the pointer comes.
 */
export function listenForCutTexts(): void {
  let shown: HTMLElement | undefined;
  document.addEventListener('pointerover', ({ target }) => {
    shown?.removeAttribute('title');
    shown = target instanceof Element ? cutTextAround(target) : undefined;
    if (shown !== undefined) shown.title = shown.innerText;
  });
}

/** The element around the pointer whose text is cut, unless something says already what it is. */
function cutTextAround(target: Element): HTMLElement | undefined {
  for (let at: Element | null = target; at !== null && !at.hasAttribute('title'); at = at.parentElement) {
    const isCut = at.scrollWidth > at.clientWidth && getComputedStyle(at).textOverflow === 'ellipsis';
    if (isCut && at instanceof HTMLElement) return at;
  }
  return undefined;
}
