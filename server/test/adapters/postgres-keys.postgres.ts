import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LOCKS } from '../../src/adapters/postgres/schema.ts';
import {
  openPostgresStore,
  type PostgresStore,
  type PostgresStoreOptions,
} from '../../src/adapters/postgres/store.ts';
import { DAY } from '../../src/model/time.ts';
import { batch, countsOfSource, duplicatesOf, event, events, SITE } from '../conformance/batches.ts';
import { expectBalanced, START } from '../conformance/harness.ts';
import { eventsOf, FOR_EVER, keepUp } from '../conformance/upkeep.ts';
import { chanceOf } from '../support/disk-faults/random.ts';
import { connectTo, type Databases, nameOf, type Postgres } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { amountOf, replayOf, SEED } from '../support/runs.ts';
import { seeded } from '../support/seeded.ts';
import { until } from '../support/until.ts';

const RUNS = 7;
const EVENTS = 40;

/** The keys of events: in rows of batches at first, and in pages when their run is full. */
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
    const one = await openPostgresStore({ url, node, ...options });
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
  const runs = () => ask('select id, slot, is_converted, keys from key_run order by id');
  const append = async (of: PostgresStore, ...ids: string[]) =>
    duplicatesOf(await of.log.append(batch(ids.map((id) => event(id)))));

  /** As if a million events had come, whose positions are gaps, and some seconds had gone by. */
  async function fill(): Promise<void> {
    await ask(`select setval('position', last_value + 1000000) from position`);
    await keepUp(store, START, FOR_EVER);
    await ask(`update key_run set opened = opened - interval '1 minute'`);
    await keepUp(store, START, FOR_EVER);
  }

  async function fillRuns(n = RUNS): Promise<void> {
    for (let nth = 0; nth < n; nth++) {
      await store.log.append(batch(events(EVENTS, `s${nth}-`)));
      await fill();
    }
  }

  /** Locks the pages while `during` runs: a batch that looks into one of them waits. */
  async function whileLocked<Answer>(during: () => Promise<Answer>): Promise<Answer> {
    const client = await connectTo(url);
    try {
      await client.query('begin; lock table key_page in access exclusive mode');
      return await during();
    } finally {
      await client.end();
    }
  }

  /** Whether a batch looks into pages, which are locked: it waits then, and otherwise it is stored. */
  async function looksIntoPages(appending: Promise<unknown>): Promise<boolean> {
    let isStored = false;
    const noted = appending.finally(() => {
      isStored = true;
    });
    noted.catch(() => undefined);
    // A node that makes its filters reads pages too, by another statement.
    const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and query like 'select k.hash::text%'
      and datname = '${nameOf(url)}'`;
    const seen = await until('the batch is stored, or waits for a page', async () => {
      if (isStored) return 'stored';
      return (await server.administrate(waiting)).length > 0 && 'waiting';
    });
    return seen === 'waiting';
  }

  /** Whether a batch of new events looks into pages. */
  async function asksPages(of: PostgresStore, name: string): Promise<boolean> {
    const { appending, asks } = await whileLocked(async () => {
      const sent = of.log.append(batch(events(EVENTS, name)));
      return { appending: sent, asks: await looksIntoPages(sent) };
    });
    await appending;
    return asks;
  }

  /** Appends new events until a batch looks into no page. */
  async function haveFilters(of: PostgresStore): Promise<void> {
    let nth = 0;
    await until('a batch looks into no page', async () => {
      nth += 1;
      return !(await asksPages(of, `new ${of.nodes.process} ${nth} `));
    });
  }

  /** Appends a known event until a page is read for it: its filter is there, and no other memory of it. Holds the pages locked. */
  async function knowsByFilter(of: PostgresStore, id: string): Promise<void> {
    const { appending } = await whileLocked(() =>
      until('a known event is looked for in a page', async () => {
        const sent = append(of, id);
        return (await looksIntoPages(sent)) && { appending: sent };
      }),
    );
    expect(await appending).toEqual([0]);
  }

  it('are in one run after the other, and in pages when the next one is some seconds old', async () => {
    await store.log.append(batch(events(300)));
    await ask(`select setval('position', last_value + 900000) from position`);
    await keepUp(store, START, FOR_EVER);
    expect(await runs()).toMatchObject([{ keys: 0 }, { id: 2, slot: 1, is_converted: false }]);
    await ask(`select setval('position', last_value + 100000) from position`);
    await keepUp(store, START, FOR_EVER);
    expect(await runs()).toMatchObject([{ id: 1 }, { is_converted: false }, { id: 3, slot: 1 }]);
    await ask(`update key_run set opened = opened - interval '4 seconds'`);
    await keepUp(store, START, FOR_EVER);
    expect(await runs()).toMatchObject([
      { id: 1 },
      { is_converted: true, keys: 300 },
      { is_converted: false },
    ]);
    expect(await ask('select cardinality(hashes) as n from key_page order by low')).toEqual([
      { n: 128 },
      { n: 128 },
      { n: 44 },
    ]);
    // The row with which the open run began.
    expect(await ask('select run, cardinality(hashes) as n from key_log')).toEqual([{ run: 3, n: 0 }]);
  });

  it('are known before a node has filters of them, and with filters; new events then ask no page', async () => {
    await fillRuns();
    const other = await open('b');
    const all = Array.from({ length: RUNS }, (_, nth) => events(EVENTS, `s${nth}-`)).flat();
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

  it('are all in the filter of a node that reads hundreds of pages for it', async () => {
    const ids = Array.from({ length: 20 }, (_, nth) => events(2000, `s${nth}-`));
    for (const some of ids) await store.log.append(batch(some));
    await fill();
    const other = await open('b');
    await haveFilters(other);
    for (const [nth, some] of ids.entries()) {
      const few = some.filter((_, at) => at % 4 === nth % 4);
      expect(duplicatesOf(await other.log.append(batch(few)))).toEqual(few.map((_, index) => index));
    }
  });

  it('are waited for by a node that starts, until they are few or nothing goes on', async () => {
    await fillRuns(2);
    store.prepare();
    expect(store.preparing()).toEqual([]);
    await ask('update key_run set keys = 9000000 where keys > 0');
    const [b, c] = [await open('b'), await open('c', { preparedWithin: 700 })];
    const now = performance.now();
    const clock = vi.spyOn(performance, 'now').mockReturnValue(now);
    await whileLocked(async () => {
      for (const one of [b, c]) one.prepare();
      await until('both know what is missing', () => {
        for (const one of [b, c])
          expect(one.preparing()).toEqual([expect.stringMatching(/, 18 million are left:/)]);
      });
      clock.mockReturnValue(now + 700);
      expect([b.preparing().length, c.preparing().length]).toEqual([1, 1]);
      clock.mockReturnValue(now + 701);
      expect([b.preparing().length, c.preparing()]).toEqual([1, []]);
    }).finally(() => clock.mockRestore());
    await until('the node is ready', () => b.preparing().length === 0);
    expect(await asksPages(b, 'new ')).toBe(false);
  });

  it('are in the filter of a node that has them all in its memory, which reads no page for it', async () => {
    const other = await open('b');
    await store.log.append(batch(events(EVENTS, 's0-')));
    await ask(`select setval('position', last_value + 1000000) from position`);
    await keepUp(other, START, FOR_EVER);
    await store.log.append(batch(events(EVENTS, 's1-')));
    await ask(`update key_run set opened = opened - interval '1 minute'`);
    await keepUp(other, START, FOR_EVER);
    expect(await runs()).toMatchObject([{}, { is_converted: true, keys: EVENTS }, { is_converted: false }]);
    // The memory knows the event, until the filter is there: then a page must be read, which was locked all the time.
    await knowsByFilter(store, 's0-0');
  });

  it('are known where the memory is too small for filters of all of them', async () => {
    const lines: unknown[] = [];
    const warn = (facts: object, line: string) => lines.push([line, facts]);
    const logger = { info: () => {}, warn, error: () => {} };
    // Of a few runs, and of none.
    const nodes = [await open('b', { filterMemory: 200, logger }), await open('c', { filterMemory: 0 })];
    const all: ReturnType<typeof events> = [];
    for (let nth = 0; nth < RUNS; nth++) {
      const few = events(EVENTS, `s${nth}-`);
      all.push(...few);
      await nodes[nth % 2]!.log.append(batch(few));
      await fill();
      for (const one of nodes) {
        const answer = await one.log.append(batch([...all, event(`${nth} ${one.nodes.process}`)]));
        expect(duplicatesOf(answer)).toEqual(all.map((_, index) => index));
      }
    }
    await until('the log says that the memory is short', () => lines.length > 0);
    expect(lines).toEqual([['dedupe.memory_short', { memory: 200, needed: expect.any(Number) }]]);
  });

  it('count no longer when their window is over, with filters as without', async () => {
    await fillRuns(3);
    await haveFilters(store);
    const last = batch([event('s1-5')], { receivedAt: START + DAY - 1 });
    expect(duplicatesOf(await store.log.append(last))).toEqual([0]);
    const late = batch([event('s1-5'), event('s2-5')], { receivedAt: START + DAY });
    expect(duplicatesOf(await store.log.append(late))).toEqual([]);
    await keepUp(store, START + 3 * DAY, { events: DAY, deadLetters: DAY });
    await store.log.append(batch(events(EVENTS, 'after'), { receivedAt: START + 3 * DAY }));
    await keepUp(store, START + 3 * DAY, { events: DAY, deadLetters: DAY });
    expect(await ask('select from key_run where slot = 1')).toEqual([]);
    const next = batch([event('after3'), event('s2-5')], { receivedAt: START + 3 * DAY });
    expect(duplicatesOf(await store.log.append(next))).toEqual([0]);
  });

  it('are known to an idle node that keeps up, which reads nothing anew', async () => {
    const idle = await open('b');
    await append(idle, 'first');
    for (let nth = 0; nth < 3; nth++) {
      await append(store, `one ${nth}`);
      await ask(`select setval('position', last_value + 1000000) from position`);
      await keepUp(store, START, FOR_EVER);
      await idle.log.maintain(START, FOR_EVER, 1);
      await ask(`update key_run set opened = opened - interval '1 minute'`);
      await keepUp(store, START, FOR_EVER);
      await idle.log.maintain(START, FOR_EVER, 1);
    }
    expect(await asksPages(idle, 'new')).toBe(false);
    await knowsByFilter(idle, 'first');
    expect(await asksPages(idle, 'newer')).toBe(false);
    expect(await append(idle, 'first', 'one 0', 'fresh', 'one 2')).toEqual([0, 1, 3]);
  });

  it('stay in memory when a batch asks for a row that became pages while the batch waited, and that the node has passed', async () => {
    const other = await open('b');
    await append(store, 'first');
    await store.log.maintain(START, FOR_EVER, 1);
    await ask(`select setval('position', last_value + 1000000) from position`);
    await keepUp(other, START, FOR_EVER);
    const holder = await connectTo(url);
    await holder.query(`select pg_advisory_lock(${LOCKS.positions})`);
    // The question for what follows the row of "first" is sent behind the one for positions, which waits.
    const late = store.log.append(batch(events(EVENTS, 'late ')));
    await server.isBlocked(url);
    // A question on another connection passes the row with which the next run began.
    await store.log.maintain(START, FOR_EVER, 1);
    await ask(`update key_run set opened = opened - interval '1 minute'`);
    await keepUp(other, START, FOR_EVER);
    expect(await ask('select hashes from key_log')).toEqual([{ hashes: [] }]);
    const asks = await whileLocked(async () => {
      await holder.end();
      return await looksIntoPages(late);
    });
    expect(duplicatesOf(await late)).toEqual([]);
    // A memory that had begun anew would ask the locked pages.
    expect(asks).toBe(false);
    expect(await append(store, 'first', 'late 0', 'new')).toEqual([0, 1]);
  });

  it('are known to nodes that start while runs become pages', async () => {
    const stored = new Set<string>();
    for (let round = 0; round < amountOf({ gate: 2, long: 10 }); round++) {
      const ids = Array.from({ length: 20 }, (_, nth) =>
        Array.from({ length: 30 }, (_, at) => `r${round} ${nth} ${at}`),
      );
      for (const some of ids) await append(store, ...some);
      for (const id of ids.flat()) stored.add(id);
      await ask(`select setval('position', last_value + 1000000) from position`);
      await keepUp(store, START, FOR_EVER);
      await ask(`update key_run set opened = opened - interval '1 minute'`);
      const upkeep = keepUp(store, START, FOR_EVER);
      const nodes = await Promise.all(Array.from({ length: 4 }, (_, nth) => open(`n${round} ${nth}`)));
      const all = [...stored];
      const answers = await Promise.all([store, ...nodes].map((one) => append(one, ...all)));
      for (const known of answers) expect(known).toHaveLength(all.length);
      await upkeep;
      expect(await append(nodes[0]!, ...all)).toHaveLength(all.length);
      for (const one of nodes) await one.stop();
    }
  });

  it('of commits that the server lost before their sync are forgotten by a node that saw them', async () => {
    const other = await open('b');
    await append(store, 'kept');
    await ask(`create table copy as select * from key_log`);
    for (const id of ['lost 1', 'lost 2', 'lost 3']) await append(store, id);
    // Which therefore knows them.
    expect(await append(other, 'lost 1', 'lost 2', 'lost 3')).toEqual([0, 1, 2]);
    // A crash may undo batches that let go of their locks before they are synced; numbers and positions are given anew.
    await store.stop();
    const last = await open('c');
    const later = (sql: string) => last.database.session((session) => session.query(sql));
    await later(`delete from chunk where first > 0; delete from key_log where seq not in (select seq from copy);
      select setval('key_seq', (select max(seq) from copy)); select setval('position', 0)`);
    for (const id of ['new 1', 'new 2', 'new 3', 'new 4']) expect(await append(last, id)).toEqual([]);
    expect(await append(other, 'kept', 'new 1', 'new 2', 'new 3', 'new 4')).toEqual([0, 1, 2, 3, 4]);
    expect(await append(other, 'lost 1', 'lost 2')).toEqual([]);
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

  it('wait for a node that stands still with their lock, until the server ends its transaction', async () => {
    const other = await open('b');
    await append(store, 'before');
    await append(other, 'too');
    const [setting] = await ask(`select current_setting('idle_in_transaction_session_timeout') as timeout`);
    expect(setting).toEqual({ timeout: '5s' });
    const frozen = await connectTo(url);
    const ended = new Promise((end) => frozen.once('end', end));
    // As a node does in its last statement; its commit never comes. Only the time is shorter.
    await frozen.query(`set idle_in_transaction_session_timeout = '1s'; begin;
      select add_keys(0, '{}', 1, 2, 99, 1000000, '{5}')`);
    const appending = [store, other].map((one, nth) => append(one, 'shared', `own ${nth}`));
    const answers = await Promise.all(appending);
    expect(answers.flat().toSorted()).toEqual([0]);
    await ended;
    expect(await append(other, 'before', 'too', 'own 0', 'own 1')).toEqual([0, 1, 2, 3]);
  });

  it('of erased events count no more, in rows and in pages', async () => {
    const other = await open('b');
    await store.log.append(batch(eventsOf('gone', 5)));
    await store.log.append(batch(eventsOf('stays', 5)));
    await append(other, 'knows all');
    expect((await store.log.erase({ userIds: ['gone'] })).events).toBe(5);
    expect(await ask('select sum((w = 0)::int)::int as n from key_log, unnest(hashes) w')).toEqual([
      { n: 5 },
    ]);
    expect(
      duplicatesOf(await other.log.append(batch([...eventsOf('gone', 3), ...eventsOf('stays', 2)]))),
    ).toEqual([3, 4]);
    expect(duplicatesOf(await store.log.append(batch(eventsOf('gone', 5))))).toEqual([0, 1, 2]);
    await fill();
    expect((await other.log.erase({ userIds: ['gone'] })).events).toBe(5);
    expect(await ask('select sum((w = 0)::int)::int as n from key_page, unnest(hashes) w')).toEqual([
      { n: 5 },
    ]);
    for (const one of [store, other]) {
      await haveFilters(one);
      expect(duplicatesOf(await one.log.append(batch(eventsOf('stays', 5))))).toEqual([0, 1, 2, 3, 4]);
    }
    expect(duplicatesOf(await store.log.append(batch(eventsOf('gone', 5))))).toEqual([]);
    expect(duplicatesOf(await other.log.append(batch(eventsOf('gone', 5))))).toEqual([0, 1, 2, 3, 4]);
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
      if (nth === TIMES / 2) await fill();
    }
    await fill();
    // The clock was set back: the events of its future are within any window.
    expect(duplicatesOf(await at(other, -1000))).toEqual([0]);
  });

  it('are refused when upkeep has not run for long, and taken again when it has', async () => {
    const bounded = await open('b', { mostKeys: 100 });
    await bounded.log.append(batch(events(101)));
    await expect(bounded.log.append(batch(events(1, 'more')))).rejects.toThrow(/wait for upkeep/);
    await store.log.append(batch(events(1, 'other node ')));
    await fill();
    await bounded.log.maintain(START, FOR_EVER, 1);
    const taken = await until('events are taken again', () => bounded.log.append(batch(events(102))));
    expect(duplicatesOf(taken)).toHaveLength(101);
  });

  it(`are stored once each while connections break, runs become pages and the server crashes (${replayOf(SEED)})`, async () => {
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
      if (nth % 5 === 4) await tries(fill);
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
      await fillRuns(2);
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

    it('that has lost pages, runs and batches are known, although nodes have seen them', async () => {
      await detach();
      await fill();
      // More numbers than the sequence has written ahead: some of them are given anew.
      for (const lost of events(2 * EVENTS, 'lost-')) await store.log.append(batch([lost]));
      await fill();
      for (const one of [idle, busy]) await haveFilters(one);
      expect(await runs()).toMatchObject([{}, {}, {}, {}, { is_converted: true }, { is_converted: false }]);
      await failOver();
      // What was lost comes again, before the idle node looks. Its runs get their numbers anew.
      expect(await duplicatesIn(busy, events(EVENTS, 'lost-'))).toEqual([]);
      await answered(fill);
      expect(await duplicatesIn(store, events(EVENTS, 'new-'))).toEqual([]);
      await fill();
      expect(await duplicatesIn(busy, events(EVENTS, 'last-'))).toEqual([]);
      const all = [...kept, ...['lost-', 'new-', 'last-'].flatMap((prefix) => events(EVENTS, prefix))];
      for (const one of [idle, busy, store]) {
        expect(await duplicatesIn(one, all)).toHaveLength(6 * EVENTS);
        await haveFilters(one);
        expect(await duplicatesIn(one, all)).toHaveLength(6 * EVENTS);
      }
    });

    it('that has lost nothing but pages are known, although nodes have forgotten what became pages', async () => {
      await ask(`select setval('position', last_value + 1000000) from position`);
      await keepUp(store, START, FOR_EVER);
      await bothKnow();
      await detach();
      await ask(`update key_run set opened = opened - interval '1 minute'`);
      await keepUp(store, START, FOR_EVER);
      expect(await runs()).toMatchObject([{}, {}, {}, { is_converted: true }, { is_converted: false }]);
      // They look, read the pages, and store nothing.
      for (const one of [idle, busy]) await one.log.maintain(START, FOR_EVER, 1);
      await sleep(500);
      await failOver();
      for (const one of [idle, busy, store]) expect(await duplicatesIn(one, kept)).toHaveLength(3 * EVENTS);
      expect(await runs()).toMatchObject([{}, {}, {}, { is_converted: false }, { is_converted: false }]);
      await answered(fill);
      for (const one of [idle, busy, store]) {
        expect(await duplicatesIn(one, kept)).toHaveLength(3 * EVENTS);
        await haveFilters(one);
        expect(await duplicatesIn(one, kept)).toHaveLength(3 * EVENTS);
      }
    });
  });

  it('are known beyond the memory for filters, whichever node brought them and whichever is asked', async () => {
    const nodes = [await open('b', { filterMemory: 0 }), await open('c', { filterMemory: 3000 }), store];
    const stored: string[] = [];
    const random = seeded(7);
    const pick = <One>(from: readonly One[]) => from[Math.floor(random() * from.length)]!;
    for (let run = 0; run < 12; run++) {
      for (let nth = 0; nth < 6; nth++) {
        // New ones, ids of any run before, and ids that come twice.
        const fresh = Array.from(
          { length: 1 + Math.floor(random() * 200) },
          (_, at) => `${run} ${nth} ${at}`,
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
      if (run % 3 !== 2) await fill();
    }
    expect(await countsOfSource(store, SITE)).toMatchObject({ accepted: stored.length });
  });
});
