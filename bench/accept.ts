import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { accepting, alternate, CONNECTIONS, type Figure, line, middle, rate, SECONDS } from './figures.ts';
import { startMillrace } from './millrace.ts';
import { result, run } from './processes.ts';

/**
 * The cost of accepting: `node bench/accept.ts`, with SECONDS (4) and ROUNDS (3). Single calls and batches of
 * 100, with the store on a disk in memory (where there is one) and with the store on disk. Both are measured
 * by turns with the parts that no server could do without: a `node:http` server that collects and parses the
 * body, and SQLite writing the same bytes durably, a row a request.
 *
 * Load generator and servers share the machine, so the rates per second of processor time, and their ratios,
 * say more than the rates. The bare parts are added up as time: one event costs what both cost.
 *
 * Every connection waits for its answer, so there are never more calls to share a commit than there are
 * connections: single calls are measured with few and with many.
 */
const OFFERED = [
  { events: 1, connections: CONNECTIONS },
  { events: 1, connections: 4 * CONNECTIONS },
  { events: 100, connections: CONNECTIONS },
];

const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'));
/** Linux has a disk in memory there, on which a sync costs nothing. */
const RAM = '/dev/shm';
const unsynced = existsSync(RAM) ? mkdtempSync(join(RAM, 'millrace-bench-')) : undefined;

try {
  for (const offered of OFFERED) {
    const { events, connections } = offered;
    const [bare = [], disk = [], insert = [], ram = []] = await alternate(
      () => accepting(run(['bench/bare.ts', 'echo']), offered),
      () => accepting(startMillrace(folder), offered),
      () => result(['bench/bare.ts', 'insert', join(folder, 'bare.db'), String(events), String(SECONDS)]),
      ...(unsynced === undefined ? [] : [() => accepting(startMillrace(unsynced), offered)]),
    );
    console.log(`${events === 1 ? 'single calls' : `batches of ${events}`}, ${connections} connections`);
    console.log(line('node:http, body collected and parsed', bare, 'events'));
    if (ram.length > 0) console.log(line('millrace, store on a disk in memory', ram, 'events'));
    console.log(line('node:sqlite, a row a request, synced', insert, 'events'));
    console.log(line('millrace, durable', disk, 'events'));
    const [parse, write] = [middle(bare, 'perCpuSecond'), middle(insert, 'perCpuSecond')];
    const parts = 1 / (1 / parse + 1 / write);
    console.log(`  bare parts together ${rate(parts)} events per CPU second`);
    const ratio = (figures: readonly Figure[], to: number) =>
      (middle(figures, 'perCpuSecond') / to).toFixed(2);
    if (ram.length > 0) console.log(`  disk in memory / bare parse  ${ratio(ram, parse)} (target 0.70)`);
    console.log(`  durable / bare parts         ${ratio(disk, parts)} (target 0.50)\n`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
  if (unsynced !== undefined) rmSync(unsynced, { recursive: true, force: true });
}
