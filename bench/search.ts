import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { type Filled, fill } from './filled.ts';
import { destination } from './millrace.ts';
import { type Bench, run } from './processes.ts';

/**
 * Where is my event, among many: `node bench/search.ts`. Fills a data folder with EVENTS (10,000,000) events
 * through the store, starts the program on it, and asks the control API. DATA names a folder that is filled
 * if it is new, and kept.
 */
const EVENTS = Number(process.env['EVENTS'] ?? 10_000_000);
const ROUNDS = Number(process.env['ROUNDS'] ?? 50);
const DATA = process.env['DATA'];
const HEADING = `${'milliseconds to the end of what is asked for'.padEnd(46)}entries  pages     p50     p99     max`;

const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'));
const data = DATA ?? join(folder, 'data');
let millrace: Bench | undefined;
try {
  const filled = await filledFolder();
  const size = statSync(join(data, 'millrace.db')).size / 1e9;
  console.log(`${EVENTS.toLocaleString('en')} events in ${size.toFixed(2)} GB`);
  const started = performance.now();
  millrace = await start();
  const [, url] = await millrace.saw(/ready on (http:\/\/\S+)/);
  console.log(`started in ${((performance.now() - started) / 1000).toFixed(1)} s\n`);
  const quiet = startCaller(url!);
  await setTimeout(3000);
  await quiet.stop();
  const caller = startCaller(url!);
  await ask(url!, filled);
  await caller.stop();
  console.log(`\n${HEADING}`);
  console.log(line('a call of a client, before', { entries: 1, pages: 1 }, quiet.took));
  console.log(line('a call of a client, meanwhile', { entries: 1, pages: 1 }, caller.took));
  console.log(
    `\nmemory ${millrace.memory().toFixed(0)} MB, load ${loadavg()[0]!.toFixed(1)} on ${cpus().length} cores`,
  );
} finally {
  await millrace?.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function filledFolder(): Promise<Filled> {
  const note = join(data, 'filled.json');
  try {
    return JSON.parse(readFileSync(note, 'utf8')) as Filled;
  } catch {
    const filled = await fill(data, EVENTS);
    writeFileSync(note, JSON.stringify(filled));
    return filled;
  }
}

/** The destination is disabled, so that nothing is sent during searches. */
async function start(): Promise<Bench> {
  const config = join(folder, 'millrace.yaml');
  writeFileSync(
    config,
    JSON.stringify({
      admin: { token: 'bench-token' },
      egress: { allow: ['127.0.0.0/8'] },
      sources: [{ name: 'bench', writeKeys: ['bench'] }],
      destinations: [{ ...destination('9'), enabled: false }],
    }),
  );
  const server = ['cli/bin/millrace.js', 'start', '--config', config, '--data', data];
  return run([...server, '--host', '127.0.0.1', '--port', '0']);
}

async function ask(url: string, { messageIds, from, to }: Filled): Promise<void> {
  const iso = (share: number) => new Date(from + (to - from) * share).toISOString();
  const middle = { from: iso(0.5), to: iso(0.51) };
  const any = (nth: number) => messageIds[(nth * 37) % messageIds.length]!;
  const ways: [what: string, list: string, query: (nth: number) => Record<string, string>, rounds: number][] =
    [
      ['trace of a messageId', 'events/', () => ({}), ROUNDS * 4],
      ['the newest events', 'events', () => ({}), ROUNDS],
      ['user with 5 events, all of them', 'events', () => ({ userId: 'few' }), ROUNDS],
      ['user with none', 'events', (nth) => ({ userId: `nobody-${nth}` }), ROUNDS],
      ['user with 20,000 events, the newest 100', 'events', () => ({ userId: 'many' }), ROUNDS],
      ['user with 20,000 events, all of them', 'events', () => ({ userId: 'many', limit: '500' }), 1],
      ['a type, in a time at the middle', 'events', () => ({ type: 'identify', ...middle }), ROUNDS],
      ['a rare name, in a time at the middle', 'events', () => ({ event: 'Refund*', ...middle }), ROUNDS],
      [
        'pending deliveries, the newest 100',
        'deliveries',
        () => ({ destination: 'crm', state: 'pending' }),
        ROUNDS,
      ],
      ['pending deliveries, all of them', 'deliveries', () => ({ state: 'pending', limit: '500' }), 5],
      ['deliveries of a user with 5 events', 'deliveries', () => ({ userId: 'few' }), ROUNDS],
      ['delivered, the newest 100', 'deliveries', () => ({ state: 'delivered' }), ROUNDS],
    ];
  console.log(HEADING);
  for (const [what, list, query, rounds] of ways) {
    const took: number[] = [];
    let found = { entries: 0, pages: 0 };
    for (let nth = 0; nth < rounds; nth++) {
      const path = list === 'events/' ? `events/${any(nth)}` : list;
      const began = performance.now();
      found = await pages(`${url}/api/v1/${path}`, query(nth));
      took.push(performance.now() - began);
    }
    console.log(line(what, found, took));
  }
}

function line(what: string, { entries, pages: n }: Found, took: readonly number[]): string {
  const sorted = [...took].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)]!.toFixed(1).padStart(8);
  return `${what.padEnd(46)}${String(entries).padStart(7)}${String(n).padStart(7)}${at(0.5)}${at(0.99)}${at(1)}`;
}

interface Found {
  readonly entries: number;
  readonly pages: number;
}

/** A client that goes on sending, a call every 20 ms: what others look for must not be felt here. */
function startCaller(url: string): { readonly took: readonly number[]; stop(): Promise<void> } {
  const took: number[] = [];
  let isStopping = false;
  const sending = (async () => {
    for (let n = 0; !isStopping; n++) {
      const began = performance.now();
      const response = await fetch(`${url}/v1/track`, {
        method: 'POST',
        headers: { authorization: `Basic ${Buffer.from('bench:').toString('base64')}` },
        body: JSON.stringify({ event: 'Meanwhile', userId: `caller-${n}` }),
      });
      await response.arrayBuffer();
      took.push(performance.now() - began);
      await setTimeout(20);
    }
  })();
  return {
    took,
    stop: async () => {
      isStopping = true;
      await sending;
    },
  };
}

/** Goes on to the next page only where there is nothing to see yet, or everything is asked for. */
async function pages(url: string, query: Record<string, string>): Promise<Found> {
  let [entries, n] = [0, 0];
  let cursor: string | null | undefined;
  do {
    const more = cursor === undefined || cursor === null ? {} : { cursor };
    const response = await fetch(`${url}?${new URLSearchParams({ ...query, ...more })}`, {
      headers: { authorization: 'Bearer bench-token' },
    });
    if (!response.ok) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
    const page = (await response.json()) as { data: object[]; next?: string | null };
    entries += page.data.length;
    n++;
    cursor = page.next;
    const isEnough = query['limit'] === undefined && entries >= 100;
    if (isEnough) break;
  } while (cursor !== undefined && cursor !== null);
  return { entries, pages: n };
}
