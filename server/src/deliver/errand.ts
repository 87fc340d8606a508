import { type Duration, MINUTE, type Monotonic } from '../model/time.ts';
import type { Breaker } from './breaker.ts';
import type { Outage } from './expiry.ts';

/** What a lane asks its backlog for. One at a time: each answer changes what is wanted next. */
export type Errand =
  /** There is nothing to ask for before something else happens. */
  | { readonly kind: 'none' }
  /** It is for want of room that nothing is asked for. */
  | { readonly kind: 'full' }
  | { readonly kind: 'wait'; readonly until: Monotonic }
  /** Gives up what has had its retry window. */
  | { readonly kind: 'expire' }
  /** Makes everything due: the endpoint is back. */
  | { readonly kind: 'release' }
  | { readonly kind: 'claim'; readonly max: number }
  /** Claims the one delivery that asks whether the endpoint is back. */
  | { readonly kind: 'probe' };

/** What a lane knows of its backlog on disk. */
export interface Known {
  /** When the first delivery is due, or earlier; absent when there is none. */
  readonly nextDueAt: Monotonic | undefined;
  /** The endpoint came back, and what waits does not know it yet. */
  readonly releaseOwed: boolean;
  /** From its first failure until what was parked during it has been claimed. */
  readonly outage: Outage | undefined;
  /** When expiry was last looked at. */
  readonly checkedAt: Monotonic;
}

/** During an outage expiry is looked at so often, and besides before every probe and every release. */
const CHECK_EVERY: Duration = MINUTE;

const NONE: Errand = { kind: 'none' };
const FULL: Errand = { kind: 'full' };

/** `room`: how many deliveries may be claimed now; 0 when a claim is not worth its commit. */
export function nextErrand(known: Known, breaker: Breaker, room: number, now: Monotonic): Errand {
  if (known.releaseOwed) return { kind: 'release' };
  if (known.nextDueAt === undefined) return NONE;
  const checkAt = known.outage === undefined ? Number.POSITIVE_INFINITY : known.checkedAt + CHECK_EVERY;
  if (checkAt <= now) return { kind: 'expire' };
  if (breaker.state === 'probing') return { kind: 'wait', until: checkAt };
  // A probe takes what is due first, now or later: an outage may have put off everything for half an hour.
  const at = breaker.state === 'open' ? breaker.nextProbeAt : known.nextDueAt;
  if (at > now) return { kind: 'wait', until: Math.min(at, checkAt) };
  if (breaker.state === 'open') return { kind: 'probe' };
  return room > 0 ? { kind: 'claim', max: room } : FULL;
}
