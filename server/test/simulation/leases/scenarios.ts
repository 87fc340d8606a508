import type { Guard, Scenario } from './model.ts';

/** All promises are kept in these. The first is the plain one: two nodes, three sets, one lost lease. */
export const SCENARIOS: readonly Scenario[] = [
  { losses: 1 },
  { crashes: 1, restarts: 1 },
  { sets: 1, losses: 2 },
  { sets: 1, losses: 1, crashes: 1, doubts: 1, erasures: 1 },
];

/** They take minutes. */
export const LONG_SCENARIOS: readonly Scenario[] = [
  { sets: 2, losses: 2 },
  { sets: 2, losses: 1, crashes: 1, restarts: 1 },
  { sets: 2, losses: 1, doubts: 1 },
  { sets: 2, losses: 1, erasures: 1 },
  { sets: 2, losses: 1, retries: 1 },
  { sets: 1, losses: 2, crashes: 1, doubts: 1 },
];

const ONE_LOSS: Scenario = { sets: 1, losses: 1 };
const NOT_HELD = 'A is sent by a process that does not hold it';
const EARLIER = 'a result of an earlier lease settles A';
const LOST = 'a set is lost: from here on no step leads to its end';

export interface Missed {
  /** The smallest scenario in which its absence shows. */
  readonly scenario: Scenario;
  readonly promise: string;
  /** A second guard that is left out too, because each of the two is enough for this promise. */
  readonly and?: Guard;
}

/** The promise that is broken without each guard. */
export const MISSED: Readonly<Record<Guard, Missed>> = {
  fence: { scenario: ONE_LOSS, promise: LOST },
  fenceLock: { scenario: ONE_LOSS, promise: LOST },
  adoptExpired: { scenario: ONE_LOSS, promise: NOT_HELD },
  parkLate: { scenario: { sets: 1, crashes: 1 }, promise: LOST },
  alone: { scenario: { sets: 1, losses: 2 }, promise: NOT_HELD },
  newNumber: { scenario: ONE_LOSS, promise: EARLIER },
  stopFirst: { scenario: ONE_LOSS, promise: NOT_HELD },
  latch: { scenario: ONE_LOSS, promise: LOST },
  claimsEnd: { scenario: ONE_LOSS, promise: NOT_HELD },
  forgetQueue: { scenario: ONE_LOSS, promise: NOT_HELD },
  forgetRounds: { scenario: ONE_LOSS, promise: EARLIER },
  forgetResults: { scenario: ONE_LOSS, promise: EARLIER },
  ofRequest: { scenario: ONE_LOSS, promise: EARLIER },
  // The fence alone keeps an earlier process from writing; what is left is a second line behind it.
  mine: { scenario: ONE_LOSS, promise: EARLIER, and: 'fence' },
  settleLock: { scenario: { sets: 1, erasures: 1 }, promise: 'A is settled twice' },
  skipLocked: { scenario: { sets: 1 }, promise: NOT_HELD },
  putBackMine: { scenario: { ...ONE_LOSS, doubts: 1 }, promise: NOT_HELD },
};
