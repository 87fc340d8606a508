import { describe, expect, it } from 'vitest';
import { MINUTE } from '../../src/model/time.ts';
import type { Batch } from '../../src/ports/event-log.ts';
import {
  batch,
  CRM,
  countsOfDestination,
  countsOfSource,
  event,
  events,
  idsAt,
  owed,
  owedBatch,
  positionsOf,
  SITE,
  skipped,
  WAREHOUSE,
  written,
} from './batches.ts';
import type { Subject } from './harness.ts';
import { claim, expectLane, heldFrom, idsOf, laneOf, MUCH_LATER } from './holdings.ts';
import { erase } from './upkeep.ts';

/** ports/event-log.ts: `append`, all but its dedupe. */
export function appendConformance(subject: Subject): void {
  describe('append', () => {
    positions(subject);
    oneCommit(subject);
    sameBatch(subject);
    owing(subject);
  });
}

function positions(subject: Subject): void {
  it('gives positions in the order of the events, rising from batch to batch', async () => {
    const { log } = subject.store;
    const first = positionsOf(await log.append(batch(events(300, 'a'))));
    const second = positionsOf(await log.append(batch(events(1, 'b'))));
    const third = positionsOf(await log.append(batch(events(7, 'c'))));
    const all = [...first, ...second, ...third];
    expect(all).toEqual([...new Set(all)].sort((a, b) => a - b));
    expect(await idsAt(subject.store, [...first.slice(0, 2), ...second])).toEqual(['a0', 'a1', 'b0']);
  });

  it('stores lines that are written already as it stores the events themselves, duplicates left out', async () => {
    const { log } = subject.store;
    await log.append(batch(events(1, 'known')));
    const of = [event('a', SITE, { userId: 'Jürgen 💧' }), event('known0'), event('b'), event('c')];
    const { positions } = await log.append(batch([...written(of.slice(0, 3)).events, of[3]!]));
    expect(positions[1]).toBeUndefined();
    const stored = await log.read([positions[0]!, positions[2]!, positions[3]!]);
    expect(stored.map((one) => JSON.stringify(one?.event))).toEqual(
      [of[0]!, of[2]!, of[3]!].map(({ json }) => json),
    );
  });

  it('changes nothing in lines that it was given, not even when it erases', async () => {
    const { log } = subject.store;
    const { events: given, bytes } = written([event('a', SITE, { userId: 'u' }), event('b'), event('c')]);
    const before = bytes.toString();
    const { positions } = await log.append(batch(given));
    expect(await erase({ log }, 'u')).toBe(1);
    expect(bytes.toString()).toBe(before);
    expect(await idsAt(subject.store, positions.slice(1) as number[])).toEqual(['b', 'c']);
  });

  it('never gives a position twice, not even after a crash', async () => {
    const given = positionsOf(await subject.store.log.append(batch(events(20, 'a'))));
    await subject.restart();
    given.push(...positionsOf(await subject.store.log.append(batch(events(20, 'b')))));
    await subject.restart();
    given.push(...positionsOf(await subject.store.log.append(batch(events(20, 'c')))));
    expect(new Set(given).size).toBe(60);
  });

  it('takes a batch of 2,500 events', async () => {
    const many = owedBatch(events(2500), 'held');
    const answer = await subject.store.log.append(many);
    const given = positionsOf(answer);
    expect(new Set(given).size).toBe(2500);
    expect(await idsAt(subject.store, given)).toEqual(many.events.map((one) => one.messageId));
    await expectLane(subject.store, 2500, 0);
  });

  it('answers batches that are appended at the same time each for itself', async () => {
    const { log } = subject.store;
    const batches = Array.from({ length: 50 }, (_, n) => owedBatch(events(3, `b${n}-`), 'held'));
    const answers = await Promise.all(batches.map((one) => log.append(one)));
    for (const [place, answer] of answers.entries()) {
      const asked = batches[place]!.events.map((one) => one.messageId);
      expect(await idsAt(subject.store, positionsOf(answer))).toEqual(asked);
      expect(heldFrom(batches[place]!, answer)).toHaveLength(3);
    }
    expect(new Set(answers.flatMap((answer) => answer.positions)).size).toBe(150);
    await expectLane(subject.store, 150, 0);
  });
}

function oneCommit(subject: Subject): void {
  it('keeps what it has answered for through a crash: events, what is owed, and the counts', async () => {
    const answer = await subject.store.log.append(mixedBatch());
    await subject.restart();
    expect(await idsAt(subject.store, positionsOf(answer))).toEqual(['m0', 'm1', 'm2', 'm3', 'm4', 'm5']);
    expect(await idsOf(subject.store, await claim(subject.store, MUCH_LATER))).toEqual(['m0', 'm1', 'm2']);
    await expectMixedBatchCounted(subject);
  });

  it('stores all of a batch or nothing when the crash comes before the answer', async () => {
    const many = batch(events(2500), {
      owed: [owed(CRM, 'held', 2500), owed(WAREHOUSE, 'parked', [0, 1, 2])],
      skipped: [skipped(WAREHOUSE, 'filtered', [3, 4])],
    });
    let answered = false;
    const appending = subject.store.log.append(many).then(
      () => {
        answered = true;
      },
      // This test does not ask whether the caller gets an error for the crash.
      () => undefined,
    );
    await subject.restart();
    await appending;

    const { accepted } = await countsOfSource(subject.store, SITE);
    expect(answered ? [2500] : [0, 2500]).toContain(accepted);
    const whole = accepted > 0;
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ owed: whole ? 2500 : 0 });
    expect(await countsOfDestination(subject.store, WAREHOUSE)).toMatchObject({
      owed: whole ? 3 : 0,
      skipped: whole ? { filtered: 2 } : {},
    });
    expect((await laneOf(subject.store)).onDisk).toBe(whole ? 2500 : 0);
  });

  it('makes it safe to ask again when the crash came before the answer', async () => {
    const one = owedBatch(events(40), 'parked');
    const appending = subject.store.log.append(one).catch(() => undefined);
    await subject.restart();
    await appending;
    const given = positionsOf(await subject.store.log.append(one));
    expect(await idsAt(subject.store, given)).toEqual(one.events.map((each) => each.messageId));
    expect(await countsOfSource(subject.store, SITE)).toMatchObject({ received: 40, accepted: 40 });
    await expectLane(subject.store, 0, 40);
  });
}

function sameBatch(subject: Subject): void {
  it('gives the same batch the same answer and stores, owes and counts nothing twice', async () => {
    const first = await subject.store.log.append(mixedBatch());
    expect(await subject.store.log.append(mixedBatch())).toEqual(first);
    await expectMixedBatchCounted(subject);
  });

  it('still knows a batch after 63 others', async () => {
    const { log } = subject.store;
    const one = owedBatch(events(2, 'first'), 'held');
    const first = await log.append(one);
    for (let n = 0; n < 63; n++) await log.append(batch([event(`other${n}`)]));
    expect(await log.append(one)).toEqual(first);
    expect(await countsOfSource(subject.store, SITE)).toMatchObject({ received: 65, accepted: 65 });
    await expectLane(subject.store, 2, 0);
  });

  it('still knows a batch without events after 200 with some, and after a crash', async () => {
    const counts = batch([], { received: [{ source: SITE, calls: 3, discarded: { no_user_anon_id: 3 } }] });
    const first = await subject.store.log.append(counts);
    for (let n = 0; n < 200; n++) await subject.store.log.append(batch([event(`other${n}`)]));
    expect(await subject.store.log.append(counts)).toEqual(first);
    await subject.restart();
    expect(await subject.store.log.append(counts)).toEqual(first);
    expect(await countsOfSource(subject.store, SITE)).toMatchObject({
      ...{ received: 203, accepted: 200, discarded: { no_user_anon_id: 3 } },
    });
  });

  it('still knows a batch after a crash', async () => {
    const first = await subject.store.log.append(mixedBatch());
    await subject.restart();
    // The sets of the first answer have no holder any more; the positions of the events have not changed.
    expect((await subject.store.log.append(mixedBatch())).positions).toEqual(first.positions);
    await expectMixedBatchCounted(subject);
  });

  it('gives one answer to the same batch asked twice at the same time', async () => {
    const { log } = subject.store;
    const [first, second] = await Promise.all([log.append(mixedBatch()), log.append(mixedBatch())]);
    expect(second).toEqual(first);
    await expectMixedBatchCounted(subject);
  });

  it('gives the same batch the same answer after what it owed was delivered', async () => {
    const { log, queue: backlog } = subject.store;
    const one = owedBatch(events(2), 'held');
    const first = await log.append(one);
    const results = heldFrom(one, first).map(({ set, destination, delivery }) => {
      const decision = { kind: 'delivered' } as const;
      return { set, destination, position: delivery.position, attempts: [], decision };
    });
    await backlog.settle(results);
    expect(await log.append(one)).toEqual(first);
    await expectLane(subject.store, 0, 0);
  });
}

function owing(subject: Subject): void {
  it('gives a set for every held entry of `owed`, and none for a parked one', async () => {
    const { log } = subject.store;
    const answer = await log.append(
      batch(events(4), {
        owed: [
          owed(CRM, 'parked', [0]),
          owed(CRM, 'held', [1, 3]),
          owed(WAREHOUSE, 'held', [2]),
          owed(WAREHOUSE, 'held', []),
        ],
      }),
    );
    expect(answer.held.map((set) => set !== undefined)).toEqual([false, true, true, false]);
    expect(await laneOf(subject.store, CRM)).toMatchObject({ held: 2, onDisk: 1 });
    expect(await laneOf(subject.store, WAREHOUSE)).toMatchObject({ held: 1, onDisk: 0 });
  });

  it('keeps a parked delivery until it is claimed, from the time its batch was received', async () => {
    const receivedAt = MUCH_LATER - 5 * MINUTE;
    const parked = owedBatch(events(3), 'parked', { receivedAt });
    await subject.store.log.append(parked);
    expect((await laneOf(subject.store)).nextDueAt).toBeLessThanOrEqual(receivedAt);
    expect(await idsOf(subject.store, await claim(subject.store, receivedAt))).toEqual(['m0', 'm1', 'm2']);
  });

  it('does not hand out a held delivery, however late it gets', async () => {
    await subject.store.log.append(owedBatch(events(3), 'held'));
    expect(await claim(subject.store, MUCH_LATER)).toEqual([]);
    await expectLane(subject.store, 3, 0);
    expect((await laneOf(subject.store)).nextDueAt).toBeUndefined();
  });

  it('stores a batch without events for what the parser counted', async () => {
    const discarded = { invalid_event: 2, message_too_large: 1 };
    const nothing = batch([], { received: [{ source: SITE, calls: 3, discarded }] });
    expect(await subject.store.log.append(nothing)).toEqual({ positions: [], held: [] });
    const counts = { received: 3, accepted: 0, duplicates: 0, discarded };
    expect(await countsOfSource(subject.store, SITE)).toEqual(counts);
  });
}

/** Six events of two sources; three are owed to one destination, one to another, which skips the rest. */
function mixedBatch(): Batch {
  const of = [...events(4), event('m4', 7), event('m5', 7)];
  return batch(of, {
    id: 'mixed',
    owed: [owed(CRM, 'held', [0, 1]), owed(CRM, 'parked', [2]), owed(WAREHOUSE, 'held', [5])],
    skipped: [skipped(WAREHOUSE, 'filtered', [0, 1, 2]), skipped(WAREHOUSE, 'disabled', [3, 4])],
    received: [
      { source: SITE, calls: 5, discarded: { invalid_event: 1 } },
      { source: 7, calls: 2, discarded: {} },
    ],
  });
}

async function expectMixedBatchCounted({ store }: Subject): Promise<void> {
  const site = { received: 5, accepted: 4, duplicates: 0, discarded: { invalid_event: 1 } };
  expect(await countsOfSource(store, SITE)).toEqual(site);
  expect(await countsOfSource(store, 7)).toEqual({ received: 2, accepted: 2, duplicates: 0, discarded: {} });
  expect(await countsOfDestination(store, CRM)).toMatchObject({ owed: 3, pending: 3, skipped: {} });
  const warehouse = { owed: 1, pending: 1, skipped: { filtered: 3, disabled: 2 } };
  expect(await countsOfDestination(store, WAREHOUSE)).toMatchObject(warehouse);
}
