import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startReceiver, whileDelivering, writeBacklog } from './delivering.ts';
import { CONNECTIONS, ROUNDS, SECONDS, WARM_UP } from './figures.ts';
import { destinationsTo, startMillrace } from './millrace.ts';
import { type Bench, cpuOfThreads, median, result } from './processes.ts';

/**
 * How many cores the program can use: `node bench/threads.ts`, with SECONDS and ROUNDS, or one of `deliver`
 * and `through`. Prints the processor time that one event takes on each thread, without sender threads, with
 * one and with two, by turns: of deliveries from a backlog of four destinations, and of batches of 100 end to
 * end. The rate beside it is that of this machine, whose cores clients and endpoints share; the busiest
 * thread says what the program does where cores are free: a thread cannot do more than a second of work in a
 * second.
 */
const THREADS = [0, 1, 2];
const WANTED = process.argv.slice(2);

/** Names of threads in the system, by what they do. */
const NAMES: readonly (readonly [string, RegExp])[] = [
  ['main', /^(MainThread|node)$/],
  ['writer', /^millrace-writer/],
  ['senders', /^millrace-sender/],
  ['the rest', /./],
];

interface Turn {
  readonly perSecond: number;
  /** Microseconds of processor time an event, by thread. */
  readonly micros: readonly number[];
}

const folder = mkdtempSync(join(tmpdir(), 'millrace-threads-'));
try {
  if (wants('deliver')) await compare('deliver from a backlog', 4, fromBacklog);
  if (wants('through')) await compare('end to end, batches of 100', 1, endToEnd);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function wants(part: string): boolean {
  return WANTED.length === 0 || WANTED.includes(part);
}

async function compare(
  what: string,
  destinations: number,
  measure: (threads: number) => Promise<Turn>,
): Promise<void> {
  const turns = THREADS.map((): Turn[] => []);
  for (let round = 0; round < ROUNDS; round++)
    for (const [nth, threads] of THREADS.entries()) turns[nth]!.push(await measure(threads));
  console.log(`${what}: µs of processor time an event, medians of ${ROUNDS}`);
  console.log(`  threads ${NAMES.map(([name]) => name.padStart(9)).join('')}   busiest allows    measured`);
  for (const [nth, threads] of THREADS.entries()) {
    const micros = NAMES.map((_, name) => median(turns[nth]!.map((turn) => turn.micros[name]!)));
    const [main, writer, senders] = micros;
    // A destination belongs to one thread.
    const sending = Math.max(1, Math.min(threads, destinations));
    const busiest = Math.max(main!, writer!, senders! / sending);
    const measured = median(turns[nth]!.map(({ perSecond }) => perSecond));
    console.log(
      `  ${String(threads).padStart(7)} ${micros.map((each) => each.toFixed(1).padStart(9)).join('')}` +
        `${rate(1e6 / busiest).padStart(15)}/s${rate(measured).padStart(10)}/s`,
    );
  }
}

async function fromBacklog(threads: number): Promise<Turn> {
  const [receiver, port] = await startReceiver();
  const data = join(folder, 'backlog');
  rmSync(data, { recursive: true, force: true });
  await writeBacklog(data, (SECONDS + WARM_UP) * 80_000, destinationsTo(port, 4));
  const server = startMillrace(folder, { data, port, threads, destinations: 4 });
  await server.saw(/ready on/);
  await sleep(WARM_UP * 1000);
  const before = cpuOfThreads(server.child.pid!);
  const started = performance.now();
  const { perSecond } = await whileDelivering(server, receiver, 0);
  const events = (perSecond * (performance.now() - started)) / 1000;
  const turn = { perSecond, micros: microsSince(before, server, events) };
  await server.stop();
  await receiver.stop();
  return turn;
}

async function endToEnd(threads: number): Promise<Turn> {
  const [receiver, port] = await startReceiver();
  const server = startMillrace(folder, { port, threads });
  const [, url] = await server.saw(/ready on (\S+)/);
  const load = async (seconds: number, before: number): Promise<number> => {
    const args = ['bench/load.ts', url!, String(CONNECTIONS), String(seconds), '100'];
    const { events } = await result<{ events: number }>(args);
    while (Number(await receiver.ask('count')) < before + events) await sleep(10);
    return events;
  };
  const warmUp = await load(WARM_UP, 0);
  const before = cpuOfThreads(server.child.pid!);
  const started = performance.now();
  const events = await load(SECONDS, warmUp);
  const perSecond = (events * 1000) / (performance.now() - started);
  const turn = { perSecond, micros: microsSince(before, server, events) };
  await server.stop();
  await receiver.stop();
  return turn;
}

function microsSince(before: ReadonlyMap<string, number>, server: Bench, events: number): number[] {
  const micros = NAMES.map(() => 0);
  for (const [thread, seconds] of cpuOfThreads(server.child.pid!)) {
    const name = NAMES.findIndex(([, pattern]) => pattern.test(thread));
    micros[name]! += ((seconds - (before.get(thread) ?? 0)) * 1e6) / events;
  }
  return micros;
}

function rate(perSecond: number): string {
  return Math.round(perSecond).toLocaleString('en-US');
}
