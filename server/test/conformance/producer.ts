import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { DAY } from '../../src/model/time.ts';
import type { Batch } from '../../src/ports/event-log.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import {
  batch,
  CRM,
  countsOfDestination,
  countsOfSource,
  event,
  idsAt,
  owed,
  SITE,
  skipped,
  WAREHOUSE,
} from './batches.ts';
import type { Subject } from './harness.ts';
import { START } from './harness.ts';
import { findAll } from './upkeep.ts';

/** ports/event-log.ts: `Producer`. */
export function producerConformance(subject: Subject): void {
  describe('producer', () => {
    knowsWhatItHas(subject);
    survivesLostAnswers(subject);
  });
}

/** Events number `from` to `to` of a producer, in a batch of their own. */
function produced(from: number, to: number, parts: Partial<Omit<Batch, 'events'>> = {}): Batch {
  const of = Array.from({ length: to - from + 1 }, (_, index) => event(`n${from + index}`));
  return batch(of, { received: [], producer: { name: 'users', sequence: from }, ...parts });
}

async function storedIds(store: Store): Promise<(string | undefined)[]> {
  const positions = await findAll(store, { from: START, to: START + 3 * DAY });
  return (await idsAt(store, positions)).reverse();
}

function knowsWhatItHas(subject: Subject): void {
  it('stores the events of a producer and counts each as a received call', async () => {
    const { log } = subject.store;
    expect(await log.producedTo('users')).toBe(0);
    const { positions } = await log.append(produced(1, 3));
    expect(await idsAt(subject.store, positions as number[])).toEqual(['n1', 'n2', 'n3']);
    expect(await log.producedTo('users')).toBe(3);
    expect(await countsOfSource(subject.store, SITE)).toMatchObject({ received: 3, accepted: 3 });
  });

  it('neither stores nor counts an event that its producer had appended before', async () => {
    const { log } = subject.store;
    await log.append(produced(1, 3));
    // Long after the dedupe window, as after a downtime of days.
    const again = await log.append(
      produced(1, 3, { receivedAt: START + 2 * DAY, owed: [owed(CRM, 'parked', 3)] }),
    );
    expect(again.positions).toEqual([undefined, undefined, undefined]);
    expect(await countsOfSource(subject.store, SITE)).toMatchObject({
      received: 3,
      accepted: 3,
      duplicates: 0,
    });
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ owed: 0 });
  });

  it('stores the new ones of a batch whose first ones it has', async () => {
    const { log } = subject.store;
    await log.append(produced(1, 3));
    const parts = {
      owed: [owed(CRM, 'parked', [1, 3, 4])],
      skipped: [skipped(WAREHOUSE, 'filtered', [0, 4])],
    };
    const { positions } = await log.append(produced(2, 6, parts));
    expect(positions.map((position) => position !== undefined)).toEqual([false, false, true, true, true]);
    expect(await storedIds(subject.store)).toEqual(['n1', 'n2', 'n3', 'n4', 'n5', 'n6']);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ owed: 2 });
    expect(await countsOfDestination(subject.store, WAREHOUSE)).toMatchObject({ skipped: { filtered: 1 } });
    expect(await log.producedTo('users')).toBe(6);
  });

  it('keeps the numbers of two producers apart, and those of clients out of it', async () => {
    const { log } = subject.store;
    await log.append(produced(1, 2));
    const other = batch([event('r1')], { received: [], producer: { name: 'regulations', sequence: 1 } });
    expect((await log.append(other)).positions).not.toContain(undefined);
    expect((await log.append(batch([event('c1')]))).positions).not.toContain(undefined);
    expect(await log.producedTo('users')).toBe(2);
    expect(await log.producedTo('regulations')).toBe(1);
  });

  it('takes a new number with a messageId that is remembered for an ordinary duplicate', async () => {
    const { log } = subject.store;
    await log.append(produced(1, 2));
    const same = batch([event('n2')], { received: [], producer: { name: 'users', sequence: 3 } });
    expect((await log.append(same)).positions).toEqual([undefined]);
    expect(await countsOfSource(subject.store, SITE)).toMatchObject({
      received: 3,
      accepted: 2,
      duplicates: 1,
    });
    expect(await log.producedTo('users')).toBe(3);
  });
}

function survivesLostAnswers(subject: Subject): void {
  it('knows after a crash what it had stored before', async () => {
    await subject.store.log.append(produced(1, 3));
    await subject.restart();
    expect(await subject.store.log.producedTo('users')).toBe(3);
    await subject.store.log.append(produced(1, 5));
    expect(await storedIds(subject.store)).toEqual(['n1', 'n2', 'n3', 'n4', 'n5']);
  });

  it('stores each event once however many crashes leave its commit in doubt', async () => {
    const last = 40;
    for (let round = 0; round < 6; round++) {
      const { log } = subject.store;
      const done = Array.from({ length: last / 4 }, (_, n) => log.append(produced(n * 4 + 1, n * 4 + 4)));
      const settled = Promise.allSettled(done);
      // The process dies before any answer, or after some.
      if (round % 2 === 1) await done[round];
      await subject.restart();
      for (const result of await settled)
        if (result.status === 'rejected') expect(result.reason).toBeInstanceOf(StorageError);
    }
    await subject.store.log.append(produced(1, last, { id: randomUUID() }));
    const ids = Array.from({ length: last }, (_, index) => `n${index + 1}`);
    expect(await storedIds(subject.store)).toEqual(ids);
    expect(await countsOfSource(subject.store, SITE)).toMatchObject({ received: last, accepted: last });
  });
}
