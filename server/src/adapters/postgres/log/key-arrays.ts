import { endianness } from 'node:os';

/** The number of the type bigint in the server's catalogue. */
const BIGINT = 20;

/**
 * Words of the server's binary form of an array before its first element, and of each element: its length in
 * bytes, and the number.
 */
const HEAD_WORDS = 5;
const ELEMENT_WORDS = 3;

/** Bytes of the form of some thousand keys: a longer one gets memory of its own. */
const SCRATCH_BYTES = 65_536;
const scratch = Buffer.from(new ArrayBuffer(SCRATCH_BYTES));

/**
 * Two words for each number as an array of the server's binary form: how many dimensions, no nulls, the type,
 * the length, the first index; then each number behind its length in bytes. `pg` sends bytes as they are. As
 * text they would be written and read digit by digit.
 */
export function binaryArrayOf(words: Uint32Array): Buffer {
  const n = words.length / 2;
  const form = new Uint32Array(HEAD_WORDS + n * ELEMENT_WORDS);
  form.set([1, 0, BIGINT, n, 1]);
  for (let from = 0, to = HEAD_WORDS; from < words.length; from += 2, to += ELEMENT_WORDS) {
    form[to] = 8;
    form[to + 1] = words[from]!;
    form[to + 2] = words[from + 1]!;
  }
  const bytes = Buffer.from(form.buffer);
  return endianness() === 'LE' ? bytes.swap32() : bytes;
}

/**
 * An expression whose value `wordsOf` reads. `pg` reads all answers as text, and bytes would be that in
 * hexadecimal digits, half as long again.
 */
export function formOf(array: string): string {
  return `encode(array_send(${array}), 'base64')`;
}

/** The numbers of an array as pairs of words, high before low. */
export function wordsOf(form: string): Uint32Array {
  const most = form.length;
  const bytes = most <= scratch.length ? scratch : Buffer.from(new ArrayBuffer(most + (-most & 3)));
  const length = bytes.write(form, 'base64');
  if (endianness() === 'LE') bytes.subarray(0, length).swap32();
  const from = new Uint32Array(bytes.buffer, 0, length / 4);
  const words = new Uint32Array(Math.max(0, (from.length - HEAD_WORDS) / ELEMENT_WORDS) * 2);
  for (let to = 0, at = HEAD_WORDS + 1; to < words.length; to += 2, at += ELEMENT_WORDS) {
    words[to] = from[at]!;
    words[to + 1] = from[at + 1]!;
  }
  return words;
}
