import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SECOND } from '../../src/model/time.ts';
import { emptyContents, openMemoryStore } from '../memory-store/store.ts';
import { twoSources } from './find.ts';
import type { StoreHarness } from './harness.ts';
import { expectBalanced } from './harness.ts';
import type { Step } from './histories.ts';
import { histories, momentsOf } from './histories.ts';
import type { Life } from './lives.ts';
import { begin, drain, live } from './lives.ts';

/** `MILLRACE_CONFORMANCE_RUNS=5000` looks harder; `MILLRACE_CONFORMANCE_SEED` repeats what a failure printed. */
const RUNS = Number(process.env['MILLRACE_CONFORMANCE_RUNS'] ?? 30);
const SEED = process.env['MILLRACE_CONFORMANCE_SEED'];

/** All histories and, after a failure, all attempts to shorten it; slower than this is a failure too. */
const TIME_LIMIT = 20 * SECOND + 2 * RUNS * SECOND;

/** An adapter and the memory store live the same history side by side and must not be told apart. */
export function randomConformance(harness: StoreHarness): void {
  describe('any history', () => {
    it(
      'looks the same as in the memory store',
      async () => {
        const property = fc.asyncProperty(histories, (steps) => compare(harness, steps));
        await fc.assert(property, {
          numRuns: RUNS,
          interruptAfterTimeLimit: TIME_LIMIT,
          markInterruptAsFailure: true,
          ...(SEED === undefined ? {} : { seed: Number(SEED) }),
        });
      },
      TIME_LIMIT + 30 * SECOND,
    );
  });
}

async function compare(harness: StoreHarness, steps: readonly Step[]): Promise<void> {
  const contents = emptyContents();
  const model = begin(openMemoryStore({ contents }), async () => openMemoryStore({ contents }));
  const subject = begin(await harness.open(), harness.reopen);
  try {
    for (const { store } of [model, subject]) await twoSources(store);
    for (const [n, moment] of momentsOf(steps).entries()) {
      const expected = await live(model, moment);
      expect(await live(subject, moment), `step ${n}, ${moment.step.kind}`).toEqual(expected);
    }
    expect(await drain(subject), 'when everything left is delivered').toEqual(await drain(model));
    await expectBalanced(subject.store);
    await expectNothingPending(subject);
  } finally {
    await harness.close(subject.store);
  }
}

async function expectNothingPending(life: Life): Promise<void> {
  const { destinations } = await life.store.queue.ledger();
  expect([...destinations.values()].filter((counts) => counts.pending !== 0)).toEqual([]);
}
