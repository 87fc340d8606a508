import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startReceiver } from './delivering.ts';
import { CONNECTIONS } from './figures.ts';
import { startMillrace } from './millrace.ts';
import { type Bench, median, result } from './processes.ts';

/**
 * Compares this checkout with another by turns: `BASE=/path/to/another/checkout node bench/versions.ts`. Both
 * programs run side by side, and each is loaded for SECONDS (1) while the other rests, ROUNDS (12) times,
 * after WARM_UP (4) such turns. Prints the ratio of this version to the other, medians and quartiles over the
 * pairs of turns: events a second from the first call to the last delivery, and events for a second of
 * processor time. WAYS names the ways to measure (all).
 */
const BASE = process.env['BASE'];
const SECONDS = process.env['SECONDS'] ?? '1';
const ROUNDS = Number(process.env['ROUNDS'] ?? 12);
const WARM_UP = Number(process.env['WARM_UP'] ?? 4);
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

const folder = mkdtempSync(join(FOLDER, 'millrace-bench-'));
try {
  if (BASE === undefined) throw new Error('name the other checkout: BASE=/path node bench/versions.ts');
  const wanted = process.env['WAYS']?.split(';') ?? Object.keys(WAYS);
  for (const way of wanted) await compare(way as Way, BASE);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function compare(way: Way, base: string): Promise<void> {
  const programs = [await start(way), await start(way, base)] as const;
  try {
    const turns: (readonly [Turn, Turn])[] = [];
    for (let round = -WARM_UP; round < ROUNDS; round++) {
      // The first of a pair finds a colder machine, so they take turns.
      const [first, second] = round % 2 === 0 ? [0, 1] : [1, 0];
      const made: Turn[] = [];
      made[first!] = await turn(programs[first as 0 | 1], way);
      made[second!] = await turn(programs[second as 0 | 1], way);
      if (round >= 0) turns.push([made[0]!, made[1]!]);
    }
    for (const key of ['perSecond', 'perCpuSecond'] as const) {
      const ratios = turns.map(([ours, theirs]) => ours[key] / theirs[key]).sort((a, b) => a - b);
      const [low, high] = [ratios[ratios.length >> 2]!, ratios[(ratios.length * 3) >> 2]!];
      const [ours, theirs] = [0, 1].map((nth) => Math.round(median(turns.map((pair) => pair[nth]![key]))));
      console.log(
        `${way}, ${key}: × ${median(ratios).toFixed(3)} (${low.toFixed(2)} – ${high.toFixed(2)}), ${ours} and ${theirs}`,
      );
    }
  } finally {
    for (const { server, receiver } of programs) {
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
  return { server, url: url!, events: 0, ...(receiver === undefined ? {} : { receiver }) };
}

async function turn(program: Program, way: Way): Promise<Turn> {
  const { server, url, receiver } = program;
  const [cpu, began] = [server.cpu(), performance.now()];
  const load = ['bench/load.ts', url, String(CONNECTIONS), SECONDS, WAYS[way].events];
  const { events } = await result<{ events: number }>(load);
  program.events += events;
  while (receiver !== undefined && Number(await receiver.ask('count')) < program.events) await sleep(20);
  const seconds = (performance.now() - began) / 1000;
  return { perSecond: events / seconds, perCpuSecond: events / (server.cpu() - cpu) };
}
