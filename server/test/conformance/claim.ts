import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import { batch, CRM, events, owed, owedBatch, WAREHOUSE } from './batches.ts';
import type { Subject } from './harness.ts';
import { START } from './harness.ts';
import {
  ALL,
  claim,
  delivered,
  expectLane,
  handedBack,
  hold,
  ids,
  idsOf,
  laneOf,
  latest,
  MUCH_LATER,
  park,
  retried,
  settle,
} from './holdings.ts';

/** ports/delivery-queue.ts: `claim` and `stats`. */
export function claimConformance(subject: Subject): void {
  describe('claim', () => {
    handsOut(subject);
    keepsTo(subject);
    showsWhatIsLeft(subject);
  });
  describe('lanes', () => lanes(subject));
}

function handsOut(subject: Subject): void {
  it('hands out what is parked, as deliveries that have not failed yet', async () => {
    await park(subject.store, 3);
    const claimed = await claim(subject.store, START);
    expect(await idsOf(subject.store, claimed)).toEqual(ids(3));
    for (const { delivery } of claimed) {
      expect(delivery).toEqual({ position: delivery.position, rounds: 0 });
    }
    await expectLane(subject.store, 3, 0);
  });

  it('tells since when a delivery has waited that was never tried, also one of a replay', async () => {
    const { store } = subject;
    await park(store, 1);
    const [parked] = await claim(store, MUCH_LATER);
    expect(parked!.dueAt).toBe(START);
    const positions = [parked!.delivery.position];
    const slice = { origin: 'r1', destinations: [CRM], positions, from: 0, to: 1, now: START + HOUR };
    await store.queue.enqueue(slice);
    const [replayed] = await claim(store, MUCH_LATER);
    expect(replayed).toMatchObject({ origin: 'r1', dueAt: START + HOUR });
    const firstFailedAt = START + HOUR;
    await settle(store, [retried({ ...replayed!, destination: CRM }, START + 2 * HOUR, { firstFailedAt })]);
    const [tried] = await claim(store, MUCH_LATER);
    expect(tried!.dueAt).toBeUndefined();
  });

  it('hands out nothing when nothing is there', async () => {
    expect(await subject.store.queue.claim(CRM, ALL, MUCH_LATER)).toEqual({ deliveries: [] });
  });

  it('hands out only what is owed to the destination asked for', async () => {
    const { log, queue: backlog } = subject.store;
    await log.append(
      batch(events(4), { owed: [owed(CRM, 'parked', [0, 1]), owed(WAREHOUSE, 'parked', [1, 2, 3])] }),
    );
    const { deliveries } = await backlog.claim(WAREHOUSE, ALL, START);
    expect(await idsOf(subject.store, deliveries)).toEqual(['m1', 'm2', 'm3']);
    expect(await laneOf(subject.store, CRM)).toMatchObject({ held: 0, onDisk: 2 });
  });

  it('never hands out twice what is held', async () => {
    await park(subject.store, 10);
    const first = await claim(subject.store, START, 4);
    const second = await claim(subject.store, START);
    expect(await claim(subject.store, MUCH_LATER)).toEqual([]);
    expect(await idsOf(subject.store, [...first, ...second])).toEqual(ids(10));
  });

  it('never hands out twice what is claimed at the same time', async () => {
    await park(subject.store, 100);
    const { store } = subject;
    const claims = await Promise.all(Array.from({ length: 30 }, () => claim(store, START, 7)));
    expect(await idsOf(store, claims.flat())).toEqual(ids(100));
    await expectLane(store, 100, 0);
  });

  it('hands out what has been due longest first', async () => {
    // Parked out of order, so that the order of arrival in the store does not help.
    await park(subject.store, 5, 'b', START + 10 * MINUTE);
    await park(subject.store, 5, 'a', START);
    await park(subject.store, 5, 'd', START + 30 * MINUTE);
    await park(subject.store, 5, 'c', START + 20 * MINUTE);
    for (const prefix of ['a', 'b', 'c', 'd']) {
      expect(await idsOf(subject.store, await claim(subject.store, START + HOUR, 5))).toEqual(ids(5, prefix));
    }
  });

  it('hands out parked and waiting deliveries in one order of time', async () => {
    const [one, two] = await hold(subject.store, 2, 'waiting');
    await settle(subject.store, [retried(one!, START + 10 * MINUTE), retried(two!, START + 30 * MINUTE)]);
    await park(subject.store, 1, 'parked', START + 20 * MINUTE);
    await park(subject.store, 1, 'early', START);
    const order: string[] = [];
    for (let n = 0; n < 4; n++) {
      order.push(...(await idsOf(subject.store, await claim(subject.store, START + HOUR, 1))));
    }
    expect(order).toEqual(['early0', 'waiting0', 'parked0', 'waiting1']);
  });

  it('hands out what was parked before a crash', async () => {
    await park(subject.store, 10);
    await settle(subject.store, (await claim(subject.store, START, 4)).map(delivered));
    await subject.restart();
    const left = await claim(subject.store, START);
    expect(left).toHaveLength(6);
    await settle(subject.store, left.map(delivered));
    await expectLane(subject.store, 0, 0);
  });
}

function keepsTo(subject: Subject): void {
  it('hands out `max` deliveries and no more, splitting a set if it must', async () => {
    await park(subject.store, 100);
    const parts = [];
    for (const max of [1, 30, 0, 68]) {
      const part = await claim(subject.store, START, max);
      expect(part).toHaveLength(max);
      parts.push(...part);
    }
    await expectLane(subject.store, 99, 1);
    parts.push(...(await claim(subject.store, START, 50)));
    expect(await idsOf(subject.store, parts)).toEqual(ids(100));
    await settle(subject.store, parts.map(delivered));
  });

  it('settles both halves of a split set, each under its own name', async () => {
    await park(subject.store, 6);
    const first = await claim(subject.store, START, 2);
    const second = await claim(subject.store, START, 2);
    await settle(subject.store, second.map(delivered));
    await expectLane(subject.store, 2, 2);
    await settle(subject.store, first.map(delivered));
    await expectLane(subject.store, 0, 2);
  });

  it('fills `max` from many small sets', async () => {
    for (let n = 0; n < 40; n++) await park(subject.store, 2, `b${n}-`);
    expect(await claim(subject.store, START, 75)).toHaveLength(75);
    await expectLane(subject.store, 75, 5);
  });

  it('takes 2,500 deliveries off one set, and part of 2,500 off many', async () => {
    await park(subject.store, 2500, 'one');
    const first = await claim(subject.store, START, 2499);
    expect(first).toHaveLength(2499);
    for (let n = 0; n < 25; n++) await park(subject.store, 100, `many${n}-`);
    const second = await claim(subject.store, START, 2222);
    expect(second).toHaveLength(2222);
    await expectLane(subject.store, 4721, 279);
    await settle(subject.store, [...first, ...second].map(delivered));
    await expectLane(subject.store, 0, 279);
  });

  it('hands out nothing before it is due', async () => {
    const at = START + 10 * SECOND;
    await settle(
      subject.store,
      (await hold(subject.store, 3)).map((one) => retried(one, at)),
    );
    expect(await claim(subject.store, START)).toEqual([]);
    expect(await claim(subject.store, at - 1)).toEqual([]);
    await expectLane(subject.store, 0, 3);
  });

  it.each([{ delay: 1 }, { delay: 999 }, { delay: 8 * SECOND }, { delay: 5 * MINUTE }, { delay: 4 * HOUR }])(
    'hands out a retry after $delay ms not before its time, and at most a second or a sixteenth late',
    async ({ delay }) => {
      const at = START + delay;
      await settle(
        subject.store,
        (await hold(subject.store, 2)).map((one) => retried(one, at)),
      );
      expect(await claim(subject.store, at - 1)).toEqual([]);
      expect(await claim(subject.store, latest(at))).toHaveLength(2);
    },
  );

  it('hands out at once a retry that is due at once', async () => {
    const [one] = await hold(subject.store, 1);
    await settle(subject.store, [retried(one!, START)]);
    expect(await claim(subject.store, latest(START))).toHaveLength(1);
  });
}

function showsWhatIsLeft(subject: Subject): void {
  it('says when the next delivery left on disk is due', async () => {
    const at = START + MINUTE;
    const [one, two] = await hold(subject.store, 2, 'w');
    await settle(subject.store, [retried(one!, at), retried(two!, START + HOUR)]);
    await park(subject.store, 4);

    const part = await subject.store.queue.claim(CRM, 3, START);
    expect(part.deliveries).toHaveLength(3);
    expect(part.nextDueAt).toBeLessThanOrEqual(START);

    const rest = await subject.store.queue.claim(CRM, ALL, START);
    expect(rest.deliveries).toHaveLength(1);
    expect(rest.nextDueAt).toBeGreaterThanOrEqual(at);
    expect(rest.nextDueAt).toBeLessThanOrEqual(latest(at));
  });

  it('says so too when nothing can be handed out', async () => {
    const at = START + MINUTE;
    const [one] = await hold(subject.store, 1);
    await settle(subject.store, [retried(one!, at)]);
    const nothing = await subject.store.queue.claim(CRM, ALL, START);
    expect(nothing.deliveries).toEqual([]);
    expect(nothing.nextDueAt).toBeGreaterThanOrEqual(at);
    expect(nothing.nextDueAt).toBeLessThanOrEqual(latest(at));
  });

  it('keeps its word: at that time there is something to hand out', async () => {
    const holdings = await hold(subject.store, 20);
    await settle(
      subject.store,
      holdings.map((one, n) => retried(one, START + n * 7 * SECOND)),
    );
    let now = START;
    let handedOut = 0;
    while (handedOut < 20) {
      const { deliveries, nextDueAt } = await subject.store.queue.claim(CRM, 3, now);
      handedOut += deliveries.length;
      if (handedOut === 20) expect(nextDueAt).toBeUndefined();
      else if (deliveries.length < 3) expect(nextDueAt).toBeGreaterThan(now);
      if (now > START && deliveries.length === 0) expect.fail(`nothing was due at ${now}`);
      now = Math.max(now, nextDueAt ?? now);
    }
  });

  it('says nothing of it when nothing is left on disk', async () => {
    await park(subject.store, 2);
    expect(await subject.store.queue.claim(CRM, 2, START)).not.toHaveProperty('nextDueAt');
  });
}

function lanes(subject: Subject): void {
  it('shows no lane in which anything is pending when nothing is', async () => {
    await settle(subject.store, (await hold(subject.store, 2)).map(delivered));
    const lanes = await subject.store.queue.stats();
    expect(lanes.filter((lane) => lane.held > 0 || lane.onDisk > 0)).toEqual([]);
  });

  it('counts for every destination what is held and what is on disk', async () => {
    const { log, queue: backlog } = subject.store;
    const destinations = [1, 2, 3, 900];
    for (const destination of destinations) {
      const of = events(2 * destination, `d${destination}-`);
      const half = of.map((_, index) => index).slice(0, destination);
      await log.append(
        batch(of, {
          owed: [
            owed(destination, 'held', half),
            owed(
              destination,
              'parked',
              half.map((n) => n + destination),
            ),
          ],
        }),
      );
      await backlog.claim(destination, 1, START);
    }
    const lanes = [...(await backlog.stats())].sort((a, b) => a.destination - b.destination);
    expect(lanes.map(({ destination, held, onDisk }) => ({ destination, held, onDisk }))).toEqual(
      destinations.map((destination) => ({ destination, held: destination + 1, onDisk: destination - 1 })),
    );
  });

  it('says when the first delivery on disk of each destination is due, and nothing of those without any', async () => {
    const { log, queue } = subject.store;
    const at = START + MINUTE;
    expect(await queue.nextDue()).toEqual([]);
    const appended = [
      [3, 'parked'],
      [900, 'held'],
      [7, 'parked'],
      [7, 'parked'],
      [2, 'held'],
    ] as const;
    for (const [nth, [destination, state]] of appended.entries())
      await log.append(batch(events(3, `${destination}-${nth}-`), { owed: [owed(destination, state, 3)] }));
    const [one] = await hold(subject.store, 1);
    await settle(subject.store, [retried(one!, at)]);
    await queue.claim(3, ALL, START);
    const found = [...(await queue.nextDue())].sort((a, b) => a.destination - b.destination);
    expect(found.map(({ destination }) => destination)).toEqual([CRM, 7]);
    expect(found[0]!.nextDueAt).toBeGreaterThanOrEqual(at);
    expect(found[0]!.nextDueAt).toBeLessThanOrEqual(latest(at));
    expect(found[1]!.nextDueAt).toBeLessThanOrEqual(START);
  });

  it('counts those that were tried before, held and on disk, beside others and without them', async () => {
    const holdings = await hold(subject.store, 5);
    expect((await laneOf(subject.store)).retrying).toBe(0);
    const [one, two, three, four] = holdings;
    await settle(subject.store, [
      ...[one!, two!, three!].map((holding) => retried(holding, START + MINUTE)),
      handedBack(four!, START + MINUTE),
    ]);
    expect(await laneOf(subject.store)).toMatchObject({ held: 1, onDisk: 4, retrying: 3 });
    const [again] = await claim(subject.store, START + HOUR, 1);
    expect((await laneOf(subject.store)).retrying).toBe(3);
    await settle(subject.store, [again!].map(delivered));
    const left = again!.delivery.rounds > 0 ? 2 : 3;
    expect((await laneOf(subject.store)).retrying).toBe(left);
    await subject.restart();
    expect(await laneOf(subject.store)).toMatchObject({ held: 0, onDisk: 4, retrying: left });
    await settle(subject.store, (await claim(subject.store, MUCH_LATER)).map(delivered));
    expect((await laneOf(subject.store)).retrying).toBe(0);
  });

  it('shows when the first delivery on disk is due', async () => {
    const at = START + MINUTE;
    const [one, two] = await hold(subject.store, 2);
    await settle(subject.store, [retried(one!, START + HOUR), retried(two!, at)]);
    const { nextDueAt } = await laneOf(subject.store);
    expect(nextDueAt).toBeGreaterThanOrEqual(at);
    expect(nextDueAt).toBeLessThanOrEqual(latest(at));

    await park(subject.store, 1, 'p');
    expect((await laneOf(subject.store)).nextDueAt).toBeLessThanOrEqual(START);
  });

  it('shows no due time when everything is held', async () => {
    await hold(subject.store, 2);
    await subject.store.log.append(owedBatch(events(2, 'p'), 'parked'));
    await claim(subject.store, START);
    await expectLane(subject.store, 4, 0);
    expect((await laneOf(subject.store)).nextDueAt).toBeUndefined();
  });

  it('shows when the oldest event arrived that is pending, held or on disk', async () => {
    const { log } = subject.store;
    const [one, two] = await hold(subject.store, 2);
    await log.append(owedBatch(events(1, 'p'), 'parked', { receivedAt: START + MINUTE }));
    expect((await laneOf(subject.store)).oldestAt).toBe(START);
    await settle(subject.store, [delivered(one!)]);
    expect((await laneOf(subject.store)).oldestAt).toBe(START);
    await settle(subject.store, [delivered(two!)]);
    expect((await laneOf(subject.store)).oldestAt).toBe(START + MINUTE);
  });

  it('says of a set of which the oldest is gone how old the oldest of the others is', async () => {
    const { log } = subject.store;
    await log.append(owedBatch(events(1, 'a'), 'parked'));
    await log.append(owedBatch(events(2, 'b'), 'parked', { receivedAt: START + MINUTE }));
    const claimed = await claim(subject.store, MUCH_LATER);
    // All three fail and wait together, regardless of their sets.
    await settle(
      subject.store,
      claimed.map((one) => retried(one, MUCH_LATER + HOUR)),
    );
    const again = await claim(subject.store, MUCH_LATER + 2 * HOUR, 1);
    await settle(subject.store, again.map(delivered));
    const oldest = (await idsOf(subject.store, again)).includes('a0') ? START + MINUTE : START;
    expect((await laneOf(subject.store)).oldestAt).toBe(oldest);
    await subject.restart();
    expect((await laneOf(subject.store)).oldestAt).toBe(oldest);
  });

  it('shows what is waiting as before after a crash', async () => {
    const at = START + HOUR;
    const [one] = await hold(subject.store, 1);
    await settle(subject.store, [retried(one!, at)]);
    await subject.restart();
    await expectLane(subject.store, 0, 1);
    const { nextDueAt } = await laneOf(subject.store);
    expect(nextDueAt).toBeGreaterThanOrEqual(at);
    expect(nextDueAt).toBeLessThanOrEqual(latest(at));
  });
}
