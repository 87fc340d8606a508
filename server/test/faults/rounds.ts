import { type Chance, chanceOf } from '../support/disk-faults/random.ts';

/**
 * The length of a run of the suite, and its random numbers.
 *
 * - `MILLRACE_FAULT_ROUNDS=1000` makes that many kill rounds and as many times more of every other kind (default 100).
 * - `MILLRACE_FAULT_MINUTES=30` goes on with more rounds until so much time has passed altogether.
 * - `MILLRACE_FAULT_SEED` repeats what a failure printed.
 */
const ROUNDS = positive('MILLRACE_FAULT_ROUNDS');
const MINUTES = positive('MILLRACE_FAULT_MINUTES');
export const SEED = positive('MILLRACE_FAULT_SEED') ?? Math.floor(Math.random() * 1e9);

const DEFAULT_ROUNDS = 100;

export interface Round {
  /** From 1. */
  readonly nth: number;
  readonly seed: number;
  readonly chance: Chance;
}

export interface Amount {
  /** Prefix of the lines of these rounds. */
  readonly kind: string;
  /** Default number of rounds. */
  readonly rounds: number;
  /** The share of these rounds in the suite's time; the shares of all kinds add up to 1. */
  readonly share: number;
}

/** The rounds of one kind, as many as wanted, each with a seed derived from the run's. */
export function* roundsOf({ kind, rounds, share }: Amount): Generator<Round> {
  const least = Math.ceil((rounds * (ROUNDS ?? DEFAULT_ROUNDS)) / DEFAULT_ROUNDS);
  const until = performance.now() + (MINUTES ?? 0) * 60_000 * share;
  console.log(`${kind}: MILLRACE_FAULT_SEED=${SEED}`);
  for (let nth = 1; nth <= least || performance.now() < until; nth++) {
    const seed = SEED + nth;
    yield { nth, seed, chance: chanceOf(seed) };
  }
}

/** The factor on the default amount of work, for tests that do not count in rounds. */
export function timesLonger(): number {
  return Math.max((ROUNDS ?? DEFAULT_ROUNDS) / DEFAULT_ROUNDS, MINUTES === undefined ? 0 : MINUTES / 4);
}

function positive(name: string): number | undefined {
  const text = process.env[name];
  if (text === undefined || text === '') return undefined;
  const number = Number(text);
  if (!(number > 0)) throw new Error(`${name} must be a number above 0, not "${text}"`);
  return number;
}
