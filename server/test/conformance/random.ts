import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MINUTE } from '../../src/model/time.ts';
import { emptyContents, openMemoryStore } from '../memory-store/store.ts';
import { amountOf } from '../support/runs.ts';
import { twoSources } from './find.ts';
import type { StoreHarness } from './harness.ts';
import { expectBalanced } from './harness.ts';
import type { Step } from './histories.ts';
import { histories, momentsOf } from './histories.ts';
import type { Life } from './lives.ts';
import { begin, drain, live } from './lives.ts';

const RUNS = amountOf({ gate: 6, long: 300 });

/** Ends what hangs: a history takes a second or two, and more where a failure is made shorter. */
const TEST_LIMIT = Math.max(30, RUNS) * MINUTE;

/** An adapter and the memory store live the same history side by side and must not be told apart. */
export function randomConformance(harness: StoreHarness): void {
  describe('any history', () => {
    it('looks the same as in the memory store', { timeout: TEST_LIMIT }, async () => {
      const property = fc.asyncProperty(histories, (steps) => compare(harness, steps));
      await fc.assert(property, { numRuns: RUNS });
    });
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
