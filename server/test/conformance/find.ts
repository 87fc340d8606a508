import { describe, expect, it } from 'vitest';
import type { Event, Position } from '../../src/model/event.ts';
import type { JsonObject } from '../../src/model/json.ts';
import type { Monotonic } from '../../src/model/time.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import type { EventPrefilter, LogQuery, NewEvent } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import { CRM, event, events, owedBatch, positionsOf, SITE, WAREHOUSE } from './batches.ts';
import type { Subject } from './harness.ts';
import { START } from './harness.ts';
import { dead, delivered, type Holding, hold, retried, settle } from './holdings.ts';
import { eventsOf, FOR_EVER, findAll, keepUp, write, writeSingly } from './upkeep.ts';

/** ports/event-log.ts: `find`. */
export function findConformance(subject: Subject): void {
  describe('find', () => {
    findsBy(subject);
    findsStill(subject);
    findsLike(subject);
  });
}

/** Sources as an operator would write them; resolves to their ids. An adapter may search only these. */
export async function twoSources(store: Store): Promise<readonly [number, number]> {
  const source = { writeKeys: [], enabled: true, mode: 'standard', whenDisabled: 'refuse' } as const;
  const names = ['website', 'shop'].map((name) => ({ ...source, name }));
  const { sources } = await store.settings.apply({ sources: names, destinations: [] });
  const [one, other] = sources.map(({ id }) => id);
  return [one!, other!];
}

function findsBy(subject: Subject): void {
  it('finds every event with a messageId, of all sources and times, the newest first', async () => {
    const { store } = subject;
    const [website, shop] = await twoSources(store);
    const [first] = await write(store, [event('a', website), event('b', website)]);
    const [, second] = await write(store, [event('A', shop), event('a', shop)], START + HOUR);
    const [third] = await write(store, [event('a', website)], START + DAY);
    expect(await findAll(store, { messageId: 'a' })).toEqual([third, second, first]);
    expect(await findAll(store, { messageId: 'nobody sent this' })).toEqual([]);
  });

  it('finds every event of a user in many batches, and nothing of users that look alike', async () => {
    const { store } = subject;
    const alike = ['U1', 'u1 ', 'u', 'u10', 'u1\ud800', 'u1\ud801', 'ü1'];
    const found: Position[] = [];
    for (let n = 0; n < 3; n++) {
      const others = alike.flatMap((userId) => eventsOf(userId, 1, `${userId}-${n}-`));
      const [, mine] = await write(store, [others[0]!, ...eventsOf('u1', 1, `m${n}-`), ...others.slice(1)]);
      const many = await write(store, [...eventsOf('u1', 1000, `f${n}-`), ...eventsOf('u2', 1500, `g${n}-`)]);
      found.push(mine!, ...many.slice(0, 1000));
    }
    expect(await findAll(store, { userId: 'u1' })).toEqual(found.reverse());
    expect(await findAll(store, { userId: 'u1\ud801' })).toHaveLength(3);
    expect(await findAll(store, { userId: 'u3' })).toEqual([]);
  });

  it('finds by the time of arrival, the first millisecond included and the last one not', async () => {
    const { store } = subject;
    const times = [START, START + 1, START + 2, START + HOUR, START + 2 * HOUR];
    const at = new Map<Monotonic, readonly Position[]>();
    // The client's own timestamp plays no part.
    const stamped = { timestamp: new Date(START + 2).toISOString() };
    for (const time of times) {
      at.set(time, await write(store, [event(`a${time}`, SITE, stamped), event(`b${time}`)], time));
    }
    const arrived = (...when: Monotonic[]) => when.flatMap((time) => at.get(time)!).reverse();
    const between = (from: Monotonic, to: Monotonic) => findAll(store, { from, to });
    expect(await between(START + 1, START + 2)).toEqual(arrived(START + 1));
    expect(await between(START, START + 2)).toEqual(arrived(START, START + 1));
    expect(await between(START + 2, START + HOUR + 1)).toEqual(arrived(START + 2, START + HOUR));
    expect(await between(START + 1, START + 1)).toEqual([]);
    expect(await between(0, START + DAY)).toEqual(arrived(...times));
  });

  it('finds only below the position it is asked to go on from', async () => {
    const { store } = subject;
    const [website, shop] = await twoSources(store);
    const [first] = await write(store, [event('a', website)]);
    const [, second, third] = await write(store, [event('b', website), event('a', shop), event('c', shop)]);
    const queries: LogQuery[] = [
      { messageId: 'a' },
      { userId: 'u1' },
      { userIds: ['u0', 'u1'], anonymousIds: ['u1'] },
      { from: START, to: START + 1 },
    ];
    for (const query of queries) {
      const all = await findAll(store, query);
      const isBelow = (limit: Position) => all.filter((position) => position < limit);
      for (const below of [first!, second!, third!, third! + 1]) {
        expect(await findAll(store, query, below), JSON.stringify(query)).toEqual(isBelow(below));
      }
    }
  });
}

/** All events that match a query in any spelling; an adapter may find more. */
function findsLike(subject: Subject): void {
  const names = ['Order Placed', 'Order "x" \\ \u00fc \u2028', 'Order\ud83d\ude00', 'Refund', 'event'];
  const kinds = names.flatMap((name, n) => [
    { type: 'track', event: name, anonymousId: `a${n % 3}`, properties: { type: 'page', name: 'Home' } },
    {
      type: 'page',
      event: undefined,
      name,
      anonymousId: name,
      context: { anonymousId: 'a1', type: 'track' },
    },
    { type: 'identify', event: undefined, traits: { event: 'Refund', anonymousId: '"a2"' } },
  ]);
  const likes: [EventPrefilter, (one: Event) => boolean][] = [
    [{ type: 'page' }, ({ type }) => type === 'page'],
    [{ type: 'alias' }, () => false],
    ...names.map((id): [EventPrefilter, (one: Event) => boolean] => [
      { anonymousId: id },
      ({ anonymousId }) => anonymousId === id,
    ]),
    [
      { anonymousId: 'a1', type: 'track' },
      ({ anonymousId, type }) => anonymousId === 'a1' && type === 'track',
    ],
    ...names.map((text): [EventPrefilter, (one: Event) => boolean] => [
      { event: text },
      ({ event: name, name: title }) => (name ?? title) === text,
    ]),
    ...['Order*', 'Order\ud83d*', 'Order "x" \\*', '*'].map(
      (text): [EventPrefilter, (one: Event) => boolean] => [
        { event: text },
        ({ event: name, name: title }) => (name ?? title)?.startsWith(text.slice(0, -1)) === true,
      ],
    ),
  ];

  it('finds every event that is like a query, before and after upkeep', async () => {
    const { store } = subject;
    const [website, shop] = await twoSources(store);
    const of = Array.from({ length: 300 }, (_, n) =>
      event(`l${n}`, n % 2 === 0 ? website : shop, { ...kinds[n % kinds.length]! } as JsonObject),
    );
    await write(store, of.slice(0, 200));
    await writeSingly(store, of.slice(200), START + MINUTE);
    const range = { from: START, to: START + HOUR };
    const look = async () => {
      const all = await findAll(store, range);
      const stored = (await store.log.read(all)).map((one) => one!);
      for (const [like, isLike] of likes) {
        for (const source of [undefined, shop]) {
          const whole = source === undefined ? like : { ...like, source };
          const isIt = (nth: number) =>
            isLike(stored[nth]!.event) && (source ?? stored[nth]!.source) === stored[nth]!.source;
          const expected = all.filter((_, nth) => isIt(nth));
          const found = new Set(await findAll(store, { ...range, like: whole }));
          expect(
            expected.filter((position) => !found.has(position)),
            JSON.stringify(whole),
          ).toEqual([]);
        }
      }
    };
    await look();
    await keepUp(store, START + DAY, FOR_EVER);
    await look();
  });

  it('finds every event that is or was owed to somebody, and every one that was delivered', async () => {
    const { store } = subject;
    const [one, two, three, four] = await hold(store, 4);
    const [parked] = positionsOf(await store.log.append(owedBatch(events(1, 'p'), 'parked')));
    await write(store, events(50, 'nobody'));
    const [again] = await write(store, events(1, 'again'));
    const slice = { origin: 'r1', destinations: [WAREHOUSE], from: 0, to: 1, now: START };
    await store.queue.enqueue({ ...slice, positions: [again!] });
    await settle(store, [delivered(one!), dead(two!), retried(three!, START + DAY)]);
    const range = { from: START, to: START + HOUR };
    const expectFoundIn = async (like: EventPrefilter, expected: readonly Position[]) => {
      const found = new Set(await findAll(store, { ...range, like }));
      expect(
        expected.filter((position) => !found.has(position)),
        JSON.stringify(like),
      ).toEqual([]);
    };
    const at = ({ delivery }: Holding) => delivery.position;
    await expectFoundIn({ owedTo: [CRM] }, [at(one!), at(two!), at(three!), at(four!), parked!]);
    await expectFoundIn({ owedTo: [CRM], isDelivered: true }, [at(one!)]);
    await expectFoundIn({ owedTo: [WAREHOUSE] }, [again!]);
    const claimed = await store.queue.claim(WAREHOUSE, 10, START);
    await settle(
      store,
      claimed.deliveries.map((each) => delivered({ ...each, destination: WAREHOUSE })),
    );
    await expectFoundIn({ owedTo: [WAREHOUSE], isDelivered: true }, [again!]);
    await expectFoundIn({ owedTo: [CRM, WAREHOUSE], isDelivered: true }, [again!, at(one!)]);
  });

  it('says how far it has looked', async () => {
    const { store } = subject;
    const positions = await write(store, events(700));
    await writeSingly(store, events(90, 'single'));
    let looked = 0;
    let below: Position | undefined;
    do {
      const found = await store.log.find({ from: 0, to: START, like: { type: 'alias' } }, below);
      looked += found.scanned;
      below = found.next;
      if (below !== undefined) expect(found.reachedAt).toBe(START);
    } while (below !== undefined);
    expect(looked).toBeGreaterThanOrEqual(790);
    expect(looked).toBeLessThanOrEqual(790 + positions[0]!);
  });
}

/** An event with the facts it can be found by. */
interface Written {
  readonly position: Position;
  readonly one: NewEvent;
  readonly at: Monotonic;
}

function findsStill(subject: Subject): void {
  it('finds the same in hundreds of small batches and large ones, before and after upkeep and crashes', async () => {
    const [website, shop] = await twoSources(subject.store);
    const sourceOf = (n: number) => (n % 3 === 0 ? shop : website);
    const written: Written[] = [];
    const note = (of: readonly NewEvent[], at: Monotonic, positions: readonly Position[]) =>
      positions.forEach((position, index) => {
        written.push({ position, one: of[index]!, at });
      });
    for (let round = 0; round < 6; round++) {
      const at = START + round * MINUTE;
      const of = Array.from({ length: 60 }, (_, n) =>
        event(`r${round}-${n}`, sourceOf(n), { userId: `u${n % 7}` }),
      );
      note(of, at, await writeSingly(subject.store, of, at));
      const many = eventsOf(`u${round % 7}`, 700, `many${round}-`);
      note(many, at + SECOND, await write(subject.store, many, at + SECOND));
    }
    await expectFound(subject.store, written);
    await keepUp(subject.store, START + HOUR, FOR_EVER);
    await expectFound(subject.store, written);
    await subject.restart();
    await expectFound(subject.store, written);
    const late = events(3, 'late', website);
    note(late, START + 2 * HOUR, await write(subject.store, late, START + 2 * HOUR));
    await keepUp(subject.store, START + DAY, FOR_EVER);
    await expectFound(subject.store, written);
  });

  it('finds by time what arrived while the clock was set forward and back, after upkeep too', async () => {
    const { store } = subject;
    const hours = [1, 5, 2, 0, 3];
    const positions: Position[] = [];
    for (const hour of hours)
      positions.push(...(await write(store, events(1, `h${positions.length}`), START + hour * HOUR)));
    await writeSingly(store, events(70, 'later'), START + 4 * HOUR);
    const at = (hour: number) => positions.filter((_, index) => hours[index] === hour).reverse();
    const look = async () => {
      for (const hour of hours) {
        const from = START + hour * HOUR;
        expect(await findAll(store, { from, to: from + HOUR }), `hour ${hour}`).toEqual(at(hour));
      }
    };
    await look();
    await keepUp(store, START + DAY, FOR_EVER);
    await look();
  });
}

/** Compares the answers with a full scan of all events written. */
async function expectFound(store: Store, written: readonly Written[]): Promise<void> {
  const where = (is: (one: Written) => boolean) =>
    written
      .filter(is)
      .map(({ position }) => position)
      .reverse();
  const last = written.at(-1)!;
  for (const messageId of ['r0-0', 'r2-31', 'many0-699', 'many5-0', last.one.messageId]) {
    const expected = where(({ one }) => one.messageId === messageId);
    expect(await findAll(store, { messageId }), messageId).toEqual(expected);
  }
  for (const userId of ['u0', 'u5', 'u6']) {
    const expected = where(({ one }) => one.userId === userId);
    expect(await findAll(store, { userId }), userId).toEqual(expected);
  }
  for (const [from, to] of [
    [START, START + 1],
    [START + MINUTE, START + 3 * MINUTE + 1],
    [0, START + DAY],
  ] as const) {
    expect(await findAll(store, { from, to })).toEqual(where(({ at }) => at >= from && at < to));
  }
}
