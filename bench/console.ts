import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import type { Browser, CDPSession, Page } from 'playwright-core';
import { launchBrowser, signIn } from '../console/test/support/browser.ts';
import { fill } from './filled.ts';
import { destination, startMillrace } from './millrace.ts';
import { type Bench, median, run } from './processes.ts';

/**
 * The console: `node bench/console.ts [cost] [frames] [load] [lists]`, all without a name.
 *
 * - `cost`: deliveries a second and processor time of the server for each, with readers who ask for what the
 *   live page asks for, beside the same without them. The readers are no browsers, whose own work would weigh
 *   on the same cores.
 * - `frames`: frames a second of the live page while calls arrive as fast as they are taken, beside an empty
 *   page at the same time.
 * - `load`: bytes of the first load, and the time until the overview can be used.
 * - `lists`: the first page of each list over EVENTS (10,000,000) events. DATA names a folder that is filled
 *   if it is new, and kept.
 */
const SECONDS = Number(process.env['SECONDS'] ?? 10);
const ROUNDS = Number(process.env['ROUNDS'] ?? 3);
const EVENTS = Number(process.env['EVENTS'] ?? 10_000_000);
const DATA = process.env['DATA'];
/**
 * Consoles that are open at once while their cost is measured: one alone costs less than rates differ from
 * window to window.
 */
const READERS = 10;
/** Seconds in which the cost is measured, and milliseconds after readers came or went that do not count. */
const WINDOW = 2;
const SETTLING = 500;
/** Calls in a request. */
const BATCH = '50';
const PARTS = { cost, frames, load: firstLoad, lists };

/** The first page of each list of the console that reads the store. */
const LISTS = [
  'events?limit=50',
  'events?limit=50&userId=few',
  'events?limit=50&userId=many',
  'events?limit=50&type=page',
  'events?limit=50&event=Refund*',
  'events?limit=50&event=Nothing',
  'events?limit=50&source=bench',
  'deliveries?limit=50&destination=crm',
  'deliveries?limit=50&destination=crm&state=pending',
  'deliveries?limit=50&destination=crm&state=dead',
  'destinations/crm/status',
  'status',
  'timeline?by=destination',
  'audit?limit=50',
];

interface Server {
  readonly bench: Bench;
  readonly url: string;
  readonly token: string;
}

const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-console-'));
const running: Bench[] = [];
try {
  const wanted = process.argv.slice(2);
  for (const [name, part] of Object.entries(PARTS)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    console.log(`\n${name}`);
    await part();
    while (running.length > 0) await running.pop()!.stop();
  }
} finally {
  for (const bench of running) await bench.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function startServer(): Promise<{ server: Server; receiver: Bench }> {
  const receiver = run(['bench/receiver.ts']);
  running.push(receiver);
  const [, port] = await receiver.saw(/listening (\d+)/);
  const place = mkdtempSync(join(folder, 'server-'));
  const data = join(place, 'data');
  const bench = startMillrace(place, { data, port: port! });
  running.push(bench);
  const [, url] = await bench.saw(/ready on (http:\/\/\S+)/);
  const token = readFileSync(join(data, 'admin-token'), 'utf8').trim();
  return { server: { bench, url: url!, token }, receiver };
}

/** Sends calls as fast as they are taken, so many at once; resolves to the calls a second that were taken. */
async function offer({ url }: Server, connections: number, seconds: number): Promise<number> {
  const load = run(['bench/load.ts', url, String(connections), String(seconds), BATCH]);
  const [, line] = await load.saw(/(\{.*\})\n/);
  await load.stop();
  return (JSON.parse(line!) as { perSecond: number }).perSecond;
}

/**
 * One load all the time, and windows of two seconds by turns, so that warming up and other work weigh on both
 * alike.
 */
async function cost(): Promise<void> {
  const { server, receiver } = await startServer();
  const pairs = ROUNDS * 10;
  await offer(server, 8, 3);
  const load = run(['bench/load.ts', server.url, '8', String(pairs * 2 * (WINDOW + 1)), BATCH]);
  running.push(load);
  const ratios = { rate: [] as number[], cpu: [] as number[] };
  for (let pair = 0; pair < pairs; pair++) {
    // The one that was second is first in the next pair: what slows down or speeds up meanwhile adds to
    // neither.
    const isReadFirst = pair % 2 === 1;
    const first = await costOf(server, receiver, isReadFirst);
    const second = await costOf(server, receiver, !isReadFirst);
    const [none, read] = isReadFirst ? [second, first] : [first, second];
    ratios.rate.push(read.rate / none.rate);
    ratios.cpu.push(read.cpu / none.cpu);
  }
  console.log(`${READERS} readers / none, medians of ${pairs} pairs of windows (quartiles)`);
  for (const [name, values] of Object.entries(ratios)) {
    const ofOne = ((median(values) - 1) / READERS) * 100;
    console.log(`  ${name.padEnd(5)} ${quartiles(values)}   for one reader ${ofOne.toFixed(1)} %`);
  }
}

/** Deliveries a second and microseconds of processor time of each, in one window. */
async function costOf(
  server: Server,
  receiver: Bench,
  isRead: boolean,
): Promise<{ rate: number; cpu: number }> {
  const readers = isRead ? Array.from({ length: READERS }, () => read(server)) : [];
  await sleep(SETTLING);
  const [count, cpu, since] = [Number(await receiver.ask('count')), server.bench.cpu(), performance.now()];
  await sleep(WINDOW * 1000);
  const delivered = Number(await receiver.ask('count')) - count;
  const seconds = (performance.now() - since) / 1000;
  for (const reader of readers) reader.abort();
  return { rate: delivered / seconds, cpu: ((server.bench.cpu() - cpu) / delivered) * 1e6 };
}

function quartiles(values: readonly number[]): string {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part: number) => sorted[Math.floor((sorted.length - 1) * part)]!.toFixed(3);
  return `${at(0.5)}   (${at(0.25)} – ${at(0.75)})`;
}

/** Asks for what the live page asks for: the sampled tail, and the status every two seconds. */
function read({ url, token }: Server): AbortController {
  const end = new AbortController();
  const { signal } = end;
  const headers = { Authorization: `Bearer ${token}` };
  const ask = async (path: string): Promise<void> => {
    const { body } = await fetch(`${url}/api/v1/${path}`, { headers, signal });
    for await (const _ of body ?? []) if (signal.aborted) return;
  };
  void ask('tail?max=50').catch(() => {});
  const timer = setInterval(() => void ask('status').catch(() => {}), 2_000);
  signal.addEventListener('abort', () => clearInterval(timer));
  return end;
}

async function frames(): Promise<void> {
  const { server } = await startServer();
  const browser = await launchBrowser();
  try {
    const page = await openPage(browser, server, '/live');
    await page.getByText('following').waitFor();
    const context = await browser.newContext();
    const empty = await context.newPage();
    console.log('page     calls/s   frames/s   busy share of its main thread   longest frame, ms');
    for (let round = 0; round < ROUNDS * 2; round++) {
      const [name, shown] = round % 2 === 0 ? ['empty', empty] : ['live', page];
      await (shown as Page).bringToFront();
      const taken = offer(server, 8, SECONDS);
      await sleep(2_000);
      const { perSecond, busy, longest } = await watchFrames(shown as Page, (SECONDS - 4) * 1000);
      const calls = (await taken).toFixed(0).padStart(7);
      console.log(
        `${String(name).padEnd(8)} ${calls}   ${perSecond.toFixed(1).padStart(8)}   ${busy.toFixed(2).padStart(29)}   ${longest.toFixed(0)}`,
      );
    }
    console.log(await page.locator('.live-flow').innerText());
  } finally {
    await browser.close();
  }
}

/** A function of browsers. */
interface BrowserFrames {
  requestAnimationFrame(callback: () => void): number;
}

async function watchFrames(page: Page, length: number) {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const before = await metricOf(session, 'TaskDuration');
  const { count, longest } = await page.evaluate(
    (duration) =>
      new Promise<{ count: number; longest: number }>((resolve) => {
        const { requestAnimationFrame: nextFrame } = globalThis as unknown as BrowserFrames;
        const begin = performance.now();
        let [last, count, longest] = [begin, 0, 0];
        const frame = (): void => {
          const now = performance.now();
          longest = Math.max(longest, now - last);
          last = now;
          count++;
          if (now - begin < duration) nextFrame(frame);
          else resolve({ count, longest });
        };
        nextFrame(frame);
      }),
    length,
  );
  const busy = ((await metricOf(session, 'TaskDuration')) - before) / (length / 1000);
  await session.detach();
  return { perSecond: count / (length / 1000), busy, longest };
}

/** A metric of a page, in seconds. */
async function metricOf(session: CDPSession, wanted: string): Promise<number> {
  const { metrics } = await session.send('Performance.getMetrics');
  return metrics.find(({ name }) => name === wanted)?.value ?? Number.NaN;
}

async function openPage(browser: Browser, { url, token }: Server, path: string): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  await signIn(page, { url, token }, path);
  return page;
}

async function firstLoad(): Promise<void> {
  const { server } = await startServer();
  const browser = await launchBrowser();
  try {
    const context = (await openPage(browser, server, '/')).context();
    console.log('until usable, ms   of it main thread   bytes, gzipped   files');
    for (let round = 0; round < ROUNDS; round++) {
      // A page of its own has no cache of compiled code, and the session of the context.
      const page = await context.newPage();
      const reading: Promise<number>[] = [];
      page.on('response', (response) => {
        const isOwn = response.url().includes('/assets/') || response.request().resourceType() === 'document';
        if (isOwn)
          reading.push(
            response
              .body()
              .then((body) => gzipSync(body).length)
              .catch(() => 0),
          );
      });
      const session = await context.newCDPSession(page);
      await session.send('Performance.enable');
      const begin = performance.now();
      await page.goto(server.url, { waitUntil: 'commit' });
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
      await page.getByRole('group', { name: 'Range' }).getByRole('button', { name: '24 h' }).click();
      const took = performance.now() - begin;
      const busy = (await metricOf(session, 'TaskDuration')) * 1000;
      await sleep(1_000);
      const sizes = await Promise.all(reading);
      const total = sizes.reduce((sum, size) => sum + size, 0);
      console.log(
        `${took.toFixed(0).padStart(16)}   ${busy.toFixed(0).padStart(17)}   ${String(total).padStart(14)}   ${sizes.length}`,
      );
      await page.close();
    }
  } finally {
    await browser.close();
  }
}

async function lists(): Promise<void> {
  const data = DATA ?? join(folder, 'filled');
  try {
    readFileSync(join(data, 'high-water-mark'));
  } catch {
    await fill(data, EVENTS);
  }
  const config = join(folder, 'lists.yaml');
  const records = { egress: { allow: ['127.0.0.0/8'] }, sources: [{ name: 'bench', writeKeys: ['bench'] }] };
  writeFileSync(
    config,
    JSON.stringify({ ...records, destinations: [{ ...destination('9'), enabled: false }] }),
  );
  const args = ['cli/bin/millrace.js', 'start', '--config', config, '--data', data];
  const bench = run([...args, '--host', '127.0.0.1', '--port', '0']);
  running.push(bench);
  const [, url] = await bench.saw(/ready on (http:\/\/\S+)/);
  const token = readFileSync(join(data, 'admin-token'), 'utf8').trim();
  console.log('first page of a list, ms          first   best   entries   bytes');
  for (const list of LISTS) {
    const times: number[] = [];
    let text = '';
    for (let round = 0; round < ROUNDS + 1; round++) {
      const begin = performance.now();
      const response = await fetch(`${url}/api/v1/${list}`, {
        headers: { Authorization: `Bearer ${token}` },
      });
      text = await response.text();
      times.push(performance.now() - begin);
    }
    const { data: entries } = JSON.parse(text) as { data?: unknown[] };
    const best = Math.min(...times.slice(1));
    console.log(
      `${list.padEnd(52)} ${times[0]!.toFixed(0).padStart(6)} ${best.toFixed(0).padStart(6)} ${String(entries?.length ?? '').padStart(9)} ${text.length}`,
    );
  }
}
