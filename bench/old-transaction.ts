import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectTo, findPostgres, startPostgres } from '../server/test/support/postgres.ts';
import { CallTemplate, Connections, orderOf } from './calls.ts';
import { startReceiver } from './delivering.ts';
import { rate } from './figures.ts';
import { destination } from './millrace.ts';
import { run } from './processes.ts';

/**
 * The cost of an old open transaction on PostgreSQL: `node bench/old-transaction.ts`, with MINUTES (10), RATE
 * (1000) events a second, and windows of SECONDS (60). While it is open, nothing that was deleted since can
 * be removed from the tables, and a claim may have to pass over it. One destination takes everything at once;
 * another takes a little less than comes, so that its deliveries are parked and claimed all the time. Each
 * line is a window; the first has no such transaction, in the last it has ended.
 */
const MINUTES = Number(process.env['MINUTES'] ?? 10);
const RATE = Number(process.env['RATE'] ?? 1000);
const WINDOW = Number(process.env['SECONDS'] ?? 60) * 1000;
const BATCH = 50;

const STATEMENTS = `select sum(calls)::int as calls, sum(total_exec_time) / sum(calls) as mean, max(max_exec_time) as most,
  sum(shared_blks_hit + shared_blks_read) / sum(calls) as blocks from pg_stat_statements where query ~ $1`;
const SIZE = `select pg_total_relation_size('pending') as bytes, n_dead_tup as dead from pg_stat_user_tables where relname = 'pending'`;

const bin = findPostgres();
if (bin === undefined) throw new Error('PostgreSQL 15 or newer is not installed');
const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-old-'));
const postgres = await startPostgres(bin, {
  settings: { shared_buffers: '1GB', max_wal_size: '4GB', shared_preload_libraries: 'pg_stat_statements' },
});
try {
  await measure();
} finally {
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function measure(): Promise<void> {
  const url = await postgres.makeDatabase();
  const [admin, old] = [await connectTo(url), await connectTo(url)];
  await admin.query('create extension pg_stat_statements');
  const [receiver, port] = await startReceiver();
  const { settings, ...crm } = destination(port);
  const slow = { ...crm, name: 'slow', settings: { ...settings, rateLimit: 0.8 * RATE } };
  const config = join(folder, 'millrace.yaml');
  const sources = [{ name: 'bench', writeKeys: ['bench'] }];
  const destinations = [destination(port), slow];
  writeFileSync(
    config,
    JSON.stringify({ egress: { allow: ['127.0.0.0/8'] }, sources, destinations, database: url, node: 'a' }),
  );
  const args = ['cli/bin/millrace.js', 'start', '--config', config, '--data', join(folder, 'data')];
  const program = run([...args, '--host', '127.0.0.1', '--port', '0']);
  const [, address] = await program.saw(/ready on (\S+)/);
  const template = new CallTemplate(Array.from({ length: BATCH }, () => orderOf()));
  await window('warming up');
  await window('before');
  await old.query('begin isolation level repeatable read');
  await old.query('select txid_current(), count(*) from pending');
  for (let open = WINDOW; open <= MINUTES * 60_000; open += WINDOW)
    await window(`open for ${(open / 60_000).toFixed(1)} min`);
  await old.query('commit');
  await window('ended');
  await window('a window later');
  await program.stop();
  await receiver.stop();
  await Promise.all([admin.end(), old.end()]);

  async function window(name: string): Promise<void> {
    await admin.query('select pg_stat_statements_reset()');
    const [arrived, cpu] = [Number(await receiver.ask('count')), program.cpu()];
    const connections = await Connections.open(address!, 1);
    const latencies: number[] = [];
    const startedAt = performance.now();
    const calls: Promise<void>[] = [];
    for (let nth = 0; ; nth++) {
      const at = startedAt + (nth * BATCH * 1000) / RATE;
      if (at - startedAt >= WINDOW) break;
      const early = at - performance.now();
      if (early > 0) await sleep(early);
      calls.push(timed(connections, latencies));
    }
    await Promise.all(calls);
    connections.close();
    const delivered = Number(await receiver.ask('count')) - arrived;
    latencies.sort((a, b) => a - b);
    const [claim, nextDue, ofAll] = [
      await statement('order by due, id limit'),
      await statement('select min.due.'),
      await statement('recursive next'),
    ];
    const { bytes, dead } = (await admin.query(SIZE)).rows[0];
    console.log(
      `${name.padEnd(16)} delivered ${rate((delivered * 1000) / WINDOW)}/s   call p50 ${latencies[latencies.length >> 1]!.toFixed(1)} ` +
        `p99 ${latencies[Math.floor(latencies.length * 0.99)]!.toFixed(1)} ms   claim ${claim}   next due ${nextDue}   of all ${ofAll}   ` +
        `pending ${(Number(bytes) / 2 ** 20).toFixed(1)} MB, ${dead} dead rows   ${(((program.cpu() - cpu) * 1e6) / delivered).toFixed(0)} µs a delivery`,
    );
  }

  async function timed(connections: Connections, latencies: number[]): Promise<void> {
    const from = performance.now();
    await connections.call(template.next());
    latencies.push(performance.now() - from);
  }

  async function statement(pattern: string): Promise<string> {
    const { rows } = await admin.query(STATEMENTS, [pattern]);
    const { calls, mean, most, blocks } = rows[0];
    if (calls === null) return 'none';
    return `${calls} × ${mean.toFixed(2)} ms (most ${most.toFixed(0)}, ${Number(blocks).toFixed(0)} blocks)`;
  }
}
