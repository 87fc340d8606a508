import { describe, expect, it } from 'vitest';
import type { Monotonic } from '../../src/model/time.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import type { NewEvent, Retention } from '../../src/ports/event-log.ts';
import {
  batch,
  CRM,
  countsOfDestination,
  countsOfSource,
  duplicatesOf,
  event,
  events,
  idsAt,
  owed,
  owedBatch,
  SITE,
  skipped,
  WAREHOUSE,
} from './batches.ts';
import type { Subject } from './harness.ts';
import { START } from './harness.ts';
import {
  claim,
  delivered,
  expectLane,
  heldFrom,
  hold,
  idsOf,
  laneOf,
  MUCH_LATER,
  settle,
} from './holdings.ts';
import { erase, FOR_EVER, findAll, keepUp } from './upkeep.ts';

/** ports/event-log.ts: `append`, its dedupe. spec/specification.md, "Duplicates". */
export function dedupeConformance(subject: Subject): void {
  describe('dedupe', () => {
    recognises(subject);
    keepsApart(subject);
    keepsWindow(subject);
    leavesNoTrace(subject);
  });
}

/** Appends these events and gives the indexes of the duplicates. */
async function repeats({ store }: Subject, of: readonly NewEvent[], receivedAt: Monotonic = START) {
  return duplicatesOf(await store.log.append(batch(of, { receivedAt })));
}

/** The same event, with the places of its ids in its bytes. */
function inPlace({ source, messageId, userId, json }: NewEvent): NewEvent {
  const bytes = Buffer.from(json);
  const placeOf = (field: string, id: string) => bytes.indexOf(`"${field}":"${id}"`) + field.length + 4;
  const idFrom = placeOf('messageId', messageId);
  const userFrom = userId === undefined ? 0 : placeOf('userId', userId);
  const userTo = userFrom + (userId ?? '').length;
  const idsInPlace = { bytes, idFrom, idTo: idFrom + messageId.length, userFrom, userTo };
  return { source, messageId, ...(userId === undefined ? {} : { userId }), json, idRanges: idsInPlace };
}

function recognises(subject: Subject): void {
  it('recognises an event whether its ids are given as texts or in place', async () => {
    const [a, b] = [event('a'), event('b')];
    expect(await repeats(subject, [a, inPlace(b), inPlace(a)])).toEqual([2]);
    expect(await repeats(subject, [inPlace(a), b, event('c')])).toEqual([0, 1]);
    expect(await repeats(subject, [inPlace(event('a', 2)), inPlace(event('ab'))])).toEqual([]);
  });

  it('finds an event whose ids were given in place by either of them', async () => {
    const { log } = subject.store;
    const { positions } = await log.append(batch([inPlace(event('a', SITE, { userId: 'u7' })), event('b')]));
    expect((await log.find({ userId: 'u7' })).positions).toEqual([positions[0]]);
    expect((await log.find({ messageId: 'a' })).positions).toEqual([positions[0]]);
    expect(await erase({ log }, 'u7')).toBe(1);
  });

  it('recognises an event that stands earlier in the same batch', async () => {
    const of = [event('a'), event('b'), event('a'), event('a'), event('b'), event('c')];
    expect(await repeats(subject, of)).toEqual([2, 3, 4]);
  });

  it('recognises an event of an earlier batch', async () => {
    await repeats(subject, events(3));
    expect(await repeats(subject, [event('x'), event('m2'), event('m0')])).toEqual([1, 2]);
  });

  it('recognises an event whatever else the second one says', async () => {
    await repeats(subject, [event('a')]);
    const other = event('a', SITE, { userId: 'u2', timestamp: '2020-01-01T00:00:00.000Z' });
    expect(await repeats(subject, [other])).toEqual([0]);
  });

  it('recognises an event after a crash', async () => {
    await repeats(subject, events(3));
    await subject.restart();
    expect(await repeats(subject, [event('m1'), event('new')])).toEqual([0]);
  });

  it('recognises an event that was delivered long ago within the window', async () => {
    await settle(subject.store, (await hold(subject.store, 2)).map(delivered));
    expect(await repeats(subject, events(2), START + 23 * HOUR)).toEqual([0, 1]);
  });

  it('recognises every event of 10,000, and nothing else', async () => {
    for (const prefix of ['a', 'b', 'c', 'd'])
      expect(await repeats(subject, events(2500, prefix))).toEqual([]);
    await subject.restart();
    const mixed = events(1250, 'new').flatMap((one, n) => [one, event(`${'abcd'[n % 4]}${2 * n}`)]);
    const odd = mixed.flatMap((_, index) => (index % 2 === 1 ? [index] : []));
    expect(await repeats(subject, mixed)).toEqual(odd);
    expect(await repeats(subject, events(2500, 'c'))).toHaveLength(2500);
  });

  it('stores one of two equal events that arrive at the same time', async () => {
    const { log } = subject.store;
    const answers = await Promise.all(Array.from({ length: 20 }, () => log.append(batch([event('a')]))));
    expect(answers.filter((answer) => answer.positions[0] !== undefined)).toHaveLength(1);
    expect(await countsOfSource(subject.store, SITE)).toMatchObject({ accepted: 1, duplicates: 19 });
  });
}

function keepsApart(subject: Subject): void {
  it('keeps the same messageId of two sources apart', async () => {
    expect(await repeats(subject, [event('a', 1), event('a', 2), event('a', 12)])).toEqual([]);
    await subject.restart();
    expect(await repeats(subject, [event('a', 3), event('a', 2), event('a', 21)])).toEqual([1]);
  });

  it('keeps sources and messageIds apart that look alike when put together', async () => {
    const of = [event('11', 1), event('1', 11), event('1:1', 1), event('1', 1), event('1', 111)];
    expect(await repeats(subject, of)).toEqual([]);
  });

  it('keeps messageIds apart that differ in as little as can be', async () => {
    const alike = ['id', 'ID', 'id ', 'id\u0000', 'id\u0000a', 'e\u0301', '\u00e9', '1', '01', '1.0'];
    const long = `${'x'.repeat(99)}`;
    const of = [...alike, `${long}1`, `${long}2`, long].map((id) => event(id));
    expect(await repeats(subject, of)).toEqual([]);
    await subject.restart();
    expect(await repeats(subject, of)).toHaveLength(of.length);
  });

  it('keeps messageIds apart that differ only in half a surrogate pair', async () => {
    // UTF-8 cannot encode these: an adapter that hashes or stores bytes must still tell them apart.
    const of = [event('a\ud800'), event('a\ud801'), event('a\ufffd')];
    expect(await repeats(subject, of)).toEqual([]);
  });
}

function keepsWindow(subject: Subject): void {
  const NOTHING_STAYS: readonly (readonly [string, Retention])[] = [
    ['is past its retention', { events: SECOND, deadLetters: SECOND }],
    ['found no room', { ...FOR_EVER, disk: 0 }],
  ];

  it.each(NOTHING_STAYS)('remembers a messageId for its window though its event %s', async (_, retention) => {
    const [position] = (await subject.store.log.append(batch([event('a'), event('b')]))).positions;
    await repeats(subject, [event('newest')], START + MINUTE);
    await keepUp(subject.store, START + MINUTE, retention);
    expect(await idsAt(subject.store, [position!])).toEqual([undefined]);
    expect(await findAll(subject.store, { from: START, to: START + SECOND })).toEqual([]);
    const later = START + HOUR;
    expect(await repeats(subject, [event('x'), event('a'), event('a', SITE + 1)], later)).toEqual([1]);
    await subject.restart();
    expect(await repeats(subject, [event('b')], later)).toEqual([0]);
    await keepUp(subject.store, START + DAY - 1, retention);
    expect(await repeats(subject, [event('b')], START + DAY - 1)).toEqual([0]);
    await keepUp(subject.store, START + DAY, retention);
    expect(await repeats(subject, [event('a')], START + DAY)).toEqual([]);
  });

  it('remembers a messageId for the longest window that is in use', async () => {
    const mine = { ...event('a'), dedupeWindow: 3 * DAY };
    await repeats(subject, [mine]);
    await repeats(subject, [event('newest')], START + MINUTE);
    const retention = { events: SECOND, deadLetters: SECOND, messageIds: 3 * DAY };
    await keepUp(subject.store, START + 2 * DAY, retention);
    expect(await repeats(subject, [mine], START + 3 * DAY - 1)).toEqual([0]);
    await keepUp(subject.store, START + 3 * DAY, retention);
    expect(await repeats(subject, [mine], START + 3 * DAY)).toEqual([]);
  });

  it('remembers no messageId of an event that was erased before its retention was over', async () => {
    await repeats(subject, [event('a', SITE, { userId: 'u1' })]);
    await repeats(subject, [event('newest')], START + MINUTE);
    await erase(subject.store, 'u1');
    await keepUp(subject.store, START + MINUTE, { events: SECOND, deadLetters: SECOND });
    expect(await repeats(subject, [event('a')], START + HOUR)).toEqual([]);
  });

  it('keeps the window an event brings along, shorter or longer than its own', async () => {
    const within = (id: string, dedupeWindow: Monotonic): NewEvent => ({ ...event(id), dedupeWindow });
    await repeats(subject, [within('short', HOUR), within('long', 3 * DAY), event('own')]);
    const again = [within('short', HOUR), within('long', 3 * DAY), event('own')];
    expect(await repeats(subject, again, START + 2 * HOUR)).toEqual([1, 2]);
    expect(await repeats(subject, again, START + 2 * DAY)).toEqual([1]);
  });

  it('takes a repeated event for a duplicate up to the last millisecond of the window', async () => {
    await repeats(subject, [event('a')]);
    expect(await repeats(subject, [event('a')], START + DAY - 1)).toEqual([0]);
    expect(await repeats(subject, [event('a')], START + DAY)).toEqual([]);
  });

  it('keeps the window through a crash, to the millisecond', async () => {
    await repeats(subject, [event('a'), event('b')]);
    await subject.restart();
    expect(await repeats(subject, [event('a')], START + DAY - 1)).toEqual([0]);
    await subject.restart();
    expect(await repeats(subject, [event('a')], START + DAY)).toEqual([]);
    expect(await repeats(subject, [event('b')], START + DAY)).toEqual([]);
  });

  it('does not renew the window with a duplicate', async () => {
    await repeats(subject, [event('a')]);
    for (const hours of [6, 12, 18, 23]) {
      expect(await repeats(subject, [event('a')], START + hours * HOUR)).toEqual([0]);
    }
    expect(await repeats(subject, [event('a')], START + DAY)).toEqual([]);
  });

  it('begins a new window with the event that is stored after the first one', async () => {
    await repeats(subject, [event('a')]);
    expect(await repeats(subject, [event('a'), event('a')], START + DAY)).toEqual([1]);
    expect(await repeats(subject, [event('a')], START + DAY + 1)).toEqual([0]);
    await subject.restart();
    expect(await repeats(subject, [event('a')], START + 2 * DAY - 1)).toEqual([0]);
    expect(await repeats(subject, [event('a')], START + 2 * DAY)).toEqual([]);
  });

  it('measures each event from its own arrival', async () => {
    await repeats(subject, [event('a')]);
    await repeats(subject, [event('b')], START + MINUTE);
    expect(await repeats(subject, [event('a'), event('b')], START + DAY)).toEqual([1]);
  });

  it('recognises an event though the clock went back in between', async () => {
    await repeats(subject, [event('a')]);
    expect(await repeats(subject, [event('a')], START - HOUR)).toEqual([0]);
  });

  it('keeps both events when the second came after the window', async () => {
    const { log } = subject.store;
    const [first] = (await log.append(batch([event('a')]))).positions;
    const [second] = (await log.append(batch([event('a')], { receivedAt: START + DAY }))).positions;
    expect(second).not.toBe(first);
    expect(await idsAt(subject.store, [first!, second!])).toEqual(['a', 'a']);
  });
}

function leavesNoTrace(subject: Subject): void {
  it('counts a duplicate, and neither stores, owes, skips nor holds it', async () => {
    const { log } = subject.store;
    await log.append(batch(events(2)));
    const answer = await log.append(
      batch([event('m0'), event('x'), event('x'), event('m1')], {
        owed: [owed(CRM, 'held', [0, 1, 2, 3]), owed(WAREHOUSE, 'parked', [0, 1, 2])],
        skipped: [skipped(3, 'filtered', [0, 1, 3]), skipped(3, 'disabled', [2])],
      }),
    );
    expect(duplicatesOf(answer)).toEqual([0, 2, 3]);
    expect(await laneOf(subject.store, CRM)).toMatchObject({ held: 1, onDisk: 0 });
    expect(await laneOf(subject.store, WAREHOUSE)).toMatchObject({ held: 0, onDisk: 1 });
    expect(await countsOfDestination(subject.store, 3)).toMatchObject({ owed: 0, skipped: { filtered: 1 } });
    const counts = { received: 6, accepted: 3, duplicates: 3, discarded: {} };
    expect(await countsOfSource(subject.store, SITE)).toEqual(counts);
  });

  it('holds nothing when every event of a held entry is a duplicate', async () => {
    const { log } = subject.store;
    await log.append(batch(events(2)));
    const answer = await log.append(
      batch([event('m0'), event('m1'), event('new')], {
        owed: [owed(CRM, 'held', 2), owed(CRM, 'held', [2])],
      }),
    );
    expect(answer.held.map((set) => set !== undefined)).toEqual([false, true]);
    await expectLane(subject.store, 1, 0);
  });

  it('does not owe a second destination an event that is a duplicate', async () => {
    await subject.store.log.append(owedBatch(events(2), 'parked'));
    await subject.store.log.append(batch(events(2), { owed: [owed(WAREHOUSE, 'parked', 2)] }));
    expect(await countsOfDestination(subject.store, WAREHOUSE)).toMatchObject({ owed: 0, pending: 0 });
    expect(await idsOf(subject.store, await claim(subject.store, MUCH_LATER))).toEqual(['m0', 'm1']);
  });

  it('holds what is left of an entry when some of its events are duplicates', async () => {
    const { log } = subject.store;
    await log.append(batch([event('m1'), event('m3')]));
    const one = owedBatch(events(5), 'held');
    const holdings = heldFrom(one, await log.append(one));
    expect(await idsOf(subject.store, holdings)).toEqual(['m0', 'm2', 'm4']);
    await settle(subject.store, holdings.map(delivered));
    await expectLane(subject.store, 0, 0);
  });
}
