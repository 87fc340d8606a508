import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { openSqliteStore } from '../server/src/adapters/sqlite/store.ts';
import type { Batch } from '../server/src/ports/event-log.ts';
import { events, POOL, take } from './events.ts';
import { median } from './processes.ts';

/**
 * The store alone: `node bench/store.ts`. Commits of 100 events of 600 bytes with exact dedupe, everything
 * owed to one destination and settled, beside the least SQLite could do with the same bytes: one row per
 * batch, synced. `KEYS=10000000` first stores this many events; every new one is looked up among them.
 */
const SECONDS = Number(process.env['SECONDS'] ?? 4);
const ROUNDS = Number(process.env['ROUNDS'] ?? 3);
const KEYS = Number(process.env['KEYS'] ?? 0);
const SIZES = (process.env['SIZES'] ?? '1,20,100,500').split(',').map(Number);
const FOR_EVER = { events: Number.MAX_SAFE_INTEGER, deadLetters: Number.MAX_SAFE_INTEGER };
/** Batches under way at once: what is waiting while a commit runs. */
const UNDER_WAY = 3;

interface Figure {
  perSecond: number;
  p50: number;
  p99: number;
  p999: number;
}

const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'));
const loaded = KEYS > 0 ? await load() : undefined;

for (const size of SIZES) {
  const figures: [Figure[], Figure[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    figures[0].push(bare(size));
    figures[1].push(await ours(size));
  }
  const of = (which: 0 | 1, key: keyof Figure) => median(figures[which].map((figure) => figure[key]));
  const line = (who: string, which: 0 | 1) =>
    `  ${who.padEnd(20)} ${Math.round(of(which, 'perSecond')).toLocaleString('en').padStart(9)} events/s   p50 ` +
    `${of(which, 'p50').toFixed(2)}   p99 ${of(which, 'p99').toFixed(2)}   p999 ${of(which, 'p999').toFixed(2)} ms`;
  console.log(
    `append and settle, commits of ${size}\n${line('millrace', 1)}\n${line('SQLite, row a batch', 0)}`,
  );
  console.log(`  ratio ${(of(1, 'perSecond') / of(0, 'perSecond')).toFixed(2)}\n`);
}
rmSync(folder, { recursive: true, force: true });

function bare(size: number): Figure {
  const database = new DatabaseSync(join(folder, `bare-${Date.now()}.db`));
  database.exec(
    'pragma journal_mode = wal; pragma synchronous = full; create table batch(id integer primary key, body blob)',
  );
  const insert = database.prepare('insert into batch(body) values (?)');
  const source = events();
  const bodies = Array.from({ length: Math.ceil(POOL / size) }, () =>
    Buffer.from(
      take(source, size)
        .map(({ json }) => json)
        .join('\n'),
    ),
  );
  const latencies: number[] = [];
  const end = performance.now() + SECONDS * 1000;
  while (performance.now() < end) {
    const at = performance.now();
    insert.run(bodies[latencies.length % bodies.length]!);
    latencies.push(performance.now() - at);
  }
  database.close();
  return figure(latencies, size);
}

async function ours(size: number): Promise<Figure> {
  const store = await openSqliteStore({ folder: loaded ?? join(folder, `ours-${Date.now()}`) });
  // As the program does all the time: filters of runs are brought together.
  while (await store.log.maintain(Date.now(), FOR_EVER, 20));
  const source = events();
  const run = Date.now();
  const indexes = Array.from({ length: size }, (_, index) => index);
  const prepared = Array.from({ length: Math.min(4000, Math.ceil((SECONDS * 250_000) / size)) }, () =>
    take(source, size),
  );
  const latencies: number[] = [];
  let next = 0;
  const end = performance.now() + SECONDS * 1000;
  const loop = async () => {
    while (performance.now() < end) {
      const events = prepared[next++] ?? take(source, size);
      const batch: Batch = {
        ...{ id: `${run}-${next}`, receivedAt: Date.now(), events },
        plans: [{ owed: [{ id: 1 }], skipped: [] }],
        planIndexes: indexes.map(() => 0),
        owed: [{ destination: 1, state: 'held', indexes }],
        received: [{ source: 1, calls: size, discarded: {} }],
      };
      const at = performance.now();
      const { positions, held } = await store.log.append(batch);
      latencies.push(performance.now() - at);
      void store.queue.settle(
        positions.map((position) => ({
          ...{ set: held[0]!, destination: 1, position: position!, attempts: [] },
          decision: { kind: 'delivered' as const },
        })),
      );
    }
  };
  await Promise.all(Array.from({ length: UNDER_WAY }, loop));
  await store.stop();
  return figure(latencies, size);
}

/** A data folder with so many events in it, all within the window of deduplication, and upkeep done. */
async function load(): Promise<string> {
  const path = join(folder, 'loaded');
  const store = await openSqliteStore({ folder: path });
  const source = events();
  const began = performance.now();
  let left = KEYS;
  const loop = async () => {
    while (left > 0) {
      const id = `load-${left}`;
      left -= 500;
      const batch = take(source, 500);
      await store.log.append({
        ...{ id, receivedAt: Date.now(), events: batch },
        ...{ plans: [], planIndexes: [], owed: [], received: [] },
      });
      while (await store.log.maintain(Date.now(), FOR_EVER, 20));
    }
  };
  await Promise.all(Array.from({ length: UNDER_WAY }, loop));
  await store.stop();
  const loading = performance.now() - began;
  const again = performance.now();
  await (await openSqliteStore({ folder: path })).stop();
  console.log(
    `${KEYS.toLocaleString('en')} events loaded in ${(loading / 1000).toFixed(0)} s, opened again and closed in ` +
      `${(performance.now() - again).toFixed(0)} ms, memory ${(process.memoryUsage.rss() / 1e6).toFixed(0)} MB\n`,
  );
  return path;
}

function figure(latencies: number[], size: number): Figure {
  const perSecond = (latencies.length * size) / SECONDS;
  latencies.sort((a, b) => a - b);
  const at = (share: number) => latencies[Math.floor(latencies.length * share)]!;
  return { perSecond, p50: at(0.5), p99: at(0.99), p999: at(0.999) };
}
