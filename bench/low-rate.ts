import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startReceiver } from './delivering.ts';
import { startMillrace } from './millrace.ts';
import type { Bench } from './processes.ts';

/**
 * Measures what one event costs at a low rate: `node bench/low-rate.ts`, with SECONDS (30) of single calls at RATE (200) a second
 * to one destination. Prints the bytes that the program wrote to its disk, the processor time by thread, and how long
 * a call took. With BASE=/path/to/another/checkout both versions run by turns, a second or two each, and the one that waits
 * is stopped, so that other load on the machine weighs on both alike.
 *
 * Bytes are those of the pages that were dirtied (`write_bytes`), so a commit of 100 bytes counts as 4 kB. They need a data
 * folder on a real disk: FOLDER (/var/tmp).
 */
const SECONDS = Number(process.env['SECONDS'] ?? 30);
const RATE = Number(process.env['RATE'] ?? 200);
const FOLDER = process.env['FOLDER'] ?? '/var/tmp';
const BASE = process.env['BASE'];

const WINDOW = 2000;
/** Milliseconds after a window until results and pages of its calls are written. */
const REST = 500;
const WARM_UP_WINDOWS = 2;
const CONNECTIONS = 8;

interface Contender {
  readonly name: string;
  readonly server: Bench;
  readonly receiver: Bench;
  readonly client: Client;
  readonly latencies: number[];
  bytes: number;
  seconds: number;
  readonly cpu: Map<string, number>;
}

async function start(name: string, root?: string): Promise<Contender> {
  const [receiver, port] = await startReceiver();
  const server = startMillrace(mkdtempSync(join(folder, 'server-')), {
    port,
    ...(root === undefined ? {} : { root }),
  });
  const [, url] = await server.saw(/ready on (\S+)/);
  const client = new Client(url!);
  await client.opened;
  return { name, server, receiver, client, latencies: [], bytes: 0, seconds: 0, cpu: new Map() };
}

async function measure(one: Contender, counts: boolean): Promise<void> {
  const { server, receiver, client } = one;
  server.child.kill('SIGCONT');
  const pid = server.child.pid!;
  const before = { bytes: bytesWritten(pid), threads: threadTimes(pid), at: performance.now() };
  const arrived = Number(await receiver.ask('count'));
  const latencies = await client.send(RATE, WINDOW);
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

/** Sends single calls at a steady rate over a few connections, each with one call at a time. */
class Client {
  readonly opened: Promise<unknown>;
  readonly #idle: Connection[] = [];
  readonly #all: Connection[];
  #sent = 0;

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.#all = Array.from({ length: CONNECTIONS }, () => new Connection(hostname, Number(port)));
    this.#idle.push(...this.#all);
    this.opened = Promise.all(this.#all.map(({ opened }) => opened));
  }

  /** Resolves to how long each call took, in milliseconds from when it was due, once all are answered. */
  async send(rate: number, time: number): Promise<number[]> {
    const latencies: number[] = [];
    const total = Math.round((rate * time) / 1000);
    const from = performance.now();
    const calls: Promise<void>[] = [];
    for (let n = 0; n < total; n++) {
      const due = from + (n * 1000) / rate;
      if (due > performance.now()) await sleep(due - performance.now());
      calls.push(this.#call().then((ms) => void latencies.push(ms)));
    }
    await Promise.all(calls);
    return latencies;
  }

  async #call(): Promise<number> {
    const at = performance.now();
    let connection = this.#idle.pop();
    for (; connection === undefined; connection = this.#idle.pop()) await sleep(1);
    await connection.call(requestOf(this.#sent++));
    this.#idle.push(connection);
    return performance.now() - at;
  }

  close(): void {
    for (const connection of this.#all) connection.close();
  }
}

class Connection {
  readonly opened: Promise<unknown>;
  readonly #socket: Socket;
  #answered: (answer: string) => void = () => {};

  constructor(host: string, port: number) {
    this.#socket = connect({ host, port, noDelay: true });
    this.opened = new Promise((resolve) => this.#socket.once('connect', resolve));
    this.#socket.on('data', (bytes) => this.#answered(bytes.toString('latin1')));
    this.#socket.on('error', () => {});
  }

  async call(request: string): Promise<void> {
    const answer = new Promise<string>((resolve) => {
      this.#answered = resolve;
    });
    this.#socket.write(request);
    const text = await answer;
    if (!text.startsWith('HTTP/1.1 200')) throw new Error(`a call was refused: ${text}`);
  }

  close(): void {
    this.#socket.destroy();
  }
}

/** 600 bytes of JSON: a track call as a server-side library sends it. */
function requestOf(n: number): string {
  const product = (sku: string, name: string, price: number) => ({
    productId: `${n}-${sku}`,
    sku,
    name,
    price,
  });
  const body = JSON.stringify({
    event: 'Order Completed',
    userId: `user-${n % 5000}`,
    messageId: `${process.pid}-${Date.now()}-${n}-3f1c9e0a7b52`,
    timestamp: '2026-03-04T05:06:07.089Z',
    properties: {
      orderId: `50314b8e9bcf${n}`,
      total: 27.5,
      currency: 'USD',
      coupon: 'hasbros',
      products: [product('45790-32', 'Monopoly: 3rd Edition', 19), product('46493-32', 'Uno Card Game', 3)],
    },
    context: { library: { name: 'analytics-node', version: '3.1.0' }, ip: '203.0.113.9' },
  });
  return (
    `POST /v1/track HTTP/1.1\r\nHost: bench\r\nAuthorization: Basic ${btoa('bench:')}\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
  );
}

const folder = mkdtempSync(join(FOLDER, 'millrace-bench-'));
const started: Contender[] = [];
try {
  started.push(await start('this version'));
  if (BASE !== undefined) started.push(await start('base', BASE));
  const windows = WARM_UP_WINDOWS + Math.ceil((SECONDS * 1000) / WINDOW);
  for (const { server } of started) server.child.kill('SIGSTOP');
  for (let n = 0; n < windows; n++)
    for (const one of n % 2 === 0 ? started : [...started].reverse())
      await measure(one, n >= WARM_UP_WINDOWS);
  for (const one of started) report(one);
} finally {
  for (const { server, receiver, client } of started) {
    client.close();
    server.child.kill('SIGCONT');
    await server.stop();
    await receiver.stop();
  }
  rmSync(folder, { recursive: true, force: true });
}
