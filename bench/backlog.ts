import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSqliteStore, type SqliteStore } from '../server/src/adapters/sqlite/store.ts';
import type { DeliveryResult } from '../server/src/ports/delivery-queue.ts';
import { events, take } from './events.ts';

/**
 * A large backlog: `node bench/backlog.ts`, with EVENTS (10,000,000) parked for one destination. How long
 * appends take beside it and without it, how fast it is read and settled, what it takes on disk, and what
 * claims of another destination cost meanwhile. Time in the store runs as if RATE (10,000) events arrived a
 * second: `EVENTS=144000000` is an outage of four hours. Keys have as much memory as an operator with so many
 * events a day would allow (`limits.dedupeMemory`).
 */
const EVENTS = Number(process.env['EVENTS'] ?? 10_000_000);
const RATE = Number(process.env['RATE'] ?? 10_000);
const CHUNK = 500;
const CLAIM = 500;
const UNDER_WAY = 4;
const DOWN = 1;
const OTHER = 2;

const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'));
const source = events();
const prepared = Array.from({ length: 40 }, () => take(source, CHUNK));
let batches = 0;
const start = Date.now();
const FOR_EVER = { events: Number.MAX_SAFE_INTEGER, deadLetters: Number.MAX_SAFE_INTEGER };
let arrived = 0;
const parkedIn: number[] = [];

try {
  const store = await openSqliteStore({ folder, filterMemory: Math.max(64 * 1024 * 1024, EVENTS * 3) });
  const empty = await appendLatencies(store, 2000);
  console.log(`appends of 100, empty backlog        ${empty}`);

  let started = performance.now();
  const parked = EVENTS - (EVENTS % CHUNK);
  await inParallel(parked / CHUNK, () => park(store, DOWN));
  report('parked', parked, started);
  console.log(`  as in ${(arrived / RATE / 3600).toFixed(2)} hours of ${RATE.toLocaleString('en')} a second`);
  console.log(`  ${(statSync(join(folder, 'millrace.db')).size / parked).toFixed(0)} bytes of file an event`);
  const [row] = await pendingRows();
  console.log(`  ${row!.n} rows of pending sets, ${row!.bytes} bytes`);

  const full = await appendLatencies(store, 2000);
  console.log(`appends of 100, ${parked.toLocaleString('en')} parked   ${full}`);
  await park(store, OTHER);
  started = performance.now();
  for (let n = 0; n < 100; n++) await store.queue.claim(OTHER, 5, now());
  console.log(`claim of 5 for another destination   ${((performance.now() - started) / 100).toFixed(2)} ms`);

  const traces = await traceLatencies(store, 200);
  console.log(`trace of one event among them       ${traces}`);

  started = performance.now();
  const drained = await drain(store, Math.min(parked, 3_000_000));
  report('claimed, read and settled', drained, started);
  const { destinations } = await store.queue.ledger();
  console.log(destinations.get(DOWN));
  await store.stop();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function park(store: SqliteStore, destination: number): Promise<void> {
  const pool = prepared[batches % prepared.length]!;
  const round = batches++;
  parkedIn.push(round);
  const batch = pool.map(({ source, messageId, json }) => {
    const id = idOf(messageId, round);
    return { source, messageId: id, json: json.replace(messageId, id) };
  });
  arrived += CHUNK;
  const owed = [{ destination, state: 'parked' as const, indexes: batch.map((_, index) => index) }];
  const plans = [{ owed: [{ id: destination }], skipped: [] }];
  await store.log.append({
    id: `park-${round}`,
    receivedAt: now(),
    events: batch,
    plans,
    planIndexes: batch.map(() => 0),
    owed,
    received: [],
  });
  // As the program does all the time: keys are sealed, their filters brought together.
  while (await store.log.maintain(now(), FOR_EVER, 20));
}

/** The time in the store. */
function now(): number {
  return start + Math.floor((arrived / RATE) * 1000);
}

async function appendLatencies(store: SqliteStore, commits: number): Promise<string> {
  const latencies: number[] = [];
  for (let n = 0; n < commits; n++) {
    const batch = take(source, 100);
    const at = performance.now();
    await store.log.append({
      id: `a-${batches++}`,
      receivedAt: now(),
      events: batch,
      owed: [],
      plans: [],
      planIndexes: [],
      received: [],
    });
    latencies.push(performance.now() - at);
  }
  return percentiles(latencies);
}

function percentiles(latencies: number[]): string {
  latencies.sort((a, b) => a - b);
  const of = (share: number) => latencies[Math.floor(latencies.length * share)]!.toFixed(2);
  return `p50 ${of(0.5)}   p99 ${of(0.99)}   p999 ${of(0.999)} ms`;
}

/** Latencies of the queries that `millrace trace` makes: position, event, history. */
async function traceLatencies(store: SqliteStore, times: number): Promise<string> {
  const latencies: number[] = [];
  for (let n = 0; n < times; n++) {
    const round = parkedIn[Math.floor(Math.random() * parkedIn.length)]!;
    const { messageId } = prepared[round % prepared.length]![n]!;
    const at = performance.now();
    const { positions } = await store.log.find({ messageId: idOf(messageId, round) });
    await Promise.all([store.log.read(positions), store.history.read(positions)]);
    latencies.push(performance.now() - at);
    if (positions.length !== 1) throw new Error('an event cannot be found');
  }
  return percentiles(latencies);
}

/** Ids must differ, everything else may repeat. */
function idOf(messageId: string, round: number): string {
  return `${messageId.slice(0, 24)}${round.toString(16).padStart(12, '0')}`;
}

async function drain(store: SqliteStore, most: number): Promise<number> {
  let drained = 0;
  await inParallel(Math.ceil(most / CLAIM), async () => {
    const { deliveries } = await store.queue.claim(DOWN, CLAIM, now());
    const stored = await store.log.read(deliveries.map(({ delivery }) => delivery.position));
    if (stored.some((event) => event === undefined)) throw new Error('an event is missing');
    const decision = { kind: 'delivered' } as const;
    const results = deliveries.map(
      ({ set, delivery }): DeliveryResult => ({
        set,
        destination: DOWN,
        position: delivery.position,
        attempts: [],
        decision,
      }),
    );
    await store.queue.settle(results);
    drained += deliveries.length;
  });
  return drained;
}

async function inParallel(times: number, work: () => Promise<void>): Promise<void> {
  let left = times;
  const loop = async () => {
    while (left-- > 0) await work();
  };
  await Promise.all(Array.from({ length: UNDER_WAY }, loop));
}

async function pendingRows(): Promise<{ n: number; bytes: number }[]> {
  const { DatabaseSync } = await import('node:sqlite');
  const database = new DatabaseSync(join(folder, 'millrace.db'), { readOnly: true });
  const rows = database.prepare('select count(*) as n, sum(length(refs)) as bytes from pending').all();
  database.close();
  return rows as { n: number; bytes: number }[];
}

function report(what: string, n: number, started: number): void {
  const seconds = (performance.now() - started) / 1000;
  console.log(
    `${what.padEnd(36)} ${Math.round(n / seconds).toLocaleString('en')} events/s (${n.toLocaleString('en')})`,
  );
}
