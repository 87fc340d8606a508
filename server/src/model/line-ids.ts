/** A text as UTF-8, somewhere in a larger buffer. */
export interface Utf8Slice {
  readonly bytes: Uint8Array;
  readonly from: number;
  readonly to: number;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;

const [USER, ANONYMOUS, PREVIOUS, OTHER, END] = [0, 1, 2, 3, 4] as const;

/**
 * Finds the ids of an event in its line without parsing it. Every line begins with `messageId`, `type`,
 * `channel` and the ids, in this order and all of them texts (`Event`), so the search ends at the first other
 * field. One object serves many lines: each scan overwrites the last.
 *
 * Ranges are byte offsets without the quotes. An end of 0 means that the event has no such id.
 */
export class LineIds {
  userFrom = 0;
  userTo = 0;
  anonymousFrom = 0;
  anonymousTo = 0;
  previousFrom = 0;
  previousTo = 0;
  /** Some id has escapes: its bytes are not those of its text. */
  isEscaped = false;

  /** False when the line does not begin as lines do; its ids are unknown then. */
  scan(bytes: Uint8Array, from: number, to: number): boolean {
    this.userTo = 0;
    this.anonymousTo = 0;
    this.previousTo = 0;
    this.isEscaped = false;
    if (bytes[from + 2] !== LETTER_M) return false;
    for (let at = from + 1; at < to; ) {
      const field = fieldAt(bytes, at);
      if (field === END) return true;
      const value = bytes.indexOf(COLON, at) + 2;
      if (bytes[value - 1] !== QUOTE) return field === OTHER;
      const end = this.#endOfText(bytes, value, to, field !== OTHER);
      if (field === USER) [this.userFrom, this.userTo] = [value, end];
      else if (field === ANONYMOUS) [this.anonymousFrom, this.anonymousTo] = [value, end];
      else if (field === PREVIOUS) [this.previousFrom, this.previousTo] = [value, end];
      if (bytes[end + 1] !== COMMA) return true;
      at = end + 2;
    }
    return true;
  }

  #endOfText(bytes: Uint8Array, from: number, to: number, isId: boolean): number {
    let at = from;
    while (at < to && bytes[at] !== QUOTE) {
      if (bytes[at] !== BACKSLASH) at++;
      else {
        if (isId) this.isEscaped = true;
        at += 2;
      }
    }
    return at;
  }
}

/** The text of an id at a range that a scan has found. */
export function idText(bytes: Buffer, from: number, to: number): string {
  const text = bytes.toString('utf8', from, to);
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text;
}

const LETTER_M = 'm'.charCodeAt(0);
const LETTERS = { u: USER, a: ANONYMOUS, p: PREVIOUS, m: OTHER, t: OTHER, c: OTHER } as const;
const NAMES = {
  u: 'userId',
  a: 'anonymousId',
  p: 'previousId',
  m: 'messageId',
  t: 'type',
  c: 'channel',
} as const;
const BY_LETTER = new Map(
  (Object.keys(NAMES) as (keyof typeof NAMES)[]).map((letter) => [
    letter.charCodeAt(0),
    { field: LETTERS[letter], name: Buffer.from(`"${NAMES[letter]}":`) },
  ]),
);

/** The field whose name begins at a quote; `END` for one behind the ids. */
function fieldAt(bytes: Uint8Array, at: number): number {
  const known = BY_LETTER.get(bytes[at + 1]!);
  if (known === undefined) return END;
  const { field, name } = known;
  for (let nth = 0; nth < name.length; nth++) if (bytes[at + nth] !== name[nth]) return END;
  return field;
}
