import type { Position } from '../model/event.ts';
import { invariant, rethrowInvariant } from '../model/invariant.ts';
import { type Duration, MINUTE, type Monotonic, SECOND } from '../model/time.ts';
import { type Clock, InterruptibleSleep } from '../ports/clock.ts';
import type {
  Claim,
  ClaimedDelivery,
  DeliveryQueue,
  HeldDelivery,
  ReadyDelivery,
} from '../ports/delivery-queue.ts';
import type { EventLog, StoredEvent } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import { datedFromOutage, isRetryWindowOver, type Outage } from './retry-policy.ts';

/**
 * How a worker stands to its backlog, the deliveries that wait on disk. Only a worker that has caught up
 * takes new deliveries into memory; otherwise they go to disk, behind the older ones.
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
  /**
   * The first due time that was noted since the last claim was asked for. The store may have parked that
   * delivery behind the claim, in the same transaction: the answer to the claim does not know of it,
   * whichever of the two answers is heard first.
   */
  readonly notedSinceClaim: Monotonic | undefined;
  /**
   * Present from the opening of the breaker until the deliveries parked during the outage have been claimed.
   */
  readonly outage: Outage | undefined;
  /** When the worker last gave up what the retry window had passed. */
  readonly expiryCheckedAt: Monotonic;
}

export const EMPTY_BACKLOG: BacklogState = {
  phase: 'caught_up',
  nextDueAt: undefined,
  notedSinceClaim: undefined,
  outage: undefined,
  expiryCheckedAt: 0,
};

/** Something due waits on disk. New deliveries follow it, so that they do not overtake it. */
export function afterFallingBehind(backlog: BacklogState): BacklogState {
  return backlog.phase === 'caught_up' ? { ...backlog, phase: 'behind' } : backlog;
}

/** Deliveries on disk are due at `at`. */
export function afterParking(backlog: BacklogState, at: Monotonic): BacklogState {
  const { nextDueAt, notedSinceClaim } = backlog;
  return { ...backlog, nextDueAt: earliest(nextDueAt, at), notedSinceClaim: earliest(notedSinceClaim, at) };
}

/** A claim is asked for. What is noted from here on is not in its answer. */
export function beforeClaim(backlog: BacklogState): BacklogState {
  return { ...backlog, notedSinceClaim: undefined };
}

/** A relapse belongs to the outage before it until that one's backlog has been claimed. */
export function afterBreakerOpened(backlog: BacklogState, outage: Outage, now: Monotonic): BacklogState {
  invariant(backlog.phase !== 'outage', 'a breaker opens outside of an outage');
  return { ...backlog, phase: 'outage', outage: backlog.outage ?? outage, expiryCheckedAt: now };
}

export function afterBreakerClosed(backlog: BacklogState): BacklogState {
  invariant(backlog.phase === 'outage', 'a breaker closes at the end of an outage');
  return { ...backlog, phase: 'releasing' };
}

/** Everything on disk was made due. */
export function afterRelease(backlog: BacklogState, now: Monotonic): BacklogState {
  invariant(backlog.phase === 'releasing', 'a release ends in the phase in which it began');
  return withoutGap({ ...backlog, phase: 'behind' }, now);
}

/**
 * A claim of what is due at `now`.
 *
 * @param nextDueAt of what is left on disk, as far as the store knew when it claimed
 */
export function afterClaim(
  backlog: BacklogState,
  nextDueAt: Monotonic | undefined,
  now: Monotonic,
): BacklogState {
  return withoutGap({ ...backlog, nextDueAt: earliest(nextDueAt, backlog.notedSinceClaim) }, now);
}

function earliest(one: Monotonic | undefined, other: Monotonic | undefined): Monotonic | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);
}

/** Caught up when nothing on disk is due any more. */
function withoutGap(backlog: BacklogState, now: Monotonic): BacklogState {
  const { phase, nextDueAt } = backlog;
  if (phase !== 'behind' || (nextDueAt !== undefined && nextDueAt <= now)) return backlog;
  return { ...backlog, phase: 'caught_up', outage: undefined };
}

/**
 * Phase, outage and due times of a backlog agree with each other, and with the breaker. Checked before every
 * action on the backlog.
 */
export function checkBacklog(
  { phase, nextDueAt, notedSinceClaim, outage }: BacklogState,
  breaker: CircuitBreaker['state'],
): void {
  invariant(
    (phase === 'outage') === (breaker !== 'closed'),
    'a backlog is in an outage exactly while the breaker is not closed',
  );
  invariant(phase !== 'outage' || outage !== undefined, 'a backlog in an outage knows since when');
  invariant(phase !== 'releasing' || outage !== undefined, 'a release is that of an outage');
  invariant(phase !== 'caught_up' || outage === undefined, 'a worker that has caught up is in no outage');
  invariant(nextDueAt === undefined || !Number.isNaN(nextDueAt), 'what waits on disk is due at a time');
  invariant(
    notedSinceClaim === undefined || (nextDueAt !== undefined && nextDueAt <= notedSinceClaim),
    'nothing was noted that is due before the first on disk',
  );
}

/**
 * The next thing a worker asks of the store. One at a time, because each answer changes what is wanted next.
 */
export type LoaderAction =
  /** The loader waits for the next event: a round that ends, an announcement, a change of the settings. */
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

/**
 * Decides the next action of the loader. `room`: deliveries that may be claimed; 0 when a claim is not worth
 * its commit.
 */
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
  // A probe takes the first delivery even before it is due: an outage may have put off everything for half an
  // hour.
  const at = breaker.state === 'open' ? breaker.nextProbeAt : nextDueAt;
  if (at > now) return { kind: 'wait', until: Math.min(at, checkAt) };
  if (breaker.state === 'open') return { kind: 'probe' };
  return room > 0 ? { kind: 'claim', max: room } : FULL;
}

/**
 * Deliveries that a worker holds in memory: enough for a fast endpoint between two claims. The rest waits on
 * disk.
 */
const PREFETCH_LIMIT = 2000;

/** New deliveries that all workers hold in memory. A worker's own limit is a tenth of it. */
const TOTAL_PREFETCH_LIMIT = 20_000;

/**
 * Each worker may claim this many even when the total is used up: ten workers that hang must not starve the
 * others.
 */
const GUARANTEED_CLAIM = 200;

const MAX_CLAIM = 1000;

/**
 * A worker that is behind prefetches what it sends in 16 round trips. At a high concurrency two round trips
 * and one claim are enough. It never prefetches fewer than 32, because a claim costs a commit.
 */
const ROUNDS_AHEAD = 16;
const MIN_ROUNDS_AHEAD = 2;
const MIN_PREFETCH = 32;

/** Deliveries in the memory of all workers: reserved, ready or in flight. */
export interface TotalInMemory {
  held: number;
}

/** How many new deliveries fit into memory. */
export function roomForNew(held: number, total: TotalInMemory): number {
  invariant(held >= 0, 'a worker holds no fewer deliveries than none');
  invariant(total.held >= held, 'a worker holds no more deliveries than all of them together');
  return Math.max(0, Math.min(PREFETCH_LIMIT - held, TOTAL_PREFETCH_LIMIT - total.held));
}

interface PrefetchState {
  readonly held: number;
  /** Something due waits on disk, and new deliveries are parked behind it. */
  readonly isBehind: boolean;
  /** The concurrency of the worker. */
  readonly limit: number;
}

/**
 * How many deliveries may be claimed from disk; 0 when so few would fit that a claim is not worth its commit.
 * The limit of a worker that is behind goes by its concurrency: after an outage, or at an endpoint that
 * hangs, it claims a few, not hundreds that it could only return.
 */
export function roomToClaim({ held, isBehind, limit }: PrefetchState, total: TotalInMemory): number {
  invariant(limit >= 1, 'a worker may always have a delivery in flight');
  const ahead = Math.min(ROUNDS_AHEAD * limit, MIN_ROUNDS_AHEAD * limit + MAX_CLAIM);
  const useful = isBehind ? Math.max(MIN_PREFETCH, ahead) : PREFETCH_LIMIT;
  const limitNow = Math.min(useful, total.held < TOTAL_PREFETCH_LIMIT ? PREFETCH_LIMIT : GUARANTEED_CLAIM);
  const room = limitNow - held;
  return room >= limitNow / 4 ? Math.min(room, MAX_CLAIM) : 0;
}

/** A failed call of the store is repeated after this delay, without a limit. */
const STORAGE_RETRY: Duration = SECOND;

export interface LoaderDependencies {
  readonly log: EventLog;
  readonly deliveryQueue: DeliveryQueue;
  readonly clock: Clock;
  readonly logger: Logger;
  /** As `WorkerDependencies.maySend`. */
  readonly maySend?: (() => boolean) | undefined;
}

/**
 * The event of a claimed delivery, or the reason of its dead letter when the event is gone or its bytes have
 * changed.
 */
export type LoadedEvent = StoredEvent | 'event_gone' | 'event_damaged';

/** Claimed deliveries with their events. */
export interface LoadedBatch {
  readonly ready: readonly ReadyDelivery[];
  /** Deliveries that cannot be sent any more. */
  readonly dead: readonly { readonly held: HeldDelivery; readonly reason: string }[];
}

export interface ReleaseResult {
  /** The released deliveries are due from then on. */
  readonly at: Monotonic;
  readonly released: number;
  /** Deliveries on disk, also those that were due anyway. */
  readonly onDisk: number;
}

/**
 * The calls of the store with which one worker loads its backlog. The worker decides what is asked for, and
 * when.
 */
export class BacklogLoader {
  readonly #dependencies: LoaderDependencies;
  /** Id of the destination, or of its endpoint where each is a delivery of its own. */
  readonly #id: number;
  /** Name of the destination, for log lines. */
  readonly #name: string;
  readonly #pause: InterruptibleSleep;
  /** Positions that were erased since the read at work began; undefined while there is none. */
  #erased: Set<Position> | undefined;
  #isStopped = false;

  constructor(
    { id, name }: { readonly id: number; readonly name: string },
    dependencies: LoaderDependencies,
  ) {
    this.#id = id;
    this.#name = name;
    this.#dependencies = dependencies;
    this.#pause = new InterruptibleSleep(dependencies.clock);
  }

  /** Claims what is due at `dueAt`. Rejects with a `StorageError`. */
  async claim(max: number, dueAt: Monotonic): Promise<Claim> {
    invariant(max >= 1 && max <= MAX_CLAIM, 'a claim asks for as many as one may take');
    const claim = await this.#dependencies.deliveryQueue.claim(this.#id, max, dueAt);
    invariant(claim.deliveries.length <= max, 'a claim gives no more than was asked for');
    return claim;
  }

  /**
   * Reads the events of claimed deliveries. It repeats failed reads until the worker stops, because the
   * deliveries are held and no other process will send them.
   *
   * @returns an event for each delivery; `undefined` after a stop, and when the lease is lost
   */
  async read(deliveries: readonly HeldDelivery[]): Promise<readonly LoadedEvent[] | undefined> {
    const { maySend } = this.#dependencies;
    while (!this.#isStopped && maySend?.() !== false) {
      try {
        const events = await this.#readOnce(deliveries);
        return maySend?.() === false ? undefined : events;
      } catch (error) {
        await this.backOff(error, 'read');
      }
    }
    return undefined;
  }

  /** Forgets the events at these positions, which were erased: what was read of them before is not sent. */
  drop(positions: ReadonlySet<Position>): void {
    for (const position of positions) this.#erased?.add(position);
  }

  async #readOnce(deliveries: readonly HeldDelivery[]): Promise<readonly LoadedEvent[]> {
    const { log } = this.#dependencies;
    const positions = deliveries.map(({ delivery }) => delivery.position);
    const erased = new Set<Position>();
    this.#erased = erased;
    const events = await log.read(positions);
    const missing = positions.filter((_, index) => events[index] === undefined);
    const damaged = new Set(missing.length === 0 ? missing : await log.damaged(missing));
    return positions.map((position, index) => {
      if (erased.has(position)) return 'event_gone';
      return events[index] ?? (damaged.has(position) ? 'event_damaged' : 'event_gone');
    });
  }

  /** Makes everything due that waits for its next try. Rejects with a `StorageError`. */
  async release(): Promise<ReleaseResult> {
    const { deliveryQueue, clock } = this.#dependencies;
    const stats = await deliveryQueue.stats();
    const at = clock.monotonic();
    const released = await deliveryQueue.makeDue(this.#id, at);
    invariant(released >= 0, 'no fewer deliveries become due than none');
    return {
      at,
      released,
      onDisk: stats.find(({ destination }) => destination === this.#id)?.onDisk ?? 0,
    };
  }

  /**
   * Gives up what has had its retry window, in slices, so that commits of other workers come in between.
   * Rejects with a `StorageError`.
   *
   * @param before start of the retry window that ends now
   */
  async expire(before: Monotonic): Promise<void> {
    const { deliveryQueue, logger } = this.#dependencies;
    let expired = 0;
    for (;;) {
      const slice = await deliveryQueue.expire(this.#id, before, 'retry_window_over');
      invariant(slice >= 0, 'no fewer deliveries expire than none');
      expired += slice;
      if (slice === 0 || this.#isStopped) break;
    }
    if (expired > 0) logger.warn({ destination: this.#name, deliveries: expired }, 'destination.expired');
  }

  /** Logs a failed call and waits before the next one. Throws a broken invariant again. */
  async backOff(error: unknown, asked: string): Promise<void> {
    rethrowInvariant(error);
    this.#dependencies.logger.error({ error, destination: this.#name, asked }, 'backlog.failed');
    if (!this.#isStopped) await this.#pause.sleep(STORAGE_RETRY);
  }

  /** Ends the wait before a retry. */
  wake(): void {
    this.#pause.interrupt();
  }

  /** Ends the waits between retries. Idempotent. */
  stop(): void {
    this.#isStopped = true;
    this.#pause.interrupt();
  }
}

/**
 * Combines claimed deliveries with their events. Only an outage ends a delivery here. One that is late for
 * another reason (the worker was slow, the program was down, the destination was paused) still gets its try.
 *
 * @param outage at the time of the claim
 * @param windowStart start of the retry window that ends now
 */
export function batchOf(
  deliveries: readonly ClaimedDelivery[],
  events: readonly LoadedEvent[],
  outage: Outage | undefined,
  windowStart: Monotonic,
): LoadedBatch {
  invariant(events.length === deliveries.length, 'each claimed delivery has its event, or why it has none');
  const ready: ReadyDelivery[] = [];
  const dead: { held: HeldDelivery; reason: string }[] = [];
  for (const [index, held] of deliveries.entries()) {
    const serialized = events[index]!;
    if (typeof serialized === 'string') {
      dead.push({ held, reason: serialized });
      continue;
    }
    const { source, arrivedAt } = serialized;
    const parkedAt = held.dueAt ?? arrivedAt;
    const delivery = outage === undefined ? held.delivery : datedFromOutage(outage, held.delivery, parkedAt);
    if (outage !== undefined && isRetryWindowOver(delivery, windowStart))
      dead.push({ held, reason: 'retry_window_over' });
    else ready.push({ ...held, delivery, serialized, source });
  }
  return { ready, dead };
}
