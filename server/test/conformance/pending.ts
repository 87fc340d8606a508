import { describe, expect, it } from 'vitest';
import type { Position } from '../../src/model/event.ts';
import { HOUR, MINUTE } from '../../src/model/time.ts';
import type { PendingQuery } from '../../src/ports/delivery-queue.ts';
import type { Store } from '../../src/ports/store.ts';
import { batch, CRM, event, events, owed, owedBatch, positionsOf, WAREHOUSE } from './batches.ts';
import type { Subject } from './harness.ts';
import { START } from './harness.ts';
import { claim, dead, delivered, hold, MUCH_LATER, park, retried, settle } from './holdings.ts';
import { erase } from './upkeep.ts';

const OF_CRM: PendingQuery = { destinations: [CRM] };

/** Reads page by page. */
async function allPending(store: Store, query: PendingQuery = OF_CRM, max = 100): Promise<Position[]> {
  const positions: Position[] = [];
  let below: Position | undefined;
  do {
    const page = await store.history.findPending(query, max, below);
    expect(page.positions.length).toBeLessThanOrEqual(max);
    positions.push(...page.positions);
    below = page.next;
  } while (below !== undefined);
  return positions;
}

/** Compares with the history of every single event. */
async function expectPending(store: Store, all: readonly Position[], destinations: readonly number[]) {
  const histories = await store.history.read(all);
  const where = (states: readonly string[]) =>
    all
      .filter((_, nth) =>
        histories[nth]!.deliveries.some(
          ({ destination, state }) => destinations.includes(destination) && states.includes(state),
        ),
      )
      .toSorted((a, b) => b - a);
  const query = { destinations };
  expect(await allPending(store, query, 7)).toEqual(where(['pending', 'retrying']));
  expect(await allPending(store, { ...query, tried: true }, 7)).toEqual(where(['retrying']));
  expect(await allPending(store, { ...query, tried: false }, 7)).toEqual(where(['pending']));
}

/** ports/delivery-queue.ts, `pending`. */
export function pendingConformance(subject: Subject): void {
  describe('pending deliveries', () => {
    it('are found wherever they are: in hand, parked, waiting, after a crash before they are adopted', async () => {
      const { store } = subject;
      const held = await hold(store, 20);
      await park(store, 20, 'p');
      const all = (await store.log.find({ from: 0, to: MUCH_LATER })).positions;
      await expectPending(store, all, [CRM]);
      await settle(store, [
        ...held.slice(0, 5).map(delivered),
        ...held.slice(5, 8).map((one) => dead(one)),
        ...held.slice(8, 14).map((one, n) => retried(one, START + n * MINUTE)),
      ]);
      await claim(store, START, 12);
      await expectPending(store, all, [CRM]);
      await subject.crash();
      await expectPending(subject.store, all, [CRM]);
      await subject.store.queue.recoverOrphans();
      await expectPending(subject.store, all, [CRM]);
      await settle(subject.store, (await claim(subject.store, MUCH_LATER)).map(delivered));
      expect(await allPending(subject.store)).toEqual([]);
    });

    it('come by the place of their events, whatever sets they are in and whenever they are due', async () => {
      const { store } = subject;
      const all = (await hold(store, 300)).map((one) => one);
      const scattered = (n: number) => START + ((n * 37) % 23) * MINUTE;
      await settle(
        store,
        all.filter((_, n) => n % 3 > 0).map((one, n) => retried(one, scattered(n))),
      );
      const again = await claim(store, START + 12 * MINUTE);
      await settle(
        store,
        again.map((one, n) => (n % 2 === 0 ? delivered(one) : retried(one, START + HOUR + n))),
      );
      await expectPending(
        store,
        all.map(({ delivery }) => delivery.position),
        [CRM],
      );
    });

    it('are those of the destinations asked for, an event that several are owed once', async () => {
      const { store } = subject;
      const mixed = batch(events(6), {
        owed: [owed(CRM, 'held', [0, 1, 2]), owed(WAREHOUSE, 'parked', [1, 2, 3]), owed(900, 'parked', [5])],
      });
      const all = positionsOf(await store.log.append(mixed));
      await expectPending(store, all, [CRM]);
      await expectPending(store, all, [WAREHOUSE, CRM]);
      await expectPending(store, all, [900, 77]);
      expect(await allPending(store, { destinations: [] })).toEqual([]);
    });

    it('of an outage are paged through in full, while others arrive and are delivered', async () => {
      const { store } = subject;
      const positions: Position[] = [];
      for (let n = 0; n < 4; n++) {
        const many = owedBatch(events(800, `o${n}-`), 'parked', { receivedAt: START + n * 100 });
        positions.push(...positionsOf(await store.log.append(many)));
      }
      const first = await store.history.findPending(OF_CRM, 500);
      expect(first.positions).toEqual(positions.slice(-500).reverse());
      await store.log.append(owedBatch(events(10, 'young'), 'parked'));
      const gone = await claim(store, START, 100);
      await settle(store, gone.map(delivered));
      const seen = [...first.positions];
      for (let below = first.next; below !== undefined; ) {
        const page = await store.history.findPending(OF_CRM, 500, below);
        seen.push(...page.positions);
        below = page.next;
      }
      expect(seen).toEqual(positions.slice(100).reverse());
    });

    it('are gone with an event that is erased', async () => {
      const { store } = subject;
      const both = [event('a', 1, { userId: 'gone' }), event('b')];
      const [, other] = positionsOf(await store.log.append(owedBatch(both, 'parked')));
      await erase(store, 'gone');
      expect(await allPending(store)).toEqual([other]);
    });
  });
}
