import { computationIdIn } from '../../model/definition.ts';
import type { Event } from '../../model/event.ts';
import { groupByPlan, type Plan } from '../../model/plan.ts';
import type { Source } from '../../model/settings.ts';
import { type Duration, SECOND } from '../../model/time.ts';
import { type Clock, InterruptibleSleep } from '../../ports/clock.ts';
import type { LiveDelivery } from '../../ports/delivery-queue.ts';
import type { Batch, EventLog, OwedEvents } from '../../ports/event-log.ts';
import type { Logger } from '../../ports/logger.ts';
import type { OutboxEntry } from '../../ports/profile-store.ts';
import type { CurrentObserver } from '../../ports/telemetry.ts';
import { PRODUCER } from '../contract.ts';

/** Entries of the outbox that are read at once, and most events of one commit while no clients call. */
const BATCH = 200;

/**
 * Most events of one commit while clients call: a call waits for it little longer than for a commit of calls.
 */
const BATCH_BESIDE_CALLS = 50;

/** A failed call is repeated after this delay, without a limit. */
const RETRY: Duration = SECOND;

/**
 * Pauses after a full batch, as multiples of the time that its commit took. While clients call, the log is
 * left to them.
 */
const PAUSE = 2;
const PAUSE_BESIDE_CALLS = 9;

/** The longest pause. */
const MAX_PAUSE: Duration = SECOND;

/** The outbox of the users thread. Both calls reject with a `StorageError` while the thread cannot answer. */
export interface Outbox {
  /** As `ProfileStore.outbox`. */
  outbox(after: number, max: number): Promise<readonly OutboxEntry[]>;
  /** Entries up to this sequence number are in the log. */
  sent(to: number): Promise<void>;
}

export interface PublisherDependencies {
  readonly outbox: Outbox;
  readonly log: Pick<EventLog, 'append'>;
  /** The reserved source of the events; undefined while it does not exist. */
  readonly source: () => Source | undefined;
  readonly plan: (event: Event, source: Source) => Plan;
  /** Whether calls of clients were stored in the last moments. */
  readonly hasCalls: () => boolean;
  readonly liveDelivery: Pick<LiveDelivery, 'parked'>;
  readonly currentObserver: CurrentObserver;
  readonly newBatchId: () => string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Brings the events of audiences and computed traits from the outbox into the log, in their order, with the
 * plan of the settings of that moment. The log knows them by their numbers: after a crash, or an answer that
 * was lost, they are appended again and stored once.
 *
 * All deliveries are parked, so a first sync of a million members takes no memory. After each full batch
 * there is a pause, so that it takes at most a third of the log's time, and a tenth of it while clients call.
 */
export class Publisher {
  readonly #dependencies: PublisherDependencies;
  readonly #sleep: InterruptibleSleep;
  #sentTo = 0;
  #isStopped = false;
  #isAwake = true;
  #wake: (() => void) | undefined;
  #running: Promise<void> | undefined;
  #isFailing = false;
  /** Resolves when the batch at work is stored or given up. */
  #atWork: Promise<unknown> = Promise.resolve();

  constructor(dependencies: PublisherDependencies) {
    this.#dependencies = dependencies;
    this.#sleep = new InterruptibleSleep(dependencies.clock);
  }

  /** Begins with what an earlier process has left in the outbox. */
  start(): void {
    this.#isStopped = false;
    this.#isAwake = true;
    this.#running ??= this.#run();
  }

  /** Call when the outbox has entries up to this sequence number. */
  readonly announce = (last: number): void => {
    if (last <= this.#sentTo) return;
    this.#isAwake = true;
    this.#wake?.();
  };

  /**
   * Resolves when entries that were read from the outbox before are in the log, or given up. After that,
   * entries that are erased from the outbox do not come into the log.
   */
  async readEntriesStored(): Promise<void> {
    await this.#atWork;
  }

  /** Resolves when the batch at work is stored or given up. It can be started again. Idempotent. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#sleep.interrupt();
    this.#wake?.();
    await this.#running;
    this.#running = undefined;
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      this.#isAwake = false;
      try {
        const publishing = this.#publish();
        this.#atWork = publishing.catch(() => {});
        const published = await publishing;
        this.#recovered();
        if (published === 0) await this.#untilAnnounced();
      } catch (error) {
        this.#failed(error);
        await this.#pause(RETRY);
      }
    }
  }

  /** Publishes the next entries. Resolves to how many. */
  async #publish(): Promise<number> {
    const { outbox } = this.#dependencies;
    const entries = await outbox.outbox(this.#sentTo, BATCH);
    if (entries.length === 0) return 0;
    const source = this.#dependencies.source();
    if (source === undefined) throw new Error('the source of audiences does not exist yet');
    // Erasing a profile takes its entries out of the middle.
    for (const run of consecutive(entries)) {
      for (let from = 0; from < run.length && !this.#isStopped; )
        from += await this.#publishSome(run, from, source);
    }
    await outbox.sent(this.#sentTo);
    return entries.length;
  }

  /** One commit, and the pause after it. Resolves to its number of events. */
  async #publishSome(run: readonly OutboxEntry[], from: number, source: Source): Promise<number> {
    const { clock, hasCalls } = this.#dependencies;
    const isBesideCalls = hasCalls();
    const size = isBesideCalls ? BATCH_BESIDE_CALLS : BATCH;
    const some = run.slice(from, from + size);
    const startedAt = clock.monotonic();
    await this.#append(some, source);
    this.#sentTo = some.at(-1)!.sequence;
    const took = clock.monotonic() - startedAt;
    const pause = (isBesideCalls ? PAUSE_BESIDE_CALLS : PAUSE) * took;
    if (some.length === size) await this.#pause(Math.min(MAX_PAUSE, pause));
    return some.length;
  }

  async #append(entries: readonly OutboxEntry[], source: Source): Promise<void> {
    const { log, liveDelivery, newBatchId, clock, plan, currentObserver } = this.#dependencies;
    const events = entries.map(({ json }) => JSON.parse(json) as Event);
    const batch: Batch = {
      id: newBatchId(),
      receivedAt: clock.monotonic(),
      events: events.map(({ messageId, userId }, nth) => ({
        source: source.id,
        messageId,
        userId,
        json: entries[nth]!.json,
      })),
      ...planned(
        events,
        events.map((event) => plan(event, source)),
      ),
      received: [],
      producer: { name: PRODUCER, sequence: entries[0]!.sequence },
    };
    const { positions } = await log.append(batch);
    for (const { destination } of batch.owed) liveDelivery.parked(destination, batch.receivedAt);
    const observer = currentObserver.observer;
    if (observer === undefined) return;
    const latencyMs = clock.monotonic() - batch.receivedAt;
    events.forEach((event, nth) => {
      if (positions[nth] === undefined) return;
      observer({ kind: 'accepted', source: source.name, event, latencyMs });
    });
  }

  #recovered(): void {
    if (!this.#isFailing) return;
    this.#isFailing = false;
    this.#dependencies.logger.info({}, 'audiences.recovered');
  }

  #failed(error: unknown): void {
    if (!this.#isFailing && !this.#isStopped)
      this.#dependencies.logger.error({ error, retryMs: RETRY }, 'audiences.not_published');
    this.#isFailing = true;
  }

  async #pause(delay: Duration): Promise<void> {
    if (!this.#isStopped) await this.#sleep.sleep(delay);
  }

  #untilAnnounced(): Promise<void> {
    if (this.#isAwake || this.#isStopped) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = undefined;
        resolve();
      };
    });
  }
}

/** Runs of entries whose numbers follow each other. */
function consecutive(entries: readonly OutboxEntry[]): OutboxEntry[][] {
  const runs: OutboxEntry[][] = [];
  for (const entry of entries) {
    const run = runs.at(-1) ?? [];
    if (run.at(-1)?.sequence === entry.sequence - 1) run.push(entry);
    else runs.push([entry]);
  }
  return runs;
}

/** Plans a batch. Every delivery is parked, under its computation. */
function planned(
  events: readonly Event[],
  eventPlans: readonly Plan[],
): Pick<Batch, 'owed' | 'plans' | 'planIndexes'> {
  const { plans, planIndexes, owed } = groupByPlan(eventPlans);
  const origins = events.map(({ context }) => computationIdIn(context));
  return {
    plans,
    planIndexes,
    owed: [...owed].flatMap(([destination, indexes]) =>
      [...new Set(indexes.map((index) => origins[index]))].map((origin): OwedEvents => {
        const own = indexes.filter((index) => origins[index] === origin);
        return {
          ...{ destination, state: 'parked', indexes: own },
          origin: typeof origin === 'string' ? origin : undefined,
        };
      }),
    ),
  };
}
