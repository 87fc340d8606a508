import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { accepting, alternate, CONNECTIONS, type Figure, line, middle, rate, SECONDS } from './figures.ts';
import { fetchMemory } from './fresh-memory.ts';
import { startMillrace } from './millrace.ts';
import { median, result, run } from './processes.ts';

/**
 * What accepting costs: `node bench/accept.ts`, with SECONDS (4) and ROUNDS (3). Single calls and batches of 100, with the
 * model of the store, which keeps everything in memory, with the store itself on a disk in memory (where there is one), and with
 * the store on disk, each measured by turns with the parts that nobody could do without: a `node:http` server that collects and
 * parses the body, and SQLite writing the same bytes durably, a row a request.
 *
 * Load generator and servers share the machine, so the rates per second of processor time, and their ratios, say more than
 * the rates. The bare parts are added up as time: one event costs what both cost.
 *
 * Every connection waits for its answer, so there are never more calls to share a commit than there are connections: single calls
 * are measured with few and with many.
 */
const OFFERED = [
  { events: 1, connections: CONNECTIONS },
  { events: 1, connections: 4 * CONNECTIONS },
  { events: 100, connections: CONNECTIONS },
];

/** As the program starts itself: cli/bin/millrace.js. */
const HEAP = '--max-semi-space-size=16';

const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'));
/** Linux has a disk in memory there, on which a sync costs nothing. */
const RAM = '/dev/shm';
const unsynced = existsSync(RAM) ? mkdtempSync(join(RAM, 'millrace-bench-')) : undefined;

try {
  for (const offered of OFFERED) {
    const { events, connections } = offered;
    const pages: number[] = [];
    const [bare = [], memory = [], disk = [], insert = [], ram = []] = await alternate(
      () => accepting(run(['bench/bare.ts', 'echo']), offered),
      // Not as long as the others: all it has stored stays in memory, and weighs on it.
      () => {
        pages.push(fetchMemory());
        return accepting(run([HEAP, 'bench/accepting.ts']), offered, 1);
      },
      () => accepting(startMillrace(folder), offered),
      () => result(['bench/bare.ts', 'insert', join(folder, 'bare.db'), String(events), String(SECONDS)]),
      ...(unsynced === undefined ? [] : [() => accepting(startMillrace(unsynced), offered)]),
    );
    console.log(`${events === 1 ? 'single calls' : `batches of ${events}`}, ${connections} connections`);
    console.log(line('node:http, body collected and parsed', bare, 'events'));
    console.log(line('millrace, model of the store in memory', memory, 'events'));
    console.log(
      `    (beforehand, as it keeps all events: ${median(pages).toFixed(1)} µs for a page of memory)`,
    );
    if (ram.length > 0) console.log(line('millrace, store on a disk in memory', ram, 'events'));
    console.log(line('node:sqlite, a row a request, synced', insert, 'events'));
    console.log(line('millrace, durable', disk, 'events'));
    const [parse, write] = [middle(bare, 'perCpuSecond'), middle(insert, 'perCpuSecond')];
    const parts = 1 / (1 / parse + 1 / write);
    console.log(`  bare parts together ${rate(parts)} events per CPU second`);
    const ratio = (figures: readonly Figure[], to: number) =>
      (middle(figures, 'perCpuSecond') / to).toFixed(2);
    console.log(`  model in memory / bare parse ${ratio(memory, parse)} (target 0.70)`);
    if (ram.length > 0) console.log(`  disk in memory / bare parse  ${ratio(ram, parse)} (target 0.70)`);
    console.log(`  durable / bare parts         ${ratio(disk, parts)} (target 0.50)\n`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
  if (unsynced !== undefined) rmSync(unsynced, { recursive: true, force: true });
}
