import { RETRY_WINDOW } from '../model/delivery.ts';
import { type Destination, isDelivering, retryWindowStart } from '../model/destination.ts';
import { type Duration, MINUTE, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeliveryQueue, HeldDelivery, ReadyDelivery } from '../ports/delivery-queue.ts';
import type { EventLog, StoredEvent } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import { datedFromOutage, expiryCutoff, isRetryWindowOver, type Outage } from './retry-policy.ts';

/** What a lane asks its backlog for. One at a time: each answer changes what is wanted next. */
export type LoaderAction =
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
export interface LoaderState {
  /** When the first delivery is due, or earlier; absent when there is none. */
  readonly nextDueAt: Monotonic | undefined;
  /** The endpoint came back, and what waits does not know it yet. */
  readonly needsRelease: boolean;
  /** From its first failure until what was parked during it has been claimed. */
  readonly outage: Outage | undefined;
  /** When expiry was last looked at. */
  readonly expiryCheckedAt: Monotonic;
}

/** During an outage expiry is looked at so often, and besides before every probe and every release. */
const EXPIRY_INTERVAL: Duration = MINUTE;

const NONE: LoaderAction = { kind: 'none' };
const FULL: LoaderAction = { kind: 'full' };

/** `room`: how many deliveries may be claimed now; 0 when a claim is not worth its commit. */
function nextAction(known: LoaderState, breaker: CircuitBreaker, room: number, now: Monotonic): LoaderAction {
  if (known.needsRelease) return { kind: 'release' };
  if (known.nextDueAt === undefined) return NONE;
  const checkAt =
    known.outage === undefined ? Number.POSITIVE_INFINITY : known.expiryCheckedAt + EXPIRY_INTERVAL;
  if (checkAt <= now) return { kind: 'expire' };
  if (breaker.state === 'probing') return { kind: 'wait', until: checkAt };
  // A probe takes what is due first, now or later: an outage may have put off everything for half an hour.
  const at = breaker.state === 'open' ? breaker.nextProbeAt : known.nextDueAt;
  if (at > now) return { kind: 'wait', until: Math.min(at, checkAt) };
  if (breaker.state === 'open') return { kind: 'probe' };
  return room > 0 ? { kind: 'claim', max: room } : FULL;
}

const STORAGE_RETRY: Duration = SECOND;

/** Reasons of dead letters whose event cannot be read: no longer there, or not as it was stored. */
type UnreadableReason = 'event_gone' | 'event_damaged';

export interface LoaderDependencies {
  readonly log: EventLog;
  readonly backlog: DeliveryQueue;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The lane that is supplied. */
export interface LoaderHost {
  readonly destination: Pick<Destination, 'id' | 'name' | 'enabled' | 'paused' | 'pauses'>;
  readonly breaker: CircuitBreaker;
  /** How many deliveries may be claimed now; 0 when a claim is not worth its commit. */
  readonly room: number;
  beginProbe(): void;
  /** There is nothing to probe with. */
  cancelProbe(): void;
  /** So many deliveries are in memory from now on, but not yet with their events. */
  addHeld(deliveries: number): void;
  onLoaded(works: readonly ReadyDelivery[]): void;
  /** A held delivery that cannot be sent any more. */
  deadLetter(held: HeldDelivery, reason: string): void;
  /** Everything that waits is due now; so many deliveries are on disk. */
  onReleased(onDisk: number): void;
}

/**
 * What of a destination waits on disk, as far as its lane knows, and the way from there into memory. It asks for one thing
 * at a time; what the store refuses is asked for again a second later, for as long as it takes.
 */
export class BacklogLoader implements LoaderState {
  readonly #tools: LoaderDependencies;
  readonly #worker: LoaderHost;
  nextDueAt: Monotonic | undefined;
  needsRelease = false;
  outage: Outage | undefined;
  expiryCheckedAt: Monotonic = 0;
  /**
   * Something due waits on disk, for want of room or behind an open breaker. New deliveries go there too, so that they
   * do not overtake it, until a claim finds nothing more that is due.
   */
  isBehind = false;
  #running: Promise<void> | undefined;
  #wakesAt: Monotonic | undefined;
  #cancelTimer: (() => void) | undefined;
  #endWait: (() => void) | undefined;
  #stopped = false;

  constructor(tools: LoaderDependencies, lane: LoaderHost) {
    this.#tools = tools;
    this.#worker = lane;
  }

  /** Something on disk is due at this time. */
  noteDue(at: Monotonic): void {
    if (this.nextDueAt === undefined || at < this.nextDueAt) this.nextDueAt = at;
    this.advance();
  }

  /** The breaker has opened. */
  breakerOpened(outage: Outage): void {
    // A relapse belongs to the outage it comes from, as long as that one's backlog is not delivered.
    this.outage ??= outage;
    this.expiryCheckedAt = this.#tools.clock.monotonic();
    this.needsRelease = false;
    this.isBehind = true;
  }

  /** The breaker has closed. */
  breakerClosed(): void {
    this.needsRelease = true;
    this.advance();
  }

  /** Asks for what is wanted now, or sets the clock for when something will be. Called often: it must cost nothing then. */
  advance(): void {
    if (this.nextDueAt === undefined && !this.needsRelease) return;
    if (this.#running !== undefined || this.#stopped || !isDelivering(this.#worker.destination)) return;
    const errand = nextAction(this, this.#worker.breaker, this.#worker.room, this.#tools.clock.monotonic());
    if (errand.kind === 'none') return;
    if (errand.kind === 'full') this.isBehind = true;
    else if (errand.kind === 'wait') this.#wakeAt(errand.until);
    else {
      this.#running = this.#run(errand).then(() => {
        this.#running = undefined;
        this.advance();
      });
    }
  }

  /** Asks for nothing new; resolves when nothing is asked for any more. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    this.#endWait?.();
    await this.#running;
  }

  #wakeAt(at: Monotonic): void {
    if (this.#wakesAt === at || at === Number.POSITIVE_INFINITY) return;
    this.#cancelTimer?.();
    this.#wakesAt = at;
    this.#cancelTimer = this.#tools.clock.after(at - this.#tools.clock.monotonic(), () => {
      this.#wakesAt = undefined;
      this.advance();
    });
  }

  async #run(errand: LoaderAction): Promise<void> {
    try {
      if (errand.kind === 'claim') await this.#claim(errand.max);
      else if (errand.kind === 'probe') await this.#probe();
      else if (errand.kind === 'release') await this.#release();
      else await this.#expire();
    } catch (error) {
      const destination = this.#worker.destination.name;
      this.#tools.logger.error({ error, destination, asked: errand.kind }, 'backlog.failed');
      await this.#waitToRetry();
    }
  }

  /**
   * @param dueAt a time to come until which deliveries may be due; now when absent
   * @returns how many deliveries were handed to the lane
   */
  async #claim(max: number, dueAt: Monotonic = 0): Promise<number> {
    const { backlog, clock } = this.#tools;
    const { outage } = this;
    const now = Math.max(clock.monotonic(), dueAt);
    const { deliveries, nextDueAt } = await backlog.claim(this.#worker.destination.id, max, now);
    // At once, before anything else is awaited: news of later sets may arrive meanwhile and must not be overwritten.
    this.nextDueAt = nextDueAt;
    this.#worker.addHeld(deliveries.length);
    this.#checkCaughtUp(now);
    return await this.#load(deliveries, outage);
  }

  #checkCaughtUp(now: Monotonic): void {
    if (this.#worker.breaker.state !== 'closed' || this.needsRelease) return;
    if (this.nextDueAt !== undefined && this.nextDueAt <= now) return;
    this.isBehind = false;
    this.outage = undefined;
  }

  /** Whatever has had its window goes first: the longest due is what the probe would take. */
  async #probe(): Promise<void> {
    this.#worker.beginProbe();
    let taken = 0;
    try {
      await this.#expire();
      taken = await this.#claim(1, this.nextDueAt);
    } finally {
      if (taken === 0) this.#worker.cancelProbe();
    }
  }

  async #release(): Promise<void> {
    const { backlog, clock } = this.#tools;
    const { id } = this.#worker.destination;
    await this.#expire();
    const lanes = await backlog.stats();
    const now = clock.monotonic();
    const released = await backlog.makeDue(id, now);
    if (released > 0) this.nextDueAt = Math.min(this.nextDueAt ?? now, now);
    // The breaker may have opened again meanwhile; then the next recovery releases what has failed since.
    if (this.#worker.breaker.state !== 'closed') return;
    this.needsRelease = false;
    this.#worker.onReleased(lanes.find(({ destination }) => destination === id)?.onDisk ?? 0);
    this.#checkCaughtUp(now);
  }

  /** Slice by slice, so that commits of others come in between. */
  async #expire(): Promise<void> {
    const { backlog, clock, logger } = this.#tools;
    const { id, name } = this.#worker.destination;
    this.expiryCheckedAt = clock.monotonic();
    if (this.outage === undefined || this.nextDueAt === undefined) return;
    const before = expiryCutoff(this.outage, this.nextDueAt, this.#windowStart());
    if (before === undefined) return;
    let expired = 0;
    for (;;) {
      const slice = await backlog.expire(id, before, 'retry_window_over');
      expired += slice;
      if (slice === 0 || this.#stopped) break;
    }
    if (expired > 0) logger.warn({ destination: name, deliveries: expired }, 'destination.expired');
  }

  /**
   * Reads the events of claimed deliveries; they are ours now, so this does not give up before it has them.
   *
   * @returns how many deliveries were handed to the lane
   */
  async #load(deliveries: readonly HeldDelivery[], outage: Outage | undefined): Promise<number> {
    while (deliveries.length > 0 && !this.#stopped) {
      try {
        const events = await this.#readEvents(deliveries);
        const works: ReadyDelivery[] = [];
        deliveries.forEach((held, index) => {
          const work = this.#withEvent(held, events[index]!, outage);
          if (work !== undefined) works.push(work);
        });
        this.#worker.onLoaded(works);
        return works.length;
      } catch (error) {
        const destination = this.#worker.destination.name;
        this.#tools.logger.error({ error, destination, asked: 'read' }, 'backlog.failed');
        await this.#waitToRetry();
      }
    }
    return 0;
  }

  /** The event of each delivery, or why there is none. */
  async #readEvents(deliveries: readonly HeldDelivery[]): Promise<(StoredEvent | UnreadableReason)[]> {
    const { log } = this.#tools;
    const positions = deliveries.map(({ delivery }) => delivery.position);
    const events = await log.read(positions);
    const missing = positions.filter((_, index) => events[index] === undefined);
    const damaged = new Set(missing.length === 0 ? missing : await log.damaged(missing));
    return positions.map(
      (position, index) => events[index] ?? (damaged.has(position) ? 'event_damaged' : 'event_gone'),
    );
  }

  /**
   * The delivery with its event; nothing where it had to be buried. Only an outage ends a delivery here: one that comes
   * late because this lane was slow, this program was down or the destination paused still gets the try it was due.
   */
  #withEvent(
    held: HeldDelivery,
    stored: StoredEvent | UnreadableReason,
    outage: Outage | undefined,
  ): ReadyDelivery | undefined {
    if (typeof stored === 'string') this.#worker.deadLetter(held, stored);
    else {
      const { source } = stored;
      if (outage === undefined) return { ...held, serialized: stored, source };
      const delivery = datedFromOutage(outage, held.delivery, stored.arrivedAt);
      if (!isRetryWindowOver(delivery, this.#windowStart()))
        return { ...held, delivery, serialized: stored, source };
      this.#worker.deadLetter(held, 'retry_window_over');
    }
    return undefined;
  }

  /** Where the retry window begins that ends now. */
  #windowStart(): Monotonic {
    const { pauses = [] } = this.#worker.destination;
    return retryWindowStart(pauses, RETRY_WINDOW, this.#tools.clock.monotonic());
  }

  #waitToRetry(): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    const { clock } = this.#tools;
    return new Promise((resolve) => {
      const cancel = clock.after(STORAGE_RETRY, resolve);
      this.#endWait = () => {
        cancel();
        resolve();
      };
    });
  }
}
