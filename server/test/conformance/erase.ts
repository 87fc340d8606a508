import { describe, expect, it } from 'vitest';
import { balanceOf } from '../../src/model/ledger.ts';
import { DAY, HOUR, MINUTE } from '../../src/model/time.ts';
import type { NewEvent } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
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
  answered,
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
  laneOf,
  MUCH_LATER,
  retried,
  settle,
} from './holdings.ts';
import { erase, eventsOf, FOR_EVER, findAll, keepUp, write, writeSingly } from './upkeep.ts';

/** ports/event-log.ts: `erase`. That the bytes are gone is a matter of each adapter's own tests. */
export function eraseConformance(subject: Subject): void {
  describe('erase', () => {
    makesGaps(subject);
    takesOut(subject);
    forgets(subject);
    redactsAnswers(subject);
  });
}

/** The user who is erased. */
const GONE = 'gone';

/** Events of three users by turns: `a<n>`, `gone<n>`, `b<n>`. */
function byTurns(count: number, round = ''): NewEvent[] {
  return Array.from({ length: count }, (_, n) => {
    const userId = ['a', GONE, 'b'][n % 3]!;
    return event(`${userId}${round}${n}`, undefined, { userId });
  });
}

const isGone = (one: NewEvent | undefined) => one?.userId === GONE;

function makesGaps(subject: Subject): void {
  it('makes gaps of the events of a user in batches of any size, and leaves all others where they are', async () => {
    const [website] = await twoSources(subject.store);
    expect(await erase(subject.store, GONE)).toBe(0);
    const of = [1, 2, 9, 300, 2500].flatMap((size) => [byTurns(size, `s${size}-`)]);
    const positions = (await Promise.all(of.map((one) => write(subject.store, one)))).flat();
    const all = of.flat();
    const size = await subject.store.log.size();
    expect(await erase(subject.store, 'gon')).toBe(0);
    expect(await erase(subject.store, GONE)).toBe(all.filter(isGone).length);

    const look = async () => {
      const left = all.map((one) => (isGone(one) ? undefined : one.messageId));
      expect(await idsAt(subject.store, positions)).toEqual(left);
      expect(await findAll(subject.store, { userId: GONE })).toEqual([]);
      expect(await findAll(subject.store, { messageId: 'gones300-4' })).toEqual([]);
      const others = positions.filter((_, index) => !isGone(all[index])).reverse();
      expect(await findAll(subject.store, { from: START, to: START + 1 })).toEqual(others);
      const ofA = all.filter(({ userId }) => userId === 'a');
      expect(await findAll(subject.store, { userId: 'a' })).toHaveLength(ofA.length);
      expect(await findAll(subject.store, { messageId: 'as300-3' })).toHaveLength(1);
      expect((await subject.store.log.size()).events).toBe(size.events);
    };
    await look();
    await subject.restart();
    await look();
    expect(await erase(subject.store, GONE)).toBe(0);
    const [next] = await write(subject.store, [event('next', website)]);
    expect(next).toBeGreaterThan(positions.at(-1)!);
  });

  it('erases what upkeep has brought together, and upkeep goes on over the gaps', async () => {
    const of = byTurns(150);
    const positions = [...(await writeSingly(subject.store, of.slice(0, 90)))];
    await keepUp(subject.store, START + HOUR, FOR_EVER);
    positions.push(...(await writeSingly(subject.store, of.slice(90), START + 2 * HOUR)));
    expect(await erase(subject.store, GONE)).toBe(50);
    await writeSingly(subject.store, events(70, 'later'), START + 3 * HOUR);
    await keepUp(subject.store, START + DAY, FOR_EVER);
    await subject.restart();
    const left = of.map((one) => (isGone(one) ? undefined : one.messageId));
    expect(await idsAt(subject.store, positions)).toEqual(left);
    expect(await findAll(subject.store, { userId: GONE })).toEqual([]);
    expect(await findAll(subject.store, { userId: 'b' })).toHaveLength(50);
  });
}

/**
 * For `CRM`, every event is in turn held, parked or waiting; for `WAREHOUSE`, all are parked. Resolves to the
 * held ones.
 */
async function oweEverything(store: Store): Promise<Holding[]> {
  const held = owedBatch(byTurns(9, 'h'), 'held');
  const waiting = owedBatch(byTurns(9, 'w'), 'held');
  const holdings = heldFrom(held, await store.log.append(held));
  await settle(
    store,
    heldFrom(waiting, await store.log.append(waiting)).map((one) => retried(one, START + MINUTE)),
  );
  // One parked set that loses some of its deliveries, and others that lose all of them, the first and a
  // middle one.
  for (const [n, of] of [
    eventsOf(GONE, 2, 'x'),
    eventsOf('a', 3, 'p'),
    eventsOf(GONE, 2, 'y'),
    byTurns(9, 'p'),
  ].entries()) {
    const parts = [owed(CRM, 'parked', of.length), owed(WAREHOUSE, 'parked', of.length)];
    await store.log.append(batch(of, { owed: parts, receivedAt: START + n * 2000 }));
  }
  return holdings;
}

function takesOut(subject: Subject): void {
  it('takes what is owed of them out of every set, held, parked or waiting, and counts it', async () => {
    const holdings = await oweEverything(subject.store);
    expect(await erase(subject.store, GONE)).toBe(13);
    await expectLane(subject.store, 6, 6 + 3 + 6);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({
      owed: 34,
      pending: 21,
      erased: 13,
    });
    const warehouse = { owed: 16, pending: 9, erased: 7 };
    expect(await countsOfDestination(subject.store, WAREHOUSE)).toMatchObject(warehouse);

    expect(await subject.store.queue.settle(holdings.map(delivered))).toEqual({ ignored: 3 });
    const claimed = await claim(subject.store, MUCH_LATER);
    expect(await idsOf(subject.store, claimed)).toEqual(
      [
        'aw0',
        'bw2',
        'aw3',
        'bw5',
        'aw6',
        'bw8',
        ...ids(3, 'p'),
        'ap0',
        'bp2',
        'ap3',
        'bp5',
        'ap6',
        'bp8',
      ].sort(),
    );
    await settle(subject.store, claimed.map(delivered));
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ delivered: 21, pending: 0 });
  });

  it('leaves it so after a crash', async () => {
    await oweEverything(subject.store);
    await erase(subject.store, GONE);
    expect(await subject.restart()).toBe(6);
    await expectLane(subject.store, 0, 21);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({
      owed: 34,
      pending: 21,
      erased: 13,
    });
    const claimed = await claim(subject.store, MUCH_LATER);
    expect(await idsOf(subject.store, claimed)).not.toContain('undefined');
    expect((await laneOf(subject.store, WAREHOUSE)).onDisk).toBe(9);
  });

  it('takes out what a process held that is gone, before it is adopted', async () => {
    await oweEverything(subject.store);
    await subject.crash();
    expect(await erase(subject.store, GONE)).toBe(13);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ pending: 21, erased: 13 });
    expect(await subject.store.queue.recoverOrphans()).toBe(6);
  });

  it('takes out what was claimed, and a retry that comes too late brings nothing back', async () => {
    await subject.store.log.append(owedBatch(byTurns(30), 'parked'));
    const claimed = await claim(subject.store, START, 20);
    expect(await erase(subject.store, GONE)).toBe(10);
    await expectLane(subject.store, 13, 7);
    const late = claimed.map((one) => retried(one, START + MINUTE));
    expect(await subject.store.queue.settle(late)).toEqual({ ignored: 7 });
    expect(await idsOf(subject.store, await claim(subject.store, MUCH_LATER))).toHaveLength(20);
  });

  it('counts nothing erased that was delivered before, and erases dead letters with their event', async () => {
    const one = owedBatch(byTurns(9), 'held');
    const answer = await subject.store.log.append(one);
    const results = heldFrom(one, answer).map((holding, n) =>
      n % 2 === 0 ? delivered(holding) : dead(holding),
    );
    await settle(subject.store, results);
    expect(await erase(subject.store, GONE)).toBe(3);
    const counts = { owed: 9, delivered: 5, dead: { status_400: 2 }, erased: 2, pending: 0 };
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject(counts);
    const read = await idsAt(subject.store, positionsOf(answer));
    expect(read).toEqual(one.events.map((each) => (isGone(each) ? undefined : each.messageId)));
    const { letters } = await subject.store.deadLetters.list({ destinations: [CRM] }, 9);
    expect(letters).toHaveLength(2);
  });

  it('erases 2,500 events of one user among as many others while everything else goes on', async () => {
    const { log, queue: backlog } = subject.store;
    const first = owedBatch(eventsOf('a', 1250), 'held');
    const holdings = heldFrom(first, await log.append(first));
    await log.append(owedBatch(eventsOf(GONE, 2500), 'parked'));
    const [erased, settled, , claimed, busy] = await Promise.all([
      erase({ log }, GONE),
      backlog.settle(holdings.map(delivered)),
      log.append(owedBatch(eventsOf('b', 1250), 'parked')),
      backlog.claim(CRM, 1000, START),
      log.maintain(START, FOR_EVER, 4),
    ]);
    expect([erased, settled.ignored, typeof busy]).toEqual([2500, 0, 'boolean']);
    const counts = await countsOfDestination(subject.store, CRM);
    expect(counts).toMatchObject({ owed: 5000, delivered: 1250, erased: 2500, pending: 1250 });
    expect(balanceOf(counts)).toBe(0);
    // In either order of claim and erasure, the remaining deliveries are owed and have their events.
    const left = await claim(subject.store, START);
    const { deliveries } = claimed;
    const held = [...deliveries, ...left];
    const names = (
      await idsAt(
        subject.store,
        held.map(({ delivery }) => delivery.position),
      )
    ).filter(Boolean);
    expect(names.sort()).toEqual(ids(1250, 'b'));
  });
}

function forgets(subject: Subject): void {
  it('does not take an event for the duplicate of an erased one, and still knows the others', async () => {
    const again = async (at: number) =>
      duplicatesOf(await subject.store.log.append(batch(byTurns(6), { receivedAt: at })));
    const first = await write(subject.store, byTurns(6));
    await erase(subject.store, GONE);
    expect(await again(START + 1)).toEqual([0, 2, 3, 5]);
    expect(await again(START + 2)).toEqual([0, 1, 2, 3, 4, 5]);
    const found = await findAll(subject.store, { userId: GONE });
    expect(Math.min(...found)).toBeGreaterThan(first.at(-1)!);
    expect(await erase(subject.store, GONE)).toBe(2);
    await subject.restart();
    expect(await again(START + 3)).toEqual([0, 2, 3, 5]);
  });

  it('gives a batch the same answer after some of its events were erased, after a crash too', async () => {
    const one = owedBatch(byTurns(6), 'parked');
    const { positions } = await subject.store.log.append(one);
    await erase(subject.store, GONE);
    expect((await subject.store.log.append(one)).positions).toEqual(positions);
    await subject.restart();
    expect((await subject.store.log.append(one)).positions).toEqual(positions);
    expect(await countsOfDestination(subject.store, CRM)).toMatchObject({ owed: 6, erased: 2 });
    expect(await findAll(subject.store, { userId: GONE })).toEqual([]);
  });
}

function redactsAnswers(subject: Subject): void {
  const redact = (answer: string) => answer.replaceAll(GONE, '…');
  const answers = async (holdings: readonly Holding[]) => {
    const histories = await subject.store.history.read(holdings.map(({ delivery }) => delivery.position));
    return histories.map((one) =>
      one?.deliveries.flatMap(({ attempts }) => attempts.map(({ answer }) => answer)),
    );
  };

  it('takes their ids out of what endpoints answered to events of others, retried or dead, and leaves the rest', async () => {
    const holdings = await hold(subject.store, 4);
    const texts = [`knows ${GONE}`, 'knows nobody', `{"batch":["${GONE}","a"]}`, ''];
    await settle(
      subject.store,
      holdings.map((one, n) => answered(n % 2 === 0 ? dead(one) : retried(one, START + MINUTE), texts[n]!)),
    );
    expect(await subject.store.history.redactAnswers(redact)).toBe(2);
    const left = [['knows …'], ['knows nobody'], ['{"batch":["…","a"]}'], ['']];
    expect(await answers(holdings)).toEqual(left);
    expect(await subject.store.history.redactAnswers(redact)).toBe(0);
    await subject.restart();
    expect(await answers(holdings)).toEqual(left);
  });

  it('takes their ids out of notes about what was dropped', async () => {
    const holdings = await hold(subject.store, 3);
    const notes = [`no form for ${GONE}`, 'no form for it', undefined];
    await settle(
      subject.store,
      holdings.map((one, n) => dropped(one, notes[n])),
    );
    expect(await subject.store.history.redactAnswers(redact)).toBe(1);
    const told = await subject.store.history.read(holdings.map(({ delivery }) => delivery.position));
    expect(told.map((one) => one?.deliveries[0]?.note)).toEqual([
      'no form for …',
      'no form for it',
      undefined,
    ]);
    expect(await subject.store.history.redactAnswers(redact)).toBe(0);
  });

  it('goes through 2,000 answers while others are stored and erased, and ends when it is told to', async () => {
    const holdings = await hold(subject.store, 2000);
    const text = (n: number) => `${GONE} ${n} ${'x'.repeat(n % 5 === 0 ? 4000 : 10)}`;
    await settle(
      subject.store,
      holdings.map((one, n) => answered(dead(one), text(n))),
    );
    const stopped = new Error('stopped');
    const stop = () => {
      throw stopped;
    };
    await expect(subject.store.history.redactAnswers(redact, stop)).rejects.toBe(stopped);
    const last = holdings.at(-1)!.delivery.position;
    const [, , later] = await Promise.all([
      subject.store.history.redactAnswers(redact),
      subject.store.log.eraseAt([last]),
      hold(subject.store, 100, 'later').then(async (held) => {
        await settle(
          subject.store,
          held.map((one) => answered(dead(one), 'of another')),
        );
        return held;
      }),
    ]);
    const left = holdings.slice(0, -1).map((_, n) => [text(n).replace(GONE, '…')]);
    expect(await answers(holdings.slice(0, -1))).toEqual(left);
    expect(await answers(later)).toEqual(later.map(() => ['of another']));
  });
}
