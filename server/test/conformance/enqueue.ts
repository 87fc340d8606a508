import { describe, expect, it } from 'vitest';
import type { Position } from '../../src/model/event.ts';
import { DAY, HOUR, MINUTE } from '../../src/model/time.ts';
import type { ReplayProgress, ReplaySlice } from '../../src/ports/delivery-queue.ts';
import type { LogQuery } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import { batch, CRM, countsOfDestination, events, owed, positionsOf, WAREHOUSE } from './batches.ts';
import { reviveAll } from './dead-letters.ts';
import type { Subject } from './harness.ts';
import { expectBalanced, START } from './harness.ts';
import {
  ALL,
  claim,
  dead,
  delivered,
  expectLane,
  type Holding,
  handedBack,
  hold,
  idsOf,
  latest,
  MUCH_LATER,
  retried,
  settle,
} from './holdings.ts';

import { A_WEEK, erase, eventsOf, FOR_EVER, keepUp, write, writeSingly } from './upkeep.ts';

const NOW = START + HOUR;
const END = Number.MAX_SAFE_INTEGER;

/** ports/delivery-queue.ts: `enqueue`, and the parts that depend on it. */
export function enqueueConformance(subject: Subject): void {
  describe('enqueue', () => {
    slices(subject);
    origins(subject);
    twice(subject);
    histories(subject);
  });
  describe('find in the order of the log', () => walks(subject));
}

function again(positions: readonly Position[], parts: Partial<ReplaySlice> = {}): ReplaySlice {
  return { origin: 'r1', destinations: [CRM], positions, from: 0, to: END, now: NOW, ...parts };
}

function standing(cursor: number, events: number, pending: readonly [number, number][]): ReplayProgress {
  return { cursor, events, pending: new Map(pending) };
}

function originsOf(holdings: readonly Holding[]): (string | undefined)[] {
  return holdings.map(({ origin }) => origin);
}

function slices(subject: Subject): void {
  it('owes stored events to whoever it says, parked and due at once, and counts it', async () => {
    const positions = await write(subject.store, events(3));
    const both = again(positions.slice(0, 2), { destinations: [CRM, WAREHOUSE], to: 7 });
    const expected = standing(7, 2, [
      [CRM, 2],
      [WAREHOUSE, 2],
    ]);
    expect(await subject.store.queue.enqueue(both)).toEqual(expected);
    await expectLane(subject.store, 0, 2);
    expect(await countsOfDestination(subject.store, WAREHOUSE)).toMatchObject({ owed: 2, pending: 2 });
    expect(await claim(subject.store, NOW - 1)).toEqual([]);
    const claimed = await claim(subject.store, NOW);
    expect(claimed).toMatchObject(
      positions.slice(0, 2).map((position) => ({ delivery: { position, rounds: 0 }, origin: 'r1' })),
    );
    expect(await subject.store.history.progress('r1')).toEqual(expected);
    await settle(subject.store, claimed.map(delivered));
    expect(await subject.store.history.progress('r1')).toEqual(standing(7, 2, [[WAREHOUSE, 2]]));
  });

  it('begins at 0, and moves on without owing anything', async () => {
    expect(await subject.store.history.progress('nobody')).toEqual(standing(0, 0, []));
    expect(await subject.store.queue.enqueue(again([], { to: 5 }))).toEqual(standing(5, 0, []));
    expect(await subject.store.queue.stats()).toEqual([]);
  });

  it('owes a slice once, however often it is asked, also after a crash', async () => {
    const positions = await write(subject.store, events(4));
    const first = again(positions.slice(0, 2), { to: 10 });
    const second = again(positions.slice(2), { from: 10, to: 20 });
    await subject.store.queue.enqueue(first);
    expect(await subject.store.queue.enqueue(first)).toEqual(standing(10, 2, [[CRM, 2]]));
    await subject.restart();
    expect(await subject.store.queue.enqueue(first)).toEqual(standing(10, 2, [[CRM, 2]]));
    await Promise.all([second, second].map((slice) => subject.store.queue.enqueue(slice)));
    expect(await subject.store.history.progress('r1')).toEqual(standing(20, 4, [[CRM, 4]]));
    expect(await subject.store.queue.enqueue(first)).toEqual(standing(20, 4, [[CRM, 4]]));
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ owed: 4, pending: 4 });
  });

  it('keeps apart how far two origins have come', async () => {
    const positions = await write(subject.store, events(2));
    await subject.store.queue.enqueue(again(positions, { to: 10 }));
    expect(await subject.store.queue.enqueue(again(positions.slice(1), { origin: 'r2', to: 3 }))).toEqual(
      standing(3, 1, [[CRM, 1]]),
    );
    expect(await subject.store.history.progress('r1')).toEqual(standing(10, 2, [[CRM, 2]]));
  });
}

function origins(subject: Subject): void {
  it('is remembered through retries, handing back, claims of a part, and crashes', async () => {
    await subject.store.queue.enqueue(again(await write(subject.store, events(5))));
    const [one, two] = await claim(subject.store, NOW, 2);
    expect(originsOf([one!, two!])).toEqual(['r1', 'r1']);
    const at = NOW + HOUR;
    await settle(subject.store, [retried(one!, at, { firstFailedAt: NOW }), handedBack(two!, NOW)]);
    await subject.restart();
    const due = await claim(subject.store, NOW, 3);
    await subject.restart();
    const rest = await claim(subject.store, latest(at, NOW));
    expect([due, rest].map((claimed) => new Set(originsOf(claimed)))).toEqual([
      new Set(['r1']),
      new Set(['r1']),
    ]);
    expect(await idsOf(subject.store, rest)).toEqual(['m0', 'm1', 'm2', 'm3', 'm4']);
    expect(rest.map(({ delivery }) => delivery.rounds).sort()).toEqual([0, 0, 0, 0, 1]);
  });

  it('is remembered by dead letters, whoever gave them up, until they are owed again', async () => {
    const [kept, old] = [await write(subject.store, events(3)), await write(subject.store, events(2, 'old'))];
    await subject.store.queue.enqueue(again(kept, { to: 1 }));
    const claimed = await claim(subject.store, NOW);
    await settle(
      subject.store,
      claimed.map((one) => dead(one)),
    );
    await subject.store.queue.enqueue(again(old, { from: 1, to: 2 }));
    expect(await subject.store.queue.expire(CRM, NOW + 1, 'retry_window_over')).toBe(2);
    expect(await subject.store.history.progress('r1')).toEqual(standing(2, 5, []));
    await subject.restart();
    expect(await reviveAll(subject.store, { destinations: [CRM] }, NOW + HOUR)).toBe(5);
    expect((await subject.store.history.progress('r1')).pending).toEqual(new Map([[CRM, 5]]));
    expect(originsOf(await claim(subject.store, MUCH_LATER))).toEqual(Array(5).fill('r1'));
  });

  it('is counted for new events too, each origin by itself, until they are settled for good', async () => {
    const origins = ['aud_1', 'trait_2', 'aud_3'];
    const pendingOf = async () =>
      (await subject.store.history.pendingOf(origins)).map((byDestination) => [...byDestination].sort());
    const behalf = (destination: number, origin: string, indexes: readonly number[]) => ({
      ...owed(destination, 'parked', indexes),
      origin,
    });
    for (const prefix of ['a', 'b']) {
      const parts = [
        behalf(CRM, 'aud_1', [0, 2]),
        behalf(CRM, 'trait_2', [1]),
        behalf(WAREHOUSE, 'aud_1', [0]),
      ];
      await subject.store.log.append(
        batch(events(4, prefix), { owed: [...parts, owed(CRM, 'parked', [3])], receivedAt: START }),
      );
    }
    const all = [
      [
        [CRM, 4],
        [WAREHOUSE, 2],
      ],
      [[CRM, 2]],
      [],
    ];
    expect(await pendingOf()).toEqual(all);
    await subject.restart();
    expect(await pendingOf()).toEqual(all);
    const claimed = await claim(subject.store, START);
    expect(await pendingOf()).toEqual(all);
    const told = claimed.filter(({ origin }) => origin === 'aud_1');
    expect(await idsOf(subject.store, told)).toEqual(['a0', 'a2', 'b0', 'b2']);
    const [one, two, three, four] = told as [Holding, Holding, Holding, Holding];
    const results = [delivered(one), dead(two), retried(three, NOW), handedBack(four, NOW)];
    await settle(subject.store, [
      ...results,
      ...claimed.filter(({ origin }) => origin !== 'aud_1').map(delivered),
    ]);
    const left = [
      [
        [CRM, 2],
        [WAREHOUSE, 2],
      ],
      [],
      [],
    ];
    expect(await pendingOf()).toEqual(left);
    expect(originsOf(await claim(subject.store, latest(NOW)))).toEqual(['aud_1', 'aud_1']);
    expect(await pendingOf()).toEqual(left);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ owed: 8, pending: 2 });
  });

  it('is remembered when retention has buried what it owes', async () => {
    await subject.store.queue.enqueue(again(await write(subject.store, events(2))));
    await write(subject.store, events(1, 'young'), START + 8 * DAY);
    await keepUp(subject.store, START + 8 * DAY, A_WEEK);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ dead: { retention_over: 2 } });
    expect(await reviveAll(subject.store, { destinations: [CRM] }, START + 9 * DAY)).toBe(2);
    expect(originsOf(await claim(subject.store, MUCH_LATER))).toEqual(['r1', 'r1']);
  });
}

function twice(subject: Subject): void {
  /** One event, held by its first delivery and by two replays. */
  async function thrice(store: Store): Promise<Holding[]> {
    const [first] = await hold(store, 1);
    const positions = [first!.delivery.position];
    await store.queue.enqueue(again(positions));
    await store.queue.enqueue(again(positions, { origin: 'r2' }));
    return [first!, ...(await claim(store, NOW))];
  }

  it('owes an event beside its first delivery and another replay, and each is settled by itself', async () => {
    const holdings = await thrice(subject.store);
    expect(originsOf(holdings).sort()).toEqual(['r1', 'r2', undefined]);
    expect(new Set(holdings.map(({ set }) => set)).size).toBe(3);
    const [one, two, three] = holdings;
    await settle(subject.store, [delivered(one!)]);
    expect(await subject.store.queue.settle([delivered(one!)])).toEqual({ ignored: 1 });
    await settle(subject.store, [dead(two!), delivered(three!)]);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({
      ...{ owed: 3, delivered: 2, dead: { status_400: 1 }, pending: 0 },
    });
  });

  it('keeps them apart when all fail together and wait for the same moment', async () => {
    const holdings = await thrice(subject.store);
    const at = NOW + HOUR;
    await settle(
      subject.store,
      holdings.map((one) => retried(one, at, { firstFailedAt: NOW })),
    );
    await subject.restart();
    const due = await claim(subject.store, latest(at, NOW), ALL);
    expect(originsOf(due).sort()).toEqual(['r1', 'r2', undefined]);
    await settle(
      subject.store,
      due.map((one) => dead(one)),
    );
    expect(await reviveAll(subject.store)).toBe(3);
    const revived = await claim(subject.store, MUCH_LATER);
    expect(originsOf(revived).sort()).toEqual(['r1', 'r2', undefined]);
    await settle(subject.store, revived.map(delivered));
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ owed: 3, delivered: 3 });
  });

  it('takes all of them from an erased user', async () => {
    await thrice(subject.store);
    const [position] = (await subject.store.log.find({ messageId: 'm0' })).positions;
    await subject.store.queue.enqueue(again([position!], { origin: 'r3' }));
    expect(await erase(subject.store, 'u1')).toBe(1);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ owed: 4, erased: 4, pending: 0 });
    expect((await subject.store.history.progress('r2')).pending).toEqual(new Map());
    await expectBalanced(subject.store);
  });
}

function histories(subject: Subject): void {
  it('shows in the history of an event, also for a destination that was not to get it', async () => {
    const positions = await write(subject.store, events(2));
    const told = async () =>
      (await subject.store.history.read(positions)).map((one) =>
        one?.deliveries.map(({ destination, state, attempts }) => [destination, state, attempts.length]),
      );
    expect(await told()).toEqual([[], []]);
    await subject.store.queue.enqueue(again(positions.slice(0, 1)));
    expect(await told()).toEqual([[[CRM, 'pending', 0]], []]);
    const [one] = await claim(subject.store, NOW);
    const at = NOW + HOUR;
    await settle(subject.store, [retried(one!, at)]);
    expect(await told()).toEqual([[[CRM, 'retrying', 1]], []]);
    const [second] = await claim(subject.store, latest(at, NOW));
    await settle(subject.store, [delivered(second!)]);
    await subject.restart();
    expect(await told()).toEqual([[[CRM, 'delivered', 2]], []]);
  });

  it('shows an event as pending while it is owed once more, and as it ended afterwards', async () => {
    const [one] = await hold(subject.store, 1);
    await settle(subject.store, [dead(one!)]);
    const { position } = one!.delivery;
    const state = async () => (await subject.store.history.read([position]))[0]?.deliveries;
    await subject.store.queue.enqueue(again([position]));
    expect(await state()).toMatchObject([{ destination: CRM, state: 'pending' }]);
    await settle(subject.store, (await claim(subject.store, NOW)).map(delivered));
    // Its first delivery is still a dead letter.
    expect(await state()).toMatchObject([{ state: 'dead', reason: 'status_400', attempts: [{}, {}] }]);
    expect(await reviveAll(subject.store)).toBe(1);
  });
}

function walks(subject: Subject): void {
  const walk = async (query: LogQuery, from?: Position): Promise<Position[]> => {
    const positions: Position[] = [];
    let next = from;
    do {
      const found = await subject.store.log.find(query, next);
      positions.push(...found.positions);
      expect(found.next ?? END).toBeGreaterThan(next ?? -1);
      next = found.next;
    } while (next !== undefined);
    return positions;
  };
  const range = { from: START, to: START + HOUR, oldestFirst: true } as const;

  it('finds what arrived in a time, the oldest first, from a position on', async () => {
    const { store } = subject;
    const before = await write(store, events(2, 'before'), START - 1);
    const first = await write(store, eventsOf('u2', 700, 'a'), START);
    const second = await writeSingly(store, events(90, 'b'), START + MINUTE);
    await write(store, events(2, 'after'), START + HOUR);
    const back = await write(store, events(2, 'clock set back'), START + 2 * MINUTE);
    const all = [...first, ...second, ...back].sort((a, b) => a - b);
    const look = async () => {
      expect(await walk(range)).toEqual(all);
      expect(await walk(range, all[699]!)).toEqual(all.slice(699));
      expect(await walk(range, before[0]!)).toEqual(all);
      expect(await walk({ ...range, to: START })).toEqual([]);
    };
    await look();
    await keepUp(store, START + DAY, FOR_EVER);
    await look();
    await subject.restart();
    await look();
  });

  it('finds nothing of what is no longer there', async () => {
    const { store } = subject;
    const [gone, kept] = positionsOf(
      await store.log.append(batch([...eventsOf('gone', 1), ...eventsOf('stays', 1)])),
    );
    expect(await walk(range)).toEqual([gone, kept]);
    await erase(store, 'gone');
    expect(await walk(range)).toEqual([kept]);
  });

  it('goes on through more chunks than one look takes', async () => {
    const { store } = subject;
    const written: Position[] = [];
    for (let n = 0; n < 40; n++)
      written.push(...(await write(store, eventsOf(`u${n}`, 3, `n${n}-`), START + n)));
    expect(await walk(range)).toEqual(written);
    expect(await walk({ ...range, from: START + 38 })).toEqual(written.slice(-6));
  });
}
