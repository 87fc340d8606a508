import { describe, expect, it } from 'vitest';
import { SplitBlockFilter } from './split-block-filter.ts';

const highOf = (n: number) => Math.imul(n ^ (n >>> 15), 0x9e3779b1) >>> 0;
const lowOf = (n: number) => Math.imul(n ^ (n >>> 13), 0x85ebca6b) >>> 0;

describe.each([1, 100, 50_000])('a filter that is full with %d keys', (keys) => {
  const filter = new SplitBlockFilter(keys);
  const words = Uint32Array.from({ length: keys * 2 }, (_, at) =>
    (at % 2 === 0 ? highOf : lowOf)((at >>> 1) + 1),
  );
  filter.addAll(words);

  it('takes two bytes a key, and a block at least', () => {
    expect(filter.bytes).toBeLessThanOrEqual(Math.max(32, keys * 2 + 32));
  });

  it('knows every key', () => {
    for (let n = 1; n <= keys; n++)
      if (!filter.mayHave(highOf(n), lowOf(n))) expect.fail(`key ${n} is missing`);
  });

  it('is the same when it was stored', () => {
    const stored = SplitBlockFilter.of(Buffer.from(filter.toBytes()));
    expect(stored.toBytes()).toEqual(filter.toBytes());
    for (let n = 1; n <= 2 * keys; n++)
      if (stored.mayHave(highOf(n), lowOf(n)) !== filter.mayHave(highOf(n), lowOf(n)))
        expect.fail(`${n} differs`);
  });

  it('finds those that it knows among others', () => {
    const mixed = Uint32Array.from({ length: 4 * keys }, (_, at) => {
      const n = (at >>> 2) + (at % 4 < 2 ? 1 : 1_000_001);
      return at % 2 === 0 ? highOf(n) : lowOf(n);
    });
    const one = (index: number) => filter.mayHave(mixed[index * 2]!, mixed[index * 2 + 1]!);
    const expected = Array.from({ length: 2 * keys }, (_, index) => index).filter(one);
    expect(filter.among(mixed, 0)).toEqual(expected);
    expect(filter.among(mixed, 1)).toEqual(expected.slice(1));
    expect(expected.length).toBeGreaterThanOrEqual(keys);
  });

  it('knows hardly another key', () => {
    let wrong = 0;
    for (let n = 1_000_000; n < 1_200_000; n++) if (filter.mayHave(highOf(n), lowOf(n))) wrong++;
    expect(wrong).toBeLessThan(200_000 * 0.003);
  });
});
