import { type Bench, median, result } from './processes.ts';

/** How long each figure is measured, in seconds, and how often. */
export const SECONDS = Number(process.env['SECONDS'] ?? 4);
export const ROUNDS = Number(process.env['ROUNDS'] ?? 3);

/** Connections of the load generator, each with one request at a time. */
export const CONNECTIONS = 64;

/**
 * Seconds of load before anything is measured: for some ten V8 compiles what runs often, which a server does
 * once.
 */
export const WARM_UP = 10;

export interface Figure {
  perSecond: number;
  perCpuSecond: number;
  /** Milliseconds. */
  p50?: number;
  p99?: number;
  /** MB. */
  memory?: number;
}

interface Load {
  perSecond: number;
  refused: number;
  p50: number;
  p99: number;
}

/** Measures each in turn: other load on the machine weighs on all of them alike. */
export async function alternate(...measures: (() => Promise<Figure>)[]): Promise<Figure[][]> {
  const figures = measures.map((): Figure[] => []);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [nth, measure] of measures.entries()) figures[nth]!.push(await measure());
  }
  return figures;
}

export interface Offered {
  /** Events of a request. */
  readonly events: number;
  readonly connections: number;
}

/** Events a second that a server says it accepted. */
export async function accepting(server: Bench, offered: Offered, warmUp = WARM_UP): Promise<Figure> {
  const { events, connections } = offered;
  const [, url] = await server.saw(/ready on (\S+)/);
  const load = (seconds: number) =>
    result<Load>(['bench/load.ts', url!, String(connections), String(seconds), String(events)]);
  await load(warmUp);
  const before = server.cpu();
  const { perSecond, refused, p50, p99 } = await load(SECONDS);
  if (refused > 0) throw new Error(`${refused} requests were refused`);
  const perCpuSecond = (perSecond * SECONDS) / (server.cpu() - before);
  const memory = server.memory();
  await server.stop();
  return { perSecond, perCpuSecond, p50, p99, memory };
}

export type Measured = 'perSecond' | 'perCpuSecond' | 'p50' | 'p99' | 'memory';

/** The median of the rounds. */
export function middle(figures: readonly Figure[], key: Measured): number {
  return median(figures.map((figure) => figure[key] ?? Number.NaN));
}

export function line(who: string, figures: readonly Figure[], unit: string): string {
  const of = (key: Measured) => middle(figures, key);
  const rates = `  ${who.padEnd(38)} ${rate(of('perSecond'))} ${unit}/s   ${rate(of('perCpuSecond'))} per CPU second`;
  // A run without waiting clients has no latency.
  if (Number.isNaN(of('p50'))) return rates;
  const latency = `p50 ${of('p50').toFixed(2)} ms   p99 ${of('p99').toFixed(2)} ms`;
  const memory = of('memory');
  return Number.isNaN(memory) ? `${rates}   ${latency}` : `${rates}   ${latency}   ${memory.toFixed(0)} MB`;
}

export function rate(value: number): string {
  return Math.round(value).toLocaleString('en').padStart(9);
}
