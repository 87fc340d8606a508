import { createHash } from 'node:crypto';
import { carriesCalls, type Fault, PASS, refusal, type Script, tooMany } from '../support/fault-proxy.ts';
import { eventsIn } from './calls.ts';

/** The time limit for an answer that clients with such an option are given, ms. */
export const CLIENT_TIMEOUT = 4000;
/** How long the slow answer takes, ms: well within the limit. */
const SLOW = 1000;
/** `Retry-After` of the 429, seconds: longer than the backoff of any client that ignores it. */
export const RETRY_AFTER = 2;

/** One column of the table. */
export interface Case {
  readonly title: string;
  /** The faults of the tries of one call (or one batch), in order; all others pass. */
  readonly faults: readonly Fault[];
  /** A key no source has. */
  readonly unknownKey?: true;
}

export const CASES = {
  none: { title: 'no fault', faults: [] },
  slow: { title: 'answer after 1 s', faults: [{ kind: 'slow', delay: SLOW }] },
  tooMany: { title: '429', faults: [tooMany(RETRY_AFTER)] },
  unavailable: { title: '503', faults: [refusal(503)] },
  outage: { title: '503, four times', faults: Array.from({ length: 4 }, () => refusal(503)) },
  refused: { title: '400', faults: [refusal(400)] },
  unknownKey: { title: 'unknown write key', faults: [], unknownKey: true },
  hangBefore: { title: 'no answer, not received', faults: [{ kind: 'hang', when: 'before' }] },
  hangAfter: { title: 'no answer, received', faults: [{ kind: 'hang', when: 'after' }] },
  resetBefore: { title: 'reset, not received', faults: [{ kind: 'reset', when: 'before' }] },
  resetAfter: { title: 'reset, received', faults: [{ kind: 'reset', when: 'after' }] },
  cut: { title: 'answer cut off', faults: [{ kind: 'cut' }] },
  twice: { title: 'forwarded twice', faults: [{ kind: 'twice' }] },
} as const satisfies Record<string, Case>;

export type CaseName = keyof typeof CASES;
export const CASE_NAMES = Object.keys(CASES) as CaseName[];

/** Over in a moment, one way or another: none of these uses up a client's time limit. */
const STORM: readonly Fault[] = [
  tooMany(1),
  refusal(503),
  refusal(502),
  { kind: 'reset', when: 'before' },
  { kind: 'reset', when: 'after' },
  { kind: 'close', when: 'before' },
  { kind: 'close', when: 'after' },
  { kind: 'cut' },
  { kind: 'twice' },
  { kind: 'slow', delay: 50 },
];

/**
 * A fault for two tries out of three, and for no request a fourth: three retries are what every client makes.
 */
export function storm(seed: string): Script {
  const faultsOf = new Map<string, number>();
  let dice = createHash('sha256').update(seed).digest();
  return (request) => {
    const first = eventsIn(request.body)[0]!.messageId;
    const faults = faultsOf.get(first) ?? 0;
    dice = createHash('sha256').update(dice).digest();
    if (faults === 3 || dice[0]! % 3 === 0) return PASS;
    faultsOf.set(first, faults + 1);
    return STORM[dice.readUInt16LE(1) % STORM.length]!;
  };
}

export interface Aim {
  readonly script: Script;
  /** The ids of the messages in the request the faults hit; empty before it has come. */
  readonly victims: () => ReadonlySet<string>;
}

/**
 * Plays the faults to the first request with at least so many calls, and to every later one that carries one
 * of them.
 */
export function aim(faults: readonly Fault[], atLeast: number): Aim {
  let victims: ReadonlySet<string> = new Set();
  let tries = 0;
  return {
    victims: () => victims,
    script: (request) => {
      if (!carriesCalls(request)) return PASS;
      const ids = eventsIn(request.body).map(({ messageId }) => messageId);
      if (victims.size === 0 && ids.length >= atLeast) victims = new Set(ids);
      return ids.some((id) => victims.has(id)) ? (faults[tries++] ?? PASS) : PASS;
    },
  };
}
