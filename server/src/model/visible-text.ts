/**
 * Makes text visible that strangers have written, before it reaches a terminal or a log. Event names, ids and answers of
 * endpoints may hold characters that a terminal obeys (C1 controls begin escape sequences without an ESC), that change the order of
 * what is shown (direction overrides and isolates), or that show nothing and so forge a name.
 */

/** Control characters; direction and other format characters; line and paragraph separators; what shows as nothing. */
const INVISIBLE = String.raw`[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]`;

/** The two that choose between a text and an emoji form of the character before them. */
const VARIATION_SELECTORS = '[\uFE0E\uFE0F]';

const IN_TEXT = new RegExp(`(?!${VARIATION_SELECTORS})${INVISIBLE}`, 'gu');

/** JSON has no bare control characters but between its values, where line feeds stand on purpose. */
const IN_JSON = new RegExp(`(?!${VARIATION_SELECTORS}|[\\0-\\x1f])${INVISIBLE}`, 'gu');

/** What this program itself writes to a terminal: line ends, colours, and taking back the line that is being written. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is about.
const OUR_SEQUENCES = /\r\x1b\[2?K|\x1b\[[\d;]*m|[\n\t]/;
const ON_SCREEN = new RegExp(`(${OUR_SEQUENCES.source})|${IN_TEXT.source}`, 'gu');

/** Nearly every text has nothing but these. */
const PLAIN = /^[ -~]*$/;

/** A text of one line with `\uXXXX` for each unseen character, line ends among them. */
export function visible(text: string): string {
  return PLAIN.test(text) ? text : text.replace(IN_TEXT, escapeOf);
}

/** A text with `·` for each unseen character, where columns have to stand under each other. */
export function printable(text: string): string {
  return PLAIN.test(text) ? text : text.replace(IN_TEXT, '·');
}

/** The same JSON, one value or several lines of it, with `\uXXXX` for each unseen character. */
export function visibleJson(json: string): string {
  return json.replace(IN_JSON, escapeOf);
}

/** What goes to a terminal: text and JSON of ours, with our own colours. What a stranger wrote went through `printable` before. */
export function visibleOnScreen(text: string): string {
  return text.replace(ON_SCREEN, (character, own?: string) => own ?? escapeOf(character));
}

/** As JSON writes it; half a character at a time, where it needs two. */
function escapeOf(character: string): string {
  return Array.from(
    { length: character.length },
    (_, nth) => `\\u${character.charCodeAt(nth).toString(16).padStart(4, '0')}`,
  ).join('');
}
