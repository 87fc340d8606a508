import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CallTemplate, Connections, orderOf } from './calls.ts';
import { startReceiver } from './delivering.ts';
import { startMillrace } from './millrace.ts';
import { type Bench, run } from './processes.ts';

/**
 * Measures what one event costs at a low rate: `node bench/low-rate.ts`, with SECONDS (30) of single calls at
 * RATE (200) a second to one destination. Prints the bytes that the program wrote to its disk, the processor
 * time by thread, and how long a call took. Beside it runs the least that does such work (relay.ts:
 * `node:http`, a synced row of SQLite for each call, undici); and with BASE=/path/to/another/checkout that
 * version. All run by turns, a second or two each, and those that wait are stopped, so that other load on the
 * machine weighs on all alike.
 *
 * Bytes are those of the pages that were dirtied (`write_bytes`), so a commit of 100 bytes counts as 4 kB.
 * They need a data folder on a real disk: FOLDER (/var/tmp).
 */
const SECONDS = Number(process.env['SECONDS'] ?? 30);
const RATE = Number(process.env['RATE'] ?? 200);
const FOLDER = process.env['FOLDER'] ?? '/var/tmp';
const BASE = process.env['BASE'];

const WINDOW = 2000;
/** Milliseconds after a window until results and pages of its calls are written. */
const REST = 500;
const WARM_UP_WINDOWS = 2;
/**
 * Calls before that, as fast as they are taken: a program that has run for some minutes at this rate is
 * compiled.
 */
const WARM_UP_CALLS = 20_000;
/** Milliseconds until their chunks are merged. */
const UPKEEP = 5000;
const CONNECTIONS = 8;

interface Contender {
  readonly name: string;
  readonly server: Bench;
  readonly receiver: Bench;
  readonly connections: Connections;
  readonly latencies: number[];
  bytes: number;
  seconds: number;
  readonly cpu: Map<string, number>;
}

async function start(name: string, startServer: (folder: string, port: string) => Bench): Promise<Contender> {
  const [receiver, port] = await startReceiver();
  const server = startServer(mkdtempSync(join(folder, 'server-')), port);
  const [, url] = await server.saw(/ready on (\S+)/);
  const connections = await Connections.open(url!, CONNECTIONS);
  return { name, server, receiver, connections, latencies: [], bytes: 0, seconds: 0, cpu: new Map() };
}

async function measure(one: Contender, counts: boolean): Promise<void> {
  const { server, receiver, connections } = one;
  server.child.kill('SIGCONT');
  const pid = server.child.pid!;
  const before = { bytes: bytesWritten(pid), threads: threadTimes(pid), at: performance.now() };
  const arrived = Number(await receiver.ask('count'));
  const latencies = await send(connections);
  while (Number(await receiver.ask('count')) < arrived + latencies.length) await sleep(10);
  await sleep(REST);
  if (counts) {
    one.latencies.push(...latencies);
    one.bytes += bytesWritten(pid) - before.bytes;
    one.seconds += (performance.now() - before.at) / 1000;
    for (const [id, { name, ns }] of threadTimes(pid)) {
      const used = ns - (before.threads.get(id)?.ns ?? 0);
      one.cpu.set(name, (one.cpu.get(name) ?? 0) + used);
    }
  }
  server.child.kill('SIGSTOP');
}

function report({ name, latencies, bytes, cpu, server }: Contender): void {
  const events = latencies.length;
  const sorted = [...latencies].sort((a, b) => a - b);
  const at = (share: number) => `${sorted[Math.floor(events * share)]!.toFixed(2)} ms`;
  const total = [...cpu.values()].reduce((sum, ns) => sum + ns, 0);
  const ms = (ns: number) => (ns / events / 1e6).toFixed(3);
  console.log(`${name}: ${events} calls at ${RATE}/s`);
  console.log(`  written      ${(bytes / events / 1000).toFixed(1)} kB an event`);
  console.log(`  processor    ${ms(total)} ms an event`);
  for (const [thread, ns] of [...cpu].sort((a, b) => b[1] - a[1]))
    if (ns > total / 100) console.log(`    ${thread.padEnd(22)} ${ms(ns)}`);
  console.log(`  call         p50 ${at(0.5)}   p90 ${at(0.9)}   p99 ${at(0.99)}   most ${at(0.999999)}`);
  console.log(`  memory       ${server.memory().toFixed(0)} MB`);
}

function bytesWritten(pid: number): number {
  const io = readFileSync(`/proc/${pid}/io`, 'utf8');
  return Number(/^write_bytes: (\d+)/m.exec(io)![1]);
}

/** Nanoseconds on a processor by number of the thread. */
function threadTimes(pid: number): Map<string, { name: string; ns: number }> {
  const times = new Map<string, { name: string; ns: number }>();
  for (const id of readdirSync(`/proc/${pid}/task`)) {
    const of = (file: string) => readFileSync(`/proc/${pid}/task/${id}/${file}`, 'utf8');
    try {
      const name = Number(id) === pid ? 'main' : of('comm').trim();
      times.set(id, { name, ns: Number(of('schedstat').split(' ')[0]) });
    } catch {
      // The thread has just ended.
    }
  }
  return times;
}

const CALLS = Array.from({ length: 500 }, (_, user) => new CallTemplate([orderOf(user)]));
let sent = 0;

/** Sends so many calls, each connection one after the other. */
async function warmUp({ connections, receiver }: Contender): Promise<void> {
  const arrived = Number(await receiver.ask('count'));
  const each = Array.from({ length: CONNECTIONS }, async () => {
    for (let n = 0; n < WARM_UP_CALLS / CONNECTIONS; n++)
      await connections.call(CALLS[sent++ % CALLS.length]!.next());
  });
  await Promise.all(each);
  while (Number(await receiver.ask('count')) < arrived + WARM_UP_CALLS) await sleep(10);
  await sleep(UPKEEP);
}

/**
 * Sends single calls at the rate for a window; resolves to the milliseconds that each took, once all are
 * answered.
 */
async function send(connections: Connections): Promise<number[]> {
  const latencies: number[] = [];
  const total = Math.round((RATE * WINDOW) / 1000);
  const from = performance.now();
  const calls: Promise<void>[] = [];
  for (let n = 0; n < total; n++) {
    const due = from + (n * 1000) / RATE;
    if (due > performance.now()) await sleep(due - performance.now());
    const at = performance.now();
    const call = connections.call(CALLS[sent++ % CALLS.length]!.next());
    const answered = call.then(() => void latencies.push(performance.now() - at));
    // A failure is thrown below: unhandled until then, it would end this process before the servers.
    answered.catch(() => undefined);
    calls.push(answered);
  }
  await Promise.all(calls);
  return latencies;
}

const folder = mkdtempSync(join(FOLDER, 'millrace-bench-'));
const started: Contender[] = [];
try {
  started.push(await start('this version', (data, port) => startMillrace(data, { port })));
  if (BASE !== undefined)
    started.push(await start('base', (data, port) => startMillrace(data, { port, root: BASE })));
  started.push(
    await start('bare', (data, port) => run(['bench/relay.ts', join(data, 'requests.db'), port, '1'])),
  );
  const windows = WARM_UP_WINDOWS + Math.ceil((SECONDS * 1000) / WINDOW);
  for (const one of started) {
    await warmUp(one);
    one.server.child.kill('SIGSTOP');
  }
  for (let n = 0; n < windows; n++)
    for (const one of n % 2 === 0 ? started : [...started].reverse())
      await measure(one, n >= WARM_UP_WINDOWS);
  for (const one of started) report(one);
} finally {
  for (const { server, receiver, connections } of started) {
    connections.close();
    server.child.kill('SIGCONT');
    await server.stop();
    await receiver.stop();
  }
  rmSync(folder, { recursive: true, force: true });
}
