import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Database } from '../../src/adapters/postgres/database.ts';
import { openPostgresStore, type PostgresStore } from '../../src/adapters/postgres/store.ts';
import { createSystemClock, systemClock } from '../../src/adapters/system/clock.ts';
import { IdempotencyCache } from '../../src/control-api/idempotency.ts';
import { HOUR } from '../../src/model/time.ts';
import { acknowledgedByAll } from '../../src/nodes/acknowledged.ts';
import {
  batch,
  CRM,
  countsOfDestination,
  countsOfSource,
  event,
  events,
  idsAt,
  owedBatch,
  positionsOf,
  SITE,
} from '../conformance/batches.ts';
import { expectBalanced, START } from '../conformance/harness.ts';
import { delivered, heldFrom } from '../conformance/holdings.ts';
import { FOR_EVER, findAll, keepUp } from '../conformance/upkeep.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { startPostgresLine } from '../support/postgres-line.ts';

/**
 * Makes the commit of each batch whose id begins with `slow` wait for the lock 77, after all its statements.
 */
const LINGER = `
  create function linger() returns trigger language plpgsql as $$
  begin perform pg_advisory_lock(77); perform pg_advisory_unlock(77); return null; end $$;
  create constraint trigger linger after insert on batch deferrable initially deferred
    for each row when (new.id like 'slow%') execute function linger()`;

describe.skipIf(!HAS_POSTGRES)('several nodes on one database', () => {
  const postgres = usePostgres();
  let url: string;
  let a: PostgresStore;
  let b: PostgresStore;
  let observer: Database;
  const opened: PostgresStore[] = [];

  beforeEach(async () => {
    url = await postgres.makeDatabaseWithTables();
    observer = new Database({ url });
    a = await open('a');
    b = await open('b');
  });
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.stop();
    await observer.stop();
  });

  async function open(node: string, address = url): Promise<PostgresStore> {
    const store = await openPostgresStore({ clock: systemClock, url: address, node });
    opened.push(store);
    return store;
  }

  const ask = (sql: string) => observer.session((session) => session.query<Record<string, unknown>>(sql));

  describe('a request with an Idempotency-Key', () => {
    const caches = () => {
      const clock = createSystemClock();
      return [a, b].map((store) => new IdempotencyCache<{ n: number }>(clock, store.idempotency));
    };
    const shared = { isShared: true };

    it('is made once, whichever nodes it comes to, also while the first is under way', async () => {
      const [one, two] = caches();
      let made = 0;
      const begun = Promise.withResolvers<void>();
      const go = Promise.withResolvers<void>();
      const make = async () => {
        begun.resolve();
        await go.promise;
        return { n: ++made };
      };
      const first = one!.runOnce('k', 'body', make, shared);
      await begun.promise;
      await expect(two!.runOnce('k', 'other', make, shared)).rejects.toThrow('idempotency_key_reused');
      const second = two!.runOnce('k', 'body', make, shared);
      go.resolve();
      expect(await Promise.all([first, second])).toEqual([{ n: 1 }, { n: 1 }]);
      expect(await two!.runOnce('another', 'body', make, shared)).toEqual({ n: 2 });
      expect(await one!.runOnce('own', 'body', make)).toEqual({ n: 3 });
      expect(await two!.runOnce('own', 'body', make)).toEqual({ n: 4 });
      expect(await ask('select key from idempotency_key')).toHaveLength(2);
    });

    it('is made anew where it has failed, or its node is gone without an answer', async () => {
      const [one, two] = caches();
      const fail = () => Promise.reject(new Error('no'));
      await expect(one!.runOnce('k', 'body', fail, shared)).rejects.toThrow('no');
      expect(await two!.runOnce('k', 'other body', async () => ({ n: 1 }), shared)).toEqual({ n: 1 });
      expect(await b.idempotency!.take('lost', 'd')).toBeUndefined();
      expect(await a.idempotency!.take('lost', 'd')).toEqual({ digest: 'd' });
      await b.stop();
      await ask("delete from process where node = 'b'");
      expect(await a.idempotency!.take('lost', 'other')).toBeUndefined();
      await a.idempotency!.keep('lost', '{}');
      expect(await a.idempotency!.take('lost', 'x')).toEqual({ digest: 'other', answer: '{}' });
    });

    it('is remembered for a day, and only the newest are', async () => {
      await a.idempotency!.take('old', 'd');
      await a.idempotency!.keep('old', '{}');
      await ask("update idempotency_key set at = at - interval '25 hours'");
      expect(await b.idempotency!.take('old', 'e')).toBeUndefined();
      await ask(`insert into idempotency_key(key, digest, process, answer)
        select 'many' || n, 'd', 0, '{}' from generate_series(1, 10050) n`);
      await a.idempotency!.take('newest', 'd');
      const [left] = await ask(
        "select count(*)::int as n, bool_or(key = 'many1') as first from idempotency_key",
      );
      expect(left).toEqual({ n: 10_001, first: false });
    });
  });

  /** Lets the commits of slow batches wait while `during` runs. */
  async function whileCommitsWait<Answer>(during: () => Promise<Answer>): Promise<Answer> {
    return await observer.session(async (session) => {
      await session.query('select pg_advisory_lock(77)');
      try {
        return await during();
      } finally {
        await session.query('select pg_advisory_unlock(77)');
      }
    });
  }

  /**
   * The lease of a node ends so many seconds from now; it has ended, if nothing is said, as if the node had
   * not renewed it in time.
   */
  const lapse = (store: PostgresStore, seconds = -1) =>
    ask(
      `update process set expires = clock_timestamp() + interval '${seconds} s' where id = ${store.nodes.process}`,
    );

  /** Time on the clock of the database. */
  async function databaseTime(): Promise<number> {
    const [row] = await ask('select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now');
    return row!['now'] as number;
  }

  it('stores an event once that comes to both at the same time', async () => {
    for (let round = 0; round < 10; round++) {
      const of = Array.from({ length: 50 }, (_, n) => event(`${round}-${n}`));
      const turned = of.toReversed();
      const [one, other] = await Promise.all([
        a.log.append(owedBatch(of, 'held')),
        b.log.append(owedBatch(turned, 'held')),
      ]);
      const stored = [...one.positions, ...other.positions].filter((position) => position !== undefined);
      expect((await idsAt(a, stored)).sort()).toEqual(of.map(({ messageId }) => messageId).sort());
    }
    expect(await countsOfSource(b, SITE)).toMatchObject({ received: 1000, accepted: 500, duplicates: 500 });
    expect(await countsOfDestination(a, CRM)).toMatchObject({ owed: 500, pending: 500 });
    await expectBalanced(a);
  });

  it('waits for the commit of the other before it calls an event a duplicate', async () => {
    await ask(LINGER);
    const second = await whileCommitsWait(async () => {
      const first = a.log.append(batch([event('x')], { id: 'slow 1' }));
      await postgres.isBlocked(url);
      const waiting = { answer: b.log.append(batch([event('x'), event('y')])), first };
      await postgres.isBlocked(url, 2);
      return waiting;
    });
    expect(positionsOf(await second.first)).toHaveLength(1);
    expect((await second.answer).positions.map((position) => position !== undefined)).toEqual([false, true]);
  });

  it('gives one answer to the same batch that comes to both at the same time', async () => {
    for (let round = 0; round < 10; round++) {
      const one = owedBatch(events(20, `r${round}-`), 'parked');
      const [first, second] = await Promise.all([a.log.append(one), b.log.append(one)]);
      expect(second.positions).toEqual(first.positions);
      expect(positionsOf(first)).toHaveLength(20);
    }
    expect(await countsOfSource(a, SITE)).toMatchObject({ received: 200, accepted: 200, duplicates: 0 });
  });

  it('gives the answer of a commit whose answer was lost, and stores nothing twice', async () => {
    await ask(LINGER);
    const line = await startPostgresLine(postgres.folder);
    const c = await open('c', line.through(url));
    const one = owedBatch(events(30), 'parked', { id: 'slow 1' });
    const appending = await whileCommitsWait(async () => {
      const answer = c.log.append(one);
      await postgres.isBlocked(url);
      // The server goes on with the commit and finds nobody to tell.
      line.cut();
      return { answer };
    });
    const answer = await appending.answer;
    expect(await idsAt(a, positionsOf(answer))).toEqual(one.events.map(({ messageId }) => messageId));
    expect(await a.log.append(one)).toEqual(answer);
    expect(await countsOfSource(a, SITE)).toMatchObject({ received: 30, accepted: 30, duplicates: 0 });
    await c.stop();
    line.close();
  });

  it('adopts what a dead node held, once, and takes nothing from the living', async () => {
    const one = owedBatch(events(40), 'held');
    await a.log.append(one);
    await b.log.append(owedBatch(events(5, 'b'), 'held'));
    await a.abandon();
    await lapse(a, 600);
    expect(await b.queue.recoverOrphans()).toBe(0);
    await lapse(a);
    const c = await open('c');
    const adopted = await Promise.all([b, c].map((store) => store.queue.recoverOrphans()));
    expect(adopted.toSorted((x, y) => x - y)).toEqual([0, 40]);
    // Two claims at the same time never get the same delivery. Each skips rows that the other has locked; the
    // next claim gets them.
    const claim = (store: PostgresStore) => store.queue.claim(CRM, 25, START + HOUR);
    const claims = [...(await Promise.all([b, c].map(claim))), await claim(b)];
    const positions = claims.flatMap(({ deliveries }) => deliveries.map(({ delivery }) => delivery.position));
    expect(new Set(positions).size).toBe(40);
    expect(positions).toHaveLength(40);
    await expectBalanced(b);
  });

  it('remembers for an hour who died, when it was last seen and who took over, and nobody who was stopped', async () => {
    const names = async () => (await b.nodes.gone()).map(({ name }) => name);
    const c = await open('c');
    await (await open('stopped')).stop();
    await c.abandon();
    const began = await databaseTime();
    await lapse(c);
    expect(await names()).toEqual([]);
    const lapsed = await databaseTime();
    await a.nodes.adopt();
    const now = await databaseTime();
    const [gone, ...others] = await b.nodes.gone();
    expect(others).toEqual([]);
    expect(gone).toMatchObject({ name: 'c', roles: [], version: '', takenOverBy: 'a' });
    expect(gone!.takenOverAt).toBeGreaterThanOrEqual(lapsed);
    expect(gone!.takenOverAt).toBeLessThanOrEqual(now);
    // Its lease of ten seconds was over a second before.
    expect(gone!.lastSeen).toBeGreaterThanOrEqual(began - 11_000);
    expect(gone!.lastSeen).toBeLessThanOrEqual(lapsed - 11_000);
    expect((await b.nodes.list()).map(({ name }) => name)).toEqual(['a', 'b']);
    const back = await open('c');
    expect(await names()).toEqual([]);
    await back.stop();
    await a.nodes.adopt();
    expect(await names()).toEqual([]);
    for (const name of ['d', 'e']) {
      const one = await open(name);
      await one.abandon();
      await lapse(one);
      await a.nodes.adopt();
    }
    expect(await names()).toEqual(['d', 'e']);
    await ask(`update gone_node set adopted = adopted - interval '1 hour' where node = 'd'`);
    expect(await names()).toEqual(['e']);
    await lapse(b);
    await a.nodes.adopt();
    expect(await ask('select node, adopted_by from gone_node order by node')).toEqual([
      { node: 'b', adopted_by: 'a' },
      { node: 'e', adopted_by: 'a' },
    ]);
  });

  it('lists the nodes while one has been stopped and nobody has taken over what it held', async () => {
    await b.stop();
    expect(await a.nodes.list()).toMatchObject([{ name: 'a' }, { name: 'b', leaseLeft: expect.any(Number) }]);
    expect((await a.nodes.list()).find(({ name }) => name === 'b')!.leaseLeft).toBeLessThan(0);
  });

  it('writes nothing for a node that was adopted, also no result of a delivery', async () => {
    const one = owedBatch(events(3), 'held');
    const holdings = heldFrom(one, await a.log.append(one));
    await lapse(a);
    expect(await b.queue.recoverOrphans()).toBe(3);
    await expect(a.queue.settle(holdings.map(delivered))).rejects.toThrow(/lost its lease/);
    await expect(a.log.append(batch([event('late')]))).rejects.toThrow(/lost its lease/);
    expect(await countsOfDestination(b, CRM)).toMatchObject({ delivered: 0, pending: 3 });
    expect(await findAll(b, { from: START, to: START + 1 })).toHaveLength(3);
  });

  it('shows a reader no position before all lower ones are decided', async () => {
    // Before it adds its keys: from then on the others wait for its commit.
    await ask(LINGER.replace('constraint trigger', 'trigger').replace('deferrable initially deferred', ''));
    const reader = b.openLogReader();
    const read = async () => (await reader.page(0, 100)).sources.length;
    const late = await whileCommitsWait(async () => {
      const answer = a.log.append(batch(events(3, 'low'), { id: 'slow 1' }));
      await postgres.isBlocked(url);
      const [high] = positionsOf(await b.log.append(batch([event('high')])));
      expect(await idsAt(b, [high!])).toEqual(['high']);
      expect(await read()).toBe(0);
      return { answer, high };
    });
    expect(Math.max(...positionsOf(await late.answer))).toBeLessThan(late.high!);
    expect(await read()).toBe(4);
    await reader.stop();
  });

  const acknowledgedIn = (store: PostgresStore, limits = { earlierVersion: HOUR, gone: HOUR }) =>
    acknowledgedByAll('suppressions', limits, {
      nodes: store.nodes,
      clock: createSystemClock(),
      checkStop: () => undefined,
    });

  it('knows who has not done yet what all are to do', async () => {
    await ask('update suppression_version set version = 7');
    const names = async (store: PostgresStore) =>
      (await store.nodes.toWaitFor({ suppressions: 7 })).map((node) => 'name' in node && node.name);
    expect(await names(a)).toEqual(['a', 'b']);
    await a.nodes.acknowledge({ suppressions: 7 });
    await b.nodes.acknowledge({ suppressions: 6, erasures: 9 });
    expect(await names(b)).toEqual(['b']);
    let isDone = false;
    const waiting = acknowledgedIn(a).then(() => {
      isDone = true;
    });
    await b.nodes.changes();
    expect(isDone).toBe(false);
    await b.nodes.acknowledge({ suppressions: 8 });
    await waiting;
    // An older answer that comes late takes nothing back.
    await b.nodes.acknowledge({ suppressions: 6 });
    expect((await b.nodes.changes()).acknowledged).toEqual({ suppressions: 8, erasures: 9 });
  });

  it('waits for requests of a node that lost its lease, and for none of one that was stopped', async () => {
    await ask('update suppression_version set version = 7');
    await a.nodes.acknowledge({ suppressions: 7 });
    opened.splice(opened.indexOf(b), 1);
    await b.stop();
    await acknowledgedIn(a);
    const c = await open('c');
    await c.abandon();
    await lapse(c);
    expect(await a.nodes.toWaitFor({ suppressions: 7 })).toEqual([{ state: 'behind', name: 'c' }]);
    await a.queue.recoverOrphans();
    const [gone] = await a.nodes.toWaitFor({ suppressions: 7 });
    expect(gone).toMatchObject({ state: 'gone', goneFor: expect.any(Number) });
    await acknowledgedIn(a, { earlierVersion: HOUR, gone: 200 });
    const [later] = await a.nodes.toWaitFor({ suppressions: 7 });
    expect((later as { goneFor: number }).goneFor).toBeGreaterThan(200);
  });

  it('gives a node of an earlier version the time that it needs at most', async () => {
    await ask(`delete from acknowledgement where process = ${b.nodes.process}`);
    await a.nodes.acknowledge({ suppressions: 100 });
    expect(await a.nodes.toWaitFor({})).toEqual([{ state: 'earlier_version', name: 'b' }]);
    const began = performance.now();
    await acknowledgedIn(a, { earlierVersion: 200, gone: 0 });
    expect(performance.now() - began).toBeGreaterThan(200);
  });

  it('tells of the database, its standbys, and what is wrong with it', async () => {
    const own = await postgres.startServer();
    const address = await own.makeDatabase();
    const store = await open('c', address);
    const found = (status: { problems: readonly { found: string }[] }) =>
      status.problems.map((one) => one.found);
    const before = await store.nodes.database();
    expect(before.version).toMatch(/^\d+/);
    expect(before.standbys).toEqual([]);
    expect(found(before)).toEqual(['fsync is off']);
    const standby = await own.makeStandby();
    const [one] = (await store.nodes.database()).standbys;
    expect(one).toMatchObject({ name: 'walreceiver', isSynchronous: true });
    expect(one!.behindBytes).toBeGreaterThanOrEqual(0);
    // A user without pg_monitor sees that there is a standby, and nothing of it.
    await own.administrate('create role plain login');
    await own.administrate(`create database "of plain" owner plain`);
    const plain = await open(
      'd',
      `postgres://plain@localhost/of%20plain?host=${encodeURIComponent(own.folder)}`,
    );
    const hidden = await plain.nodes.database();
    expect(hidden.standbys).toEqual([{ name: 'walreceiver' }]);
    expect(found(hidden)).toContain('its standbys are hidden from this user');
    await plain.stop();
    await standby.stop();
    expect(found(await store.nodes.database())).toEqual([
      'fsync is off',
      'commits wait for a standby (*), and none is connected',
    ]);
    await own.administrate(`alter system reset synchronous_standby_names`);
    await own.administrate('select pg_reload_conf()');
  });

  it('keeps up by one node at a time while both append, and loses no event', async () => {
    const appended = await Promise.all(
      [a, b].map(async (store, nth) => {
        const positions: number[] = [];
        for (let n = 0; n < 20; n++) {
          const at = START + n * HOUR;
          const of = events(1 + n, `${nth}-${n}-`);
          positions.push(...positionsOf(await store.log.append(batch(of, { receivedAt: at }))));
          await store.log.maintain(at, FOR_EVER, 5);
        }
        return positions;
      }),
    );
    await keepUp(a, START + 21 * HOUR, FOR_EVER);
    const all = appended.flat();
    expect(new Set(all).size).toBe(420);
    expect(await idsAt(b, all)).not.toContain(undefined);
    expect(Number((await ask('select count(*) as n from slot'))[0]!['n'])).toBeGreaterThan(2);
    expect((await b.log.size()).events).toBe(420);
  });
});
