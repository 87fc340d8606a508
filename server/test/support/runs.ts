import { readFileSync } from 'node:fs';
import { type Chance, chanceOf } from './disk-faults/random.ts';

/**
 * How much a suite does, and its random numbers.
 *
 * The gate does the least of each kind that shows that it still works, with the seeds of
 * `server/test/seeds.json`: the same tree gives the same result. The long run (`npm run test:long`) does much
 * of each kind, with a seed of its own.
 *
 * - `MILLRACE_TEST_LIST=long` does as much as the long run does.
 * - `MILLRACE_TEST_SEED=7` draws with this seed; every suite prints the one that it used.
 * - `MILLRACE_TEST_ROUNDS=1000` makes that many rounds of each kind, in either list.
 */
export const IS_LONG = readList() === 'long';

const SEEDS = JSON.parse(readFileSync(new URL('../seeds.json', import.meta.url), 'utf8')) as Readonly<{
  gate: number;
  found: Readonly<Record<string, readonly number[]>>;
}>;

export const SEED = positive('MILLRACE_TEST_SEED') ?? SEEDS.gate;

const ROUNDS = positive('MILLRACE_TEST_ROUNDS');

/** An amount of work in each list. */
export interface Amount {
  readonly gate: number;
  readonly long: number;
}

/** The amount of the list that runs. */
export function amountOf({ gate, long }: Amount): number {
  return ROUNDS ?? (IS_LONG ? long : gate);
}

export interface Round {
  /** From 1. */
  readonly nth: number;
  readonly seed: number;
  readonly chance: Chance;
}

/**
 * The rounds of one kind: first those whose seeds a long run has found to fail once, then as many as the list
 * has, by the run's seed.
 */
export function* roundsOf(kind: string, amount: Amount): Generator<Round> {
  const found = SEEDS.found[kind] ?? [];
  const drawn = Array.from({ length: amountOf(amount) }, (_, nth) => SEED + nth);
  console.log(`${kind}: ${drawn.length} rounds, ${replayOf(SEED)}`);
  for (const [index, seed] of [...found, ...drawn].entries())
    yield { nth: index + 1, seed, chance: chanceOf(seed) };
}

/** The setting that draws the same numbers again, as a shell takes it. */
export function replayOf(seed: number): string {
  return `${IS_LONG ? 'MILLRACE_TEST_LIST=long ' : ''}MILLRACE_TEST_SEED=${seed}`;
}

function readList(): 'gate' | 'long' {
  const list = process.env['MILLRACE_TEST_LIST'] || 'gate';
  if (list !== 'gate' && list !== 'long')
    throw new Error(`MILLRACE_TEST_LIST must be gate or long, not "${list}"`);
  return list;
}

function positive(name: string): number | undefined {
  const text = process.env[name];
  if (text === undefined || text === '') return undefined;
  const number = Number(text);
  if (!(Number.isSafeInteger(number) && number > 0))
    throw new Error(`${name} must be a whole number above 0, not "${text}"`);
  return number;
}
