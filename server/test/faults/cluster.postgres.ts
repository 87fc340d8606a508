import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { findPostgres, type Postgres, startPostgres } from '../support/postgres.ts';
import { type Arrival, Cluster, type Drilled, freeze, portsOf } from './cluster.ts';
import { largest, passed } from './passed.ts';
import { lasting } from './waiting.ts';

const bin = findPostgres();

const SECOND = 1000;

/** Drills of minutes too. */
const isLong = process.env['MILLRACE_CLUSTER_LONG'] === '1';
/** Seconds in which the endpoint is down. */
const OUTAGE = Number(process.env['MILLRACE_CLUSTER_OUTAGE'] ?? 30);

/** How often a node is killed. */
const KILLS = Number(process.env['MILLRACE_CLUSTER_KILLS'] ?? 3);

/** Milliseconds by which a busy machine may show a request later than it came. */
const SHOWN_WITHIN = 250;
/** The same where the port tells which node it came from: a dead one sends nothing, however late its last requests are read. */
const READ_WITHIN = 2 * SECOND;

/** The end of a node, or of its way to the database. */
interface Fault {
  readonly at: number;
  /** The ports of the node that it concerns; absent when it concerns all. */
  readonly ports?: ReadonlySet<number>;
}

/** How long before the fault behind it the oldest event was sent that was sent again. Each repeat must have a fault behind it. */
function oldestRepeat({ repeated }: Drilled, faults: readonly Fault[]): number {
  const faultBehind = (first: Arrival) =>
    faults.find(({ ports, at }) =>
      ports === undefined
        ? first.at - SHOWN_WITHIN <= at
        : ports.has(first.port) && first.at - READ_WITHIN <= at,
    );
  const unexplained = repeated.filter(({ first }) => faultBehind(first) === undefined);
  expect({ unexplained, faults: unexplained.length === 0 ? [] : faults }).toEqual({
    unexplained: [],
    faults: [],
  });
  return Math.round(largest(repeated.map(({ first }) => faultBehind(first)!.at - first.at)));
}

describe.skipIf(bin === undefined)('a cluster loses nothing it has acknowledged', () => {
  let server: Postgres;
  let cluster: Cluster;

  beforeAll(async () => {
    // What a kill leaves is in the memory of the system, whether it was synced or not.
    server = await startPostgres(bin!, { fsync: 'off' });
  });
  afterAll(() => server.stop());
  afterEach(() => cluster.stop());

  it(`when a node is killed, ${KILLS} times at any moment`, async () => {
    cluster = await Cluster.start(server, ['a', 'b']);
    cluster.beginLoad();
    const deaths: Fault[] = [];
    for (let nth = 0; nth < KILLS; nth++) {
      const node = cluster.nodes[nth % 2]!;
      await lasting(300 + Math.random() * 2000);
      // Its end begins here: a busy machine takes a while for the rest.
      await freeze(node.program.pid);
      deaths.push({ at: performance.now(), ports: portsOf(node.program.pid) });
      await node.program.kill();
      await lasting(Math.random() * SECOND);
      node.program = await cluster.launch(node.name, node.line);
    }
    const drilled = await cluster.settle();
    const oldest = oldestRepeat(drilled, deaths);
    expect(oldest).toBeLessThan(SECOND);
    passed('cluster, node killed', { kills: KILLS, ...sumsOf(drilled), 'oldest repeated, ms': oldest });
  });

  for (const seconds of [9, 30])
    it.runIf(seconds < 10 || isLong)(
      `when a node stands still for ${seconds} s, which sends nothing after its lease is over`,
      async () => {
        cluster = await Cluster.start(server, ['a', 'b']);
        const { program } = cluster.node('a');
        // Many deliveries wait in its memory.
        cluster.answersAfter = 500;
        cluster.beginLoad({ clients: 8, events: 20 });
        await lasting(2 * SECOND);
        await freeze(program.pid);
        const stopped = performance.now();
        const ports = portsOf(program.pid);
        await lasting(seconds * SECOND);
        const before = cluster.arrivals.length;
        const continued = performance.now();
        process.kill(program.pid, 'SIGCONT');
        const [line] = await program.saw(/^.*joined_again.*$/m);
        // When it said so, and not when it was read here: it sends again by then.
        const joined = Date.parse((JSON.parse(line) as { time: string }).time) - performance.timeOrigin;
        const portsAfter = portsOf(program.pid);
        const late = cluster.arrivals
          .slice(before)
          .filter(({ at, port }) => at < joined && (ports.has(port) || portsAfter.has(port)))
          .map(({ id, at }) => ({ id, msAfterItWentOn: Math.round(at - continued) }));
        // The node may have stood still between its last look at the lease and the write: that one request goes out when it goes on.
        expect(late.filter(({ msAfterItWentOn }) => msAfterItWentOn > SHOWN_WITHIN)).toEqual([]);
        expect(late.length, JSON.stringify(late)).toBeLessThan(2);
        cluster.answersAfter = 0;
        const drilled = await cluster.settle();
        const oldest = oldestRepeat(drilled, [{ at: stopped, ports }]);
        expect(oldest).toBeLessThan(SECOND);
        passed('cluster, node frozen', { seconds, ...sumsOf(drilled), 'oldest repeated, ms': oldest });
      },
    );

  it.each([
    ['and started again', 1],
    ['for longer than a lease, so that all nodes join again', 12],
  ])('when the database is killed %s', async (_, seconds) => {
    const own = await startPostgres(bin!, { fsync: 'off' });
    try {
      cluster = await Cluster.start(own, ['a', 'b']);
      cluster.beginLoad();
      await lasting(1500);
      const at = performance.now();
      await own.crash();
      await lasting(seconds * SECOND);
      await own.restart();
      const back = await takenAgain(at);
      await lasting(SECOND);
      const drilled = await cluster.settle();
      // Its result could not be written when it was sent.
      const oldest = Math.max(0, oldestRepeat(drilled, [{ at: at + back }]) - back);
      expect(oldest).toBeLessThan(SECOND);
      passed('cluster, database killed', {
        seconds,
        ...sumsOf(drilled),
        'taken again after, ms': back,
        'oldest repeated, ms before the kill': oldest,
      });
    } finally {
      await cluster.stop();
      await own.stop();
    }
  });

  it('when the standby takes over under load', async () => {
    const own = await startPostgres(bin!, { fsync: 'off' });
    const standby = await own.makeStandby();
    try {
      cluster = await Cluster.start(own, ['a', 'b']);
      cluster.beginLoad();
      await lasting(1500);
      const at = performance.now();
      await own.crash();
      await standby.promote();
      for (const { line } of cluster.nodes) line.turn(standby);
      const back = await takenAgain(at);
      await lasting(SECOND);
      passed('cluster, failover', { ...sumsOf(await cluster.settle()), 'taken again after, ms': back });
    } finally {
      await cluster.stop();
      await standby.stop();
      await own.stop();
    }
  });

  for (const seconds of [10, 25])
    it.runIf(seconds === 10 || isLong)(
      `when the network between a node and the database is cut for ${seconds} s`,
      async () => {
        cluster = await Cluster.start(server, ['a', 'b']);
        // Many deliveries wait in its memory.
        cluster.answersAfter = SECOND;
        cluster.beginLoad({ clients: 8, events: 20 });
        await lasting(2 * SECOND);
        const { line, program } = cluster.node('a');
        const portsBefore = portsOf(program.pid);
        const cut = performance.now();
        line.cut();
        await lasting(2 * SECOND);
        const ports = new Set([...portsBefore, ...portsOf(program.pid)]);
        await lasting((seconds - 2) * SECOND);
        line.mend();
        await lasting(SECOND);
        cluster.answersAfter = 0;
        const drilled = await cluster.settle();
        // A node whose results cannot be written sends nothing more: others may repeat all that it has sent.
        const unwritten = drilled.repeated.map(({ first }) => first.at - cut);
        expect(largest(unwritten)).toBeLessThan(2.5 * SECOND);
        expect(oldestRepeat(drilled, [{ at: cut + 2 * SECOND, ports }])).toBeLessThan(4 * SECOND);
        passed('cluster, network cut', { seconds, ...sumsOf(drilled), 'sent for, ms': largest(unwritten) });
      },
    );

  const outage = `when the endpoint is down for ${OUTAGE} s, which the nodes probe by turns, and not each for itself`;
  it(outage, { timeout: (OUTAGE * 1.5 + 300) * SECOND }, async () => {
    cluster = await Cluster.start(server, ['a', 'b']);
    cluster.beginLoad({ pause: OUTAGE > 60 ? SECOND : 100 });
    await lasting(2 * SECOND);
    cluster.isDown = true;
    const downAt = performance.now();
    await lasting(OUTAGE * SECOND);
    cluster.isDown = false;
    const upAt = performance.now();
    // Until both breakers are open, each node has so many requests in flight.
    const probes = cluster.refused.filter(({ at }) => at > downAt + 5 * SECOND);
    await lasting(SECOND);
    const drilled = await cluster.settle();
    const back = Math.round(cluster.arrivals.find(({ at }) => at > upAt)!.at - upAt);
    expect(probes.length).toBeGreaterThan(0);
    // Some nine a minute, and more of them at first.
    expect(probes.length).toBeLessThan(20 + (OUTAGE / 60) * 10);
    passed('cluster, endpoint down', {
      seconds: OUTAGE,
      ...sumsOf(drilled),
      refused: cluster.refused.length,
      probes: probes.length,
      'delivered again after, ms': back,
    });
  });

  it('when the network to the database is slow by 200 ms', async () => {
    cluster = await Cluster.start(server, ['a', 'b']);
    for (const { line } of cluster.nodes) line.slow(200);
    cluster.beginLoad();
    await lasting(4 * SECOND);
    const drilled = await cluster.settle();
    expect(drilled.repeated).toEqual([]);
    passed('cluster, network slow', sumsOf(drilled));
  });

  it('when all nodes are restarted one after the other, and a proxy in front finds one that takes each call', async () => {
    cluster = await Cluster.start(server, ['a', 'b']);
    cluster.patience = 60 * SECOND;
    cluster.beginLoad();
    for (const node of cluster.nodes) {
      await lasting(500);
      expect(await node.program.stop()).toBe(0);
      node.program = await cluster.launch(node.name, node.line);
    }
    await lasting(500);
    const drilled = await cluster.settle();
    expect(cluster.refusals).toEqual([]);
    expect(drilled.repeated).toEqual([]);
    passed('cluster, rolling restart', sumsOf(drilled));
  });

  it.runIf(isLong)('and claims as fast as before while a transaction stays open for minutes', async () => {
    cluster = await Cluster.start(server, ['a']);
    const client = new pg.Client({ host: server.folder, user: 'millrace', database: cluster.database });
    await client.connect();
    const claims = () => timesOfClaims(cluster.database);
    cluster.beginLoad({ clients: 8, events: 50, pause: 0 });
    await lasting(5 * SECOND);
    const before = await claims();
    // Vacuum must keep every row that this transaction may still see.
    await client.query('begin isolation level repeatable read; select count(*) from pending');
    await lasting(120 * SECOND);
    const after = await claims();
    await client.query('commit');
    await client.end();
    const drilled = await cluster.settle();
    passed('cluster, old transaction', {
      ...sumsOf(drilled),
      'claim before, ms': before,
      'after, ms': after,
    });
    expect(after).toBeLessThan(Math.max(5 * before, 20));
  });

  /** Milliseconds from a moment to the next call that is acknowledged. */
  async function takenAgain(since: number): Promise<number> {
    const { size } = cluster.acknowledged;
    while (cluster.acknowledged.size === size) await lasting(20);
    return Math.round(performance.now() - since);
  }

  /** Milliseconds that a look at what is due takes, in the middle of many. */
  async function timesOfClaims(database: string): Promise<number> {
    const client = new pg.Client({ host: server.folder, user: 'millrace', database });
    await client.connect();
    await client.query('set enable_seqscan = off; set enable_bitmapscan = off');
    const times: number[] = [];
    for (let nth = 0; nth < 51; nth++) {
      const began = performance.now();
      await client.query(
        `begin; select id from pending where owner is null and destination = 1 and due <= 9e15
          order by due, id limit 200 for update skip locked; rollback`,
      );
      times.push(performance.now() - began);
    }
    await client.end();
    return Number(times.sort((a, b) => a - b)[25]!.toFixed(2));
  }
});

function sumsOf({ acknowledged, lost, repeated }: Drilled): Record<string, number> {
  return { acknowledged, lost, repeated: repeated.length };
}
