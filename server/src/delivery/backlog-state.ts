import { type Duration, MINUTE, type Monotonic } from '../model/time.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import type { Outage } from './retry-policy.ts';

/**
 * How a worker stands to its backlog, the deliveries that wait on disk. Only a worker that has caught up takes new
 * deliveries into memory; otherwise they go to disk, behind the older ones.
 *
 * ```
 *                no room in memory, or something due on disk
 *   caught_up ─────────────────────────────────────────────▶ behind ◀──────────────┐
 *     │   ▲                                                   │   │                │
 *     │   └──────────── a claim leaves nothing due ───────────┘   │                │
 *     │                                                           │                │
 *     └─────── the breaker opens ───▶ outage ◀── it opens ────────┘                │
 *                                      │  ▲                                        │
 *                            it closes │  │ it opens                               │
 *                                      ▼  │                                        │
 *                                    releasing ── everything was made due ─────────┘
 * ```
 */
export type BacklogPhase = 'caught_up' | 'behind' | 'outage' | 'releasing';

export interface BacklogState {
  /** `outage` exactly while the circuit breaker is open or probing. */
  readonly phase: BacklogPhase;
  /** When the first delivery on disk is due, or earlier; absent when none is on disk. */
  readonly nextDueAt: Monotonic | undefined;
  /** Present from the opening of the breaker until the deliveries parked during the outage have been claimed. */
  readonly outage: Outage | undefined;
  /** When the worker last gave up what the retry window had passed. */
  readonly expiryCheckedAt: Monotonic;
}

export const EMPTY_BACKLOG: BacklogState = {
  phase: 'caught_up',
  nextDueAt: undefined,
  outage: undefined,
  expiryCheckedAt: 0,
};

/** Something due waits on disk. New deliveries follow it, so that they do not overtake it. */
export function afterFallingBehind(backlog: BacklogState): BacklogState {
  return backlog.phase === 'caught_up' ? { ...backlog, phase: 'behind' } : backlog;
}

/** Deliveries on disk are due at `at`. */
export function afterParking(backlog: BacklogState, at: Monotonic): BacklogState {
  const { nextDueAt } = backlog;
  return nextDueAt === undefined || at < nextDueAt ? { ...backlog, nextDueAt: at } : backlog;
}

/** A relapse belongs to the outage before it until that one's backlog has been claimed. */
export function afterBreakerOpened(backlog: BacklogState, outage: Outage, now: Monotonic): BacklogState {
  return { ...backlog, phase: 'outage', outage: backlog.outage ?? outage, expiryCheckedAt: now };
}

export function afterBreakerClosed(backlog: BacklogState): BacklogState {
  return { ...backlog, phase: 'releasing' };
}

/** Everything on disk was made due. */
export function afterRelease(backlog: BacklogState, now: Monotonic): BacklogState {
  return withoutGap({ ...backlog, phase: 'behind' }, now);
}

/**
 * A claim of what is due at `now`.
 *
 * @param nextDueAt of what is left on disk
 */
export function afterClaim(
  backlog: BacklogState,
  nextDueAt: Monotonic | undefined,
  now: Monotonic,
): BacklogState {
  return withoutGap({ ...backlog, nextDueAt }, now);
}

/** Caught up when nothing on disk is due any more. */
function withoutGap(backlog: BacklogState, now: Monotonic): BacklogState {
  const { phase, nextDueAt } = backlog;
  if (phase !== 'behind' || (nextDueAt !== undefined && nextDueAt <= now)) return backlog;
  return { ...backlog, phase: 'caught_up', outage: undefined };
}

/** The next thing a worker asks of the store. One at a time, because each answer changes what is wanted next. */
export type LoaderAction =
  /** Nothing is to be done before something else happens. */
  | { readonly kind: 'none' }
  /** Something is due, but there is no room for it. */
  | { readonly kind: 'full' }
  | { readonly kind: 'wait'; readonly until: Monotonic }
  /** Gives up what the retry window has passed. */
  | { readonly kind: 'expire' }
  /** Makes everything due, because the endpoint is back. */
  | { readonly kind: 'release' }
  | { readonly kind: 'claim'; readonly max: number }
  /** Claims one delivery that tests whether the endpoint is back. */
  | { readonly kind: 'probe' };

/** How often expiry is checked during an outage. It is also checked before every probe and every release. */
const EXPIRY_INTERVAL: Duration = MINUTE;

const NONE: LoaderAction = { kind: 'none' };
const FULL: LoaderAction = { kind: 'full' };

/** @param room how many deliveries may be claimed; 0 when a claim is not worth its commit */
export function nextAction(
  { phase, nextDueAt, outage, expiryCheckedAt }: BacklogState,
  breaker: CircuitBreaker,
  room: number,
  now: Monotonic,
): LoaderAction {
  if (phase === 'releasing') return { kind: 'release' };
  if (nextDueAt === undefined) return NONE;
  const checkAt = outage === undefined ? Number.POSITIVE_INFINITY : expiryCheckedAt + EXPIRY_INTERVAL;
  if (checkAt <= now) return { kind: 'expire' };
  if (breaker.state === 'probing') return { kind: 'wait', until: checkAt };
  // A probe takes the first delivery even before it is due: an outage may have put off everything for half an hour.
  const at = breaker.state === 'open' ? breaker.nextProbeAt : nextDueAt;
  if (at > now) return { kind: 'wait', until: Math.min(at, checkAt) };
  if (breaker.state === 'open') return { kind: 'probe' };
  return room > 0 ? { kind: 'claim', max: room } : FULL;
}
