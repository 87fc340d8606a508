import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { keyHash } from '../../src/adapters/encoding/hashes.ts';
import {
  openPostgresStore,
  type PostgresStore,
  type PostgresStoreOptions,
} from '../../src/adapters/postgres/store.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { DAY, HOUR, MINUTE } from '../../src/model/time.ts';
import { batch, countsOfSource, duplicatesOf, event, events, SITE } from '../conformance/batches.ts';
import { expectBalanced, START } from '../conformance/harness.ts';
import { eventsOf, FOR_EVER, findAll, keepUp } from '../conformance/upkeep.ts';
import { chanceOf } from '../support/disk-faults/random.ts';
import { connectTo, type Databases, nameOf, type Postgres } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { amountOf, replayOf, SEED } from '../support/runs.ts';
import { seeded } from '../support/seeded.ts';
import { until } from '../support/until.ts';

const SLOTS = 7;
const EVENTS = 40;

/**
 * The keys of events: rows of the open slot at first, then of a closed one with a filter, and in pages when
 * their window is over.
 */
describe.skipIf(!HAS_POSTGRES)('the keys of events', () => {
  const postgres = usePostgres();
  /** Where the database of the test is. */
  let server: Databases;
  let url: string;
  let store: PostgresStore;
  const opened: PostgresStore[] = [];

  beforeEach(async () => {
    server = postgres;
    url = await postgres.makeDatabaseWithTables();
    store = await open('a');
  });
  afterEach(async () => {
    for (const one of opened.splice(0)) await one.stop();
  });

  async function open(node: string, options: Partial<PostgresStoreOptions> = {}): Promise<PostgresStore> {
    const one = await openPostgresStore({ clock: systemClock, url, node, ...options });
    opened.push(one);
    return one;
  }

  /** A server for one test, which crashes, and a node on it. */
  async function startOwn(): Promise<Postgres> {
    const own = await postgres.startServer();
    await store.stop();
    server = own;
    url = await own.makeDatabase();
    store = await open('a');
    return own;
  }

  const ask = (sql: string) =>
    store.database.session((session) => session.query<Record<string, unknown>>(sql));
  const slots = () =>
    ask(`select id, youngest, filter_bytes as filter, is_paged as paged, keys from key_slot order by id`);
  const tables = async () =>
    (await ask(`select relname from pg_class where relname ~ '^key_[0-9]+$' order by oid`)).map(
      ({ relname }) => relname,
    );
  const append = async (of: PostgresStore, ...ids: string[]) =>
    duplicatesOf(await of.log.append(batch(ids.map((id) => event(id)))));
  const appendAt = async (of: PostgresStore, receivedAt: number, ...ids: string[]) =>
    duplicatesOf(
      await of.log.append(
        batch(
          ids.map((id) => event(id)),
          { receivedAt },
        ),
      ),
    );

  /** As if an hour had gone by: the open slot is closed and has its filter, unless its window is over. */
  async function nextSlot(now = START): Promise<void> {
    await ask(`update key_slot set opened = opened - interval '1 hour'`);
    await keepUp(store, now, FOR_EVER);
  }

  async function fillSlots(n = SLOTS): Promise<void> {
    for (let nth = 0; nth < n; nth++) {
      await store.log.append(batch(events(EVENTS, `s${nth}-`)));
      await nextSlot();
    }
  }

  function hashOf(messageId: string): bigint {
    const words = new Uint32Array(2);
    keyHash(store.identity.keySecret)(SITE, messageId, words, 0);
    return BigInt.asIntN(64, (BigInt(words[0]!) << 32n) | BigInt(words[1]!));
  }

  /** Locks the tables of closed slots while `during` runs: a batch that looks into one of them waits. */
  async function whileLocked<Answer>(during: () => Promise<Answer>): Promise<Answer> {
    const client = await connectTo(url);
    try {
      const closed = (await tables()).slice(0, -1).join(', ');
      await client.query(`begin; lock table ${closed} in access exclusive mode`);
      return await during();
    } finally {
      await client.end();
    }
  }

  /** Whether a batch looks into closed slots, which are locked: it waits then, and otherwise it is stored. */
  async function looksIntoSlots(appending: Promise<unknown>): Promise<boolean> {
    let isStored = false;
    const noted = appending.finally(() => {
      isStored = true;
    });
    noted.catch(() => undefined);
    const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%find_keys%'
      and datname = '${nameOf(url)}'`;
    const seen = await until('the batch is stored, or waits for a slot', async () => {
      if (isStored) return 'stored';
      return (await server.administrate(waiting)).length > 0 && 'waiting';
    });
    return seen === 'waiting';
  }

  /** Whether a batch of new events looks into closed slots. */
  async function asksSlots(of: PostgresStore, name: string): Promise<boolean> {
    const { appending, asks } = await whileLocked(async () => {
      const sent = of.log.append(batch(events(EVENTS, name)));
      return { appending: sent, asks: await looksIntoSlots(sent) };
    });
    await appending;
    return asks;
  }

  /** Appends new events until a batch looks into no closed slot. */
  async function haveFilters(of: PostgresStore): Promise<void> {
    let nth = 0;
    await until('a batch looks into no closed slot', async () => {
      nth += 1;
      return !(await asksSlots(of, `new ${of.nodes.process} ${nth} `));
    });
  }

  it('are in a slot for an hour, then in one with a filter, then in pages, and go with their events', async () => {
    await store.log.append(batch(events(300)));
    await keepUp(store, START, FOR_EVER);
    expect(await slots()).toEqual([{ id: 1, youngest: null, filter: null, paged: false, keys: null }]);
    await nextSlot();
    expect(await slots()).toMatchObject([
      { id: 1, youngest: START, filter: expect.any(Number), paged: false },
      { id: 2, youngest: null },
    ]);
    expect(await tables()).toEqual(['key_1', 'key_2']);
    // Nothing has come, so that there is nothing to close.
    await nextSlot();
    expect(await tables()).toEqual(['key_1', 'key_2']);
    await ask('update key_slot set opened = clock_timestamp()');
    await appendAt(store, START + DAY, 'later');
    await keepUp(store, START + DAY - 1, FOR_EVER);
    expect(await tables()).toEqual(['key_1', 'key_2']);
    await keepUp(store, START + DAY, FOR_EVER);
    expect(await slots()).toMatchObject([{ filter: null, paged: true, keys: 300 }, { id: 2 }]);
    expect(await tables()).toEqual(['key_2']);
    expect(await ask('select from key_filter')).toEqual([]);
    expect(await ask('select cardinality(hashes) as n from key_page order by low')).toEqual([
      { n: 128 },
      { n: 128 },
      { n: 44 },
    ]);
    // By them an event is found as long as it is stored.
    expect(await findAll(store, { messageId: 'm7' })).toHaveLength(1);
    await keepUp(store, START + 2 * DAY, { events: DAY, deadLetters: DAY });
    expect(await slots()).toMatchObject([{ id: 2 }]);
    expect(await ask('select from key_page')).toEqual([]);
  });

  it('begin a new slot when the open one is full', async () => {
    await store.log.append(batch(events(3)));
    await ask(`select setval('position', last_value + 10000000) from position`);
    await keepUp(store, START, FOR_EVER);
    expect(await tables()).toEqual(['key_1', 'key_2']);
    expect(await append(store, 'm1', 'm2', 'new')).toEqual([0, 1]);
  });

  it('are known before a node has filters of them, and with filters; new events then ask no slot', async () => {
    await fillSlots();
    const other = await open('b');
    const all = Array.from({ length: SLOTS }, (_, nth) => events(EVENTS, `s${nth}-`)).flat();
    const mixed = all.flatMap((one, nth) => (nth % 3 === 0 ? [one, event(`fresh ${nth}`)] : [one]));
    const known = mixed.flatMap(({ messageId }, index) => (messageId.startsWith('fresh') ? [] : [index]));
    expect(duplicatesOf(await other.log.append(batch(mixed)))).toEqual(known);
    for (const one of [store, other]) {
      await haveFilters(one);
      const answer = await one.log.append(batch(all));
      expect(duplicatesOf(answer)).toEqual(all.map((_, index) => index));
    }
    const late = await whileLocked(async () => {
      const appending = other.log.append(batch([event('s3-7')]));
      await server.isBlocked(url);
      return { appending };
    });
    expect(duplicatesOf(await late.appending)).toEqual([0]);
    // What a duplicate brought has gone from the open slot.
    const [brought] = await ask(
      `select count(*)::int as n from key_${SLOTS + 1} where hash = ${hashOf('s3-7')}`,
    );
    expect(brought).toEqual({ n: 0 });
    await expectBalanced(store);
    expect(await countsOfSource(store, SITE)).toMatchObject({ duplicates: all.length * 3 + 1 });
  });

  it('of tens of thousands of events of another node are all known, and no other one is, also after a restart', async () => {
    const other = await open('b');
    const ofBoth = Array.from({ length: 20 }, (_, nth) => events(2000, `n${nth}-`));
    for (const [nth, some] of ofBoth.entries())
      expect(duplicatesOf(await (nth % 3 === 0 ? store : other).log.append(batch(some)))).toEqual([]);
    const started = await open('c');
    for (const [nth, some] of ofBoth.entries()) {
      const one = [store, other, started][nth % 3]!;
      const mixed = some.flatMap((known) => [known, event(`new ${one.nodes.process} ${known.messageId}`)]);
      const half = mixed.slice(nth % 2 === 0 ? 0 : 2000, nth % 2 === 0 ? 2000 : undefined);
      expect(duplicatesOf(await one.log.append(batch(half)))).toEqual(
        half.flatMap((_, index) => (index % 2 === 0 ? [index] : [])),
      );
    }
    await expectBalanced(store);
  });

  it('are known where the memory is too small for filters of all of them', async () => {
    const lines: unknown[] = [];
    const warn = (facts: object, line: string) => lines.push([line, facts]);
    const logger = { info: () => {}, warn, error: () => {} };
    // Of one slot, and of none.
    const nodes = [await open('b', { filterMemory: 500, logger }), await open('c', { filterMemory: 0 })];
    const all: ReturnType<typeof events> = [];
    for (let nth = 0; nth < SLOTS; nth++) {
      const few = events(EVENTS, `s${nth}-`);
      all.push(...few);
      await nodes[nth % 2]!.log.append(batch(few));
      await nextSlot();
      for (const one of nodes) {
        const answer = await one.log.append(batch([...all, event(`${nth} ${one.nodes.process}`)]));
        expect(duplicatesOf(answer)).toEqual(all.map((_, index) => index));
      }
    }
    let nth = 0;
    await until('the log says that the memory is short', async () => {
      await append(nodes[0]!, `more ${nth++}`);
      return lines.length > 0;
    });
    expect(lines).toEqual([['dedupe.memory_short', { memory: 500, needed: expect.any(Number) }]]);
  });

  it.each([
    ['10 minutes', 10 * MINUTE],
    ['36 hours', 36 * HOUR],
    ['7 days', 7 * DAY],
  ])('count to the millisecond of a window of %s, over slots as within one', async (_, dedupeWindow) => {
    const other = await open('b');
    const longest = { ...FOR_EVER, messageIds: Math.max(DAY, dedupeWindow) };
    const nodes = [store, other];
    const send = async (nth: number, at: number, ...ids: string[]) =>
      duplicatesOf(
        await nodes[nth % 2]!.log.append(
          batch(
            ids.map((id) => ({ ...event(id), dedupeWindow })),
            { receivedAt: at },
          ),
        ),
      );
    const step = dedupeWindow / 5;
    for (let nth = 0; nth < 5; nth++) {
      expect(await send(nth, START + nth * step, `at ${nth}`)).toEqual([]);
      await ask(`update key_slot set opened = opened - interval '1 hour'`);
      await keepUp(store, START + nth * step, longest);
    }
    expect(await tables()).toHaveLength(6);
    // At the last millisecond, and at the first one behind it.
    for (let nth = 0; nth < 5; nth++) {
      const end = START + nth * step + dedupeWindow;
      await keepUp(store, end - 1, longest);
      expect(await send(nth + 1, end - 1, `at ${nth}`, `near ${nth}`)).toEqual([0]);
      expect(await send(nth, end, `at ${nth}`)).toEqual([]);
      expect(await send(nth + 1, end + dedupeWindow - 1, `at ${nth}`)).toEqual([0]);
    }
  });

  it('of a batch in doubt that was not stored are brought by those that share them', async () => {
    await ask(`create function fail() returns trigger language plpgsql as $$ begin
        perform pg_advisory_lock_shared(77); perform pg_advisory_unlock_shared(77);
        perform pg_terminate_backend(pg_backend_pid()); return null; end $$;
      create constraint trigger fail after insert on batch deferrable initially deferred
        for each row when (new.id = 'doubtful') execute function fail()`);
    const holder = await connectTo(url);
    await holder.query('select pg_advisory_lock(77)');
    const doubtful = store.log.append(batch([event('x'), event('y')], { id: 'doubtful' }));
    await server.isBlocked(url);
    const others = [batch([event('y'), event('z')]), batch([event('x'), event('z')])].map((one) =>
      store.log.append(one),
    );
    await holder.query(`select pg_advisory_unlock(77); drop trigger fail on batch`).catch(() => undefined);
    await holder.end();
    const answers = await Promise.all([doubtful, ...others]);
    const stored = answers.flatMap(({ positions }) => positions).filter((one) => one !== undefined);
    expect(stored).toHaveLength(3);
    for (const one of [store, await open('b')]) expect(await append(one, 'x', 'y', 'z')).toEqual([0, 1, 2]);
  });

  it('of two ids with one hash are both stored, and both known again, in one slot, over slots and in pages', async () => {
    const other = await open('b');
    const share = async (id: string, as: string) => {
      for (const table of await tables())
        await ask(`update ${table} set hash = ${hashOf(as)} where hash = ${hashOf(id)}`);
    };
    await append(store, 'one');
    await share('one', 'two');
    expect(await append(other, 'two', 'two', 'three')).toEqual([1]);
    for (const node of [store, other]) expect(await append(node, 'two')).toEqual([0]);
    expect(await ask(`select nth from key_1 where hash = ${hashOf('two')} order by nth`)).toEqual([
      { nth: 0 },
      { nth: 1 },
    ]);
    // One of them is in the slot before.
    await share('three', 'four');
    await nextSlot();
    expect(await append(store, 'four')).toEqual([]);
    expect(await append(other, 'four', 'two', 'new')).toEqual([0, 1]);
    await nextSlot();
    expect(await append(other, 'four', 'two', 'new')).toEqual([0, 1, 2]);
    await keepUp(store, START + DAY, FOR_EVER);
    expect(await slots()).toMatchObject([{ paged: true }, { paged: true }, { paged: false }]);
    for (const id of ['two', 'four']) expect(await findAll(store, { messageId: id })).toHaveLength(1);
    // A node whose window is longer than that of upkeep still knows them.
    const long = await open('c', { dedupeWindow: 2 * DAY });
    expect(await appendAt(long, START + DAY, 'two', 'four', 'else')).toEqual([0, 1]);
  });

  it('of many events with one hash, of several nodes at once, are stored beside each other, and each is known again', async () => {
    const nodes = [store, await open('b'), await open('c')];
    const ids = Array.from({ length: 12 }, (_, nth) => `id ${nth}`);
    // Each of them meets a key with its hash that is of another event.
    await append(store, 'first');
    const [first] = await ask('select position from key_1');
    await ask(`insert into key_1(slot, hash, position, nth) select 1, h, ${first!['position']}, 0
      from unnest('{${ids.map(hashOf).join(',')}}'::bigint[]) h`);
    const answers = await Promise.all(
      nodes.flatMap((one) => [append(one, ...ids), append(one, ...ids.toReversed())]),
    );
    expect(answers.flat()).toHaveLength(5 * ids.length);
    for (const one of nodes) expect(await append(one, ...ids)).toHaveLength(ids.length);
    expect(await ask('select count(*)::int as n from key_1 where nth = 1')).toEqual([{ n: ids.length }]);
  });

  it('make a slot longer while an append stands still in it, which stops nobody, and are looked for in it afterwards', async () => {
    const other = await open('b');
    await append(store, 'before');
    const held = await connectTo(url);
    // As a node that stands still in the middle of an append.
    await held.query(`begin; select take_batch('held', '{${hashOf('shared')}}', true)`);
    await ask(`update key_slot set opened = opened - interval '1 hour'`);
    await keepUp(store, START, FOR_EVER);
    expect(await slots()).toHaveLength(1);
    expect(await append(other, 'during', 'before')).toEqual([1]);
    // Who brings the same key waits for it, and nobody else does.
    const waiting = append(other, 'shared');
    await server.isBlocked(url);
    expect(await append(store, 'too')).toEqual([]);
    await held.query('rollback');
    await held.end();
    expect(await waiting).toEqual([]);
    await until('the next slot is open', async () => {
      await keepUp(store, START, FOR_EVER);
      return (await slots()).length === 2;
    });
    for (const one of [store, other])
      expect(await append(one, 'before', 'during', 'too', 'shared')).toEqual([0, 1, 2, 3]);
  });

  it(`are stored once each by two nodes over the change of slots, with clocks five seconds apart and a transaction held open (${replayOf(SEED)})`, async () => {
    const other = await open('b');
    const random = seeded(SEED);
    const rounds = amountOf({ gate: 6, long: 400 });
    const held = await connectTo(url);
    let sent = 0;
    for (let round = 0; round < rounds; round++) {
      await ask(`update key_slot set opened = opened - interval '1 hour'`);
      const isHeld = round % 3 === 0;
      if (isHeld) await held.query(`begin; select take_batch('held ${round}', '{}', true)`);
      const upkeep = keepUp(store, START, FOR_EVER);
      // 25 ids, each in one batch of either node.
      const halves = await Promise.all(
        Array.from({ length: 5 }, async (_, nth) => {
          const ids = Array.from({ length: 5 }, (_one, at) => `${round} ${nth} ${at}`);
          sent += ids.length;
          const [one, two] = random() < 0.5 ? [store, other] : [other, store];
          return await Promise.all([
            appendAt(one, START, ...ids),
            appendAt(two, START + 5000, ...ids.toReversed()),
          ]);
        }),
      );
      expect(halves.flat(2)).toHaveLength(25);
      if (isHeld) await held.query('rollback');
      await upkeep;
      await until('the next slot is open', async () => {
        await keepUp(other, START, FOR_EVER);
        return (await slots()).length === round + 2;
      });
    }
    await held.end();
    expect(await countsOfSource(store, SITE)).toMatchObject({ accepted: sent, duplicates: sent });
  });

  it('of erased events count no more, in open and closed slots and in pages', async () => {
    const other = await open('b');
    await store.log.append(batch(eventsOf('gone', 5)));
    await store.log.append(batch(eventsOf('stays', 5)));
    await append(other, 'knows all');
    expect((await store.log.erase({ userIds: ['gone'] })).events).toBe(5);
    expect(await ask('select count(*)::int as n from key_1')).toEqual([{ n: 6 }]);
    expect(
      duplicatesOf(await other.log.append(batch([...eventsOf('gone', 3), ...eventsOf('stays', 2)]))),
    ).toEqual([3, 4]);
    expect(duplicatesOf(await store.log.append(batch(eventsOf('gone', 5))))).toEqual([0, 1, 2]);
    await nextSlot();
    expect((await other.log.erase({ userIds: ['gone'] })).events).toBe(5);
    expect(await ask('select count(*)::int as n from key_1')).toEqual([{ n: 6 }]);
    for (const one of [store, other]) {
      await haveFilters(one);
      expect(duplicatesOf(await one.log.append(batch(eventsOf('stays', 5))))).toEqual([0, 1, 2, 3, 4]);
    }
    expect(duplicatesOf(await store.log.append(batch(eventsOf('gone', 5))))).toEqual([]);
    await nextSlot();
    await keepUp(store, START + DAY, FOR_EVER);
    expect((await other.log.erase({ userIds: ['gone'] })).events).toBe(5);
    expect(await ask('select sum((w = 0)::int)::int as n from key_page, unnest(hashes) w')).toEqual([
      { n: 5 },
    ]);
    expect(await findAll(store, { messageId: 'gone1' })).toEqual([]);
    expect(await findAll(store, { messageId: 'stays1' })).toHaveLength(1);
  });

  it('of an erased event stay in the way of nobody where others with the same hash follow it', async () => {
    const at = (ms: number, userId: string) =>
      store.log.append(
        batch([{ ...event('same', SITE, { userId }), dedupeWindow: 10 }], { receivedAt: START + ms }),
      );
    expect(duplicatesOf(await at(0, 'gone'))).toEqual([]);
    expect(duplicatesOf(await at(10, 'stays'))).toEqual([]);
    expect((await store.log.erase({ userIds: ['gone'] })).events).toBe(1);
    expect(duplicatesOf(await at(19, 'x'))).toEqual([0]);
    expect((await store.log.erase({ userIds: ['stays'] })).events).toBe(1);
    expect(await ask('select from key_1')).toEqual([]);
    expect(duplicatesOf(await at(19, 'x'))).toEqual([]);
    expect(duplicatesOf(await at(20, 'x'))).toEqual([0]);
  });

  it('of an event that is erased while another is being compared with it leave no gap behind', async () => {
    const at = (ms: number) =>
      store.log.append(batch([{ ...event('same'), dedupeWindow: 10 }], { receivedAt: START + ms }));
    await at(0);
    const holder = await connectTo(url);
    await holder.query('begin; lock table chunk in access exclusive mode');
    const appending = at(10);
    // It has found the key, and waits for the event.
    await server.isBlocked(url);
    await ask(`select erase_keys('{${hashOf('same')}}', (select array_agg(position) from key_1))`);
    expect(await ask('select from key_1 where position >= 0')).toEqual([]);
    await holder.query('commit');
    await holder.end();
    expect(duplicatesOf(await appending)).toEqual([]);
    expect(await ask('select nth from key_1')).toEqual([{ nth: 0 }]);
    expect(duplicatesOf(await at(19))).toEqual([0]);
  });

  it('may be one key many times, each past the window of the one before', async () => {
    const other = await open('b');
    const TIMES = amountOf({ gate: 20, long: 200 });
    const at = (one: PostgresStore, ms: number) =>
      one.log.append(batch([{ ...event('same'), dedupeWindow: 10 }], { receivedAt: START + ms }));
    for (let nth = 0; nth < TIMES; nth++) {
      const [one, another] = nth % 2 === 0 ? [store, other] : [other, store];
      expect(duplicatesOf(await at(one, nth * 10))).toEqual([]);
      expect(duplicatesOf(await at(another, nth * 10 + 9))).toEqual([0]);
      if (nth === TIMES / 2) await nextSlot();
    }
    await nextSlot();
    // The clock was set back: the events of its future are within any window.
    expect(duplicatesOf(await at(other, -1000))).toEqual([0]);
  });

  it(`are stored once each while connections break, slots close and the server crashes (${replayOf(SEED)})`, async () => {
    const own = await startOwn();
    const nodes = [store, await open('b'), await open('c')];
    const chance = chanceOf(SEED);
    const ids = Array.from({ length: 500 }, (_, nth) => `id ${nth}`);
    let isOver = false;
    let answered = 0;
    const sending = nodes.flatMap((one) =>
      Array.from({ length: 4 }, async () => {
        while (!isOver) {
          const some = batch(Array.from({ length: 20 }, () => event(chance.one(ids))));
          await one.log.append(some).then(
            () => answered++,
            () => undefined,
          );
        }
      }),
    );
    const tries = (what: () => Promise<unknown>) => what().catch(() => undefined);
    const someMore = async () => {
      const before = answered;
      await until('some more batches are stored', () => answered > before + 4);
    };
    const clients = `select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() order by pid`;
    for (let nth = 0; nth < amountOf({ gate: 6, long: 100 }); nth++) {
      await someMore();
      if (nth % 8 === 3) await own.crash();
      if (nth % 8 === 3) await own.restart();
      if (nth % 5 === 4) await tries(nextSlot);
      for (const { pid } of await own.administrate(clients))
        if (chance.happens(0.2)) await own.administrate(`select pg_terminate_backend(${pid})`);
    }
    await someMore();
    isOver = true;
    await Promise.all(sending);
    for (const one of nodes)
      await until('all are taken', () => one.log.append(batch(ids.map((id) => event(id)))));
    const fresh = await open('d');
    expect(await append(fresh, ...ids)).toHaveLength(ids.length);
    expect(await countsOfSource(fresh, SITE)).toMatchObject({ accepted: ids.length });
  });

  describe('after a failover', () => {
    let primary: Postgres;
    let standby: Postgres;
    let idle: PostgresStore;
    let busy: PostgresStore;
    let kept: ReturnType<typeof events>;
    let at: (...servers: readonly Postgres[]) => string;

    beforeEach(async () => {
      primary = await startOwn();
      const name = nameOf(url);
      standby = await primary.makeStandby();
      at = (...servers) =>
        `postgres:///${name}?host=${servers.map(({ folder }) => encodeURIComponent(folder)).join(',')}&user=millrace`;
      await store.stop();
      url = at(primary, standby);
      [store, idle, busy] = [await open('a'), await open('b'), await open('c')];
      url = at(primary);
      await fillSlots(2);
      await store.log.append(batch(events(EVENTS, 'kept-')));
      kept = ['s0-', 's1-', 'kept-'].flatMap((prefix) => events(EVENTS, prefix));
      await bothKnow();
    });

    async function bothKnow(): Promise<void> {
      for (const one of [idle, busy])
        expect(duplicatesOf(await one.log.append(batch(kept)))).toHaveLength(3 * EVENTS);
    }

    /** From now on the standby follows no more, and nobody waits for it. */
    async function detach(): Promise<void> {
      await standby.administrate(`alter system set primary_conninfo = ''`);
      await standby.administrate('select pg_reload_conf()');
      await primary.administrate(`alter system set synchronous_standby_names = ''`);
      await primary.administrate('select pg_reload_conf()');
      const followers = () => primary.administrate('select from pg_stat_replication');
      await until('the standby follows no more', async () => (await followers()).length === 0);
    }

    async function failOver(): Promise<void> {
      await primary.crash();
      await standby.promote();
      server = standby;
      url = at(standby);
    }

    /** The first answer that is none of a node without a database or a lease. */
    const answered = <Answer>(ask: () => Promise<Answer>) =>
      until('the node has found the new primary', ask, { pause: 100 });

    const duplicatesIn = async (one: PostgresStore, some: ReturnType<typeof events>) =>
      duplicatesOf(await answered(() => one.log.append(batch(some))));

    it('that has lost slots, filters and batches are known, although nodes have seen them', async () => {
      await detach();
      await nextSlot();
      // More numbers than the sequence has written ahead: some of them are given anew.
      for (const lost of events(2 * EVENTS, 'lost-')) await store.log.append(batch([lost]));
      await nextSlot();
      for (const one of [idle, busy]) await haveFilters(one);
      expect(await slots()).toHaveLength(5);
      await failOver();
      expect(await answered(slots)).toHaveLength(3);
      // What was lost comes again, before the idle node looks. Slots get their numbers anew.
      expect(await duplicatesIn(busy, events(EVENTS, 'lost-'))).toEqual([]);
      await answered(nextSlot);
      expect(await duplicatesIn(store, events(EVENTS, 'new-'))).toEqual([]);
      await nextSlot();
      expect(await duplicatesIn(busy, events(EVENTS, 'last-'))).toEqual([]);
      const all = [...kept, ...['lost-', 'new-', 'last-'].flatMap((prefix) => events(EVENTS, prefix))];
      for (const one of [idle, busy, store]) {
        expect(await duplicatesIn(one, all)).toHaveLength(6 * EVENTS);
        await haveFilters(one);
        expect(await duplicatesIn(one, all)).toHaveLength(6 * EVENTS);
      }
    });
  });

  it('are known beyond the memory for filters, whichever node brought them and whichever is asked', async () => {
    const nodes = [await open('b', { filterMemory: 0 }), await open('c', { filterMemory: 3000 }), store];
    const stored: string[] = [];
    const random = seeded(7);
    const pick = <One>(from: readonly One[]) => from[Math.floor(random() * from.length)]!;
    for (let slot = 0; slot < 12; slot++) {
      for (let nth = 0; nth < 6; nth++) {
        // New ones, ids of any slot before, and ids that come twice.
        const fresh = Array.from(
          { length: 1 + Math.floor(random() * 200) },
          (_, at) => `${slot} ${nth} ${at}`,
        );
        const again = stored.length === 0 ? [] : Array.from({ length: 50 }, () => pick(stored));
        const ids = [...fresh, ...again, ...fresh.slice(0, 3)];
        const order = ids.map((id) => ({ id, at: random() })).sort((a, b) => a.at - b.at);
        const known = new Set(stored);
        const expected = order.flatMap(({ id }, index) => {
          if (known.has(id)) return [index];
          known.add(id);
          return [];
        });
        expect(await append(pick(nodes), ...order.map(({ id }) => id))).toEqual(expected);
        stored.push(...fresh);
      }
      if (slot % 3 !== 2) await nextSlot();
    }
    expect(await countsOfSource(store, SITE)).toMatchObject({ accepted: stored.length });
  });
});
