import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startReceiver } from './delivering.ts';
import { CONNECTIONS } from './figures.ts';
import { startMillrace } from './millrace.ts';
import { type Bench, median, result } from './processes.ts';

/**
 * Compares this checkout with another by turns: `BASE=/path/to/another/checkout node bench/versions.ts`. Both
 * programs run side by side, and each is loaded for SECONDS (2) while the other is stopped, so that it cannot
 * take the processor for what it has left to do: ROUNDS (4) times, after WARM_UP (2) such turns. All of this
 * STARTS (4) times, because what the compiler makes of a program differs by several percent from one start to
 * the next. Prints the ratio of this version to the other, medians and quartiles over the pairs of turns, and
 * the median of each start: events a second from the first call to the last delivery, and events for a second
 * of processor time. WAYS names the ways to measure (all).
 */
const BASE = process.env['BASE'];
const SECONDS = process.env['SECONDS'] ?? '2';
const ROUNDS = Number(process.env['ROUNDS'] ?? 4);
const WARM_UP = Number(process.env['WARM_UP'] ?? 2);
const STARTS = Number(process.env['STARTS'] ?? 4);
const FOLDER = process.env['FOLDER'] ?? '/var/tmp';

const WAYS = {
  'accept, single calls': { events: '1', isDelivered: false },
  'accept, batches of 100': { events: '100', isDelivered: false },
  'through, single calls': { events: '1', isDelivered: true },
  'through, batches of 100': { events: '100', isDelivered: true },
} as const;
type Way = keyof typeof WAYS;

interface Program {
  readonly server: Bench;
  readonly url: string;
  readonly receiver?: Bench;
  /** Events so far. */
  events: number;
}

interface Turn {
  readonly perSecond: number;
  readonly perCpuSecond: number;
}

// A program that is stopped would outlive an interrupted run.
const running: Bench[] = [];
process.once('SIGINT', () => {
  for (const { child } of running) child.kill('SIGKILL');
  process.exit(130);
});

const folder = mkdtempSync(join(FOLDER, 'millrace-bench-'));
try {
  if (BASE === undefined) throw new Error('name the other checkout: BASE=/path node bench/versions.ts');
  const wanted = process.env['WAYS']?.split(';') ?? Object.keys(WAYS);
  for (const way of wanted) await compare(way as Way, BASE);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** The turns of this version and of the other. */
type Pair = readonly [Turn, Turn];

async function compare(way: Way, base: string): Promise<void> {
  const starts: Pair[][] = [];
  for (let nth = 0; nth < STARTS; nth++) starts.push(await pairsOf(way, base));
  const all = starts.flat();
  for (const key of ['perSecond', 'perCpuSecond'] as const) {
    const ratios = (pairs: readonly Pair[]) => pairs.map(([ours, theirs]) => ours[key] / theirs[key]);
    const sorted = ratios(all).sort((a, b) => a - b);
    const [low, high] = [sorted[sorted.length >> 2]!, sorted[(sorted.length * 3) >> 2]!];
    const [ours, theirs] = [0, 1].map((nth) => Math.round(median(all.map((pair) => pair[nth]![key]))));
    const each = starts.map((pairs) => median(ratios(pairs)).toFixed(2)).join(' ');
    console.log(
      `${way}, ${key}: × ${median(sorted).toFixed(3)} (${low.toFixed(2)} – ${high.toFixed(2)}; starts ${each}), ` +
        `${ours} and ${theirs}`,
    );
  }
}

/** Starts both programs, and loads them by turns. */
async function pairsOf(way: Way, base: string): Promise<Pair[]> {
  const programs = [await start(way), await start(way, base)] as const;
  try {
    const pairs: Pair[] = [];
    for (let round = -WARM_UP; round < ROUNDS; round++) {
      // The first of a pair finds a colder machine, so they take turns.
      const order = round % 2 === 0 ? [0, 1] : [1, 0];
      const made: Turn[] = [];
      for (const nth of order) made[nth] = await turn(programs[nth as 0 | 1], way);
      if (round >= 0) pairs.push([made[0]!, made[1]!]);
    }
    return pairs;
  } finally {
    for (const { server, receiver } of programs) {
      server.child.kill('SIGCONT');
      await server.stop();
      await receiver?.stop();
    }
  }
}

async function start(way: Way, root?: string): Promise<Program> {
  const [receiver, port] = WAYS[way].isDelivered ? await startReceiver() : [];
  const started = { ...(root === undefined ? {} : { root }), ...(port === undefined ? {} : { port }) };
  const server = startMillrace(mkdtempSync(join(folder, 'server-')), started);
  const [, url] = await server.saw(/ready on (\S+)/);
  server.child.kill('SIGSTOP');
  running.push(server);
  return { server, url: url!, events: 0, ...(receiver === undefined ? {} : { receiver }) };
}

async function turn(program: Program, way: Way): Promise<Turn> {
  const { server, url, receiver } = program;
  server.child.kill('SIGCONT');
  const [cpu, began] = [server.cpu(), performance.now()];
  const load = ['bench/load.ts', url, String(CONNECTIONS), SECONDS, WAYS[way].events];
  const { events } = await result<{ events: number }>(load);
  program.events += events;
  while (receiver !== undefined && Number(await receiver.ask('count')) < program.events) await sleep(20);
  const seconds = (performance.now() - began) / 1000;
  server.child.kill('SIGSTOP');
  return { perSecond: events / seconds, perCpuSecond: events / (server.cpu() - cpu) };
}
