import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE } from '../../src/model/time.ts';
import { batch, CRM, countsOfSource, events, owed, owedBatch, SITE, WAREHOUSE } from './batches.ts';
import type { Subject } from './harness.ts';
import { START } from './harness.ts';
import {
  ALL,
  claim,
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

/** ports/delivery-queue.ts: `recoverOrphans`. ports/store.ts: `stop`. */
export function recoverOrphansConformance(subject: Subject): void {
  describe('recoverOrphans', () => {
    parks(subject);
    leaves(subject);
  });
  describe('stop', () => stops(subject));
}

function parks(subject: Subject): void {
  it('parks what a process held that is gone, due at once', async () => {
    await hold(subject.store, 5);
    expect(await subject.restart()).toBe(5);
    await expectLane(subject.store, 0, 5);
    expect((await laneOf(subject.store)).nextDueAt).toBeLessThanOrEqual(START);
    expect(await idsOf(subject.store, await claim(subject.store, START))).toEqual(ids(5));
  });

  it('parks what was claimed and not settled, with what its next round must know', async () => {
    const known = { rounds: 3, firstFailedAt: START - 1, endpoints: 0b101, settingsVersion: 9 };
    const at = START + MINUTE;
    const [one] = await hold(subject.store, 1);
    await settle(subject.store, [retried(one!, at, known)]);
    await claim(subject.store, latest(at));
    expect(await subject.restart()).toBe(1);
    const [again] = await claim(subject.store, latest(at));
    expect(again?.delivery).toEqual({ position: one!.delivery.position, ...known });
  });

  it('parks what is left of a set that was settled in part, and of one that was claimed in part', async () => {
    const held = await hold(subject.store, 6, 'h');
    await park(subject.store, 6, 'p');
    await settle(subject.store, held.slice(0, 4).map(delivered));
    const claimed = await claim(subject.store, START, 3);
    await settle(subject.store, [delivered(claimed[0]!)]);
    const left = [...held.slice(4), ...claimed.slice(1)];
    expect(await subject.restart()).toBe(left.length);
    await expectLane(subject.store, 0, 7);
    expect(await claim(subject.store, MUCH_LATER)).toHaveLength(7);
  });

  it('parks the sets of every destination', async () => {
    await subject.store.log.append(
      batch(events(6), {
        owed: [owed(CRM, 'held', 6), owed(WAREHOUSE, 'held', [1, 2]), owed(77, 'held', [0])],
      }),
    );
    expect(await subject.restart()).toBe(9);
    const { deliveries } = await subject.store.queue.claim(WAREHOUSE, ALL, START);
    expect(await idsOf(subject.store, deliveries)).toEqual(['m1', 'm2']);
    expect(await laneOf(subject.store, 77)).toMatchObject({ held: 0, onDisk: 1 });
  });

  it('parks what several dead processes held, one after the other and all at once', async () => {
    await hold(subject.store, 2, 'a');
    await subject.crash();
    await hold(subject.store, 3, 'b');
    await subject.crash();
    await hold(subject.store, 4, 'c');
    expect(await subject.restart()).toBe(9);
    await claim(subject.store, START, 5);
    expect(await subject.restart()).toBe(5);
    const all = [...ids(2, 'a'), ...ids(3, 'b'), ...ids(4, 'c')];
    expect(await idsOf(subject.store, await claim(subject.store, START))).toEqual(all);
  });

  it('parks 10,000 deliveries in many sets', async () => {
    for (const prefix of ['a', 'b', 'c']) await hold(subject.store, 2500, prefix);
    for (let n = 0; n < 50; n++) await hold(subject.store, 50, `s${n}-`);
    expect(await subject.restart()).toBe(10_000);
    const claimed = await claim(subject.store, START);
    expect(new Set(claimed.map((held) => held.delivery.position)).size).toBe(10_000);
    await settle(subject.store, claimed.map(delivered));
    await expectLane(subject.store, 0, 0);
  });

  it('lets what it parked be claimed and settled like anything else', async () => {
    const [one] = await hold(subject.store, 3);
    await subject.restart();
    const claimed = await claim(subject.store, START);
    const again = claimed.find((held) => held.delivery.position === one!.delivery.position);
    await settle(subject.store, [retried(again!, START + MINUTE)]);
    await expectLane(subject.store, 2, 1);
    expect(await claim(subject.store, latest(START + MINUTE))).toHaveLength(1);
  });
}

function leaves(subject: Subject): void {
  it('finds nothing in a new store, and nothing a second time', async () => {
    expect(await subject.store.queue.recoverOrphans()).toBe(0);
    await hold(subject.store, 2);
    expect(await subject.restart()).toBe(2);
    expect(await subject.store.queue.recoverOrphans()).toBe(0);
    await expectLane(subject.store, 0, 2);
  });

  it('leaves waiting what waits and parked what is parked', async () => {
    const at = START + HOUR;
    const [one, two] = await hold(subject.store, 2, 'w');
    await settle(subject.store, [retried(one!, at), delivered(two!)]);
    await park(subject.store, 3, 'p');
    await hold(subject.store, 4, 'h');
    expect(await subject.restart()).toBe(4);
    await expectLane(subject.store, 0, 8);
    const due = [...ids(4, 'h'), ...ids(3, 'p')];
    expect(await idsOf(subject.store, await claim(subject.store, at - 1))).toEqual(due);
    expect(await idsOf(subject.store, await claim(subject.store, latest(at)))).toEqual(['w0']);
  });

  it('leaves this process what it holds', async () => {
    await hold(subject.store, 2, 'old');
    await subject.crash();
    const mine = await hold(subject.store, 3, 'new');
    expect(await subject.store.queue.recoverOrphans()).toBe(2);
    await expectLane(subject.store, 3, 2);
    await settle(subject.store, mine.map(delivered));
    await expectLane(subject.store, 0, 2);
  });
}

function stops(subject: Subject): void {
  it('waits for what was asked before', async () => {
    const { store } = subject;
    const one = owedBatch(events(500), 'held');
    const appending = store.log.append(one);
    await store.stop();
    const answer = await appending;
    await subject.restart();
    expect(heldFrom(one, answer)).toHaveLength(500);
    expect(await countsOfSource(subject.store, SITE)).toMatchObject({ received: 500, accepted: 500 });
    expect(await idsOf(subject.store, await claim(subject.store, START))).toEqual(ids(500));
  });

  it('loses nothing that was held, parked or waiting', async () => {
    const [one] = await hold(subject.store, 2, 'h');
    await settle(subject.store, [retried(one!, START + MINUTE)]);
    await park(subject.store, 2, 'p');
    await subject.store.stop();
    await subject.restart();
    expect(await idsOf(subject.store, await claim(subject.store, MUCH_LATER))).toEqual([
      'h0',
      'h1',
      'p0',
      'p1',
    ]);
  });

  it('may be asked for twice, also at the same time', async () => {
    const { store } = subject;
    await hold(store, 1);
    await Promise.all([store.stop(), store.stop()]);
    await store.stop();
    await subject.restart();
    await expectLane(subject.store, 0, 1);
  });
}
