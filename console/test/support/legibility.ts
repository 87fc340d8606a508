import type { Page } from 'playwright-core';

/**
 * Finds text that cannot be read on a page as it stands: words that are cut, broken letter by letter, outside
 * their box or the window, or under other words, and names that are not what is shown. An ellipsis is no cut
 * where it leaves some letters and the pointer brings the whole text. Scrolled text can be read.
 *
 * The functions below run in the page, one calling the other, and know nothing of this file.
 */
export async function legibilityFaults(page: Page): Promise<string[]> {
  const parts = [legibility, textsOf, layerOf, framesAround, seenPart, faultAt, isShownWhole];
  const source = [...parts, brokenWords, cutFields, otherNames, overlaps].map(String).join('\n');
  return await page.evaluate(`(() => { ${source}; return legibility(); })()`);
}

/** Left, top, right and bottom, in pixels of the window. */
interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** An element as far as it bounds what is in it. */
interface Frame {
  readonly element: Element;
  readonly border: Box;
  /** Within its border. */
  readonly edge: Box;
  readonly style: CSSStyleDeclaration;
}

/** A piece of text in one line, or a mark, as far as it is seen. */
interface Piece {
  readonly of: Node;
  readonly name: string;
  readonly box: Box;
  /** Element that scrolls together with it, and lies over everything else: a bar, a dialog, an inspector. */
  readonly layer: Element;
}

function legibility(): string[] {
  const faults = new Set<string>();
  const pieces: Piece[] = [];
  const root = document.querySelector('dialog[open]') ?? document.body;
  const known = new Map<Element, Frame | undefined>();
  const add = (of: Node, name: string, element: Element, rects: Iterable<DOMRect>): void => {
    const around = framesAround(element, known);
    for (const rect of rects) {
      const { box, fault } = seenPart(rect, around);
      if (fault !== undefined && of instanceof Text) faults.add(`${name} ${fault}`);
      if (box !== undefined) pieces.push({ of, name, box, layer: layerOf(around) });
    }
  };
  for (const { node, element } of textsOf(root)) {
    const text = (node.textContent ?? '').trim().slice(0, 60);
    const name = `"${text}" in ${element.tagName.toLowerCase()}.${element.className}`;
    const range = document.createRange();
    range.selectNodeContents(node);
    const rects = [...range.getClientRects()].filter(({ width }) => width >= 1);
    add(node, name, element, rects);
    if (rects.length > 1) for (const fault of brokenWords(node)) faults.add(`${fault} of ${name}`);
  }
  for (const mark of root.querySelectorAll('svg.i, input, select, textarea, progress')) {
    if (!mark.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const name = `${mark.tagName.toLowerCase()} (${mark.getAttribute('aria-label') ?? mark.getAttribute('class')})`;
    add(mark, name, mark.parentElement ?? root, [mark.getBoundingClientRect()]);
  }
  for (const fault of [...overlaps(pieces), ...cutFields(root), ...otherNames(root)]) faults.add(fault);
  // Codes and tabs scroll beside; what stands beside a list and over a page does not.
  for (const part of document.querySelectorAll('main, aside, dialog')) {
    const wider = part.scrollWidth - part.clientWidth;
    if (wider > 0 && getComputedStyle(part).overflowX !== 'visible')
      faults.add(`${part.tagName.toLowerCase()}.${part.className} scrolls beside by ${wider} px`);
  }
  const beside = document.documentElement.scrollWidth - window.innerWidth;
  if (beside > 0) faults.add(`the page is ${beside} px wider than the window`);
  return [...faults];
}

/** The texts that are meant to be seen, each with the element around it. */
function textsOf(root: Element): { node: Node; element: HTMLElement }[] {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement;
    if (element === null || (node.textContent ?? '').trim() === '') continue;
    // What is for screen readers alone has the class `sr`.
    if (element.closest('script, style, option, svg, datalist, textarea, .sr') !== null) continue;
    if (getComputedStyle(element).clipPath !== 'none') continue;
    if (element.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
      found.push({ node, element });
  }
  return found;
}

/** The boxes around an element and itself, the innermost first. `known` keeps what was measured. */
function framesAround(element: Element, known: Map<Element, Frame | undefined>): Frame[] {
  const frames: Frame[] = [];
  for (
    let at: Element | null = element;
    at !== null && at !== document.documentElement;
    at = at.parentElement
  ) {
    let frame = known.get(at);
    if (frame === undefined && !known.has(at)) {
      const style = getComputedStyle(at);
      const { left, top, right, bottom } = at.getBoundingClientRect();
      const edge = {
        left: left + at.clientLeft,
        top: top + at.clientTop,
        right: left + at.clientLeft + at.clientWidth,
        bottom: top + at.clientTop + at.clientHeight,
      };
      const isBox = style.display !== 'inline' && style.display !== 'contents';
      if (isBox) frame = { element: at, border: { left, top, right, bottom }, edge, style };
      known.set(at, frame);
    }
    if (frame !== undefined) frames.push(frame);
    if (frame?.style.position === 'fixed') break;
  }
  return frames;
}

function layerOf(frames: readonly Frame[]): Element {
  const moving = frames.find(({ style }) => ['fixed', 'sticky'].includes(style.position));
  return moving?.element ?? document.body;
}

/**
 * The part of a rectangle that its surroundings leave, and what is wrong with the rest. Neither, where it is
 * meant to be out of sight.
 */
function seenPart(rect: Box, around: readonly Frame[]): { box?: Box; fault?: string } {
  let box = rect;
  let isFree = false;
  let outside: string | undefined;
  for (const frame of around) {
    const { edge, style } = frame;
    const fault = faultAt(frame, box);
    if (style.overflowX === 'visible') {
      if (!isFree) outside ??= fault;
    } else {
      if (fault !== undefined) return { fault };
      // What is wider than its box and scrolls can be read.
      if (style.overflowX !== 'hidden') outside = undefined;
      box = {
        left: Math.max(box.left, edge.left),
        top: Math.max(box.top, edge.top),
        right: Math.min(box.right, edge.right),
        bottom: Math.min(box.bottom, edge.bottom),
      };
      if (box.right - box.left < 1 || box.bottom - box.top < 1) return {};
    }
    // What is placed stands where it was put, and may stand beside what it belongs to.
    if (style.position === 'absolute' || style.transform !== 'none') isFree = true;
  }
  if (outside !== undefined) return { fault: outside };
  if (box.right < 0) return {};
  if (box.left < -1 || box.right > window.innerWidth + 1) return { fault: 'is outside the window' };
  return { box };
}

function faultAt({ element, border, edge, style }: Frame, box: Box): string | undefined {
  const { overflowX, overflowY, textOverflow } = style;
  const place = `${element.tagName.toLowerCase()}.${element.className}`;
  if (overflowX === 'visible') {
    const isOutside = box.left < border.left - 1 || box.right > border.right + 1;
    // A box is what can be seen as one.
    const isSeen = style.borderStyle !== 'none' || style.backgroundColor !== 'rgba(0, 0, 0, 0)';
    return isOutside && isSeen ? `stands outside of ${place}` : undefined;
  }
  const isAboveOrBelow = box.top < edge.top - 3 || box.bottom > edge.bottom + 3;
  if (overflowY === 'hidden' && isAboveOrBelow) return `is cut below or above by ${place}`;
  const isBeside = box.left < edge.left - 1 || box.right > edge.right + 1;
  if (!isBeside || overflowX === 'auto' || overflowX === 'scroll') return undefined;
  if (textOverflow !== 'ellipsis') return `is cut by ${place}`;
  const room = Math.round(edge.right - edge.left);
  if (room < 48) return `has ${room} px in ${place}`;
  return isShownWhole(element) ? undefined : `is cut by ${place}, and the pointer does not bring the rest`;
}

/** Whether the pointer brings the whole text of what ends in an ellipsis. */
function isShownWhole(at: Element): boolean {
  at.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
  return at.closest('[title]') !== null || at.querySelector('[title]') !== null;
}

/** Words are broken where they are too long for a line, and not into heaps of letters. */
function brokenWords(node: Node): string[] {
  const range = document.createRange();
  const faults: string[] = [];
  for (const { 0: token, index } of (node.textContent ?? '').matchAll(/\S+/g)) {
    const isLong = token.length > 24;
    // A word may be broken where it has one of these.
    const parts = isLong ? [{ 0: token, index: 0 }] : token.matchAll(/[^-–—/?&.,_]+/g);
    for (const { 0: part, index: offset } of parts) {
      range.setStart(node, index + offset);
      range.setEnd(node, index + offset + part.length);
      const lines = [...range.getClientRects()].filter(({ width }) => width > 0);
      const tops = new Set(lines.map(({ top }) => Math.round(top)));
      if (tops.size < 2) continue;
      const widest = Math.max(...lines.map(({ width }) => width));
      if (!isLong || widest < 96) faults.push(`"${part.slice(0, 30)}" is broken into ${tops.size} lines`);
    }
  }
  return faults;
}

/**
 * Fields do not say that their words are cut: what they show is measured. A long name may be cut where most
 * of it is seen.
 */
function cutFields(root: Element): string[] {
  const pen = document.createElement('canvas').getContext('2d');
  const fields = [...root.querySelectorAll<HTMLInputElement | HTMLSelectElement>('input, select')];
  return fields.flatMap((field) => {
    if (pen === null || !field.checkVisibility()) return [];
    const isSelect = field instanceof HTMLSelectElement;
    const shown = isSelect ? field.selectedOptions[0]?.label : field.value === '' ? field.placeholder : '';
    if (shown === undefined || shown === '') return [];
    const { font, paddingLeft, paddingRight } = getComputedStyle(field);
    pen.font = font;
    const room = field.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight);
    const wanted = pen.measureText(shown).width;
    if (wanted <= room + 2 || (isSelect && shown.length > 20 && room > 96)) return [];
    return [
      `"${shown}" has ${Math.round(room)} of ${Math.round(wanted)} px in ${field.ariaLabel ?? field.name}`,
    ];
  });
}

/**
 * Headers of tables without a word, and what is called otherwise than it shows: nobody who speaks to the page
 * can press that.
 */
function otherNames(root: Element): string[] {
  const plain = (text: string | null) =>
    (text ?? '')
      .replaceAll(/[^\p{L}\p{N}]+/gu, ' ')
      .trim()
      .toLowerCase();
  const empty = [...root.querySelectorAll('th')].filter((header) => plain(header.textContent) === '');
  const named = [...root.querySelectorAll<HTMLElement>('button[aria-label], a[aria-label]')];
  const wrong = named.filter((one) => !plain(one.ariaLabel).includes(plain(one.innerText)));
  return [
    ...empty.map(({ className }) => `th.${className} has no word`),
    ...wrong.map((one) => `"${one.innerText}" is called "${one.ariaLabel}"`),
  ];
}

function overlaps(pieces: readonly Piece[]): string[] {
  const faults: string[] = [];
  const sorted = [...pieces].sort((one, other) => one.box.top - other.box.top);
  sorted.forEach((one, index) => {
    for (let next = index + 1; next < sorted.length; next++) {
      const other = sorted[next] as Piece;
      if (other.box.top > one.box.bottom - 4) break;
      if (one.of === other.of || one.layer !== other.layer) continue;
      const width = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
      const height = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
      if (width > 2 && height > 4) faults.push(`${one.name} lies over ${other.name}`);
    }
  });
  return faults;
}
