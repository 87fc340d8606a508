import { describe, expect, it } from 'vitest';
import { HOUR } from '../../src/model/time.ts';
import { batch, CRM, countsOfDestination, countsOfSource, event, events, owed, skipped } from './batches.ts';
import type { Subject } from './harness.ts';
import { expectBalanced, START } from './harness.ts';
import { claim, dead, delivered, hold, park, retried, settle } from './holdings.ts';

/** model/ledger.ts and `DeliveryQueue.ledger`. Its balance is checked after every test of the suite. */
export function ledgerConformance(subject: Subject): void {
  describe('ledger', () => {
    it('is empty in a new store', async () => {
      const { sources, destinations } = await subject.store.queue.ledger();
      expect([...sources, ...destinations]).toEqual([]);
    });

    it('counts received, accepted, duplicate and discarded calls of each source', async () => {
      const { log } = subject.store;
      await log.append(
        batch([event('a', 1), event('b', 2), event('a', 1)], {
          received: [
            { source: 1, calls: 5, discarded: { invalid_event: 2, message_too_large: 1 } },
            { source: 2, calls: 1, discarded: {} },
          ],
        }),
      );
      await log.append(
        batch([event('b', 2)], {
          received: [
            { source: 1, calls: 4, discarded: { invalid_event: 4 } },
            { source: 2, calls: 1, discarded: {} },
          ],
        }),
      );
      expect(await countsOfSource(subject.store, 1)).toEqual({
        received: 9,
        accepted: 1,
        duplicates: 1,
        discarded: { invalid_event: 6, message_too_large: 1 },
      });
      const second = { received: 2, accepted: 1, duplicates: 1, discarded: {} };
      expect(await countsOfSource(subject.store, 2)).toEqual(second);
    });

    it('takes what the parser received as it is told, so that a loss would show', async () => {
      const { log } = subject.store;
      await log.append(batch(events(2), { received: [{ source: 1, calls: 3, discarded: {} }] }));
      expect(await countsOfSource(subject.store, 1)).toMatchObject({ received: 3, accepted: 2 });
      await expect(expectBalanced(subject.store)).rejects.toThrow('received = accepted');
      // The third call turns up after all; the check after every test then finds nothing missing.
      await log.append(batch(events(1, 'late'), { received: [] }));
    });

    it('counts what is skipped by its reason, apart from what is owed', async () => {
      const { log } = subject.store;
      for (const prefix of ['a', 'b']) {
        await log.append(
          batch(events(6, prefix), {
            owed: [owed(CRM, 'parked', [0])],
            skipped: [skipped(CRM, 'disabled', [1, 2]), skipped(CRM, 'integrations', [3, 4, 5])],
          }),
        );
      }
      expect(await countsOfDestination(subject.store, CRM)).toEqual({
        owed: 2,
        delivered: 0,
        pending: 2,
        dead: {},
        erased: 0,
        skipped: { disabled: 4, integrations: 6 },
      });
    });

    it('follows a delivery from owed over pending to delivered or dead, whatever happens in between', async () => {
      const holdings = await hold(subject.store, 10);
      await park(subject.store, 5, 'p');
      const ways = holdings.map(
        (one, n) => [delivered(one), dead(one, 'status_404'), retried(one, START)][n % 3]!,
      );
      await settle(subject.store, ways);
      const before = { owed: 15, delivered: 4, dead: { status_404: 3 }, pending: 8, erased: 0, skipped: {} };
      expect(await countsOfDestination(subject.store, CRM)).toEqual(before);

      await claim(subject.store, START + HOUR, 4);
      expect(await countsOfDestination(subject.store, CRM)).toEqual(before);
      await subject.restart();
      expect(await countsOfDestination(subject.store, CRM)).toEqual(before);

      await settle(subject.store, (await claim(subject.store, START + HOUR)).map(delivered));
      const after = { ...before, delivered: 12, pending: 0 };
      expect(await countsOfDestination(subject.store, CRM)).toEqual(after);
    });

    it('is the same after a crash', async () => {
      await subject.store.log.append(
        batch([...events(4), event('m0')], {
          owed: [owed(CRM, 'held', [0, 1]), owed(3, 'parked', [1, 2])],
          skipped: [skipped(CRM, 'filtered', [2, 3]), skipped(3, 'disabled', [0])],
          received: [{ source: 1, calls: 6, discarded: { invalid_event: 1 } }],
        }),
      );
      const before = await subject.store.queue.ledger();
      await subject.restart();
      await subject.restart();
      expect(await subject.store.queue.ledger()).toEqual(before);
    });
  });
}
