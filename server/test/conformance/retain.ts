import { describe, expect, it } from 'vitest';
import type { Position } from '../../src/model/event.ts';
import type { Monotonic } from '../../src/model/time.ts';
import { DAY, HOUR, MINUTE } from '../../src/model/time.ts';
import {
  batch,
  CRM,
  countsOfDestination,
  duplicatesOf,
  event,
  events,
  idsAt,
  owed,
  owedBatch,
  positionsOf,
  WAREHOUSE,
} from './batches.ts';
import { twoSources } from './find.ts';
import type { Subject } from './harness.ts';
import { START } from './harness.ts';
import {
  claim,
  dead,
  delivered,
  expectLane,
  type Holding,
  heldFrom,
  ids,
  idsOf,
  laneOf,
  MUCH_LATER,
  retried,
  settle,
} from './holdings.ts';
import { A_WEEK, FOR_EVER, findAll, keepUp, write } from './upkeep.ts';

/** A time at which events from `START` are past their week, and new events are not. */
const NOW: Monotonic = START + 8 * DAY;

/** ports/event-log.ts: `maintain`. That it changes nothing else: the histories of random.ts. */
export function retainConformance(subject: Subject): void {
  describe('maintain', () => {
    letsGo(subject);
    buries(subject);
    sparesHeld(subject);
    remembers(subject);
    keepsClocks(subject);
  });
}

/** Appends a young batch last: an adapter may keep the newest batch at any age. */
async function writeYoung({ store }: Subject, at: Monotonic = NOW): Promise<Position> {
  const [position] = await write(store, [event(`young ${at}`)], at);
  return position!;
}

/** Appends events all held for `CRM`. */
async function holdAt(
  { store }: Subject,
  prefix: string,
  count: number,
  receivedAt: Monotonic,
): Promise<Holding[]> {
  const one = owedBatch(events(count, prefix), 'held', { receivedAt });
  return heldFrom(one, await store.log.append(one));
}

const positionsIn = (holdings: readonly Holding[]) => holdings.map(({ delivery }) => delivery.position);

function letsGo(subject: Subject): void {
  it('lets go of events older than their retention, of none that is younger, and moves none', async () => {
    await twoSources(subject.store);
    const old = [...(await write(subject.store, events(3, 'a')))];
    old.push(...(await write(subject.store, events(2500, 'b'), START + HOUR)));
    const young = [...(await write(subject.store, events(600, 'c'), NOW - A_WEEK.events))];
    young.push(...(await write(subject.store, events(2, 'd'), NOW - HOUR)), await writeYoung(subject));
    const before = await idsAt(subject.store, young);
    expect(before).not.toContain(undefined);

    await keepUp(subject.store, NOW);
    const look = async () => {
      expect(new Set(await idsAt(subject.store, old))).toEqual(new Set([undefined]));
      expect(await idsAt(subject.store, young)).toEqual(before);
      expect(await findAll(subject.store, { userId: 'u1' })).toEqual([...young].reverse());
      expect(await findAll(subject.store, { from: 0, to: MUCH_LATER })).toEqual([...young].reverse());
      expect(await findAll(subject.store, { messageId: 'b7' })).toEqual([]);
      const size = { events: young.length, oldestAt: NOW - A_WEEK.events };
      expect(await subject.store.log.size()).toMatchObject(size);
    };
    await look();
    await subject.restart();
    await look();
    // Deleted events cannot have duplicates; stored ones can, within the window.
    const again = batch([event('b7'), event('d1'), event('a1')], { receivedAt: NOW + 1 });
    expect(duplicatesOf(await subject.store.log.append(again))).toEqual([1]);
  });

  it('lets go of nothing that is young, though the clock was set back behind it', async () => {
    await write(subject.store, events(1, 'old'));
    const young = owedBatch(events(2, 'young'), 'parked', { receivedAt: NOW - DAY });
    const positions = positionsOf(await subject.store.log.append(young));
    await write(subject.store, events(1, 'back'), START + HOUR);
    await writeYoung(subject);
    await keepUp(subject.store, NOW);
    expect(await idsAt(subject.store, positions)).toEqual(['young0', 'young1']);
    await expectLane(subject.store, 0, 2);
  });

  it('never gives a position twice, though everything was let go of before a crash', async () => {
    const given = await write(subject.store, events(20, 'a'));
    await keepUp(subject.store, START + 400 * DAY);
    await subject.restart();
    const [next] = await write(subject.store, events(1, 'b'), START + 400 * DAY);
    expect(next).toBeGreaterThan(Math.max(...given));
  });
}

function buries(subject: Subject): void {
  it('buries what is still owed on disk of events it lets go of, and nothing else', async () => {
    const { store } = subject;
    const both = [owed(CRM, 'parked', 4), owed(WAREHOUSE, 'parked', [1, 3])];
    await store.log.append(batch(events(4, 'old'), { owed: both }));
    // Retries of old and of young events that wait together, until long after this.
    const waiting = [...(await holdAt(subject, 'ow', 2, START)), ...(await holdAt(subject, 'nw', 2, NOW))];
    await store.log.append(batch(events(4, 'new'), { owed: both, receivedAt: NOW }));
    await settle(
      store,
      waiting.map((one) => retried(one, NOW + DAY, { rounds: 3, firstFailedAt: NOW - 1 })),
    );
    await writeYoung(subject);
    await keepUp(store, NOW);

    const crm = { owed: 12, pending: 6, dead: { retention_over: 6 }, delivered: 0 };
    expect(await countsOfDestination(store, CRM)).toMatchObject(crm);
    const warehouse = { owed: 4, pending: 2, dead: { retention_over: 2 } };
    expect(await countsOfDestination(store, WAREHOUSE)).toMatchObject(warehouse);
    await subject.restart();
    const claimed = await claim(subject.store, MUCH_LATER);
    expect(await idsOf(subject.store, claimed)).toEqual([...ids(4, 'new'), ...ids(2, 'nw')].sort());
    const tried = claimed.filter(({ delivery }) => delivery.rounds === 3);
    expect(positionsIn(tried)).toEqual(positionsIn(waiting.slice(2)));
  });

  it('keeps events of dead letters readable for as long as the dead letters, and then no longer', async () => {
    const holdings = await holdAt(subject, 'm', 6, START);
    const [one, two, three, four, five] = holdings;
    const results = [
      dead(one!, 'status_410'),
      delivered(two!),
      retried(three!, MUCH_LATER),
      delivered(four!),
    ];
    await settle(subject.store, [...results, dead(five!, 'status_400'), delivered(holdings[5]!)]);
    await writeYoung(subject);
    await keepUp(subject.store, NOW);
    const left = ['m0', undefined, 'm2', undefined, 'm4', undefined];
    expect(await idsAt(subject.store, positionsIn(holdings))).toEqual(left);
    expect(await findAll(subject.store, { from: START, to: START + 1 })).toHaveLength(3);

    await subject.restart();
    await keepUp(subject.store, START + A_WEEK.deadLetters);
    expect(await idsAt(subject.store, positionsIn(holdings))).toEqual(left);
    await writeYoung(subject, START + 31 * DAY);
    await keepUp(subject.store, START + 31 * DAY);
    expect(await idsAt(subject.store, positionsIn(holdings))).toEqual(Array(6).fill(undefined));
    const counts = { dead: { status_410: 1, status_400: 1, retention_over: 1 }, delivered: 3, pending: 0 };
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject(counts);
  });

  it('buries what a process held that is gone, before it is adopted', async () => {
    const holdings = await holdAt(subject, 'm', 5, START);
    await settle(subject.store, holdings.slice(0, 2).map(delivered));
    await writeYoung(subject);
    await subject.crash();
    await keepUp(subject.store, NOW);
    const counts = { delivered: 2, dead: { retention_over: 3 }, pending: 0 };
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject(counts);
    expect(await subject.store.queue.recoverOrphans()).toBe(0);
  });
}

function sparesHeld(subject: Subject): void {
  it('lets go of nothing that this process holds, until it has settled it', async () => {
    const first = await holdAt(subject, 'a', 3, START);
    await settle(subject.store, first.map(delivered));
    const held = await holdAt(subject, 'b', 3, START + HOUR);
    await subject.store.log.append(owedBatch(events(2, 'c'), 'parked', { receivedAt: START + 2 * HOUR }));
    const [claimed] = await claim(subject.store, START + 3 * HOUR, 1);
    await writeYoung(subject);
    await keepUp(subject.store, NOW);
    const positions = positionsIn([...first, ...held, claimed!]);
    const left = [undefined, undefined, undefined, 'b0', 'b1', 'b2', 'c0'];
    expect(await idsAt(subject.store, positions)).toEqual(left);
    expect((await laneOf(subject.store)).held).toBe(4);

    // One goes back to disk: nothing holds its event then, and the delivery ends with it.
    await settle(subject.store, [...held.map(delivered), retried(claimed!, NOW + HOUR)]);
    await keepUp(subject.store, NOW);
    expect((await idsAt(subject.store, positions)).slice(0, 6)).toEqual(Array(6).fill(undefined));
    const counts = { owed: 8, delivered: 6, dead: { retention_over: 2 }, pending: 0 };
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject(counts);
  });
}

function remembers(subject: Subject): void {
  it('still knows the last 64 batches after upkeep and a crash', async () => {
    const first = Array.from({ length: 4 }, (_, n) => owedBatch(events(2, `first${n}-`), 'parked'));
    const answers = await Promise.all(first.map((one) => subject.store.log.append(one)));
    for (let n = 0; n < 16; n++) await subject.store.log.append(batch(events(2500, `many${n}-`)));
    await keepUp(subject.store, START + DAY, FOR_EVER);
    await subject.restart();
    for (const [n, one] of first.entries()) {
      expect((await subject.store.log.append(one)).positions).toEqual(answers[n]?.positions);
    }
    await expectLane(subject.store, 0, 8);
  });

  it('goes on while events come and go, and what is owed always has its event', async () => {
    const { log, queue: backlog } = subject.store;
    const retention = { events: 75 * MINUTE, deadLetters: 100 * MINUTE };
    const arrived: { readonly position: Position; readonly at: Monotonic }[] = [];
    let inHand: Holding[] = [];
    let at = START;
    for (let n = 0; n < 320; n++, at += MINUTE / 2) {
      const parts = [owed(CRM, 'held', [0]), owed(CRM, 'parked', [1, 2])];
      const one = batch(events(4, `n${n}-`), { owed: parts, receivedAt: at });
      // Deliveries stay held for some rounds, so that upkeep meets them.
      const done = inHand.slice(0, -20).map((each, nth) => (nth % 9 === 0 ? dead(each) : delivered(each)));
      const [answer, claimed, settled] = await Promise.all([
        log.append(one),
        backlog.claim(CRM, 2, at),
        backlog.settle(done),
        log.maintain(at, retention, 1),
      ]);
      expect(settled.ignored).toBe(0);
      const holdings = claimed.deliveries.map((held) => ({ ...held, destination: CRM }));
      inHand = [...inHand.slice(done.length), ...holdings, ...heldFrom(one, answer)];
      for (const position of positionsOf(answer)) arrived.push({ position, at });
      if (n % 40 === 0) expect(await idsOf(subject.store, inHand)).not.toContain('undefined');
    }
    await keepUp(subject.store, at, retention);
    expect(await idsOf(subject.store, inHand)).not.toContain('undefined');
    const young = arrived.filter((one) => one.at >= at - retention.events).map(({ position }) => position);
    expect(await idsAt(subject.store, young)).not.toContain(undefined);
    expect(await idsOf(subject.store, await claim(subject.store, MUCH_LATER))).not.toContain('undefined');
    const [oldest] = arrived;
    expect(await idsAt(subject.store, [oldest!.position])).toEqual([undefined]);
  });
}

function keepsClocks(subject: Subject): void {
  const clocks = { now: START + HOUR, monotonic: START, steps: [{ at: START, ahead: HOUR }] };

  it('has how the clocks stood for the process after this one', async () => {
    expect(subject.store.lastClockMark).toBeUndefined();
    await subject.store.log.maintain(START, FOR_EVER, 1, clocks);
    await subject.crash();
    expect(subject.store.lastClockMark).toEqual(clocks);
  });

  it('has them as they were told last before something was stored', async () => {
    const later = { ...clocks, now: clocks.now + MINUTE, monotonic: START + MINUTE };
    await subject.store.log.maintain(START, FOR_EVER, 1, clocks);
    await subject.store.log.maintain(START + MINUTE, FOR_EVER, 1, later);
    await subject.store.log.append(batch(events(1), { receivedAt: START + MINUTE }));
    await subject.crash();
    expect(subject.store.lastClockMark).toEqual(later);
  });
}
