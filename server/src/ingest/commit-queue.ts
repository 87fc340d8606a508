import type { Event } from '../model/event.ts';
import { endWith, InvariantError, invariant, rethrowInvariant } from '../model/invariant.ts';
import { EMPTY_PLAN, type GroupedPlans, groupByPlan, type Plan } from '../model/plan.ts';
import type { Source } from '../model/settings.ts';
import type { Duration, Monotonic, Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { LiveDelivery, ReadyDelivery } from '../ports/delivery-queue.ts';
import {
  type AppendResult,
  type Batch,
  type CallCounts,
  type EventLog,
  type OwedEvents,
  RefusedContentError,
} from '../ports/event-log.ts';
import type { AcceptanceRecorder, TraceContexts } from '../ports/telemetry.ts';
import type { AcceptedEvent } from './calls.ts';
import { bytesOf, WaitingRequests } from './waiting-requests.ts';

/**
 * A group is full with so many events or bytes of JSON, which keeps a commit short. Smaller groups would cost
 * more: the fixed cost of a commit is that of 70 events, and a disk whose sync takes 10 ms allows fewer than
 * 100 commits a second.
 */
const MAX_GROUP_EVENTS = 2000;
const MAX_GROUP_BYTES = 2 * 1024 * 1024;

/** Commits under way at once: the next one is prepared while the writer thread runs the first. */
const MAX_CONCURRENT_COMMITS = 2;

/**
 * With so many events waiting, a commit is worth its fixed cost. Fewer wait until what has arrived is read,
 * and, where the log commits in turn, until the commit under way has ended. docs/decisions/0036-groups.md
 */
const ENOUGH_EVENTS = 250;

/** How long a commit may wait at most for calls that have arrived and are not read yet. */
const MAX_READING: Duration = 1;

/**
 * Bytes of JSON that may wait for a commit. Beyond it requests are turned away: memory must not grow with a
 * slow disk.
 */
const MAX_WAITING_BYTES = 32 * 1024 * 1024;

/** The planner for the settings as they are now. The owner exchanges it when the settings change. */
export interface CurrentPlanner {
  readonly planner: Planner;
}

export interface CommitQueueDependencies {
  readonly current: CurrentPlanner;
  readonly log: Pick<EventLog, 'append'>;
  readonly clock: Pick<Clock, 'now' | 'monotonic' | 'steps' | 'turn' | 'elapsed'>;
  readonly liveDelivery: LiveDelivery;
  readonly newBatchId: () => string;
  /**
   * The log runs one append after the other. A second one would wait for the first, and leave to a third what
   * comes meanwhile.
   */
  readonly commitsInTurn?: boolean;
  readonly recorder?: AcceptanceRecorder;
  readonly traceContexts?: Pick<TraceContexts, 'set'>;
  /** Called at every commit, so that other small writes can share its sync. */
  readonly onCommit?: () => void;
  /** Told how long each commit kept the thread before the store took it over. */
  readonly worked?: ((duration: Duration) => void) | undefined;
  /** Called when an invariant does not hold. Default: the process ends. */
  readonly onBroken?: (error: InvariantError) => void;
}

/** The events of one request, and the callback for its answer. */
export interface QueuedRequest {
  readonly events: readonly AcceptedEvent[];
  readonly counts: readonly CallCounts[];
  readonly receivedAt: Time;
  readonly traceparent?: string | undefined;
  /** Called once: with the result of the commit, or with the error when nothing is stored. */
  readonly committed: (result: CommitResult | { readonly error: unknown }) => void;
  /**
   * Called when the store does not answer: in place of `committed`, or beside it where the commit is under
   * way. It tells nothing new after `committed`.
   */
  readonly refused?: (error: unknown) => void;
}

export interface CommitResult {
  /** Whether the event at this index of the request was a duplicate. */
  readonly isDuplicate: (index: number) => boolean;
}

/**
 * Makes one commit of everything that arrived while the last commits ran. Groups adapt by themselves: a
 * request that comes alone is stored at once; under load or on a slow disk, hundreds of requests share one
 * sync.
 *
 * Clients that wait for their answers call again as soon as they have them. After a commit their calls come
 * within some turns of the event loop, and whoever took only those of the first turn would keep the others
 * waiting for a commit of a few.
 */
export class CommitQueue {
  readonly #dependencies: CommitQueueDependencies;
  readonly #waiting = new WaitingRequests<QueuedRequest>();
  /**
   * At most `MAX_CONCURRENT_COMMITS`, the oldest first. An array, because a Set that is added to and deleted
   * from leaves old tables behind, and they keep the events of ended commits until the next full collection.
   */
  readonly #underWay: CommitUnderWay[] = [];
  #isScheduled = false;
  /**
   * Time at which a commit was scheduled, on the clock of `performance`, and number of requests that waited
   * at the last turn.
   */
  #scheduledAt = 0;
  #seen = 0;
  #idle: (() => void)[] = [];

  constructor(dependencies: CommitQueueDependencies) {
    this.#dependencies = dependencies;
  }

  /** False when too much is waiting already: the request is not taken. */
  add(request: QueuedRequest): boolean {
    const bytes = bytesOf(request);
    // A forwarded list can be larger by itself: it is taken alone.
    if (this.#waiting.bytes > 0 && this.#waiting.bytes + bytes > MAX_WAITING_BYTES) return false;
    this.#waiting.add(request, bytes);
    this.#scheduleCommit();
    return true;
  }

  get isBusy(): boolean {
    return this.#waiting.size > 0 || this.#underWay.length > 0;
  }

  /**
   * The store does not answer: what waits is not stored, and what is under way is told that its answer may
   * take long.
   */
  refuse(error: unknown): void {
    const waiting = this.#waiting.takeAll();
    this.#waiting.answered(waiting);
    for (const request of waiting) {
      if (request.refused === undefined) request.committed({ error });
      else request.refused(error);
    }
    for (const { requests } of this.#underWay) for (const request of requests) request.refused?.(error);
  }

  /** Resolves when every request taken before has its answer, those of commits under way included. */
  async answered(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.add({ events: [], counts: [], receivedAt: 0, committed: () => resolve() });
    });
    // Of two commits under way the later one may end first.
    await Promise.all(this.#underWay.map(({ ended }) => ended));
  }

  /** Resolves when every request taken so far has its answer. */
  async stop(): Promise<void> {
    while (this.isBusy) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Commits after the requests that have arrived by now are read, so that they share the commit. */
  #scheduleCommit(): void {
    if (this.#isScheduled || !this.#mayCommit()) return;
    this.#isScheduled = true;
    this.#scheduledAt = this.#dependencies.clock.elapsed();
    this.#seen = NONE_SEEN;
    this.#dependencies.clock.turn(this.#endTurn);
  }

  /**
   * Commits when a turn of the event loop has brought nothing more. Before, sockets are read between two
   * turns.
   */
  readonly #endTurn = (): void => {
    const isMore = this.#waiting.size > this.#seen && this.#waiting.events < ENOUGH_EVENTS;
    if (isMore && this.#dependencies.clock.elapsed() - this.#scheduledAt < MAX_READING) {
      this.#seen = this.#waiting.size;
      this.#dependencies.clock.turn(this.#endTurn);
      return;
    }
    this.#isScheduled = false;
    this.#commit();
  };

  #mayCommit(): boolean {
    const { length } = this.#underWay;
    if (this.#waiting.size === 0 || length >= MAX_CONCURRENT_COMMITS) return false;
    return length === 0 || this.#dependencies.commitsInTurn !== true || this.#waiting.events >= ENOUGH_EVENTS;
  }

  #commit(): void {
    while (this.#mayCommit()) {
      const requests = this.#waiting.takeGroup(MOST_OF_A_GROUP);
      const commit = { requests, ended: this.#commitGroup(requests).catch(this.#failed) };
      this.#underWay.push(commit);
      void commit.ended
        .then(() => {
          this.#underWay.splice(this.#underWay.indexOf(commit), 1);
          if (this.#waiting.size > 0) this.#scheduleCommit();
          else if (this.#underWay.length === 0) {
            this.#waiting.checkIdle();
            for (const wake of this.#idle.splice(0)) wake();
          }
        })
        .catch(this.#failed);
    }
  }

  /**
   * A commit rejects because of a bug. Nobody hears that his call failed: the process ends, as in a crash.
   */
  readonly #failed = (error: unknown): void => {
    if (!(error instanceof InvariantError)) throw error;
    (this.#dependencies.onBroken ?? endWith)(error);
  };

  async #commitGroup(requests: readonly QueuedRequest[]): Promise<void> {
    const startedAt = this.#dependencies.clock.elapsed();
    const group = this.#assemble(requests);
    checkCounts(group.batch);
    this.#dependencies.onCommit?.();
    try {
      const appending = this.#dependencies.log.append(group.batch);
      this.#dependencies.worked?.(this.#dependencies.clock.elapsed() - startedAt);
      const appended = await appending;
      this.#rememberTraceContexts(requests, appended);
      this.#recordLatencies(requests);
      // Clients come first: every outbound request would keep them waiting, and the events are stored
      // already.
      try {
        answerAll(requests, appended);
      } finally {
        // Even when answering fails: before a restart nothing else would deliver them.
        this.#handOver(group, appended);
      }
    } catch (error) {
      rethrowInvariant(error);
      this.#releaseRoom(group);
      if (error instanceof RefusedContentError && requests.length > 1) {
        await this.#commitSingly(requests);
        return;
      }
      for (const request of requests) request.committed({ error });
    }
    this.#waiting.answered(requests);
  }

  /** One of them is what the store does not take: the others must not go with it. */
  async #commitSingly(requests: readonly QueuedRequest[]): Promise<void> {
    for (const request of requests) await this.#commitGroup([request]);
  }

  /** Requests of one source each. Their clients get the answer now. */
  #recordLatencies(requests: readonly QueuedRequest[]): void {
    const { recorder, clock } = this.#dependencies;
    if (recorder === undefined) return;
    const now = clock.now();
    for (const { events, receivedAt } of requests) {
      const [first] = events;
      if (first !== undefined)
        recorder.callsStored(first.source, Math.max(0, now - receivedAt), events.length);
    }
  }

  #rememberTraceContexts(requests: readonly QueuedRequest[], { positions }: AppendResult): void {
    let offset = 0;
    for (const { events, traceparent } of requests) {
      const first = offset;
      offset += events.length;
      if (traceparent === undefined) continue;
      for (const position of positions.slice(first, offset)) {
        if (position !== undefined) this.#dependencies.traceContexts?.set(position, traceparent);
      }
    }
  }

  /** Plans every event, and asks each destination for room in memory. */
  #assemble(requests: readonly QueuedRequest[]): CommitGroup {
    const events = requests.length === 1 ? requests[0]!.events : requests.flatMap((one) => one.events);
    const { owed, plans, planIndexes } = planBatch(events, this.#dependencies.current.planner);
    const received = new CallCountSums();
    for (const { counts } of requests) received.add(counts);
    const batch: Batch = {
      id: this.#dependencies.newBatchId(),
      receivedAt: this.#arrivalOf(requests),
      events,
      plans,
      planIndexes,
      owed: [...owed].flatMap(([destination, indexes]) => this.#splitByRoom(destination, indexes)),
      received: received.take(),
    };
    return { batch, events };
  }

  /** When the last of the requests arrived. */
  #arrivalOf(requests: readonly QueuedRequest[]): Monotonic {
    return arrivalOf(
      requests.reduce((latest, { receivedAt }) => Math.max(latest, receivedAt), 0),
      this.#dependencies.clock,
    );
  }

  /** The first deliveries are held in memory, as many as have room. The others are parked. */
  #splitByRoom(destination: number, indexes: readonly number[]): OwedEvents[] {
    const room = this.#dependencies.liveDelivery.reserve(destination, indexes.length);
    invariant(room >= 0 && room <= indexes.length, 'a lane has room for a part of what it is asked for');
    if (room === indexes.length) return [{ destination, state: 'held', indexes }];
    if (room === 0) return [{ destination, state: 'parked', indexes }];
    return [
      { destination, state: 'held', indexes: indexes.slice(0, room) },
      { destination, state: 'parked', indexes: indexes.slice(room) },
    ];
  }

  /** After a commit: delivers held events, announces parked ones, and gives back the room of duplicates. */
  #handOver({ batch, events }: CommitGroup, { positions, held }: AppendResult): void {
    const { liveDelivery } = this.#dependencies;
    batch.owed.forEach(({ destination, state, indexes }, nth) => {
      if (state === 'parked') {
        liveDelivery.parked(destination, batch.receivedAt);
        return;
      }
      const set = held[nth];
      const deliveries: ReadyDelivery[] = [];
      for (const index of indexes) {
        const position = positions[index];
        if (position === undefined || set === undefined) continue;
        const event = events[index]!;
        deliveries.push({
          set,
          delivery: { position, rounds: 0 },
          serialized: event.detached(batch.receivedAt),
          source: event.source,
        });
      }
      if (deliveries.length < indexes.length)
        liveDelivery.unreserve(destination, indexes.length - deliveries.length);
      liveDelivery.deliver(destination, deliveries);
    });
  }

  /**
   * After a failed commit: gives back all room. The clients send their calls again, which are counted then. A
   * log that failed may find out later that it did store the batch, and park it: every destination is
   * therefore told to look.
   */
  #releaseRoom({ batch }: CommitGroup): void {
    const { liveDelivery } = this.#dependencies;
    for (const { destination, state, indexes } of batch.owed) {
      if (state === 'held') liveDelivery.unreserve(destination, indexes.length);
      liveDelivery.parked(destination, batch.receivedAt);
    }
  }
}

/** Every call that was received is an event of the batch or was discarded. */
export function checkCounts({ events, received }: Pick<Batch, 'events' | 'received'>): void {
  let calls = 0;
  for (const counts of received) {
    calls += counts.calls;
    for (const n of Object.values(counts.discarded)) calls -= n;
  }
  invariant(calls === events.length, 'a call that was received is an event or was discarded');
}

const MOST_OF_A_GROUP = { events: MAX_GROUP_EVENTS, bytes: MAX_GROUP_BYTES };

/** Fewer than any number of requests: the first turn never ends the reading. */
const NONE_SEEN = -1;

interface CommitUnderWay {
  readonly requests: readonly QueuedRequest[];
  readonly ended: Promise<void>;
}

interface CommitGroup {
  readonly batch: Batch;
  readonly events: readonly AcceptedEvent[];
}

function answerAll(requests: readonly QueuedRequest[], { positions }: AppendResult): void {
  let offset = 0;
  for (const request of requests) {
    const first = offset;
    request.committed({ isDuplicate: (index) => positions[first + index] === undefined });
    offset += request.events.length;
  }
}

export interface Planner {
  plan(event: Event, source: Source): Plan;
  /**
   * The plan of every event of this source without integrations; undefined when plans depend on the event.
   */
  commonPlan?(source: Source): Plan | undefined;
  /** Whether any destination takes events of this source. When none does, its events are not planned. */
  hasDestinations?(source: Source): boolean;
}

function planBatch(events: readonly AcceptedEvent[], planner: Planner): GroupedPlans {
  return groupByPlan(
    events.map((event) =>
      planner.hasDestinations?.(event.sender) === false ? EMPTY_PLAN : planOf(event, planner),
    ),
  );
}

/** Plans most events without parsing them. */
function planOf(event: AcceptedEvent, planner: Planner): Plan {
  const common = event.line.hasNoIntegrations ? planner.commonPlan?.(event.sender) : undefined;
  return common ?? planner.plan(event.event, event.sender);
}

/** Sums of calls and discards by source, which wait to be written to the ledger. */
export class CallCountSums {
  readonly #bySource = new Map<number, { calls: number; discarded: Record<string, number> }>();

  get isEmpty(): boolean {
    return this.#bySource.size === 0;
  }

  add(counts: readonly CallCounts[]): void {
    for (const { source, calls, discarded } of counts) {
      let sums = this.#bySource.get(source);
      if (sums === undefined) {
        sums = { calls: 0, discarded: {} };
        this.#bySource.set(source, sums);
      }
      invariant(calls >= 0, 'a source has sent no fewer calls than none');
      sums.calls += calls;
      for (const [reason, n] of Object.entries(discarded))
        sums.discarded[reason] = (sums.discarded[reason] ?? 0) + n;
    }
  }

  /** Gives everything added since the last time, and forgets it. */
  take(): CallCounts[] {
    const all = Array.from(this.#bySource, ([source, { calls, discarded }]) => ({
      source,
      calls,
      discarded,
    }));
    this.#bySource.clear();
    return all;
  }
}

/** An arrival longer ago is not plausible: the wall clock was set. */
const MAX_ARRIVAL_AGE: Duration = 10 * 60_000;

/**
 * The monotonic time of an arrival that was dated by the wall clock a moment ago. Never in the future, even
 * after the clock was set.
 */
export function arrivalOf(receivedAt: Time, clock: Pick<Clock, 'monotonic' | 'steps'>): Monotonic {
  const now = clock.monotonic();
  const at = receivedAt - clock.steps().at(-1)!.ahead;
  return at > now || at < now - MAX_ARRIVAL_AGE ? now : at;
}
