import { beforeAll, describe, expect, it } from 'vitest';
import { type FilterPart, filterPartOf, MergedFilter } from './run-set.ts';
import { SortedRun, SortedRunBuilder } from './sorted-run.ts';

const RUNS = 16;
const KEYS = 5000;
const highOf = (n: number) => Math.imul(n ^ (n >>> 15), 0x9e3779b1) >>> 0;
const lowOf = (n: number) => Math.imul(n, 0x85ebca6b) >>> 0;

let reads = 0;

/** A run of as many keys as given, but bucketed like one of a million, as only those are grouped. */
function seal(id: number, numbers: readonly number[]): SortedRun {
  const pages: Uint8Array[] = [];
  const builder = new SortedRunBuilder(2 ** 20, (page, bytes) => {
    pages[page] = bytes;
  });
  const ordered = numbers.toSorted((a, b) => highOf(a) - highOf(b));
  for (const n of ordered) builder.add(highOf(n), lowOf(n), n);
  builder.end();
  const { bucketBits, starts, remainders } = builder;
  const facts = {
    id,
    n: numbers.length,
    bucketBits,
    fromPosition: 0,
    toPosition: 0,
    youngest: id,
    hasSums: true,
  };
  return new SortedRun(facts, starts, remainders.slice(0, numbers.length), (_run, page) => {
    reads++;
    return pages[page]!;
  });
}

function complete(slices: Generator<undefined, MergedFilter>): { group: MergedFilter; slices: number } {
  for (let n = 1; ; n++) {
    const slice = slices.next();
    if (slice.done === true) return { group: slice.value, slices: n };
  }
}

/** Brings neighbours together until one is left. */
function bringTogether(parts: readonly FilterPart[]): MergedFilter {
  const pairs = parts
    .filter((_, nth) => nth % 2 === 0)
    .map((one, nth) => [one, parts[nth * 2 + 1]!] as const);
  const groups = pairs.map(([one, other]) => {
    expect(MergedFilter.canMerge(one, other)).toBe(true);
    return complete(MergedFilter.merge(one, other)).group;
  });
  return groups.length === 1 ? groups[0]! : bringTogether(groups);
}

const numbersOf = (nth: number) => Array.from({ length: KEYS }, (_, n) => nth * KEYS + n);

describe.each([2, 4, 8, 16])('%d runs brought together', (size) => {
  let runs: SortedRun[];
  let group: MergedFilter;

  beforeAll(() => {
    runs = Array.from({ length: size }, (_, nth) => seal(nth, numbersOf(nth)));
    group = bringTogether(runs.map((run) => filterPartOf(run)!));
    for (const run of runs) run.dropFilter();
  });

  const finds = (n: number, mayAsk: (run: SortedRun) => boolean = () => true, among = group) =>
    among.some(highOf(n), lowOf(n), { mayAsk, matches: (position) => position === n });
  const marked = (first: number, n: number, among = group) => {
    const keys = Uint32Array.from({ length: n * 2 }, (_, at) =>
      at % 2 === 0 ? highOf(first + at / 2) : lowOf(first + (at - 1) / 2),
    );
    const found = new Uint8Array(n);
    among.markPossible(keys, found);
    return found.reduce((sum, one) => sum + one, 0);
  };

  it('find every key of each', () => {
    for (let n = 0; n < size * KEYS; n++) if (!finds(n)) expect.fail(`key ${n} is not found`);
  });

  it('mark every key of theirs, and hardly another', () => {
    expect(marked(0, size * KEYS)).toBe(size * KEYS);
    // Filled to a two-hundredth, a group is wrong as many times less often.
    expect(marked(10_000_000, 100_000)).toBeLessThan(100);
  });

  it('find no other key, and read hardly a page for it', () => {
    reads = 0;
    for (let n = 10_000_000; n < 10_100_000; n++) if (finds(n)) expect.fail(`key ${n} is found`);
    expect(reads).toBeLessThan(100);
  });

  it('take no more memory than their filters did', () => {
    expect(group.filterBytes).toBe(2 * size * KEYS);
  });

  it('are not asked when they are too old', () => {
    const young = (run: SortedRun) => run.facts.youngest >= 1;
    expect([finds(0, young), finds(KEYS, young)]).toEqual([false, true]);
  });

  it('can be dropped one by one, and half a group takes half the memory', () => {
    const less = bringTogether(
      Array.from({ length: size }, (_, nth) => filterPartOf(seal(nth, numbersOf(nth)))!),
    );
    const all = less.runs;
    for (let nth = 0; nth < size / 2; nth++) {
      expect(less.isSparse).toBe(false);
      less.drop(all[nth]!);
      expect(less.runs).toEqual(all.slice(nth + 1));
      expect([finds(nth * KEYS, undefined, less), finds((nth + 1) * KEYS, undefined, less)]).toEqual([
        false,
        true,
      ]);
    }
    expect(less.isSparse).toBe(size > 2);
    if (size === 2) return;
    const { group: half } = complete(less.halve());
    expect(half.runs).toEqual(less.runs);
    expect(half.filterBytes).toBe(less.filterBytes / 2);
    for (let n = (size / 2) * KEYS; n < size * KEYS; n++) {
      if (!finds(n, undefined, half)) expect.fail(`key ${n} is not found`);
    }
    expect(marked(0, (size / 2) * KEYS, half)).toBeLessThan(size * 20);
  });
});

describe('runs', () => {
  it('are brought together in short slices', () => {
    const parts = [0, 1].map((nth) => filterPartOf(seal(nth, numbersOf(nth)))!);
    expect(complete(MergedFilter.merge(parts[0]!, parts[1]!)).slices).toBeGreaterThan(3);
  });

  it('do not fit when one has lost its filter, with a group of another size, or when there are sixteen', () => {
    const run = seal(1, [1]);
    const part = filterPartOf(run)!;
    const two = bringTogether([filterPartOf(seal(0, [0]))!, part]);
    expect(MergedFilter.canMerge(part, two)).toBe(false);
    const sixteen = bringTogether(Array.from({ length: RUNS }, (_, nth) => filterPartOf(seal(nth, [nth]))!));
    expect(MergedFilter.canMerge(sixteen, sixteen)).toBe(false);
    run.dropFilter();
    expect(filterPartOf(run)).toBeUndefined();
  });
});
