import { wallClockStore } from '../../src/adapters/system/wall-clock-store.ts';
import type { DestinationState } from '../../src/delivery/contract.ts';
import { byDestination } from '../../src/delivery/destination-totals.ts';
import { Dispatcher, type DispatcherDependencies } from '../../src/delivery/dispatcher.ts';
import { DESTINATION_TYPES } from '../../src/destinations/list.ts';
import { acceptEvent } from '../../src/ingest/calls.ts';
import { CommitQueue } from '../../src/ingest/commit-queue.ts';
import type { Destination } from '../../src/model/destination.ts';
import type { Event } from '../../src/model/event.ts';
import type { DestinationCounts } from '../../src/model/ledger.ts';
import type { Duration, Time } from '../../src/model/time.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { DestinationTypes } from '../../src/ports/destination-type.ts';
import type { HttpClient } from '../../src/ports/http-client.ts';
import type { Logger } from '../../src/ports/logger.ts';
import type { ProbeTurns } from '../../src/ports/nodes.ts';
import type { Store } from '../../src/ports/store.ts';
import type { StoreView } from '../../src/ports/store-view.ts';
import { openSenders } from '../../src/wiring/destinations.ts';
import { emptyContents, type MemoryContents, openMemoryStore } from '../memory-store/store.ts';
import { type HandClock, handClock } from '../support/clock.ts';
import { lanesIn, targetsIn } from '../support/lanes.ts';
import { sourceWith } from '../support/sources.ts';
import { type Behaviour, type FakeEndpoints, fakeEndpoints, OK } from './fake-endpoints.ts';

export const START = Date.UTC(2026, 0, 1, 12);

const SOURCE = sourceWith({ writeKeys: [] });

/** A destination whose only endpoint is `http://<name>/`. */
export function destination(id: number, name: string, more: Partial<Destination> = {}): Destination {
  return {
    id,
    name,
    type: 'webhooks',
    sources: ['website'],
    enabled: true,
    version: 1,
    settings: { endpoints: [{ url: `http://${name}/`, headers: {} }], format: 'documented' },
    ...more,
  };
}

export const CRM = destination(1, 'crm');
export const OTHER = destination(2, 'other');

export interface Line {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly event: string;
  readonly facts: Readonly<Record<string, unknown>>;
}

export interface WorldOptions {
  readonly destinations?: readonly Destination[];
  readonly behave?: Behaviour;
  /** Types of destinations; those of the program by default. */
  readonly types?: DestinationTypes;
  /** Wraps the store of the dispatcher. */
  readonly between?: (store: Store) => Store;
  /** 0.5 by default: every delay is exactly that of the schedule. */
  readonly random?: () => number;
  /** Lead of the wall clock over the monotonic clock at the beginning. */
  readonly ahead?: Duration;
  readonly measures?: DispatcherDependencies['measures'];
  /** Other processes that deliver to the same endpoints. */
  readonly probeTurns?: ProbeTurns;
  /** Whether the lease of this process is good. */
  readonly maySend?: () => boolean;
  readonly laneFailed?: DispatcherDependencies['laneFailed'];
}

/**
 * A dispatcher with the memory store below, the real commit queue above, scripted endpoints, and a clock that
 * the test moves.
 */
export class World {
  readonly clock: HandClock;
  readonly endpoints: FakeEndpoints;
  readonly lines: Line[] = [];
  readonly contents: MemoryContents = emptyContents();
  readonly #options: WorldOptions;
  #destinations: readonly Destination[];
  #store: Store;
  #dispatcher: Dispatcher;
  #commits: CommitQueue;
  /** The life of the process. A dead one gets no answers, is not woken, and sends nothing. */
  #life = { over: false };
  #batches = 0;
  #events = 0;

  private constructor(options: WorldOptions) {
    this.#options = options;
    this.clock = handClock(START, options.ahead);
    this.#destinations = options.destinations ?? [CRM];
    this.endpoints = fakeEndpoints(this.clock, options.behave ?? (() => OK));
    this.#store = openMemoryStore({ contents: this.contents });
    this.#dispatcher = this.#makeDispatcher();
    this.#commits = this.#makeCommits();
  }

  static async open(options: WorldOptions = {}): Promise<World> {
    const world = new World(options);
    await world.dispatcher.start();
    return world;
  }

  get dispatcher(): Dispatcher {
    return this.#dispatcher;
  }

  get store(): Store {
    return this.#store;
  }

  /** The store with times of the wall clock. */
  get shownStore(): StoreView {
    return wallClockStore(this.#store, this.clock);
  }

  /** The process dies. */
  kill(): void {
    this.#life.over = true;
  }

  /** A new process starts with the stored data. */
  async boot(): Promise<void> {
    this.#life = { over: false };
    this.#store = openMemoryStore({ contents: this.contents });
    this.#dispatcher = this.#makeDispatcher();
    this.#commits = this.#makeCommits();
    await this.#dispatcher.start();
  }

  async crash(): Promise<void> {
    this.kill();
    await this.boot();
  }

  configure(destinations: readonly Destination[]): void {
    this.#destinations = destinations;
    this.#dispatcher.configure(destinations);
  }

  /** Receives and commits one batch of new events for the destinations. Resolves to their messageIds. */
  async accept(count: number, to: readonly Destination[] = this.#destinations): Promise<string[]> {
    const ids = Array.from({ length: count }, () => `m${this.#events++}`);
    await this.acceptAs(ids, to);
    return ids;
  }

  /** The same with given messageIds. Resolves to false when nothing could be stored. */
  async acceptAs(ids: readonly string[], to: readonly Destination[] = this.#destinations): Promise<boolean> {
    const receivedAt = this.clock.now();
    const stored = await new Promise<boolean>((resolve) => {
      this.#planned = to.filter(({ enabled }) => enabled).flatMap(lanesIn);
      this.#commits.add({
        events: ids.map((id) => eventOf(id, receivedAt)),
        counts: [{ source: SOURCE.id, calls: ids.length, discarded: {} }],
        receivedAt,
        committed: (result) => resolve(!('error' in result)),
      });
    });
    await this.clock.settle();
    return stored;
  }
  #planned: readonly Destination[] = [];

  stateOf({ id }: Destination): DestinationState {
    return this.dispatcher.states().find((state) => state.destination === id)!;
  }

  async countsOf({ id }: Destination): Promise<DestinationCounts> {
    const { destinations } = await byDestination(this.store.queue).ledger();
    const none = { owed: 0, delivered: 0, pending: 0, dead: {}, dropped: {}, erased: 0, skipped: {} };
    return destinations.get(id) ?? none;
  }

  /** Times of the requests to this destination, in seconds since `from`. */
  secondsOf(destination: Destination, from: Time = START): number[] {
    const [first] = targetsIn(destination);
    return this.endpoints.arrivals
      .filter((one) => one.url === first!.address)
      .map(({ at }) => (at - from) / 1000);
  }

  linesOf(event: string): Line[] {
    return this.lines.filter((line) => line.event === event);
  }

  #makeDispatcher(): Dispatcher {
    const {
      log,
      queue: deliveryQueue,
      endpointHealth: healths,
    } = this.#options.between?.(this.#store) ?? this.#store;
    const life = this.#life;
    const transport: HttpClient = {
      send: (request, done) => {
        if (!life.over) this.endpoints.send(request, (answer) => life.over || done(answer));
      },
      stop: async () => {},
    };
    const clock: Clock = {
      now: () => this.clock.now(),
      monotonic: () => this.clock.monotonic(),
      steps: () => this.clock.steps(),
      after: (delay, wake) => this.clock.after(delay, () => life.over || wake()),
      turn: (run) => this.clock.turn(() => life.over || run()),
      elapsed: () => this.clock.elapsed(),
    };
    const types = this.#options.types ?? DESTINATION_TYPES;
    const dispatcher = new Dispatcher({
      log,
      deliveryQueue,
      healths,
      types,
      senders: openSenders(types, { http: transport, clock, logger: this.logger, sourceOf: () => undefined })
        .byType,
      clock,
      logger: this.logger,
      currentObserver: { observer: undefined },
      sourceName: String,
      measures: this.#options.measures,
      random: this.#options.random ?? (() => 0.5),
      probeTurns: this.#options.probeTurns,
      maySend: this.#options.maySend,
      laneFailed: this.#options.laneFailed,
    });
    dispatcher.configure(this.#destinations);
    return dispatcher;
  }

  #makeCommits(): CommitQueue {
    return new CommitQueue({
      log: this.#options.between?.(this.#store).log ?? this.#store.log,
      liveDelivery: this.#dispatcher,
      current: { planner: { plan: () => ({ owed: this.#planned, skipped: [] }) } },
      clock: this.clock,
      newBatchId: () => `batch ${this.#batches++}`,
    });
  }

  get logger(): Logger {
    const write = (level: Line['level']) => (facts: Line['facts'], event: string) => {
      this.lines.push({ level, event, facts });
    };
    return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  }
}

function eventOf(messageId: string, at: Time) {
  const receivedAt = new Date(at).toISOString();
  const event: Event = {
    messageId,
    type: 'track',
    channel: 'server',
    userId: 'u1',
    event: 'Order Placed',
    context: {},
    integrations: {},
    timestamp: receivedAt,
    receivedAt,
  };
  return acceptEvent(SOURCE, event, JSON.stringify(event));
}
