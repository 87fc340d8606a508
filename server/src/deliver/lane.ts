import type { Decision, Delivery } from '../model/delivery.ts';
import type { Destination } from '../model/destination.ts';
import { type Duration, SECOND, type Time } from '../model/time.ts';
import type { Backlog, Held, Result } from '../ports/backlog.ts';
import type { Clock } from '../ports/clock.ts';
import type { InHand } from '../ports/deliverer.ts';
import type { DestinationType } from '../ports/destination-type.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { Observer } from '../ports/observer.ts';
import type { Transport } from '../ports/transport.ts';
import { afterFailure, afterSuccess, type Concurrency, MAX_CONCURRENCY, START } from './concurrency.ts';
import { decide } from './decide.ts';
import { Health } from './health.ts';
import { type EndedRound, type RoundTools, SETTINGS_VERSIONS, sendRound } from './round.ts';

/** Deliveries a lane keeps in memory; the rest waits on disk. Enough for a fast endpoint between two claims. */
const WINDOW = 2000;

/** A claim is made when so much of the window is free, so that it is worth its commit. */
const CLAIM_FROM = WINDOW / 4;
const CLAIM_MOST = 500;
const STORAGE_RETRY: Duration = SECOND;

/** Requests of rounds that ended at a sibling's acceptance may still be open; this bounds how many. */
const MAX_OPEN_REQUESTS = 4 * MAX_CONCURRENCY;

export interface LaneTools {
  readonly log: EventLog;
  readonly backlog: Backlog;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly type: DestinationType;
  readonly observer: Observer | undefined;
  readonly settle: (result: Result) => void;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
}

/**
 * Delivers to one destination, with nothing shared that another destination could be slowed by: its own window in
 * memory, its own number of requests in flight, its own way to its backlog on disk.
 *
 * ```
 *   reserve ─▶ deliver ─▶ ready ─▶ in flight ─▶ settle
 *                           ▲
 *   parked, due ─▶ claim ───┘   (only while there is room)
 * ```
 */
export class Lane {
  readonly #tools: LaneTools;
  readonly #roundTools: RoundTools;
  readonly #health: Health;
  #destination: Destination;
  #ready: InHand[] = [];
  #readyFrom = 0;
  /** Deliveries in memory: reserved, ready or in flight. */
  #held = 0;
  #inFlight = 0;
  #openRequests = 0;
  #concurrency: Concurrency = START;
  /** When the first delivery on disk is due, as far as this lane knows. */
  #nextDueAt: Time | undefined;
  #wakesAt: Time | undefined;
  #cancelTimer: (() => void) | undefined;
  #claiming = false;
  #stopped = false;
  #idle: (() => void) | undefined;

  constructor(destination: Destination, tools: LaneTools) {
    this.#destination = destination;
    this.#tools = tools;
    this.#health = new Health(destination.name, tools.logger);
    this.#roundTools = {
      type: tools.type,
      transport: tools.transport,
      clock: tools.clock,
      requestEnded: () => {
        this.#openRequests--;
      },
    };
  }

  get held(): number {
    return this.#held;
  }

  /** The settings that attempts use from now on. */
  configure(destination: Destination): void {
    this.#destination = destination;
    this.#pump();
    this.#fill();
  }

  /** False when they must wait on disk: no room, or others are waiting there already and go first. */
  reserve(deliveries: number): boolean {
    if (this.#stopped || this.#held + deliveries > WINDOW || this.#isBacklogDue()) return false;
    this.#held += deliveries;
    return true;
  }

  release(deliveries: number): void {
    this.#held -= deliveries;
    this.#fill();
  }

  deliver(deliveries: readonly InHand[]): void {
    for (const work of deliveries) this.#ready.push(work);
    this.#pump();
  }

  /** Something on disk is due at this time. */
  due(at: Time): void {
    if (this.#nextDueAt === undefined || at < this.#nextDueAt) this.#nextDueAt = at;
    this.#fill();
  }

  /** Starts nothing new and resolves when nothing is in flight. What is ready stays owed, for the next start. */
  stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    if (this.#inFlight === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle = resolve;
    });
  }

  #isBacklogDue(): boolean {
    return this.#nextDueAt !== undefined && this.#nextDueAt <= this.#tools.clock.now();
  }

  #pump(): void {
    while (!this.#stopped && this.#destination.enabled && this.#readyFrom < this.#ready.length) {
      if (this.#inFlight >= this.#concurrency.limit || this.#openRequests >= MAX_OPEN_REQUESTS) return;
      this.#send(this.#ready[this.#readyFrom++]!);
    }
    if (this.#readyFrom === this.#ready.length) {
      this.#ready = [];
      this.#readyFrom = 0;
    }
  }

  #send(work: InHand): void {
    const destination = this.#destination;
    const { limit } = this.#concurrency;
    this.#inFlight++;
    this.#openRequests += sendRound(work, destination, this.#roundTools, (round) => {
      this.#inFlight--;
      this.#conclude(work, destination, round, limit);
      if (this.#inFlight === 0) this.#idle?.();
      this.#pump();
      this.#fill();
    });
  }

  #conclude(work: InHand, destination: Destination, round: EndedRound, limitWhenSent: number): void {
    const decision = decide(work.delivery, {
      outcomes: round.outcomes,
      now: this.#tools.clock.now(),
      settingsVersion: destination.version % SETTINGS_VERSIONS,
      random: this.#tools.random(),
    });
    const delivered = decision.kind === 'delivered';
    this.#concurrency = delivered
      ? afterSuccess(this.#concurrency)
      : afterFailure(this.#concurrency, limitWhenSent);
    this.#health.note(decision, round.attempts, this.#tools.clock.now());
    this.#settle(work, { attempts: round.attempts, decision });
  }

  #settle(work: InHand, { attempts, decision }: { attempts: Result['attempts']; decision: Decision }): void {
    this.#held--;
    const { id, name } = this.#destination;
    this.#tools.settle({
      set: work.set,
      destination: id,
      position: work.delivery.position,
      attempts,
      decision,
    });
    this.#tools.observer?.({ kind: 'settled', destination: name, event: work.event, attempts, decision });
  }

  /** Claims from disk what is due when there is room for it, or sets the clock for when something will be. */
  #fill(): void {
    if (this.#stopped || this.#claiming || this.#nextDueAt === undefined || !this.#destination.enabled)
      return;
    const room = WINDOW - this.#held;
    if (room < CLAIM_FROM) return;
    if (!this.#isBacklogDue()) {
      this.#wakeAt(this.#nextDueAt);
      return;
    }
    this.#claiming = true;
    void this.#claim(Math.min(room, CLAIM_MOST)).then(() => {
      this.#claiming = false;
      this.#fill();
    });
  }

  #wakeAt(at: Time): void {
    if (this.#wakesAt === at) return;
    this.#cancelTimer?.();
    this.#wakesAt = at;
    this.#cancelTimer = this.#tools.clock.at(at, () => {
      this.#wakesAt = undefined;
      this.#fill();
    });
  }

  async #claim(max: number): Promise<void> {
    const { backlog, clock, logger } = this.#tools;
    try {
      const claim = await backlog.claim(this.#destination.id, max, clock.now());
      // At once, before anything else is awaited: news of later sets may arrive meanwhile and must not be overwritten.
      this.#nextDueAt = claim.nextDueAt;
      this.#held += claim.deliveries.length;
      await this.#takeUp(claim.deliveries);
    } catch (error) {
      logger.error({ error, destination: this.#destination.name }, 'delivery.claim_failed');
      await this.#pause();
    }
  }

  /** Reads the events of claimed deliveries; they are ours now, so this does not give up before it has them. */
  async #takeUp(deliveries: readonly Held[]): Promise<void> {
    while (deliveries.length > 0 && !this.#stopped) {
      try {
        const events = await this.#tools.log.read(deliveries.map(({ delivery }) => delivery.position));
        deliveries.forEach(({ set, delivery }, index) => {
          const event = events[index]?.event;
          if (event === undefined) this.#bury(set, delivery);
          else this.#ready.push({ set, delivery, event });
        });
        this.#pump();
        return;
      } catch (error) {
        this.#tools.logger.error({ error, destination: this.#destination.name }, 'delivery.read_failed');
        await this.#pause();
      }
    }
  }

  /** The event is no longer there: nothing can be sent any more. */
  #bury(set: Held['set'], { position }: Delivery): void {
    this.#held--;
    const decision = { kind: 'dead', reason: 'event_gone' } as const;
    this.#tools.settle({ set, destination: this.#destination.id, position, attempts: [], decision });
  }

  #pause(): Promise<void> {
    const { clock } = this.#tools;
    return new Promise((resolve) => {
      clock.at(clock.now() + STORAGE_RETRY, resolve);
    });
  }
}
