/** What is told of a fault. */
interface Fault {
  /** The whole body. */
  readonly bytes: Buffer;
  /** In bytes from its beginning. */
  readonly at: number;
  /** What stands there; empty at the end of the body. */
  readonly token: string;
  /** Of the field it stands in; see `written`. */
  readonly path: string;
  /** Whether the whole body is nothing but blanks. */
  readonly isEmpty: boolean;
}

/** What to write for words of other languages. */
const INSTEAD: ReadonlyMap<string, string> = new Map([
  ...inPlaceOf(
    ['NaN', 'nan', 'Infinity', '-Infinity', 'inf', '-inf'],
    'JSON has no such number: send null, or leave the field out.',
  ),
  ...inPlaceOf(['undefined', 'None', 'nil', 'NULL'], 'Send null, or leave the field out.'),
  ...inPlaceOf(['True', 'TRUE'], 'Send true.'),
  ...inPlaceOf(['False', 'FALSE'], 'Send false.'),
  ...inPlaceOf(["'"], 'Texts stand in double quotes.'),
]);

function inPlaceOf(words: readonly string[], hint: string): [string, string][] {
  return words.map((word) => [word, hint]);
}

/** Of the offending token, and of a field's name. */
const LONGEST_TOKEN = 20;
export const LONGEST_NAME = 40;
/** Of the whole path, from its end. */
export const LONGEST_PATH = 120;

/** Fields whose values are shown to nobody. */
const SECRET = /key|token|secret|passw|auth/i;

/** For the client: no more of the body than a short token and names of fields. */
export function sentenceOf({ bytes, at, token, path, isEmpty }: Fault): string {
  if (isEmpty) return 'It is empty.';
  const place = `byte ${at} (line ${lineOf(bytes, at)})${path === '' ? '' : `, in ${path}`}`;
  if (token === '') return `It breaks off at ${place}.`;
  const instead = INSTEAD.get(token);
  const isSecret = instead === undefined && SECRET.test(path.slice(path.lastIndexOf('.') + 1));
  const shown = isSecret ? 'value without quotes' : printable(token, LONGEST_TOKEN);
  return `Unexpected ${shown} at ${place}.${instead === undefined ? '' : ` ${instead}`}`;
}

/** The name of a field as a part of a path, `.price` or `["unit price"]`. */
export function written(name: string): string {
  const text = printable(name, LONGEST_NAME);
  return /^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(text) ? `.${text}` : `["${text}"]`;
}

/** Letters of any language stay; what could disturb a screen or a log is written as an escape. */
function printable(text: string, most: number): string {
  const characters = [...text];
  const shown = characters
    .slice(0, most)
    .map((one) => (/[\p{L}\p{N}\x20-\x7e]/u.test(one) ? one : `\\u{${one.codePointAt(0)!.toString(16)}}`))
    .join('');
  return characters.length > most ? `${shown}…` : shown;
}

const LINE_FEED = 0x0a;

/** From 1. */
function lineOf(bytes: Buffer, to: number): number {
  let line = 1;
  for (let at = bytes.indexOf(LINE_FEED); at >= 0 && at < to; at = bytes.indexOf(LINE_FEED, at + 1)) line++;
  return line;
}

/** One character of UTF-8, or as much of one as there is. */
export function characterAt(bytes: Buffer, at: number): string {
  const [character = ''] = bytes.toString('utf8', at, at + 4);
  return character;
}
