/**
 * Makes text from clients safe to look at. React escapes markup; the rest are characters that hide, reorder
 * or stack. They are written as `⟨U+202E⟩`, so that a name reads as it is.
 */

/**
 * Control characters other than tab and line feed, all that Unicode calls format characters (bidi controls,
 * zero-width ones, tags), lone surrogates. Left alone is the joiner after a pictograph: many of them are made
 * of several.
 */
const HIDDEN = /(?![\t\n])(?!(?<=\p{Extended_Pictographic}|\ufe0f)\u200d)[\p{Cc}\p{Cf}\p{Cs}]/gu;
/** More combining marks than this on one character would paint over neighbouring lines. */
const STACKED = /(\p{M}{4})\p{M}+/gu;

export function visibleText(text: string): string {
  return text
    .replace(HIDDEN, (character) => `⟨U+${hex(character.codePointAt(0) ?? 0)}⟩`)
    .replace(STACKED, (_, first: string) => `${first}⟨…⟩`);
}

/** One line for a cell of a table: line breaks shown, and no more than `most` characters. */
export function visibleLine(text: string, most = 200): string {
  const cut = text.length > most ? `${text.slice(0, most)}…` : text;
  return visibleText(cut).replace(/[\n\t]/g, (character) => (character === '\n' ? '⏎' : '⇥'));
}

function hex(codePoint: number): string {
  return codePoint.toString(16).toUpperCase().padStart(4, '0');
}
