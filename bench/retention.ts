import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSqliteStore, type SqliteStore } from '../server/src/adapters/sqlite/store.ts';
import { systemClock } from '../server/src/adapters/system/clock.ts';
import { MaintenanceWorker } from '../server/src/maintenance/worker.ts';
import { DAY, MINUTE, SECOND } from '../server/src/model/time.ts';
import { events, take } from './events.ts';

/**
 * Space given back: `node bench/retention.ts`. EVENTS (2,000,000) arrived in the past; then their retention
 * passes at once, while new ones arrive, RATE (2,000) a second in commits of 100. Prints how long it takes
 * until the data folder is small again, and how long commits take before and meanwhile.
 */
const EVENTS = Number(process.env['EVENTS'] ?? 2_000_000);
const RATE = Number(process.env['RATE'] ?? 2000);
const KEEP = { events: 7 * DAY, deadLetters: 30 * DAY };
const BATCH = 100;
/** As much as new events, keys and pages on their way out may take. */
const SMALL = 0.1;
const LONGEST = 3 * MINUTE;

const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'));
const source = events();
let batches = 0;

try {
  const store = await openSqliteStore({ folder });
  const past = Date.now() - 7 * DAY - MINUTE;
  for (let n = 0; n < EVENTS; n += 500) await append(store, 500, past);
  const full = await bytesOf(store);
  console.log(`${EVENTS.toLocaleString('en')} events take ${megabytes(full)}`);

  console.log(`commits before: ${await ingest(store, 5 * SECOND)}`);
  const quiet = { debug() {}, info() {}, warn() {}, error() {} };
  const upkeep = new MaintenanceWorker({
    log: store.log,
    clock: systemClock,
    logger: quiet,
    retention: () => KEEP,
  });
  const started = performance.now();
  upkeep.start();
  let seconds: number | undefined;
  const meanwhile = await ingest(store, LONGEST, async () => {
    if ((await bytesOf(store)) > full * SMALL) return false;
    seconds = (performance.now() - started) / 1000;
    return true;
  });
  console.log(`commits meanwhile: ${meanwhile}`);
  console.log(
    seconds === undefined
      ? `after ${LONGEST / SECOND} s it still takes ${megabytes(await bytesOf(store))}`
      : `space back after ${seconds.toFixed(1)} s: ${megabytes(await bytesOf(store))}`,
  );
  await upkeep.stop();
  await store.stop();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function append(store: SqliteStore, n: number, receivedAt: number): Promise<void> {
  const id = `batch-${batches++}`;
  const events = take(source, n);
  await store.log.append({ id, receivedAt, events, plans: [], planIndexes: [], owed: [], received: [] });
}

/** New events at the rate until the time is over or `done`, which is asked once a second. */
async function ingest(store: SqliteStore, time: number, done = async () => false): Promise<string> {
  const latencies: number[] = [];
  const end = performance.now() + time;
  let due = performance.now();
  for (let n = 0; performance.now() < end; n++) {
    const at = performance.now();
    await append(store, BATCH, Date.now());
    latencies.push(performance.now() - at);
    if (n % (RATE / BATCH) === 0 && (await done())) break;
    due += (BATCH / RATE) * 1000;
    const rest = due - performance.now();
    if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
  }
  latencies.sort((a, b) => a - b);
  const of = (share: number) => latencies[Math.floor(latencies.length * share)]!.toFixed(2);
  return `p50 ${of(0.5)}   p99 ${of(0.99)}   p999 ${of(0.999)} ms`;
}

async function bytesOf(store: SqliteStore): Promise<number> {
  return (await store.log.size()).bytes;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}
