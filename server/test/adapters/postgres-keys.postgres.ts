import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
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
import { connectTo, findPostgres, type Postgres, startPostgres } from '../support/postgres.ts';
import { seeded } from '../support/seeded.ts';

const bin = findPostgres();

const RUNS = 7;
const EVENTS = 40;

/** The keys of events: in rows of batches at first, and in pages when their run is full. */
describe.skipIf(bin === undefined)('the keys of events', () => {
  let server: Postgres;
  let url: string;
  let store: PostgresStore;
  const opened: PostgresStore[] = [];

  beforeAll(async () => {
    server = await startPostgres(bin!);
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    url = await server.makeDatabase();
    store = await open('a');
  });
  afterEach(async () => {
    for (const one of opened.splice(0)) await one.stop();
    await server.dropDatabase(url);
  });

  async function open(node: string, options: Partial<PostgresStoreOptions> = {}): Promise<PostgresStore> {
    const one = await openPostgresStore({ url, node, ...options });
    opened.push(one);
    return one;
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

  /** Whether a batch of new events looks into pages. */
  async function asksPages(of: PostgresStore, name: string): Promise<boolean> {
    let appending: Promise<unknown> | undefined;
    const isBlocked = await whileLocked(async () => {
      appending = of.log.append(batch(events(EVENTS, name)));
      return await Promise.race([appending.then(() => false), sleep(500, true)]);
    });
    await appending;
    return isBlocked;
  }

  /** Appends new events until a batch looks into no page. */
  async function haveFilters(of: PostgresStore): Promise<void> {
    for (let nth = 0; await asksPages(of, `new ${of.nodes.process} ${nth} `); nth++) {
      expect(nth).toBeLessThan(20);
      await sleep(50);
    }
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
      for (const one of [store, other, started]) {
        const mixed = some.flatMap((known) => [known, event(`new ${one.nodes.process} ${known.messageId}`)]);
        const half = mixed.slice(nth % 2 === 0 ? 0 : 2000, nth % 2 === 0 ? 2000 : undefined);
        expect(duplicatesOf(await one.log.append(batch(half)))).toEqual(
          half.flatMap((_, index) => (index % 2 === 0 ? [index] : [])),
        );
      }
    }
    await expectBalanced(store);
  });

  it('are all in the filter of a node that reads hundreds of pages for it', async () => {
    const ids = Array.from({ length: 20 }, (_, nth) => events(2000, `s${nth}-`));
    for (const some of ids) await store.log.append(batch(some));
    await fill();
    const other = await open('b');
    await haveFilters(other);
    for (const some of ids)
      expect(duplicatesOf(await other.log.append(batch(some)))).toEqual(some.map((_, index) => index));
  });

  it('are waited for by a node that starts, until they are few or nothing goes on', async () => {
    await fillRuns(2);
    store.prepare();
    expect(store.preparing()).toEqual([]);
    await ask('update key_run set keys = 9000000 where keys > 0');
    const [b, c] = [await open('b'), await open('c', { preparedWithin: 700 })];
    await whileLocked(async () => {
      for (const one of [b, c]) one.prepare();
      await sleep(300);
      for (const one of [b, c])
        expect(one.preparing()).toEqual([expect.stringMatching(/, 18 million are left:/)]);
      await sleep(800);
      expect([b.preparing().length, c.preparing()]).toEqual([1, []]);
    });
    while (b.preparing().length > 0) await sleep(20);
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
    const { appending } = await whileLocked(async () => {
      // The memory knows the event, until the filter is there: then a page must be read, which is locked.
      for (let nth = 0; nth < 50; nth++) {
        const again = append(store, 's0-0');
        if (await Promise.race([again.then(() => false), sleep(300, true)])) return { appending: again };
      }
      throw new Error('the filter waits for the pages');
    });
    expect(await appending).toEqual([0]);
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
    await expect.poll(() => lines).toHaveLength(1);
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
    await sleep(500);
    expect(await asksPages(idle, 'new')).toBe(false);
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
    const isStored = await whileLocked(async () => {
      await holder.end();
      return await Promise.race([late.then(() => true), sleep(1000, false)]);
    });
    expect(duplicatesOf(await late)).toEqual([]);
    // A memory that had begun anew would ask the locked pages.
    expect(isStored).toBe(true);
    expect(await append(store, 'first', 'late 0', 'new')).toEqual([0, 1]);
  });

  it('are known to nodes that start while runs become pages', async () => {
    const stored = new Set<string>();
    for (let round = 0; round < 3; round++) {
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
    const frozen = await connectTo(url);
    frozen.on('error', () => undefined);
    const first = new Promise((ended) => frozen.once('end', ended));
    // As a node does in its last statement; its commit never comes.
    await frozen.query(`set idle_in_transaction_session_timeout = '5s'; begin;
      select add_keys(0, '{}', 1, 2, 99, 1000000, '{5}')`);
    const began = performance.now();
    const appending = [store, other].map((one, nth) => append(one, 'shared', `own ${nth}`));
    const answers = await Promise.all(appending);
    expect(answers.flat().toSorted()).toEqual([0]);
    expect(performance.now() - began).toBeLessThan(10_000);
    await first;
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

  it('may be one key a hundred times, each past the window of the one before', async () => {
    const other = await open('b');
    const again = (one: PostgresStore, at: number) =>
      one.log.append(batch([{ ...event('same'), dedupeWindow: 10 }], { receivedAt: START + at }));
    for (let nth = 0; nth < 100; nth++) {
      const [one, another] = nth % 2 === 0 ? [store, other] : [other, store];
      expect(
        duplicatesOf(
          await one.log.append(
            batch([{ ...event('same'), dedupeWindow: 10 }], { receivedAt: START + nth * 10 }),
          ),
        ),
      ).toEqual([]);
      expect(duplicatesOf(await again(another, nth * 10 + 9))).toEqual([0]);
      if (nth === 50) await fill();
    }
    await fill();
    // The clock was set back: the events of its future are within any window.
    expect(duplicatesOf(await again(other, -1000))).toEqual([0]);
  });

  it('are refused when upkeep has not run for long, and taken again when it has', async () => {
    const bounded = await open('b', { mostKeys: 100 });
    await bounded.log.append(batch(events(101)));
    await expect(bounded.log.append(batch(events(1, 'more')))).rejects.toThrow(/wait for upkeep/);
    await store.log.append(batch(events(1, 'other node ')));
    await fill();
    await bounded.log.maintain(START, FOR_EVER, 1);
    await sleep(500);
    expect(duplicatesOf(await bounded.log.append(batch(events(102))))).toHaveLength(101);
  });

  it('are stored once each while connections break, runs become pages and the server crashes', async () => {
    const nodes = [store, await open('b'), await open('c')];
    const ids = Array.from({ length: 500 }, (_, nth) => `id ${nth}`);
    const pick = <One>(from: readonly One[]) => from[Math.floor(Math.random() * from.length)]!;
    let isOver = false;
    const answered = { batches: 0, refused: 0 };
    const sending = nodes.flatMap((one) =>
      Array.from({ length: 4 }, async () => {
        while (!isOver) {
          const some = batch(Array.from({ length: 20 }, () => event(pick(ids))));
          await one.log.append(some).then(
            () => answered.batches++,
            () => answered.refused++,
          );
        }
      }),
    );
    const tries = (what: () => Promise<unknown>) => what().catch(() => undefined);
    for (let nth = 0; nth < 60; nth++) {
      await sleep(50);
      if (nth % 20 === 10) await server.crash();
      if (nth % 20 === 10) await server.restart();
      if (nth % 7 === 6) await tries(fill);
      await tries(() =>
        server.administrate(`select pg_terminate_backend(pid) from pg_stat_activity
          where backend_type = 'client backend' and pid <> pg_backend_pid() order by random() limit 3`),
      );
    }
    isOver = true;
    await Promise.all(sending);
    expect(answered.batches).toBeGreaterThan(50);
    for (const one of nodes) await one.log.append(batch(ids.map((id) => event(id))));
    const fresh = await open('d');
    expect(await append(fresh, ...ids)).toHaveLength(ids.length);
    expect(await countsOfSource(fresh, SITE)).toMatchObject({ accepted: ids.length });
  });

  describe('after a failover', () => {
    let primary: Postgres;
    let standby: Postgres;
    let idle: PostgresStore;
    let busy: PostgresStore;
    let before: string;
    let kept: ReturnType<typeof events>;
    let at: (...servers: readonly Postgres[]) => string;

    beforeEach(async () => {
      before = url;
      await store.stop();
      primary = await startPostgres(bin!);
      const name = /millrace_\d+/.exec(await primary.makeDatabase())![0];
      standby = await primary.makeStandby();
      at = (...servers) =>
        `postgres:///${name}?host=${servers.map(({ folder }) => encodeURIComponent(folder)).join(',')}&user=millrace`;
      url = at(primary, standby);
      [store, idle, busy] = [await open('a'), await open('b'), await open('c')];
      url = at(primary);
      await fillRuns(2);
      await store.log.append(batch(events(EVENTS, 'kept-')));
      kept = ['s0-', 's1-', 'kept-'].flatMap((prefix) => events(EVENTS, prefix));
      await bothKnow();
    });
    afterEach(async () => {
      for (const one of opened.splice(0)) await one.stop();
      await standby.stop();
      await primary.stop();
      url = before;
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
      await expect.poll(followers, { timeout: 60_000 }).toEqual([]);
    }

    async function failOver(): Promise<void> {
      await primary.crash();
      await standby.promote();
      url = at(standby);
    }

    /** The first answer that is none of a node without a database or a lease. */
    async function answered<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
      for (const until = performance.now() + 60_000; ; await sleep(100)) {
        try {
          return await ask();
        } catch (error) {
          if (performance.now() > until) throw error;
        }
      }
    }

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
