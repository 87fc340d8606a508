import { beforeAll, describe, expect, it } from 'vitest';
import { IS_LONG } from '../../../../test/support/runs.ts';
import { type FilterPart, filterPartOf, MergedFilter } from './run-set.ts';
import { SortedRun, SortedRunBuilder } from './sorted-run.ts';

const RUNS = 16;
const KEYS = 5000;
const highOf = (n: number) => Math.imul(n ^ (n >>> 15), 0x9e3779b1) >>> 0;
const lowOf = (n: number) => Math.imul(n, 0x85ebca6b) >>> 0;

let reads = 0;

/** A small run with as many buckets as a full one: filters of fewer buckets are not merged. */
function makeRun(id: number, numbers: readonly number[]): SortedRun {
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

function complete(slices: Generator<undefined, MergedFilter>): { filter: MergedFilter; slices: number } {
  for (let n = 1; ; n++) {
    const slice = slices.next();
    if (slice.done === true) return { filter: slice.value, slices: n };
  }
}

/** Merges neighbours until one filter is left. */
function mergeAll(parts: readonly FilterPart[]): MergedFilter {
  const pairs = parts
    .filter((_, nth) => nth % 2 === 0)
    .map((one, nth) => [one, parts[nth * 2 + 1]!] as const);
  const merged = pairs.map(([one, other]) => {
    expect(MergedFilter.canMerge(one, other)).toBe(true);
    return complete(MergedFilter.merge(one, other)).filter;
  });
  return merged.length === 1 ? merged[0]! : mergeAll(merged);
}

const numbersOf = (nth: number) => Array.from({ length: KEYS }, (_, n) => nth * KEYS + n);

describe.each(IS_LONG ? [2, 4, 8, 16] : [2, 8])('a merged filter of %d runs', (size) => {
  let runs: SortedRun[];
  let filter: MergedFilter;

  beforeAll(() => {
    runs = Array.from({ length: size }, (_, nth) => makeRun(nth, numbersOf(nth)));
    filter = mergeAll(runs.map((run) => filterPartOf(run)!));
    for (const run of runs) run.dropFilter();
  });

  const finds = (n: number, isEligible: (run: SortedRun) => boolean = () => true, among = filter) =>
    among.some(highOf(n), lowOf(n), { isEligible, matches: (position) => position === n });
  const marked = (first: number, n: number, among = filter) => {
    const keys = Uint32Array.from({ length: n * 2 }, (_, at) =>
      at % 2 === 0 ? highOf(first + at / 2) : lowOf(first + (at - 1) / 2),
    );
    const found = new Uint8Array(n);
    among.markPossible(keys, found);
    return found.reduce((sum, one) => sum + one, 0);
  };

  it('finds every key of each run', () => {
    for (let n = 0; n < size * KEYS; n++) if (!finds(n)) expect.fail(`key ${n} is not found`);
  });

  it('marks every key of its runs, and hardly another', () => {
    expect(marked(0, size * KEYS)).toBe(size * KEYS);
    // These runs are a two-hundredth full: the filter is wrong two hundred times less often.
    expect(marked(10_000_000, 100_000)).toBeLessThan(100);
  });

  it('finds no other key, and reads hardly a page for it', () => {
    reads = 0;
    for (let n = 10_000_000; n < 10_100_000; n++) if (finds(n)) expect.fail(`key ${n} is found`);
    expect(reads).toBeLessThan(100);
  });

  it('takes no more memory than the filters of its runs did', () => {
    expect(filter.filterBytes).toBe(2 * size * KEYS);
  });

  it('does not read a run that is too old', () => {
    const young = (run: SortedRun) => run.facts.youngest >= 1;
    expect([finds(0, young), finds(KEYS, young)]).toEqual([false, true]);
  });

  it('forgets dropped runs one by one; with half of them left it takes half the memory', () => {
    const less = mergeAll(
      Array.from({ length: size }, (_, nth) => filterPartOf(makeRun(nth, numbersOf(nth)))!),
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
    const { filter: half } = complete(less.halve());
    expect(half.runs).toEqual(less.runs);
    expect(half.filterBytes).toBe(less.filterBytes / 2);
    for (let n = (size / 2) * KEYS; n < size * KEYS; n++) {
      if (!finds(n, undefined, half)) expect.fail(`key ${n} is not found`);
    }
    expect(marked(0, (size / 2) * KEYS, half)).toBeLessThan(size * 20);
  });
});

describe('a merge', () => {
  it('is done in short slices', () => {
    const parts = [0, 1].map((nth) => filterPartOf(makeRun(nth, numbersOf(nth)))!);
    expect(complete(MergedFilter.merge(parts[0]!, parts[1]!)).slices).toBeGreaterThan(3);
  });

  it('needs two filters of one size, of eight runs at most each', () => {
    const run = makeRun(1, [1]);
    const part = filterPartOf(run)!;
    const two = mergeAll([filterPartOf(makeRun(0, [0]))!, part]);
    expect(MergedFilter.canMerge(part, two)).toBe(false);
    const sixteen = mergeAll(Array.from({ length: RUNS }, (_, nth) => filterPartOf(makeRun(nth, [nth]))!));
    expect(MergedFilter.canMerge(sixteen, sixteen)).toBe(false);
    run.dropFilter();
    expect(filterPartOf(run)).toBeUndefined();
  });
});
