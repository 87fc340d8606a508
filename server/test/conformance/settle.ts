import { describe, expect, it } from 'vitest';
import type { Delivery } from '../../src/model/delivery.ts';
import { HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import { batch, CRM, countsOfDestination, events, owed, WAREHOUSE } from './batches.ts';
import type { Subject } from './harness.ts';
import { START } from './harness.ts';
import {
  claim,
  dead,
  delivered,
  expectLane,
  heldFrom,
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

/** ports/delivery-queue.ts: `settle`. */
export function settleConformance(subject: Subject): void {
  describe('settle', () => {
    moves(subject);
    remembers(subject);
    ignores(subject);
    oneCommit(subject);
  });
}

function moves(subject: Subject): void {
  it('takes a delivered delivery out of the backlog for good', async () => {
    await settle(subject.store, (await hold(subject.store, 3)).map(delivered));
    await expectLane(subject.store, 0, 0);
    await subject.restart();
    expect(await claim(subject.store, MUCH_LATER)).toEqual([]);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ owed: 3, delivered: 3, dead: {} });
  });

  it('takes a dead delivery out of the backlog and counts it by its reason', async () => {
    const [one, two, three] = await hold(subject.store, 3);
    await settle(subject.store, [dead(one!, 'status_400'), dead(two!, 'retry_window_over')]);
    await settle(subject.store, [dead(three!, 'status_400')]);
    await expectLane(subject.store, 0, 0);
    await subject.restart();
    expect(await claim(subject.store, MUCH_LATER)).toEqual([]);
    const counts = { owed: 3, delivered: 0, dead: { status_400: 2, retry_window_over: 1 } };
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject(counts);
  });

  it('puts a retried delivery back on disk until it is due, and nowhere else', async () => {
    const at = START + 15 * SECOND;
    const [one, two] = await hold(subject.store, 2);
    await settle(subject.store, [retried(one!, at)]);
    await expectLane(subject.store, 1, 1);
    expect(await idsOf(subject.store, await claim(subject.store, latest(at)))).toEqual(['m0']);
    await settle(subject.store, [delivered(two!)]);
    await expectLane(subject.store, 1, 0);
  });

  it('leaves the rest of the set held', async () => {
    const holdings = await hold(subject.store, 10);
    await settle(subject.store, holdings.slice(0, 3).map(delivered));
    await expectLane(subject.store, 7, 0);
    expect(await claim(subject.store, MUCH_LATER)).toEqual([]);
    await settle(subject.store, holdings.slice(3).map(delivered));
    await expectLane(subject.store, 0, 0);
  });

  it('settles deliveries of several sets and destinations together', async () => {
    const { log } = subject.store;
    const one = batch(events(4), { owed: [owed(CRM, 'held', 4), owed(WAREHOUSE, 'held', [1, 3])] });
    const holdings = heldFrom(one, await log.append(one));
    const results = [...holdings, ...(await hold(subject.store, 2, 'other'))].map(delivered);
    await settle(subject.store, results);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ delivered: 6, pending: 0 });
    expect(await countsOfDestination(subject.store, WAREHOUSE)).toMatchObject({ delivered: 2, pending: 0 });
  });

  it('leaves a destination alone when another one is done with the same event', async () => {
    const one = batch(events(2), { owed: [owed(CRM, 'held', 2), owed(WAREHOUSE, 'held', 2)] });
    const holdings = heldFrom(one, await subject.store.log.append(one));
    await settle(subject.store, holdings.filter((holding) => holding.destination === CRM).map(delivered));
    expect(await laneOf(subject.store, WAREHOUSE)).toMatchObject({ held: 2, onDisk: 0 });
    expect(await laneOf(subject.store, CRM)).toMatchObject({ held: 0, onDisk: 0 });
  });

  it('settles 2,500 deliveries that went every way', async () => {
    const holdings = await hold(subject.store, 2500);
    const results = holdings.map((one, n) => {
      if (n % 5 === 0) return dead(one, `status_${400 + (n % 3)}`);
      return n % 2 === 0 ? delivered(one) : retried(one, START + (n % 97) * SECOND);
    });
    await settle(subject.store, results);
    const counts = await countsOfDestination(subject.store, CRM);
    expect(counts).toMatchObject({ owed: 2500, delivered: 1000, pending: 1000 });
    await subject.restart();
    expect(await claim(subject.store, START + HOUR)).toHaveLength(1000);
  });

  it('settles nothing when there is nothing to settle', async () => {
    expect(await subject.store.queue.settle([])).toEqual({ ignored: 0 });
  });
}

/** A delivery and the state for its next round. */
const FAILED_TWICE = {
  rounds: 2,
  firstFailedAt: START - 3 * MINUTE - 7,
  endpoints: 0b10110,
  settingsVersion: 41,
} satisfies Partial<Delivery>;

function remembers(subject: Subject): void {
  it('gives a retried delivery back with all that its next round must know', async () => {
    const at = START + MINUTE;
    const [one] = await hold(subject.store, 1);
    await settle(subject.store, [retried(one!, at, FAILED_TWICE)]);
    const [claimed] = await claim(subject.store, latest(at));
    expect(claimed?.delivery).toEqual({ position: one!.delivery.position, ...FAILED_TWICE });
  });

  it('does so after a crash', async () => {
    const at = START + MINUTE;
    const [one] = await hold(subject.store, 1);
    await settle(subject.store, [retried(one!, at, FAILED_TWICE)]);
    await subject.restart();
    const [claimed] = await claim(subject.store, latest(at));
    expect(claimed?.delivery).toEqual({ position: one!.delivery.position, ...FAILED_TWICE });
  });

  it('does so for each of many deliveries that wait together', async () => {
    const at = START + 10 * MINUTE;
    const holdings = await hold(subject.store, 200);
    const next = holdings.map(({ delivery }, n) => ({
      position: delivery.position,
      rounds: 1 + (n % 4),
      firstFailedAt: START - n,
      ...(n % 3 === 0 ? {} : { endpoints: 1 + (n % 31), settingsVersion: 1 + (n % 5) }),
    }));
    await settle(
      subject.store,
      holdings.map((one, n) => retried(one, at, next[n])),
    );
    await subject.restart();
    const claimed = await claim(subject.store, latest(at));
    const byPosition = claimed.map((held) => held.delivery).sort((a, b) => a.position - b.position);
    expect(byPosition).toEqual(next);
  });

  it('does so when only part of what waits is claimed', async () => {
    const at = START + 10 * MINUTE;
    const holdings = await hold(subject.store, 10);
    await settle(
      subject.store,
      holdings.map((one, n) => retried(one, at, { rounds: n + 1, firstFailedAt: START - n })),
    );
    const claimed = [
      ...(await claim(subject.store, latest(at), 4)),
      ...(await claim(subject.store, latest(at))),
    ];
    const byPosition = claimed.map((held) => held.delivery).sort((a, b) => a.position - b.position);
    expect(byPosition).toEqual(
      holdings.map(({ delivery }, n) => ({ ...delivery, rounds: n + 1, firstFailedAt: START - n })),
    );
  });

  it('follows a delivery through one failed round after the other', async () => {
    let now = START;
    let [one] = await hold(subject.store, 1);
    for (let round = 1; round <= 5; round++) {
      await settle(subject.store, [retried(one!, now + SECOND, { firstFailedAt: START })]);
      // From here on an adapter that reads a clock may take the delay for longer than it is.
      now = latest(now + SECOND, START) + SECOND;
      if (round === 3) await subject.restart();
      [one] = await claim(subject.store, now);
      expect(one?.delivery).toMatchObject({ rounds: round, firstFailedAt: START });
    }
    await settle(subject.store, [dead(one!, 'retry_window_over')]);
    await expectLane(subject.store, 0, 0);
  });
}

function ignores(subject: Subject): void {
  it('ignores and counts a result for a delivery that was settled before', async () => {
    const results = (await hold(subject.store, 3)).map(delivered);
    await settle(subject.store, results.slice(0, 2));
    expect(await subject.store.queue.settle(results)).toEqual({ ignored: 2 });
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ owed: 3, delivered: 3 });
  });

  it('ignores the second of two results for one delivery', async () => {
    const [one] = await hold(subject.store, 1);
    const both = [delivered(one!), dead(one!, 'status_400')];
    expect(await subject.store.queue.settle(both)).toEqual({ ignored: 1 });
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ delivered: 1, dead: {} });
  });

  it('ignores one of two results that come at the same time', async () => {
    const { queue: backlog } = subject.store;
    const results = (await hold(subject.store, 5)).map(delivered);
    const settled = await Promise.all([backlog.settle(results), backlog.settle(results)]);
    expect(settled.map((one) => one.ignored).sort()).toEqual([0, 5]);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ delivered: 5 });
  });

  it('ignores a result for a delivery that is waiting again', async () => {
    const [one] = await hold(subject.store, 1);
    await settle(subject.store, [retried(one!, START + HOUR)]);
    expect(await subject.store.queue.settle([delivered(one!)])).toEqual({ ignored: 1 });
    await expectLane(subject.store, 0, 1);
  });

  it('ignores a result for a set that does not hold the delivery', async () => {
    const [one] = await hold(subject.store, 1, 'a');
    const [two] = await hold(subject.store, 1, 'b');
    const strays = [
      { ...delivered(one!), set: two!.set },
      { ...delivered(one!), set: two!.set + 1_000_000 },
      { ...delivered(one!), position: two!.delivery.position + 1_000_000 },
      { ...delivered(one!), destination: WAREHOUSE },
    ];
    expect(await subject.store.queue.settle(strays)).toEqual({ ignored: 4 });
    await expectLane(subject.store, 2, 0);
  });

  it('settles the other results of a call some of which it ignores', async () => {
    const holdings = await hold(subject.store, 4);
    await settle(subject.store, [delivered(holdings[0]!), retried(holdings[1]!, START + HOUR)]);
    expect(await subject.store.queue.settle(holdings.map((one) => dead(one)))).toEqual({ ignored: 2 });
    const counts = { delivered: 1, dead: { status_400: 2 }, pending: 1 };
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject(counts);
  });

  it('ignores what a process still reports that has died', async () => {
    const results = (await hold(subject.store, 3)).map(delivered);
    const before = await subject.crash();
    // A store that is gone may also say that it wrote nothing.
    const late = await before.queue.settle(results).catch((error: Error) => error.name);
    expect([{ ignored: 3 }, 'StorageError']).toContainEqual(late);
    expect(await subject.store.queue.recoverOrphans()).toBe(3);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ delivered: 0, pending: 3 });
    expect(await idsOf(subject.store, await claim(subject.store, MUCH_LATER))).toEqual(ids(3));
  });

  it('ignores results for what an earlier process held', async () => {
    await park(subject.store, 2, 'p');
    const results = [...(await hold(subject.store, 3)), ...(await claim(subject.store, START))].map(
      delivered,
    );
    await subject.restart();
    expect(await subject.store.queue.settle(results)).toEqual({ ignored: 5 });
    await expectLane(subject.store, 0, 5);
  });
}

function oneCommit(subject: Subject): void {
  it('keeps what it has answered for through a crash', async () => {
    const [one, two, three, four] = await hold(subject.store, 4);
    await settle(subject.store, [delivered(one!), dead(two!, 'status_410'), retried(three!, START + MINUTE)]);
    await subject.restart();
    const counts = { owed: 4, delivered: 1, dead: { status_410: 1 }, pending: 2 };
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject(counts);
    const left = await claim(subject.store, latest(START + MINUTE));
    expect(left.map((held) => held.delivery).sort((a, b) => a.position - b.position)).toEqual([
      { ...three!.delivery, rounds: 1 },
      four!.delivery,
    ]);
  });

  it('writes all results or none when the crash comes before the answer', async () => {
    const holdings = await hold(subject.store, 1500);
    let answered = false;
    const ways = [delivered, dead, (one: (typeof holdings)[0]) => retried(one, START + HOUR)];
    const settling = subject.store.queue.settle(holdings.map((one, n) => ways[n % 3]!(one))).then(
      () => {
        answered = true;
      },
      // This test does not ask whether the caller gets an error for the crash.
      () => undefined,
    );
    await subject.restart();
    await settling;

    const counts = await countsOfDestination(subject.store, CRM);
    expect(answered ? [500] : [0, 500]).toContain(counts.delivered);
    const all = { delivered: 500, dead: { status_400: 500 }, pending: 500 };
    const none = { delivered: 0, dead: {}, pending: 1500 };
    expect(counts).toMatchObject(counts.delivered === 500 ? all : none);
    const due = await claim(subject.store, START + MINUTE);
    expect(due).toHaveLength(counts.delivered === 500 ? 0 : 1500);
  });
}
