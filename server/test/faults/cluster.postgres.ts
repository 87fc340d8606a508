import type pg from 'pg';
import { afterEach, describe, expect, it } from 'vitest';
import { chanceOf } from '../support/disk-faults/random.ts';
import { connectTo } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { amountOf, IS_LONG, replayOf, SEED } from '../support/runs.ts';
import { until, within } from '../support/until.ts';
import { Cluster, type Drilled } from './cluster.ts';
import { largest, passed } from './passed.ts';
import { type Arrival, expectExplained } from './repeats.ts';
import { lasting } from './waiting.ts';

const SECOND = 1000;

/** How often a node is killed. */
const KILLS = amountOf({ gate: 2, long: 40 });

/** Seconds in which the endpoint is down after all nodes have found that out. */
const OUTAGE = IS_LONG ? 300 : 5;

/**
 * Requests of a node that cannot write results, for each that it has at once: it sends for a second after the
 * first result that is not written, and the endpoint takes a second for each.
 */
const MOST_OF_ONE = 3;

/** Milliseconds for a drill: those of the long run last for minutes by themselves. */
const timeout = IS_LONG ? 3_600_000 : 300_000;

describe.skipIf(!HAS_POSTGRES)(`a cluster loses nothing it has acknowledged (${replayOf(SEED)})`, () => {
  const postgres = usePostgres();
  let cluster: Cluster;

  afterEach(() => cluster?.stop());

  it(`when a node is killed, ${KILLS} times at any moment`, { timeout }, async () => {
    const chance = chanceOf(SEED);
    cluster = await Cluster.start(postgres, ['a', 'b']);
    cluster.beginLoad();
    for (let nth = 0; nth < KILLS; nth++) {
      const node = cluster.nodes[nth % 2]!;
      await lasting(chance.between(300, 1500));
      await cluster.freeze(node);
      await node.program.kill();
      await lasting(chance.between(0, SECOND));
      node.program = await cluster.launch(node.name, node.line);
    }
    const drilled = await cluster.settle();
    const explained = expectExplained(drilled.repeated);
    passed('cluster, node killed', { kills: KILLS, ...sumsOf(drilled), ...explained });
  });

  for (const seconds of [9, 30])
    it.runIf(seconds < 10 || IS_LONG)(
      `when a node stands still for ${seconds} s, which sends nothing after its lease is over`,
      async () => {
        cluster = await Cluster.start(postgres, ['a', 'b']);
        const node = cluster.node('a');
        // Many deliveries wait in its memory.
        cluster.answersAfter = 500;
        cluster.beginLoad({ clients: 8, events: 20, pause: 100 });
        await cluster.takes(800);
        await cluster.freeze(node);
        await lasting(seconds * SECOND);
        const before = cluster.arrivals.length;
        process.kill(node.program.pid, 'SIGCONT');
        const said = node.program.saw(/^.*joined_again.*$/m);
        const [line] = await within('the node that stood still joins again', said);
        // When it said so, and not when it was read here: it sends again by then.
        const joined = Date.parse((JSON.parse(line) as { time: string }).time) - performance.timeOrigin;
        const late = cluster.arrivalsOf(node, before).filter(({ at }) => at < joined);
        // The node may have stood still between its last look at the lease and the write: that one request
        // goes out when it goes on.
        expect(late.length, JSON.stringify(late.map(({ id }) => id))).toBeLessThan(2);
        cluster.answersAfter = 0;
        const drilled = await cluster.settle();
        const explained = expectExplained(drilled.repeated);
        passed('cluster, node frozen', { seconds, ...sumsOf(drilled), ...explained });
      },
    );

  for (const seconds of IS_LONG ? [1, 12] : [1])
    it(`when the database is killed, and started again after ${seconds} s`, async () => {
      const own = await postgres.startServer();
      cluster = await Cluster.start(own, ['a', 'b']);
      cluster.beginLoad();
      await cluster.takes(200);
      const at = performance.now();
      await own.crash();
      // The nodes join again when this is longer than a lease.
      await lasting(seconds * SECOND);
      await own.restart();
      const back = await takenAgain(at);
      await cluster.takes(200);
      const drilled = await cluster.settle();
      const facts = { ...sumsOf(drilled), ...expectExplained(drilled.repeated, at + back) };
      passed('cluster, database killed', { seconds, ...facts, 'taken again after, ms': back });
    });

  it('when the standby takes over under load', async () => {
    const own = await postgres.startServer();
    const standby = await own.makeStandby();
    cluster = await Cluster.start(own, ['a', 'b']);
    cluster.beginLoad();
    await cluster.takes(200);
    const at = performance.now();
    await own.crash();
    await standby.promote();
    for (const { line } of cluster.nodes) line.turn(standby);
    const back = await takenAgain(at);
    await cluster.takes(200);
    passed('cluster, failover', { ...sumsOf(await cluster.settle()), 'taken again after, ms': back });
  });

  it('when the primary takes no writes any more and keeps its sessions, as one that becomes a standby', async () => {
    const own = await postgres.startServer();
    const standby = await own.makeStandby();
    cluster = await Cluster.start(own, ['a', 'b']);
    cluster.beginLoad();
    await cluster.takes(200);
    const at = performance.now();
    await own.administrate('alter system set default_transaction_read_only = on');
    await own.administrate('select pg_reload_conf()');
    await standby.promote();
    for (const { line } of cluster.nodes) line.lead(standby);
    const back = await takenAgain(at);
    await cluster.takes(200);
    passed('cluster, primary read-only', {
      ...sumsOf(await cluster.settle()),
      'taken again after, ms': back,
    });
  });

  for (const seconds of [10, 25])
    it.runIf(seconds === 10 || IS_LONG)(
      `when the network between a node and the database is cut for ${seconds} s, which sends no more than it can note`,
      async () => {
        cluster = await Cluster.start(postgres, ['a', 'b']);
        // Many deliveries wait in its memory.
        cluster.answersAfter = SECOND;
        cluster.beginLoad({ clients: 8, events: 20, pause: 100 });
        await cluster.takes(800);
        const node = cluster.node('a');
        const lease = node.line.leases.at(-1)!;
        const before = cluster.arrivals.length;
        node.line.cut();
        await lasting(seconds * SECOND);
        const sent = cluster.arrivalsOf(node, before).length;
        const atOnce = mostAtOnce(cluster.arrivalsOf(node));
        node.line.mend();
        await until('the node that was cut off has another lease', () => Number.isFinite(lease.endedAt));
        await cluster.takes(100);
        cluster.answersAfter = 0;
        const drilled = await cluster.settle();
        // A node whose results cannot be written sends nothing more: others may repeat all that it has sent.
        expect(sent).toBeLessThanOrEqual(MOST_OF_ONE * atOnce);
        const explained = expectExplained(drilled.repeated);
        passed('cluster, network cut', {
          seconds,
          ...sumsOf(drilled),
          sent,
          'at once': atOnce,
          ...explained,
        });
      },
    );

  const outage = `when the endpoint is down for ${OUTAGE} s, which the nodes probe by turns, and not each for itself`;
  it(outage, { timeout }, async () => {
    cluster = await Cluster.start(postgres, ['a', 'b']);
    cluster.beginLoad({ pause: OUTAGE > 60 ? SECOND : 100 });
    await cluster.takes(200);
    cluster.isDown = true;
    const hasOpened = async () => {
      const overviews = await Promise.all(cluster.nodes.map((node) => cluster.overview(node)));
      return overviews.every(({ lanes }) => lanes['crm']!.nextProbeAt !== undefined);
    };
    await until('both nodes have found that the endpoint is down', hasOpened);
    await until('what both have sent until then is answered', () => cluster.refused.waiting === 0);
    // Long enough to be seen by the other node, if that did not wait for its turn.
    cluster.answersAfter = 500;
    const { refused } = cluster;
    const [before, began] = [refused.requests, performance.now()];
    refused.mostWaiting = 0;
    await lasting(OUTAGE * SECOND);
    await until('the endpoint was probed', () => refused.requests > before);
    const [probes, seconds] = [refused.requests - before, (performance.now() - began) / SECOND];
    cluster.answersAfter = 0;
    cluster.isDown = false;
    const drilled = await cluster.settle();
    expect(refused.mostWaiting).toBe(1);
    // Some nine a minute, and more of them at first.
    // clock: a slow machine waits for longer, and probes no more often
    expect(probes).toBeLessThan(20 + (seconds / 60) * 10);
    passed('cluster, endpoint down', { seconds: OUTAGE, ...sumsOf(drilled), probes });
  });

  it('when the network to the database is slow by 200 ms', async () => {
    cluster = await Cluster.start(postgres, ['a', 'b']);
    for (const { line } of cluster.nodes) line.slow(200);
    cluster.beginLoad();
    await cluster.takes(120);
    const drilled = await cluster.settle();
    passed('cluster, network slow', { ...sumsOf(drilled), ...expectExplained(drilled.repeated) });
  });

  it('when all nodes are restarted one after the other, and a proxy in front finds one that takes each call', async () => {
    cluster = await Cluster.start(postgres, ['a', 'b']);
    cluster.patience = 60 * SECOND;
    cluster.beginLoad();
    for (const node of cluster.nodes) {
      await cluster.takes(50);
      expect(await cluster.restart(node)).toBe(0);
    }
    await cluster.takes(50);
    const drilled = await cluster.settle();
    expect(cluster.refusals).toEqual([]);
    expect(drilled.repeated).toEqual([]);
    passed('cluster, rolling restart', sumsOf(drilled));
  });

  const transaction = 'and claims as fast as before while a transaction stays open for minutes';
  it.runIf(IS_LONG)(transaction, { timeout }, async () => {
    cluster = await Cluster.start(postgres, ['a']);
    const url = `postgres:///${cluster.database}?host=${encodeURIComponent(postgres.folder)}&user=millrace`;
    const client = await connectTo(url);
    cluster.beginLoad({ clients: 8, events: 50, pause: 0 });
    await lasting(5 * SECOND);
    const before = await blocksOfClaim(client);
    // Vacuum must keep every row that this transaction may still see.
    const old = await connectTo(url);
    await old.query('begin isolation level repeatable read; select count(*) from pending');
    await lasting(120 * SECOND);
    const after = await blocksOfClaim(client);
    await old.end();
    await client.end();
    const drilled = await cluster.settle();
    const facts = { 'blocks of a claim before': before, 'and after': after };
    passed('cluster, old transaction', { ...sumsOf(drilled), ...facts });
    expect(after).toBeLessThan(Math.max(5 * before, 100));
  });

  /** Milliseconds from a moment to the next call that is acknowledged. */
  async function takenAgain(since: number): Promise<number> {
    await cluster.takes(1);
    return Math.round(performance.now() - since);
  }
});

/** Blocks that the server reads for a look at what is due, in the middle of many. */
async function blocksOfClaim(client: pg.Client): Promise<number> {
  await client.query('set enable_seqscan = off; set enable_bitmapscan = off');
  const blocks: number[] = [];
  for (let nth = 0; nth < 51; nth++) {
    const { rows } = await client.query<{ 'QUERY PLAN': readonly { Plan: Record<string, number> }[] }>(
      `explain (analyze, buffers, format json) select id from pending
        where owner is null and destination = 1 and due <= 9e15 order by due, id limit 200`,
    );
    const { Plan: plan } = rows[0]!['QUERY PLAN'][0]!;
    blocks.push(plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!);
  }
  return blocks.sort((a, b) => a - b)[25]!;
}

/** How many requests waited for their answers at the same time, where each takes a second. */
function mostAtOnce(arrivals: readonly Arrival[]): number {
  return largest(
    arrivals.map(({ at }) => arrivals.filter((other) => other.at <= at && other.at > at - SECOND).length),
  );
}

function sumsOf({ acknowledged, lost, repeated }: Drilled): Record<string, number> {
  return { acknowledged, lost, repeated: repeated.length };
}
