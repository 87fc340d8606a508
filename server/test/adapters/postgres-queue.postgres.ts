import type pg from 'pg';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { Database, LostLeaseError, UnknownCommitError } from '../../src/adapters/postgres/database.ts';
import { eraseOwed } from '../../src/adapters/postgres/log/eraser.ts';
import { Member } from '../../src/adapters/postgres/member.ts';
import { deadPositionsBetween, eraseDeadLetters } from '../../src/adapters/postgres/queue/dead-letters.ts';
import { count } from '../../src/adapters/postgres/queue/ledger.ts';
import { erasePending, PendingSets } from '../../src/adapters/postgres/queue/pending.ts';
import { queueOf } from '../../src/adapters/postgres/queue/queue.ts';
import { migrate } from '../../src/adapters/postgres/schema.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import type { Position } from '../../src/model/event.ts';
import { balanceOf } from '../../src/model/ledger.ts';
import { HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import type { HeldDelivery } from '../../src/ports/delivery-queue.ts';
import { START } from '../conformance/harness.ts';
import { dead, delivered, retried } from '../conformance/holdings.ts';
import { connectTo, type Databases, type Postgres } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { until } from '../support/until.ts';

const CRM = 1;
const ALL = 1_000_000;

/** One process of several on one database. */
async function join(url: string, node: string, connections = 8) {
  const database = new Database({ url, connections });
  await database.session(migrate);
  const member = await Member.join(database, { clock: systemClock, node });
  const pending = new PendingSets();
  // Every event arrived at its position, and is planned for one destination.
  const log = {
    plansAt: async (_: unknown, positions: readonly Position[]) =>
      positions.map(() => ({ owed: [CRM], skipped: [] })),
    skipSets: async () => new Map(),
    arrivalsAt: async (_: unknown, positions: readonly Position[]) => [...positions],
  };
  const ports = queueOf({ database, nodes: { adopt: () => member.adopt() }, log, pending });
  const owe = (state: 'held' | 'parked', positions: readonly Position[], now = START) =>
    database.write(async (write) => {
      const [set] = await pending.owe(write, [{ destination: CRM, state, positions, now }]);
      count(write, [{ scope: 'destination', id: CRM, name: 'owed', n: positions.length }]);
      return positions.map((position) => ({
        destination: CRM,
        set: set ?? 0,
        delivery: { position, rounds: 0 },
      }));
    });
  const stop = async () => {
    await member.stop(false);
    await database.stop();
  };
  return { database, member, ...ports, owe, stop };
}

type Node = Awaited<ReturnType<typeof join>>;

describe.skipIf(!HAS_POSTGRES)('the delivery queue of several nodes', () => {
  const postgres = usePostgres();
  let server: Databases;
  let url: string;
  let a: Node;
  let b: Node;

  beforeEach(async () => {
    server = postgres;
    url = await postgres.makeDatabaseWithTables();
    a = await join(url, 'a');
    b = await join(url, 'b');
  });
  afterEach(async () => {
    try {
      const { destinations } = await a.queue.ledger();
      for (const [id, counts] of destinations) expect(balanceOf(counts), `balance of ${id}`).toBe(0);
    } finally {
      for (const node of [a, b]) await node.stop();
    }
  });

  const range = (from: number, n: number) => Array.from({ length: n }, (_, index) => from + index);
  const held = (claimed: readonly HeldDelivery[]) => claimed.map((one) => ({ ...one, destination: CRM }));
  const claim = async (node: Node, now: number, max = ALL) =>
    held((await node.queue.claim(CRM, max, now)).deliveries);
  const sql = <Row>(text: string) => a.database.session((session) => session.query<Row>(text));
  /** Ends the lease of a node, as if the node had not renewed it in time. */
  const lapse = (node: Node) =>
    sql(`update process set expires = clock_timestamp() - interval '1 s' where id = ${node.member.id}`);
  const crm = async () => (await b.queue.ledger()).destinations.get(CRM);

  it('hands out each delivery once, however many nodes claim at once', async () => {
    for (let n = 0; n < 60; n++) await a.owe('parked', range(n * 10, 10), START + n * 2 * SECOND);
    const taken: number[] = [];
    const work = async (node: Node) => {
      for (;;) {
        const claimed = await claim(node, START + HOUR, 7);
        taken.push(...claimed.map(({ delivery }) => delivery.position));
        if (claimed.length === 0 && (await node.queue.stats())[0]?.onDisk === 0) return;
      }
    };
    await Promise.all([work(a), work(a), work(b), work(b)]);
    expect(taken.sort((x, y) => x - y)).toEqual(range(0, 600));
    expect(await a.queue.stats()).toMatchObject([{ held: 600, onDisk: 0 }]);
  });

  it('is one for all: a node sees, counts and claims what another one parked or retries', async () => {
    const [one, two] = await a.owe('held', [3, 4]);
    await a.owe('parked', [5]);
    await a.queue.settle([retried(one!, START + MINUTE), dead(two!)]);
    expect(await b.queue.stats()).toMatchObject([{ held: 0, onDisk: 2, retrying: 1, oldestAt: 3 }]);
    const [history] = await b.history.read([3]);
    expect(history?.deliveries).toMatchObject([{ state: 'retrying', attempts: [{ latencyMs: 34 }] }]);
    const claimed = await claim(b, START + HOUR);
    expect(claimed.map(({ delivery }) => [delivery.position, delivery.rounds])).toEqual([
      [5, 0],
      [3, 1],
    ]);
    expect(await a.history.findPending({ destinations: [CRM], tried: true }, 10)).toEqual({ positions: [3] });
    await b.queue.settle(claimed.map(delivered));
    expect(await b.deadLetters.redeliver({ query: { destinations: [CRM] }, now: START + HOUR })).toEqual({
      count: 1,
    });
    await a.queue.settle((await claim(a, START + HOUR)).map(delivered));
    expect(await crm()).toMatchObject({ owed: 3, delivered: 3, pending: 0, dead: {} });
  });

  it('ignores the result of a node for a set that another one holds', async () => {
    const holdings = await a.owe('held', [1, 2]);
    expect(await b.queue.settle(holdings.map(delivered))).toEqual({ ignored: 2 });
    expect(await a.queue.settle(holdings.map(delivered))).toEqual({ ignored: 0 });
  });

  it('adopts what a dead node held once, and writes no result of it afterwards', async () => {
    const holdings = await a.owe('held', range(0, 20));
    await a.queue.settle(holdings.slice(0, 5).map(delivered));
    expect(await b.queue.recoverOrphans()).toBe(0);
    await lapse(a);
    const c = await join(url, 'c');
    const adopted = await Promise.all([b.queue.recoverOrphans(), c.queue.recoverOrphans()]);
    expect(adopted.sort()).toEqual([0, 15]);
    await expect(a.queue.settle(holdings.slice(5).map(delivered))).rejects.toThrow(LostLeaseError);
    const claimed = await claim(b, START);
    expect(claimed).toHaveLength(15);
    await b.queue.settle(claimed.map(delivered));
    // The counters of the dead node count on.
    expect(await crm()).toMatchObject({ owed: 20, delivered: 20, pending: 0 });
    await c.stop();
  });

  it('writes no result from before it lost its lease, also where it has claimed the same rows again', async () => {
    const one = await join(url, 'one', 1);
    const holdings = await one.owe('held', range(0, 4));
    // Its only connection is in use: the first result waits for it, and the others for the first.
    const goOn = Promise.withResolvers<void>();
    const using = one.database.session(() => goOn.promise);
    const first = one.queue.settle([dead(holdings[0]!)]);
    first.catch(() => undefined);
    await new Promise((resolve) => setImmediate(resolve));
    const late = one.queue.settle(holdings.slice(1).map((one) => dead(one)));
    await lapse(one);
    await b.queue.recoverOrphans();
    const again = await join(url, 'one');
    one.database.guardBy(again.member.id, () => undefined);
    const claimed = await claim(again, START);
    expect(claimed.map(({ set }) => set)).toEqual(holdings.map(({ set }) => set));
    goOn.resolve();
    await using;
    await expect(first).rejects.toThrow(LostLeaseError);
    expect(await late).toEqual({ ignored: 3 });
    await again.queue.settle(claimed.map(delivered));
    expect(await crm()).toMatchObject({ owed: 4, delivered: 4, pending: 0, dead: {} });
    for (const node of [one, again]) await node.stop();
  });

  it('owes an outage a row a second, and what grows can be claimed and goes on as another row', async () => {
    for (let n = 0; n < 20; n++) await a.owe('parked', range(n * 5, 5), START + n * 10);
    const rows = () => sql<{ n: number }>('select n from pending order by id');
    expect(await rows()).toEqual([{ n: 100 }]);
    expect(await claim(b, START, 30)).toHaveLength(30);
    await a.owe('parked', range(100, 5), START + 500);
    expect(await rows()).toEqual([{ n: 75 }, { n: 30 }]);
    await claim(b, START);
    await a.owe('parked', range(105, 5), START + 600);
    expect(await rows()).toEqual([{ n: 75 }, { n: 5 }, { n: 30 }]);
  });

  it('begins another row when the transaction that made the last one was rolled back', async () => {
    const pending = new PendingSets();
    const owe = (positions: Position[], fails: boolean) =>
      a.database.write(async (write) => {
        await pending.owe(write, [{ destination: CRM, state: 'parked', positions, now: START }]);
        count(write, [{ scope: 'destination', id: CRM, name: 'owed', n: positions.length }]);
        if (fails) throw new Error('the batch fails');
      });
    await expect(owe([1], true)).rejects.toThrow('the batch fails');
    await owe([1, 2], false);
    await owe([3], false);
    expect(await a.queue.stats()).toMatchObject([{ onDisk: 3 }]);
    expect(await sql('select n from pending')).toEqual([{ n: 3 }]);
  });

  it('erases from what another node holds, and that one is told when it settles', async () => {
    const holdings = await a.owe('held', range(10, 4));
    await a.owe('parked', range(20, 2));
    const erased = await b.database.write(async (write) => {
      const gone = await erasePending(write, new Set([11, 12, 21]));
      count(write, [{ scope: 'destination', id: CRM, name: 'erased', n: gone.get(CRM)! }]);
      return gone;
    });
    expect(erased).toEqual(new Map([[CRM, 3]]));
    expect(await a.queue.settle(holdings.map(delivered))).toEqual({ ignored: 2 });
    expect(await crm()).toMatchObject({ owed: 6, delivered: 2, erased: 3, pending: 1 });
  });

  it('erases dead letters, wide and narrow, and knows which positions are dead', async () => {
    const holdings = await a.owe('held', [1, 2, 70_000, 140_000]);
    await a.queue.settle(holdings.map((one) => dead(one)));
    const between = (from: number, below: number) =>
      a.database.read((read) => deadPositionsBetween(read, from, below));
    expect(await between(2, 70_001)).toEqual(new Set([2, 70_000]));
    const erased = await a.database.write(async (write) => {
      const gone = await eraseDeadLetters(write, new Set([2, 3, 70_000]));
      count(write, gone.counts);
      return gone.count;
    });
    expect(erased).toBe(2);
    expect(await crm()).toMatchObject({ dead: { status_400: 2 }, erased: 2 });
    expect(await between(0, 200_000)).toEqual(new Set([1, 140_000]));
  });

  it('erases what others move into new rows meanwhile: claims a part of a row, redeliveries a dead letter', async () => {
    const [, holding] = [await a.owe('parked', range(0, 10)), ...(await a.owe('held', [20]))];
    await a.queue.settle([dead(holding!)]);
    const columns = 'destination, due, since, first, last, n, tried, origin, refs';
    const other = await connectTo(url);
    try {
      for (const [gone, move] of [
        [
          range(0, 10),
          `with gone as (delete from pending returning *) insert into pending(id, ${columns}) select 1000000, ${columns} from gone`,
        ],
        [
          [20],
          `with gone as (delete from dead_letter returning *) insert into pending(id, destination, due, since, first, last, n, tried, refs)
             select 2000000, destination, at, at, first, last, n, 0, refs from gone;
           update ledger set value = 0 where name = 'dead:status_400'`,
        ],
      ] as const) {
        await other.query(`begin; ${move}`);
        const erasing = a.database.write(async (write) => {
          const erased = await eraseOwed(write, new Set(gone));
          count(write, erased.counts);
          return erased;
        });
        await server.isBlocked(url);
        await other.query('commit');
        expect(await erasing).toMatchObject({ deliveries: gone.length, deadLetters: 0 });
      }
    } finally {
      await other.end();
    }
    expect(await a.queue.stats()).toEqual([]);
  });

  it('writes results once whose commit was broken off before it happened', async () => {
    const holdings = await a.owe('held', range(0, 6));
    await sql(`
      create function linger() returns trigger language plpgsql as $$
      begin perform pg_advisory_lock(77); perform pg_advisory_unlock(77); return null; end $$;
      create constraint trigger linger after update on pending deferrable initially deferred
        for each row execute function linger()`);
    const settling = await b.database.session(async (session) => {
      await session.query('select pg_advisory_lock(77)');
      const answer = a.queue.settle(holdings.slice(0, 4).map(delivered));
      await server.isBlocked(url);
      await session.query(`select pg_terminate_backend(pid) from pg_stat_activity
        where wait_event_type = 'Lock' and datname = current_database()`);
      await session.query('select pg_advisory_unlock(77)');
      return { answer };
    });
    expect(await settling.answer).toEqual({ ignored: 0 });
    expect(await crm()).toMatchObject({ owed: 6, delivered: 4, pending: 2 });
    await a.queue.settle(holdings.slice(4).map(delivered));
  });

  describe('whose commits wait for a standby', () => {
    let own: Postgres;

    beforeAll(async () => {
      own = await postgres.startServer();
    });
    beforeEach(async () => {
      for (const node of [a, b]) await node.stop();
      server = own;
      url = await own.makeDatabase();
      a = await join(url, 'a');
      b = await join(url, 'b');
    });
    afterEach(() => waitFor(''));

    /** From now on commits wait for a standby of this name, or for none. */
    async function waitFor(standby: string): Promise<void> {
      await own.administrate(`alter system set synchronous_standby_names = '${standby}'`);
      await own.administrate('select pg_reload_conf()');
    }

    const waiting = (query: string) => `from pg_stat_activity
      where wait_event = 'SyncRep' and query like '${query}%' and datname = current_database()`;
    const other = <Row>(text: string) => b.database.session((session) => session.query<Row>(text));
    /** Resolves when such a statement waits, and is cut off. */
    const cut = (query: string) =>
      until(
        `a "${query}" waits for the standby`,
        async () => (await other(`select pg_terminate_backend(pid) ${waiting(query)}`)).length > 0,
      );

    it('claims again what a claim took whose commit is in doubt', async () => {
      await a.owe('parked', [1, 2, 3]);
      await waitFor('nobody');
      await until('commits wait for the standby', isWaiting);
      const inDoubt = expect(a.queue.claim(CRM, 2, START)).rejects.toThrow(UnknownCommitError);
      await cut('commit');
      await inDoubt;
      await waitFor('');
      // The claim has happened, and nobody holds what it took.
      const { deliveries } = await a.queue.claim(CRM, 9, START);
      expect(deliveries.map(({ delivery }) => delivery.position).sort()).toEqual([1, 2, 3]);
      expect(
        (await a.queue.settle(deliveries.map((one) => delivered({ destination: CRM, ...one })))).ignored,
      ).toBe(0);
    });

    it.each([
      { known: true, when: 'of results' },
      { known: false, when: 'of the URL that they name' },
    ])('writes results once when a commit $when happened, but was not answered', async ({ known }) => {
      if (known) await a.queue.settle((await a.owe('held', [100])).map(delivered));
      const holdings = await a.owe('held', range(0, 6));
      // The commit is on this machine, and waits for a standby that does not exist.
      await waitFor('nobody');
      await until('commits wait for the standby', isWaiting);
      const answer = a.queue.settle([...holdings, holdings[0]!].map(delivered));
      await cut('commit');
      await waitFor('');
      expect(await answer).toEqual({ ignored: 1 });
      expect(await crm()).toMatchObject({ delivered: known ? 7 : 6, pending: 0 });
    });

    /** Makes a commit, and cuts it off if it waits. */
    async function isWaiting(): Promise<boolean> {
      let isDone = false;
      const probe = other(`comment on table producer is 'probe'`)
        .catch(() => undefined)
        .finally(() => {
          isDone = true;
        });
      const cutOff = await until('a probe is committed, or waits', async () => {
        const cuts = await other(`select pg_terminate_backend(pid) ${waiting('comment')}`);
        return (cuts.length > 0 && 'cut off') || (isDone && 'committed');
      });
      await probe;
      return cutOff === 'cut off';
    }
  });

  it('takes all that comes during a commit into the next one', async () => {
    const sets = await Promise.all(range(0, 30).map((n) => a.owe('held', range(n * 10, 10))));
    const commits = async () =>
      (await sql<{ n: number }>('select xmin::text::bigint as n from accepted_attempt group by xmin')).length;
    const results = sets.flatMap((holdings) => holdings.map((one) => a.queue.settle([delivered(one)])));
    expect(new Set((await Promise.all(results)).map(({ ignored }) => ignored))).toEqual(new Set([0]));
    expect(await commits()).toBeLessThanOrEqual(2);
    expect(await crm()).toMatchObject({ delivered: 300, pending: 0 });
  });

  it('claims by an index that dead rows of held sets are not in, whatever the statistics say', async () => {
    // Planned while the table is empty.
    await claim(a, START);
    await sql('analyze pending');
    await a.owe('parked', range(0, 10));
    for (let n = 0; n < 200; n++) {
      const holdings = await a.owe('held', range(1000 + n * 10, 10), START - HOUR);
      await a.queue.settle(holdings.map(delivered));
    }
    const plan = await a.database.session(async (session) => {
      await session.query('set enable_seqscan = off; set enable_bitmapscan = off');
      const rows = await session.query<{ 'QUERY PLAN': string }>(`explain (analyze, buffers)
        select id from pending where destination = 1 and owner is null and due <= ${START} order by due, id limit 64`);
      return rows.map((row) => row['QUERY PLAN']).join('\n');
    });
    expect(plan).toContain('pending_due');
    const buffers = [...plan.matchAll(/shared hit=(\d+)(?: read=(\d+))?/g)].map(
      ([, hit, read]) => Number(hit) + Number(read ?? 0),
    );
    expect(Math.max(...buffers)).toBeLessThan(20);
    expect(await claim(b, START)).toHaveLength(10);
  });

  it('locks no more rows than it is likely to need', async () => {
    const locked = async () =>
      (
        await sql<{ n: number }>(
          `select count(*)::int as n from pending where xmax::text <> '0' and owner is null`,
        )
      )[0]!.n;
    await a.owe('parked', range(0, 100));
    expect(await claim(a, START, 50)).toHaveLength(50);
    for (let nth = 1; nth <= 30; nth++) await a.owe('parked', range(nth * 100, 100), START + nth * SECOND);
    expect(await claim(a, START + MINUTE, 150)).toHaveLength(150);
    expect(await locked()).toBeLessThanOrEqual(3);
    // Where rows are smaller than it thought, it takes more of them.
    for (let nth = 1; nth <= 40; nth++) await b.owe('parked', [10_000 + nth], START + nth);
    await a.queue.nextDue();
    expect(await claim(a, START + MINUTE, 1000)).toHaveLength(1000);
    expect(await claim(a, START + MINUTE)).toHaveLength(3140 - 1200);
  });

  describe('while an old transaction is open', () => {
    const STEP = 5 * SECOND;

    /** Entries of the index of due sets that were read. */
    async function entriesRead(): Promise<number> {
      // Only a connection itself can hand in its figures.
      await one.database.session((session) => session.query('select pg_stat_force_next_flush()'));
      const [index] = await sql<{ n: number }>(
        `select idx_tup_read as n from pg_stat_user_indexes where indexrelname = 'pending_due'`,
      );
      return index!.n;
    }

    let one: Node;
    let old: pg.Client;
    beforeEach(async () => {
      one = await join(url, 'one', 1);
      old = await connectTo(url);
      await old.query('begin isolation level repeatable read; select txid_current(), count(*) from pending');
    });
    afterEach(async () => {
      await old.end();
      await one.stop();
    });

    /** Parks and delivers, again and again. Resolves to when it ended. */
    async function work(from: number, times: number): Promise<number> {
      for (let nth = 0; nth < times; nth++) {
        const now = START + (from + nth) * STEP;
        await one.owe('parked', range((from + nth) * 10, 10), now);
        await one.queue.nextDue();
        const claimed = await claim(one, now);
        expect(claimed).toHaveLength(10);
        await one.queue.settle(claimed.map(delivered));
      }
      return START + (from + times - 1) * STEP;
    }

    it('claims pass over nothing that claims before them have taken', async () => {
      await work(0, 100);
      const before = await entriesRead();
      await work(100, 100);
      // Each look at all passes over every row that was claimed.
      const looks = 100 * 100 + (100 * 101) / 2;
      expect((await entriesRead()) - before - looks).toBeLessThan(100 * 10);
    });

    it('claims find at once what their own process makes due earlier, and what it adopts', async () => {
      const now = await work(0, 3);
      await one.owe('parked', range(1000, 5), now - HOUR);
      expect(await claim(one, now)).toHaveLength(5);
      await one.queue.settle(held(await retriedLater(now)).map((each) => retried(each, now + HOUR)));
      expect(await claim(one, now)).toEqual([]);
      expect(await one.queue.makeDue(CRM, now - HOUR)).toBe(3);
      expect(await claim(one, now)).toHaveLength(3);
      await b.owe('held', range(3000, 7), now - HOUR);
      await lapse(b);
      expect(await claim(one, now)).toEqual([]);
      expect(await one.queue.recoverOrphans()).toBe(7);
      expect(await claim(one, now)).toHaveLength(7);
    });

    async function retriedLater(now: number) {
      await one.owe('parked', range(2000, 3), now);
      return (await one.queue.claim(CRM, ALL, now)).deliveries;
    }

    it('claims find what another process made due in the past when somebody has looked at all', async () => {
      const now = await work(0, 3);
      await b.owe('parked', range(1000, 5), now - HOUR);
      expect(await claim(one, now)).toEqual([]);
      expect(await one.queue.nextDue()).toEqual([{ destination: CRM, nextDueAt: now - HOUR }]);
      expect(await claim(one, now)).toHaveLength(5);
    });

    it('claims look at all themselves when nobody does', async () => {
      const now = await work(0, 3);
      await b.owe('parked', range(1000, 5), now - HOUR);
      const late = performance.now() + 5000;
      const clock = vi.spyOn(performance, 'now').mockImplementation(() => late);
      try {
        expect(await claim(one, now)).toHaveLength(5);
      } finally {
        clock.mockRestore();
      }
    });
  });
});
