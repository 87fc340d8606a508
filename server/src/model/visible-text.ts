/**
 * Makes invisible characters in text of strangers visible, before the text reaches a terminal or a log. Event
 * names, ids and answers of endpoints may hold characters that a terminal obeys (C1 controls begin escape
 * sequences without an ESC), that reorder text (direction overrides and isolates), or that show nothing and
 * forge a name that way.
 */

/**
 * Control characters; direction and other format characters; line and paragraph separators; characters that
 * show nothing.
 */
const INVISIBLE = String.raw`[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]`;

/** Choose between a text and an emoji form of the character before them. */
const VARIATION_SELECTORS = '[\uFE0E\uFE0F]';

const IN_TEXT = new RegExp(`(?!${VARIATION_SELECTORS})${INVISIBLE}`, 'gu');

/** JSON has bare control characters only between its values, such as intended line feeds. */
const IN_JSON = new RegExp(`(?!${VARIATION_SELECTORS}|[\\0-\\x1f])${INVISIBLE}`, 'gu');

/** Sequences that this program writes to a terminal: line ends, colours, and erasing the current line. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it is about control characters.
const OUR_SEQUENCES = /\r\x1b\[2?K|\x1b\[[\d;]*m|[\n\t]/;
const ON_SCREEN = new RegExp(`(${OUR_SEQUENCES.source})|${IN_TEXT.source}`, 'gu');

/** Nearly every text has only these characters. */
const PLAIN = /^[ -~]*$/;

/** The text on one line: each invisible character, line ends included, is written as `\uXXXX`. */
export function visible(text: string): string {
  return PLAIN.test(text) ? text : text.replace(IN_TEXT, escapeOf);
}

/** A text with `·` for each invisible character, for tables whose columns must line up. */
export function printable(text: string): string {
  return PLAIN.test(text) ? text : text.replace(IN_TEXT, '·');
}

/** The same JSON, one value or several lines of values, with `\uXXXX` for each invisible character. */
export function visibleJson(json: string): string {
  return json.replace(IN_JSON, escapeOf);
}

/**
 * Our own output with its colours, ready for a terminal. Text of strangers in it must have gone through
 * `printable` before.
 */
export function visibleOnScreen(text: string): string {
  return text.replace(ON_SCREEN, (character, own?: string) => own ?? escapeOf(character));
}

/** The escapes of JSON, one for each UTF-16 unit. */
function escapeOf(character: string): string {
  return Array.from(
    { length: character.length },
    (_, nth) => `\\u${character.charCodeAt(nth).toString(16).padStart(4, '0')}`,
  ).join('');
}
