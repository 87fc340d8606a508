import { RETRY_WINDOW } from '../model/delivery.ts';
import { type Destination, isServed } from '../model/destination.ts';
import { windowStart } from '../model/pauses.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { Backlog, Held } from '../ports/backlog.ts';
import type { Clock } from '../ports/clock.ts';
import type { InHand } from '../ports/deliverer.ts';
import type { EventLog, StoredEvent } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { Breaker } from './breaker.ts';
import { type Errand, type Known, nextErrand } from './errand.ts';
import { datedBy, expiredBefore, isOver, type Outage } from './expiry.ts';

const STORAGE_RETRY: Duration = SECOND;

/** Reasons of dead letters whose event cannot be read: no longer there, or not as it was stored. */
type Missing = 'event_gone' | 'event_damaged';

export interface SupplyTools {
  readonly log: EventLog;
  readonly backlog: Backlog;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The lane that is supplied. */
export interface Supplied {
  readonly destination: Pick<Destination, 'id' | 'name' | 'enabled' | 'paused' | 'pauses'>;
  readonly breaker: Breaker;
  /** How many deliveries may be claimed now; 0 when a claim is not worth its commit. */
  readonly room: number;
  beginProbe(): void;
  /** There is nothing to probe with. */
  withoutProbe(): void;
  /** So many deliveries are in memory from now on, but not yet with their events. */
  hold(deliveries: number): void;
  take(works: readonly InHand[]): void;
  /** A held delivery that cannot be sent any more. */
  bury(held: Held, reason: string): void;
  /** Everything that waits is due now; so many deliveries are on disk. */
  released(onDisk: number): void;
}

/**
 * What of a destination waits on disk, as far as its lane knows, and the way from there into memory. It asks for one thing
 * at a time; what the store refuses is asked for again a second later, for as long as it takes.
 */
export class Supply implements Known {
  readonly #tools: SupplyTools;
  readonly #lane: Supplied;
  nextDueAt: Monotonic | undefined;
  releaseOwed = false;
  outage: Outage | undefined;
  checkedAt: Monotonic = 0;
  /**
   * Something due waits on disk, for want of room or behind an open breaker. New deliveries go there too, so that they
   * do not overtake it, until a claim finds nothing more that is due.
   */
  isBehind = false;
  #errand: Promise<void> | undefined;
  #wakesAt: Monotonic | undefined;
  #cancelTimer: (() => void) | undefined;
  #endPause: (() => void) | undefined;
  #stopped = false;

  constructor(tools: SupplyTools, lane: Supplied) {
    this.#tools = tools;
    this.#lane = lane;
  }

  /** Something on disk is due at this time. */
  due(at: Monotonic): void {
    if (this.nextDueAt === undefined || at < this.nextDueAt) this.nextDueAt = at;
    this.tend();
  }

  /** The breaker has opened. */
  outageBegan(outage: Outage): void {
    // A relapse belongs to the outage it comes from, as long as that one's backlog is not delivered.
    this.outage ??= outage;
    this.checkedAt = this.#tools.clock.monotonic();
    this.releaseOwed = false;
    this.isBehind = true;
  }

  /** The breaker has closed. */
  outageEnded(): void {
    this.releaseOwed = true;
    this.tend();
  }

  /** Asks for what is wanted now, or sets the clock for when something will be. Called often: it must cost nothing then. */
  tend(): void {
    if (this.nextDueAt === undefined && !this.releaseOwed) return;
    if (this.#errand !== undefined || this.#stopped || !isServed(this.#lane.destination)) return;
    const errand = nextErrand(this, this.#lane.breaker, this.#lane.room, this.#tools.clock.monotonic());
    if (errand.kind === 'none') return;
    if (errand.kind === 'full') this.isBehind = true;
    else if (errand.kind === 'wait') this.#wakeAt(errand.until);
    else {
      this.#errand = this.#run(errand).then(() => {
        this.#errand = undefined;
        this.tend();
      });
    }
  }

  /** Asks for nothing new; resolves when nothing is asked for any more. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    this.#endPause?.();
    await this.#errand;
  }

  #wakeAt(at: Monotonic): void {
    if (this.#wakesAt === at || at === Number.POSITIVE_INFINITY) return;
    this.#cancelTimer?.();
    this.#wakesAt = at;
    this.#cancelTimer = this.#tools.clock.after(at - this.#tools.clock.monotonic(), () => {
      this.#wakesAt = undefined;
      this.tend();
    });
  }

  async #run(errand: Errand): Promise<void> {
    try {
      if (errand.kind === 'claim') await this.#claim(errand.max);
      else if (errand.kind === 'probe') await this.#probe();
      else if (errand.kind === 'release') await this.#release();
      else await this.#expire();
    } catch (error) {
      const destination = this.#lane.destination.name;
      this.#tools.logger.error({ error, destination, asked: errand.kind }, 'backlog.failed');
      await this.#pause();
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
    const { deliveries, nextDueAt } = await backlog.claim(this.#lane.destination.id, max, now);
    // At once, before anything else is awaited: news of later sets may arrive meanwhile and must not be overwritten.
    this.nextDueAt = nextDueAt;
    this.#lane.hold(deliveries.length);
    this.#lookWhetherCaughtUp(now);
    return await this.#takeUp(deliveries, outage);
  }

  #lookWhetherCaughtUp(now: Monotonic): void {
    if (this.#lane.breaker.state !== 'closed' || this.releaseOwed) return;
    if (this.nextDueAt !== undefined && this.nextDueAt <= now) return;
    this.isBehind = false;
    this.outage = undefined;
  }

  /** Whatever has had its window goes first: the longest due is what the probe would take. */
  async #probe(): Promise<void> {
    this.#lane.beginProbe();
    let taken = 0;
    try {
      await this.#expire();
      taken = await this.#claim(1, this.nextDueAt);
    } finally {
      if (taken === 0) this.#lane.withoutProbe();
    }
  }

  async #release(): Promise<void> {
    const { backlog, clock } = this.#tools;
    const { id } = this.#lane.destination;
    await this.#expire();
    const lanes = await backlog.lanes();
    const now = clock.monotonic();
    const released = await backlog.release(id, now);
    if (released > 0) this.nextDueAt = Math.min(this.nextDueAt ?? now, now);
    // The breaker may have opened again meanwhile; then the next recovery releases what has failed since.
    if (this.#lane.breaker.state !== 'closed') return;
    this.releaseOwed = false;
    this.#lane.released(lanes.find(({ destination }) => destination === id)?.onDisk ?? 0);
    this.#lookWhetherCaughtUp(now);
  }

  /** Slice by slice, so that commits of others come in between. */
  async #expire(): Promise<void> {
    const { backlog, clock, logger } = this.#tools;
    const { id, name } = this.#lane.destination;
    this.checkedAt = clock.monotonic();
    if (this.outage === undefined || this.nextDueAt === undefined) return;
    const before = expiredBefore(this.outage, this.nextDueAt, this.#windowStart());
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
  async #takeUp(deliveries: readonly Held[], outage: Outage | undefined): Promise<number> {
    while (deliveries.length > 0 && !this.#stopped) {
      try {
        const events = await this.#readOf(deliveries);
        const works: InHand[] = [];
        deliveries.forEach((held, index) => {
          const work = this.#workOf(held, events[index]!, outage);
          if (work !== undefined) works.push(work);
        });
        this.#lane.take(works);
        return works.length;
      } catch (error) {
        const destination = this.#lane.destination.name;
        this.#tools.logger.error({ error, destination, asked: 'read' }, 'backlog.failed');
        await this.#pause();
      }
    }
    return 0;
  }

  /** The event of each delivery, or why there is none. */
  async #readOf(deliveries: readonly Held[]): Promise<(StoredEvent | Missing)[]> {
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
  #workOf(held: Held, stored: StoredEvent | Missing, outage: Outage | undefined): InHand | undefined {
    if (typeof stored === 'string') this.#lane.bury(held, stored);
    else {
      const { source } = stored;
      if (outage === undefined) return { ...held, written: stored, source };
      const delivery = datedBy(outage, held.delivery, stored.arrivedAt);
      if (!isOver(delivery, this.#windowStart())) return { ...held, delivery, written: stored, source };
      this.#lane.bury(held, 'retry_window_over');
    }
    return undefined;
  }

  /** Where the retry window begins that ends now. */
  #windowStart(): Monotonic {
    const { pauses = [] } = this.#lane.destination;
    return windowStart(pauses, RETRY_WINDOW, this.#tools.clock.monotonic());
  }

  #pause(): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    const { clock } = this.#tools;
    return new Promise((resolve) => {
      const cancel = clock.after(STORAGE_RETRY, resolve);
      this.#endPause = () => {
        cancel();
        resolve();
      };
    });
  }
}
