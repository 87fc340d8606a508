import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startReceiver, whileDelivering, writeBacklog } from './delivering.ts';
import { ROUNDS, rate, SECONDS, WARM_UP } from './figures.ts';
import { destination, startMillrace } from './millrace.ts';
import { type Bench, median, result } from './processes.ts';

/** Connections of the load generator, each with one request at a time, and the events of a request. */
const LOADS = [
  { connections: 64, events: 1 },
  { connections: 500, events: 1 },
  { connections: 2000, events: 1 },
  { connections: 5000, events: 1 },
  { connections: 64, events: 100 },
] as const;

/** Delivery keeps at least this part of the rate it has alone. */
const TARGET = 0.7;

/**
 * Whether delivery starves when clients send all they can: what is accepted and what is delivered in the same
 * seconds, beside what is delivered from a backlog when nobody sends. A rate that is no lower than the
 * accepted one needs no more: nothing is owed.
 */
export async function compareOverload(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-overload-'));
  try {
    const alone: number[] = [];
    const loaded = LOADS.map((): Loaded[] => []);
    for (let round = 0; round < ROUNDS; round++) {
      alone.push(await deliverAlone(folder));
      for (const [nth, load] of LOADS.entries()) loaded[nth]!.push(await deliverUnder(load, folder));
    }
    console.log(`delivering alone, from a backlog       ${rate(median(alone))}/s (${spread(alone)})\n`);
    for (const [nth, { connections, events }] of LOADS.entries())
      report(connections, events, loaded[nth]!, alone);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Loaded {
  /** Events a second. */
  readonly accepted: number;
  readonly delivered: number;
  /** Milliseconds until a call has its answer. */
  readonly p99: number;
}

async function deliverAlone(folder: string): Promise<number> {
  const [receiver, port] = await startReceiver();
  const data = join(folder, 'backlog');
  rmSync(data, { recursive: true, force: true });
  await writeBacklog(data, (SECONDS + WARM_UP) * 60_000, [destination(port)]);
  const server = startMillrace(folder, { data, port });
  await server.saw(/ready on/);
  const { perSecond } = await whileDelivering(server, receiver, WARM_UP);
  await stop(server, receiver);
  return perSecond;
}

async function deliverUnder(
  { connections, events }: (typeof LOADS)[number],
  folder: string,
): Promise<Loaded> {
  const [receiver, port] = await startReceiver();
  const server = startMillrace(folder, { port });
  const [, url] = await server.saw(/ready on (\S+)/);
  const load = (seconds: number) =>
    result<{ events: number; perSecond: number; p99: number }>([
      ...['bench/load.ts', url!, String(connections), String(seconds), String(events)],
    ]);
  await load(WARM_UP);
  const before = Number(await receiver.ask('count'));
  const sent = await load(SECONDS);
  const arrived = Number(await receiver.ask('count')) - before;
  await stop(server, receiver);
  const seconds = sent.events / sent.perSecond;
  return { accepted: sent.perSecond, delivered: arrived / seconds, p99: sent.p99 };
}

async function stop(server: Bench, receiver: Bench): Promise<void> {
  await server.stop();
  await receiver.stop();
}

function report(
  connections: number,
  events: number,
  loaded: readonly Loaded[],
  alone: readonly number[],
): void {
  const name = `${connections} connections, ${events === 1 ? 'single calls' : `batches of ${events}`}`;
  const accepted = median(loaded.map((one) => one.accepted));
  const delivered = loaded.map((one) => one.delivered);
  const share = median(delivered) / median(alone);
  const keepsUp = median(delivered) >= 0.98 * accepted;
  console.log(
    `${name.padEnd(38)} accepted ${rate(accepted)}/s   delivered ${rate(median(delivered))}/s (${spread(delivered)})\n` +
      `  ${share.toFixed(2)} of the rate alone (target ${TARGET}${keepsUp ? '; all that is accepted is delivered at once' : ''}), ` +
      `p99 of a call ${median(loaded.map((one) => one.p99)).toFixed(0)} ms\n`,
  );
}

function spread(values: readonly number[]): string {
  return `${rate(Math.min(...values)).trim()}–${rate(Math.max(...values)).trim()}`;
}
