import fc from 'fast-check';
import { expect, it } from 'vitest';
import { amountOf } from '../../../../test/support/runs.ts';
import { RunSet } from './run-set.ts';
import { SortedRun, SortedRunBuilder } from './sorted-run.ts';

const KEYS = 300;
const MEMORY = 64 * 1024 * 1024;
const highOf = (n: number) => Math.imul(n ^ (n >>> 15), 0x9e3779b1) >>> 0;
const lowOf = (n: number) => Math.imul(n, 0x85ebca6b) >>> 0;

/** The keys from `id * KEYS` on, in as many buckets as a full run has. */
function build(id: number): { readonly builder: SortedRunBuilder; readonly pages: Uint8Array[] } {
  const pages: Uint8Array[] = [];
  const builder = new SortedRunBuilder(2 ** 20, (page, bytes) => {
    pages[page] = bytes;
  });
  const numbers = Array.from({ length: KEYS }, (_, n) => id * KEYS + n);
  numbers.sort((a, b) => highOf(a) - highOf(b));
  for (const n of numbers) builder.add(highOf(n), lowOf(n), n);
  builder.end();
  return { builder, pages };
}

const BUILT = Array.from({ length: 40 }, (_, id) => build(id));

/** A merge takes the filters of its runs, so every try has its own runs. */
function runOf(id: number): SortedRun {
  const { builder, pages } = BUILT[id]!;
  const { bucketBits, starts, remainders } = builder;
  const [fromPosition, toPosition] = [id * KEYS, (id + 1) * KEYS];
  const facts = { id, n: KEYS, bucketBits, fromPosition, toPosition, youngest: toPosition, hasSums: true };
  return new SortedRun(facts, starts, remainders.slice(0, KEYS), (_run, page) => pages[page]!);
}

it('every key is found, whichever filters are merged, halved, or dropped for want of memory', () => {
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.constant('add' as const) },
    { weight: 4, arbitrary: fc.integer({ min: 1, max: 200 }) },
    { weight: 1, arbitrary: fc.constant('drop' as const) },
  );
  fc.assert(
    fc.property(
      fc.array(step, { minLength: 30, maxLength: 60 }),
      fc.constantFrom(MEMORY, 20 * KEYS),
      (steps, memory) => {
        const runs = new RunSet([], memory);
        let [first, next] = [0, 0];
        for (const one of steps) {
          if (one === 'add' && next < BUILT.length) runs.add(runOf(next++));
          else if (one === 'drop' && first < next) {
            runs.drop(runs.oldest!);
            first++;
          } else if (typeof one === 'number') for (let n = 0; n < one && runs.mergeFilters(); n++);
        }
        expect([runs.oldest?.facts.id, runs.newest?.facts.id]).toEqual(
          first < next ? [first, next - 1] : [undefined, undefined],
        );
        const known = Array.from({ length: (next - first) * KEYS }, (_, n) => first * KEYS + n);
        const keys = Uint32Array.from(known.flatMap((n) => [highOf(n), lowOf(n)]));
        const found = new Uint8Array(known.length);
        runs.markPossible(keys, found);
        expect(found.indexOf(0)).toBe(-1);
        for (let at = 0; at < known.length; at += 7) {
          const n = known[at]!;
          const matches = (position: number) => position === n;
          expect(runs.some(highOf(n), lowOf(n), { since: 0, matches }), `key ${n}`).toBe(true);
        }
        const gone = { since: 0, matches: (position: number) => position < first * KEYS };
        for (let n = 0; n < first * KEYS; n += 7) expect(runs.some(highOf(n), lowOf(n), gone)).toBe(false);
      },
    ),
    { numRuns: amountOf({ gate: 6, long: 20 }) },
  );
});
