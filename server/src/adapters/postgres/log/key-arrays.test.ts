import { describe, expect, it } from 'vitest';
import { seeded } from '../../../../test/support/seeded.ts';
import { binaryArrayOf, wordsOf } from './key-arrays.ts';

/** As the server writes it: lines of 76 characters. */
const textOf = (form: Buffer) => form.toString('base64').replaceAll(/.{76}/g, '$&\n');

describe('keys on their way to the server and back', () => {
  it.each([1, 2, 3, 4, 5, 128, 2000, 4095, 5000, 20_000])('are the same: %d keys', (n) => {
    const random = seeded(n);
    const words = Uint32Array.from({ length: n * 2 }, () => random() * 2 ** 32);
    const read = wordsOf(textOf(binaryArrayOf(words)));
    expect(read.length).toBe(words.length);
    for (const [at, word] of words.entries()) if (read[at] !== word) expect.fail(`word ${at} is ${read[at]}`);
  });

  it('are none in an array without elements, which has no dimension', () => {
    expect(wordsOf('AAAAAAAAAAAAAAAU')).toEqual(new Uint32Array(0));
  });

  it('are not those of the array that is read next', () => {
    const first = wordsOf(textOf(binaryArrayOf(Uint32Array.of(1, 2))));
    wordsOf(textOf(binaryArrayOf(Uint32Array.of(3, 4))));
    expect([...first]).toEqual([1, 2]);
  });
});
