import { describe, expect, it } from 'vitest';
import type { Position } from '../../src/model/event.ts';
import type { Monotonic } from '../../src/model/time.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import type { DeadLetter, DeadLetterQuery } from '../../src/ports/delivery-queue.ts';
import type { Store } from '../../src/ports/store.ts';
import { batch, CRM, countsOfDestination, events, owedBatch, WAREHOUSE } from './batches.ts';
import type { Subject } from './harness.ts';
import { expectBalanced, START } from './harness.ts';
import {
  claim,
  dead,
  delivered,
  dropped,
  expectLane,
  type Holding,
  heldFrom,
  hold,
  ids,
  idsOf,
  MUCH_LATER,
  park,
  retried,
  settle,
} from './holdings.ts';
import { keepUp } from './upkeep.ts';

/** Later than anything died. */
const NOW: Monotonic = START + HOUR;
const OF_CRM: DeadLetterQuery = { destinations: [CRM] };

/** Reads page by page. */
export async function allDead(
  store: Store,
  query: DeadLetterQuery = OF_CRM,
  limit = 100,
): Promise<DeadLetter[]> {
  const letters: DeadLetter[] = [];
  let from: string | undefined;
  do {
    const page = await store.deadLetters.list(query, limit, from);
    expect(page.letters.length).toBeLessThanOrEqual(limit);
    letters.push(...page.letters);
    from = page.next;
  } while (from !== undefined);
  return letters;
}

/** Works slice by slice. */
export async function reviveAll(store: Store, query: DeadLetterQuery = OF_CRM, now = NOW): Promise<number> {
  let revived = 0;
  let from: string | undefined;
  do {
    const slice = await store.deadLetters.redeliver({ query, now, ...(from === undefined ? {} : { from }) });
    revived += slice.count;
    from = slice.next;
  } while (from !== undefined);
  return revived;
}

/** ports/delivery-queue.ts. */
export function deadLettersConformance(subject: Subject): void {
  const positionsOf = (letters: readonly DeadLetter[]): Position[] => letters.map(({ position }) => position);
  const positionsIn = (holdings: readonly Holding[]) => holdings.map(({ delivery }) => delivery.position);

  describe('dead letters', () => {
    it('are listed with what, why and when, the newest first, page by page', async () => {
      const holdings = await hold(subject.store, 7);
      for (const one of holdings) await settle(subject.store, [dead(one, 'status_400')]);
      const letters = await allDead(subject.store, OF_CRM, 3);
      expect(positionsOf(letters)).toEqual(positionsIn(holdings).toReversed());
      // The last request was begun at START and took 34 ms.
      const { position } = holdings[6]!.delivery;
      expect(letters[0]).toEqual({
        destination: CRM,
        position,
        state: 'dead',
        reason: 'status_400',
        at: START + 34,
      });
      await subject.restart();
      expect(await allDead(subject.store)).toEqual(letters);
    });

    it('of thousands given up together are listed each once', async () => {
      await park(subject.store, 3000, 'p', START);
      await subject.store.queue.expire(CRM, START + 1, 'retry_window_over');
      const letters = await allDead(subject.store, OF_CRM, 500);
      expect(new Set(positionsOf(letters)).size).toBe(3000);
      expect(letters[0]).toMatchObject({ reason: 'retry_window_over', at: START + 1 });
    });

    it('are counted as they are found, and what is revived on behalf of an origin is counted there', async () => {
      const { store } = subject;
      await park(store, 3000, 'p', START);
      await store.queue.expire(CRM, START + 1, 'retry_window_over');
      const holdings = await hold(store, 40);
      for (const one of holdings) await settle(store, [dead(one, 'status_410')]);
      const counted = async (query: DeadLetterQuery) => {
        let [count, from]: [number, string | undefined] = [0, undefined];
        do {
          const slice = await store.deadLetters.count(query, from);
          count += slice.count;
          from = slice.next;
        } while (from !== undefined);
        return count;
      };
      const only = [{ destination: CRM, position: holdings[3]!.delivery.position }];
      expect(await counted(OF_CRM)).toBe(3040);
      expect(await counted({ ...OF_CRM, reason: 'status_410' })).toBe(40);
      expect(await counted({ ...OF_CRM, only })).toBe(1);
      expect(await counted({ destinations: [WAREHOUSE] })).toBe(0);
      const slice = { query: { ...OF_CRM, reason: 'status_410' }, now: NOW, origin: 'r9' };
      let from: string | undefined;
      do {
        from = (await store.deadLetters.redeliver({ ...slice, ...(from === undefined ? {} : { from }) }))
          .next;
      } while (from !== undefined);
      expect(await store.history.progress('r9')).toEqual({ cursor: 0, events: 40, pending: new Map() });
      expect(await store.deadLetters.redeliver(slice)).toMatchObject({ count: 0 });
      expect(await counted(OF_CRM)).toBe(3000);
      await expectBalanced(store);
    });

    it('that died since a time are left out of what is revived later', async () => {
      const { store } = subject;
      for (const one of await hold(store, 30)) await settle(store, [dead(one)]);
      // Each of them died at START + 34.
      const slice = { query: OF_CRM, now: NOW };
      expect(await store.deadLetters.redeliver({ ...slice, before: START + 34 })).toEqual({ count: 0 });
      expect((await store.deadLetters.redeliver({ ...slice, before: START + 35 })).count).toBeGreaterThan(0);
    });

    it('are found in the history of events that lie far apart', async () => {
      const { store } = subject;
      const [first, ...others] = await hold(store, 3);
      for (let n = 0; n < 140; n++) await store.log.append(batch(events(500, `far${n}-`)));
      const [last] = await hold(store, 1, 'last');
      // Given up together, so that an adapter may keep them as one set.
      await settle(store, [retried(first!, NOW), retried(last!, NOW)]);
      expect(await store.queue.expire(CRM, MUCH_LATER, 'retry_window_over')).toBe(2);
      const states = async (holdings: readonly Holding[]) =>
        (await store.history.read(positionsIn(holdings))).map((one) => one?.deliveries[0]?.state);
      expect(await states([first!, last!])).toEqual(['dead', 'dead']);
      expect(await states(others)).toEqual(['pending', 'pending']);
    });

    it('are found by reason, time and destination', async () => {
      const [one, two] = await hold(subject.store, 2);
      await settle(subject.store, [dead(one!, 'status_400'), dead(two!, 'status_410')]);
      const found = async (query: DeadLetterQuery) => positionsOf(await allDead(subject.store, query));
      expect(await found({ ...OF_CRM, reason: 'status_410' })).toEqual(positionsIn([two!]));
      expect(await found({ destinations: [WAREHOUSE] })).toEqual([]);
      expect(await found({ destinations: [WAREHOUSE, CRM], from: START + 34, to: START + 35 })).toHaveLength(
        2,
      );
      expect(await found({ ...OF_CRM, from: START + 35 })).toEqual([]);
      expect(await found({ ...OF_CRM, to: START + 34 })).toEqual([]);
      const only = [{ destination: CRM, position: one!.delivery.position }];
      expect(await found({ ...OF_CRM, only })).toEqual(positionsIn([one!]));
    });

    it('are owed once more as if never tried, and counted so', async () => {
      const holdings = await hold(subject.store, 5);
      await settle(
        subject.store,
        holdings.map((one) => dead(one)),
      );
      expect(await reviveAll(subject.store)).toBe(5);
      expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ owed: 5, pending: 5, dead: {} });
      expect(await allDead(subject.store)).toEqual([]);
      await subject.restart();
      const again = await claim(subject.store, NOW);
      expect(await idsOf(subject.store, again)).toEqual(ids(5));
      expect(again.map(({ delivery }) => delivery.rounds)).toEqual([0, 0, 0, 0, 0]);
      const [history] = await subject.store.history.read(positionsIn(again).slice(0, 1));
      expect(history?.deliveries).toMatchObject([
        { state: 'pending', attempts: [{ answer: 'Überlastet, try later' }] },
      ]);
      await settle(subject.store, again.map(delivered));
      expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ delivered: 5, pending: 0 });
      await expectBalanced(subject.store);
    });

    it('are due when they are revived, and count their new window from then', async () => {
      await settle(
        subject.store,
        (await hold(subject.store, 1)).map((one) => dead(one)),
      );
      await reviveAll(subject.store);
      expect(await claim(subject.store, NOW - 1)).toEqual([]);
      expect(await subject.store.queue.expire(CRM, NOW, 'retry_window_over')).toBe(0);
      expect(await subject.store.queue.expire(CRM, NOW + 1, 'retry_window_over')).toBe(1);
    });

    it('are revived by reason or one by one, and the others stay', async () => {
      const holdings = await hold(subject.store, 6);
      await settle(
        subject.store,
        holdings.map((one, n) => dead(one, n % 2 === 0 ? 'status_400' : 'status_410')),
      );
      expect(await reviveAll(subject.store, { ...OF_CRM, reason: 'status_410' })).toBe(3);
      const only = [{ destination: CRM, position: holdings[2]!.delivery.position }];
      expect(await reviveAll(subject.store, { ...OF_CRM, only })).toBe(1);
      expect(positionsOf(await allDead(subject.store)).sort()).toEqual(
        positionsIn([holdings[0]!, holdings[4]!]).sort(),
      );
      expect(await countsOfDestination(subject.store, CRM)).toMatchObject({
        pending: 4,
        dead: { status_400: 2 },
      });
    });

    it('given up again since then are left out, so that reviving comes to an end', async () => {
      await settle(
        subject.store,
        (await hold(subject.store, 3)).map((one) => dead(one)),
      );
      expect(await reviveAll(subject.store, OF_CRM, START + 34)).toBe(0);
      await expectLane(subject.store, 0, 0);
    });

    it('can be revived when their events are past retention, and wait as long as dead letters are kept', async () => {
      const batch = owedBatch(events(2), 'held');
      const [one, two] = heldFrom(batch, await subject.store.log.append(batch));
      await settle(subject.store, [dead(one!), delivered(two!)]);
      const retention = { events: 7 * DAY, deadLetters: 30 * DAY };
      const young = async (name: string, receivedAt: Monotonic) =>
        void (await subject.store.log.append({
          ...owedBatch(events(1, name), 'parked'),
          receivedAt,
          owed: [],
        }));
      await young('young', START + 8 * DAY);
      await keepUp(subject.store, START + 8 * DAY, retention);
      expect(await reviveAll(subject.store, OF_CRM, START + 8 * DAY)).toBe(1);
      await young('younger', START + 16 * DAY);
      await keepUp(subject.store, START + 16 * DAY, retention);
      expect(await idsOf(subject.store, await claim(subject.store, MUCH_LATER))).toEqual(['m0']);
      await subject.restart();
      await subject.store.queue.recoverOrphans();
      await young('youngest', START + 40 * DAY);
      await keepUp(subject.store, START + 40 * DAY, retention);
      expect(await countsOfDestination(subject.store, CRM)).toMatchObject({
        pending: 0,
        dead: { retention_over: 1 },
      });
      await expectBalanced(subject.store);
    });

    it('are told apart from what was dropped, which is listed, counted and revived likewise', async () => {
      const holdings = await hold(subject.store, 8);
      const [one, two, three, four, ...others] = holdings;
      await settle(subject.store, [
        dead(one!, 'status_400'),
        dropped(two!, 'no form for it'),
        dropped(three!, 'no form for it'),
        dropped(four!),
        ...others.map(delivered),
      ]);
      await subject.restart();
      const { store } = subject;
      expect(await countsOfDestination(store, CRM)).toMatchObject({
        ...{ owed: 8, delivered: 4, pending: 0 },
        ...{ dead: { status_400: 1 }, dropped: { not_applicable: 3 } },
      });
      await expectBalanced(store);
      const letters = await allDead(store, { ...OF_CRM, state: 'dropped' }, 2);
      const about = { destination: CRM, state: 'dropped', reason: 'not_applicable', at: START + SECOND };
      const note = 'no form for it';
      const told = [two, three, four].map((holding) => holding!.delivery.position);
      expect(letters.toSorted((a, b) => a.position - b.position)).toEqual([
        { ...about, position: told[0], note },
        { ...about, position: told[1], note },
        { ...about, position: told[2] },
      ]);
      expect(positionsOf(await allDead(store, { ...OF_CRM, state: 'dead' }))).toEqual(positionsIn([one!]));
      expect(await allDead(store)).toHaveLength(4);
      const histories = await store.history.read(positionsIn(holdings));
      expect(histories.map((history) => history?.deliveries[0])).toMatchObject([
        { state: 'dead', reason: 'status_400' },
        { state: 'dropped', reason: 'not_applicable', note, attempts: [] },
        { state: 'dropped', reason: 'not_applicable', note, attempts: [] },
        { state: 'dropped', reason: 'not_applicable', attempts: [] },
        ...others.map(() => ({ state: 'delivered' })),
      ]);
      expect(await reviveAll(store, { ...OF_CRM, state: 'dropped', reason: 'other' })).toBe(0);
      expect(await reviveAll(store, { ...OF_CRM, state: 'dropped' })).toBe(3);
      expect(await countsOfDestination(store, CRM)).toMatchObject({
        pending: 3,
        dead: { status_400: 1 },
        dropped: {},
      });
      const again = await claim(store, NOW);
      await settle(store, [dropped(again[0]!, 'still none'), ...again.slice(1).map(delivered)]);
      expect(await countsOfDestination(store, CRM)).toMatchObject({
        delivered: 6,
        dropped: { not_applicable: 1 },
      });
      expect(await reviveAll(store)).toBe(2);
      await expectBalanced(store);
    });

    it('and what was dropped go with their event when it is erased, and are kept after its retention', async () => {
      const { store } = subject;
      const batch = owedBatch(events(3), 'held');
      const [one, two, three] = heldFrom(batch, await store.log.append(batch));
      await settle(store, [dropped(one!, 'note'), dropped(two!, 'note'), delivered(three!)]);
      await store.log.eraseAt([one!.delivery.position]);
      expect(await countsOfDestination(store, CRM)).toMatchObject({
        ...{ owed: 3, delivered: 1, dropped: { not_applicable: 1 }, erased: 1, pending: 0 },
      });
      const retention = { events: 7 * DAY, deadLetters: 30 * DAY };
      const young = { ...owedBatch(events(1, 'young'), 'parked'), receivedAt: START + 8 * DAY, owed: [] };
      await store.log.append(young);
      await keepUp(store, START + 8 * DAY, retention);
      expect(positionsOf(await allDead(store))).toEqual(positionsIn([two!]));
      expect(await idsOf(store, [two!])).toEqual(['m1']);
      await keepUp(store, START + 40 * DAY, retention);
      expect(await allDead(store)).toEqual([]);
      await expectBalanced(store);
    });

    it('are listed as long as their events are kept, whatever their own retention', async () => {
      await settle(
        subject.store,
        (await hold(subject.store, 1)).map((one) => dead(one)),
      );
      await keepUp(subject.store, START + DAY, { events: 7 * DAY, deadLetters: MINUTE });
      expect(await allDead(subject.store)).toHaveLength(1);
    });
  });
}
