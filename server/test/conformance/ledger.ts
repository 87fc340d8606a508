import { describe, expect, it } from 'vitest';
import { HOUR } from '../../src/model/time.ts';
import {
  batch,
  CRM,
  countsOfDestination,
  countsOfSource,
  event,
  events,
  owed,
  positionsOf,
  skipped,
} from './batches.ts';
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
        dropped: {},
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
      const before = {
        ...{ owed: 15, delivered: 4, pending: 8, erased: 0, skipped: {} },
        ...{ dead: { status_404: 3 }, dropped: {} },
      };
      expect(await countsOfDestination(subject.store, CRM)).toEqual(before);

      await claim(subject.store, START + HOUR, 4);
      expect(await countsOfDestination(subject.store, CRM)).toEqual(before);
      await subject.restart();
      expect(await countsOfDestination(subject.store, CRM)).toEqual(before);

      await settle(subject.store, (await claim(subject.store, START + HOUR)).map(delivered));
      const after = { ...before, delivered: 12, pending: 0 };
      expect(await countsOfDestination(subject.store, CRM)).toEqual(after);
    });

    it('counts the skips of a set for each of its destinations, but where a plan says something else', async () => {
      const skipSet = new Map([
        [1, 'filtered'],
        [2, 'filtered'],
        [3, 'destination_disabled'],
      ]);
      const plans = [
        { owed: [{ id: 1 }], skipped: [], skipSet },
        { owed: [], skipped: [{ destination: 2, reason: 'integrations' }], skipSet },
        // A lane of destination 2, and a destination that the set does not name.
        { owed: [{ id: 2 + 2 ** 24 }], skipped: [{ destination: 4, reason: 'integrations' }], skipSet },
        { owed: [], skipped: [], skipSet: new Map([[1, 'filtered']]) },
        { owed: [], skipped: [], skipSet: new Map() },
      ];
      // The last but one is a duplicate, and the last has no plan.
      const of = [...events(6), event('m0'), event('m9')];
      const { positions } = await subject.store.log.append(
        batch(of, {
          plans,
          planIndexes: [0, 0, 1, 2, 3, 4, 0],
          owed: [owed(1, 'parked', [0, 1]), owed(2 + 2 ** 24, 'parked', [3])],
        }),
      );
      const skips = async (destination: number) =>
        (await countsOfDestination(subject.store, destination)).skipped;
      const expectCounts = async () => {
        expect(await skips(1)).toEqual({ filtered: 3 });
        expect(await skips(2)).toEqual({ filtered: 2, integrations: 1 });
        expect(await skips(3)).toEqual({ destination_disabled: 4 });
        expect(await skips(4)).toEqual({ integrations: 1 });
      };
      await expectCounts();
      await subject.restart();
      await expectCounts();
      const stored = positions.filter((position) => position !== undefined);
      const histories = await subject.store.history.read(stored);
      const told = histories.map((history) =>
        history?.skipped.map(({ destination, reason }) => `${destination} ${reason}`),
      );
      const set = ['2 filtered', '3 destination_disabled'];
      expect(told).toEqual([
        set,
        set,
        ['1 filtered', '2 integrations', '3 destination_disabled'],
        ['1 filtered', '3 destination_disabled', '4 integrations'],
        ['1 filtered'],
        [],
        [],
      ]);
      await subject.store.log.eraseAt(stored);
      await expectCounts();
    });

    it('stores a plan that ten thousand destinations skip, beside one for hundreds', async () => {
      const ids = Array.from({ length: 10_000 }, (_, n) => n + 1);
      const skipSet = new Map(ids.map((id) => [id, 'filtered']));
      const plans = [
        { owed: ids.slice(0, 300).map((id) => ({ id })), skipped: [] },
        { owed: [], skipped: [], skipSet },
      ];
      const appended = batch(events(2), { plans, planIndexes: [0, 1], owed: [owed(1, 'parked', [0])] });
      const [all, none] = positionsOf(await subject.store.log.append(appended));
      expect((await countsOfDestination(subject.store, 10_000)).skipped).toEqual({ filtered: 1 });
      const histories = await subject.store.history.read([all!, none!]);
      expect(histories.map((history) => [history?.deliveries.length, history?.skipped.length])).toEqual([
        [300, 0],
        [0, 10_000],
      ]);
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
