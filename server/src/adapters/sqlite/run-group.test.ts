import { beforeAll, describe, expect, it } from 'vitest';
import { Run, RunBuilder } from './run.ts';
import { GROUP_RUNS, RunGroup } from './run-group.ts';

const KEYS = 20_000;
const highOf = (n: number) => Math.imul(n ^ (n >>> 15), 0x9e3779b1) >>> 0;
const lowOf = (n: number) => Math.imul(n, 0x85ebca6b) >>> 0;

let reads = 0;

/** A run of as many keys as given, but bucketed like one of a million, as only those are grouped. */
function seal(id: number, numbers: readonly number[]): Run {
  const pages: Uint8Array[] = [];
  const builder = new RunBuilder(2 ** 20, (page, bytes) => {
    pages[page] = bytes;
  });
  const ordered = numbers.toSorted((a, b) => highOf(a) - highOf(b));
  for (const n of ordered) builder.add(highOf(n), lowOf(n), n);
  builder.end();
  const { bucketBits, starts, remainders } = builder;
  const facts = { id, n: numbers.length, bucketBits, fromPosition: 0, toPosition: 0, youngest: id };
  return new Run(facts, starts, remainders.slice(0, numbers.length), (_run, page) => {
    reads++;
    return pages[page]!;
  });
}

function complete(slices: Generator<undefined, RunGroup>): { group: RunGroup; slices: number } {
  for (let n = 1; ; n++) {
    const slice = slices.next();
    if (slice.done === true) return { group: slice.value, slices: n };
  }
}

describe('runs brought together', () => {
  const numbersOf = (nth: number) => Array.from({ length: KEYS }, (_, n) => nth * KEYS + n);
  let runs: Run[];
  let group: RunGroup;

  beforeAll(() => {
    runs = Array.from({ length: GROUP_RUNS }, (_, nth) => seal(nth, numbersOf(nth)));
    expect(RunGroup.fits(runs)).toBe(true);
    const made = complete(RunGroup.of(runs));
    group = made.group;
    expect(made.slices).toBeGreaterThan(100);
    for (const run of runs) run.dropFilter();
  });

  const finds = (n: number, mayAsk: (run: Run) => boolean = () => true) =>
    group.some(highOf(n), lowOf(n), { mayAsk, matches: (position) => position === n });

  it('find every key of each', () => {
    for (let n = 0; n < GROUP_RUNS * KEYS; n++) if (!finds(n)) expect.fail(`key ${n} is not found`);
  });

  it('find no other key, and read hardly a page for it', () => {
    reads = 0;
    for (let n = 0; n < 100_000; n++) expect(finds(10_000_000 + n)).toBe(false);
    expect(reads).toBeLessThan(100);
  });

  it('take no more memory than their filters did', () => {
    expect(group.filterBytes).toBe(2 * GROUP_RUNS * KEYS);
  });

  it('are not asked when they are too old', () => {
    const young = (run: Run) => run.facts.youngest >= 3;
    expect([finds(2 * KEYS, young), finds(3 * KEYS, young)]).toEqual([false, true]);
  });

  it('can be dropped one by one', () => {
    group.drop(runs[0]!);
    expect(group.runs).toEqual(runs.slice(1));
    expect([finds(0), finds(KEYS)]).toEqual([false, true]);
  });

  it('do not fit when one has lost its filter', () => {
    expect(RunGroup.fits(runs)).toBe(false);
    expect(RunGroup.fits([seal(1, [1])])).toBe(false);
  });
});
