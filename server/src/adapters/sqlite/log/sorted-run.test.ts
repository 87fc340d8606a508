import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SortedRun, SortedRunBuilder } from './sorted-run.ts';

type Entry = readonly [high: number, low: number, position: number];

/** A run of these entries, with its pages in memory. */
function makeRun(entries: readonly Entry[], withFilter = true): SortedRun {
  const pages: Uint8Array[] = [];
  const builder = new SortedRunBuilder(entries.length, (page, bytes) => {
    pages[page] = bytes;
  });
  for (const entry of [...entries].sort((a, b) => a[0] - b[0] || a[1] - b[1])) builder.add(...entry);
  builder.end();
  const { bucketBits, starts, remainders } = builder;
  const facts = {
    id: 1,
    n: entries.length,
    bucketBits,
    fromPosition: 0,
    toPosition: 0,
    youngest: 0,
    hasSums: true,
  };
  return new SortedRun(facts, starts, withFilter ? remainders : undefined, (_run, page) => pages[page]!);
}

function positionsOf(run: SortedRun, high: number, low: number): number[] {
  const found: number[] = [];
  run.some(high, low, (position) => {
    found.push(position);
    return false;
  });
  return found.sort((a, b) => a - b);
}

const word = fc.oneof(fc.integer({ min: 0, max: 0xffffffff }), fc.integer({ min: 0, max: 5 }));
const entry = fc.tuple(word, word, fc.nat({ max: 2 ** 48 - 1 }));

describe('a sorted run', () => {
  it.each([true, false])('finds every key and only the keys it has (filter in memory: %s)', (withFilter) => {
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 1200 }), fc.array(entry), (entries, others) => {
        const run = makeRun(entries, withFilter);
        for (const [high, low] of [...entries, ...others]) {
          const expected = entries.filter((one) => one[0] === high && one[1] === low).map((one) => one[2]);
          expect(positionsOf(run, high, low)).toEqual(expected.sort((a, b) => a - b));
        }
      }),
      { numRuns: 60 },
    );
  });

  it('reads no page for all but a few of the keys it does not have', () => {
    let reads = 0;
    const random = (n: number) => (Math.imul(n, 0x9e3779b1) ^ (n >>> 7)) >>> 0;
    const entries = Array.from({ length: 100_000 }, (_, n): Entry => [random(n), n, n]);
    const run = makeRun(entries);
    const counting = new SortedRun(run.facts, ...partsOf(entries), () => {
      reads++;
      return new Uint8Array(256 * 14);
    });
    for (let n = 0; n < 100_000; n++) counting.some(random(n + 500_000_000), 0, () => false);
    expect(reads).toBeLessThan(100);
  });
});

function partsOf(entries: readonly Entry[]): [Uint32Array, Uint16Array] {
  const builder = new SortedRunBuilder(entries.length, () => {});
  for (const one of [...entries].sort((a, b) => a[0] - b[0] || a[1] - b[1])) builder.add(...one);
  builder.end();
  return [builder.starts, builder.remainders];
}
