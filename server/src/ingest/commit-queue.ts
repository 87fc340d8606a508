import type { Destination } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import type { Plan } from '../model/plan.ts';
import type { Source } from '../model/source.ts';
import type { Monotonic, Time } from '../model/time.ts';
import { arrivalOf, type Clock } from '../ports/clock.ts';
import type { LiveDelivery, ReadyDelivery } from '../ports/delivery-queue.ts';
import type {
  AppendResult,
  Batch,
  CallCounts,
  EventLog,
  OwedEvents,
  SkippedEvents,
} from '../ports/event-log.ts';
import type { TraceContexts } from '../ports/telemetry.ts';
import type { AcceptedEvent } from './accepted-event.ts';
import { CallCountSums } from './counters.ts';

/**
 * A group is closed when it holds so many events or bytes of JSON, so that a commit stays short. Fewer would cost more: what a
 * commit costs besides its events is as much as 70 of them, and with a disk whose sync takes 10 ms there are no 100 commits a second.
 */
const MAX_GROUP_EVENTS = 2000;
const MAX_GROUP_BYTES = 2 * 1024 * 1024;

/** Commits under way at once: while one runs on the writer's thread, the next is made ready behind it. */
const MAX_CONCURRENT_COMMITS = 2;

/** Bytes of JSON that may wait for a commit. Beyond it a call is turned away: memory must not grow with a slow disk. */
const MAX_WAITING_BYTES = 32 * 1024 * 1024;

export interface CommitQueueTools extends Planner {
  readonly log: Pick<EventLog, 'append'>;
  readonly clock: Pick<Clock, 'monotonic' | 'steps'>;
  readonly liveDelivery: LiveDelivery;
  readonly newBatchId: () => string;
  readonly traceContexts?: Pick<TraceContexts, 'set'>;
  /** Called with every commit, for whatever had better share its sync. */
  readonly onCommit?: () => void;
}

/** The events of one request, and whom to tell. */
export interface QueuedRequest {
  readonly events: readonly AcceptedEvent[];
  readonly counts: readonly CallCounts[];
  readonly receivedAt: Time;
  readonly traceparent?: string | undefined;
  /** Called once: with the answer of the log, or with what went wrong when nothing is stored. */
  readonly committed: (result: CommitResult | { readonly error: unknown }) => void;
}

/** For each event of the call, whether it was a duplicate. */
export interface CommitResult {
  readonly isDuplicate: (index: number) => boolean;
}

/**
 * Makes one commit of everything that arrived while the last commits ran. The group adapts by itself: alone, a call is
 * stored at once; under load or on a slow disk, hundreds share one sync.
 */
export class CommitQueue {
  readonly #tools: CommitQueueTools;
  #waiting: QueuedRequest[] = [];
  #waitingBytes = 0;
  #running = 0;
  #isScheduled = false;
  #idle: (() => void)[] = [];

  constructor(tools: CommitQueueTools) {
    this.#tools = tools;
  }

  /** False when too much is waiting already; the call was not taken. */
  add(call: QueuedRequest): boolean {
    const bytes = bytesOf(call);
    if (this.#waitingBytes + bytes > MAX_WAITING_BYTES) return false;
    this.#waitingBytes += bytes;
    this.#waiting.push(call);
    this.#scheduleCommit();
    return true;
  }

  /** Resolves when everything taken so far has its answer. */
  async stop(): Promise<void> {
    while (this.#running > 0 || this.#waiting.length > 0)
      await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Not at once: first whatever else has arrived by now, so that it shares the commit. */
  #scheduleCommit(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#commit();
    });
  }

  #commit(): void {
    while (this.#waiting.length > 0 && this.#running < MAX_CONCURRENT_COMMITS) {
      this.#running++;
      void this.#commitGroup(this.#takeGroup()).then(() => {
        this.#running--;
        if (this.#waiting.length > 0) this.#scheduleCommit();
        else if (this.#running === 0) for (const wake of this.#idle.splice(0)) wake();
      });
    }
  }

  #takeGroup(): QueuedRequest[] {
    let calls = 0;
    let events = 0;
    let bytes = 0;
    while (calls < this.#waiting.length && events < MAX_GROUP_EVENTS && bytes < MAX_GROUP_BYTES) {
      const call = this.#waiting[calls++]!;
      events += call.events.length;
      bytes += bytesOf(call);
    }
    return this.#waiting.splice(0, calls);
  }

  async #commitGroup(calls: readonly QueuedRequest[]): Promise<void> {
    const group = this.#assemble(calls);
    this.#tools.onCommit?.();
    try {
      const appended = await this.#tools.log.append(group.batch);
      this.#rememberTraceContexts(calls, appended);
      // First: what is sent now is stored already, but whoever waits for an answer is kept waiting by every request.
      try {
        answerAll(calls, appended);
      } finally {
        // Whatever becomes of an answer: nobody else would deliver them before a restart.
        this.#handOver(group, appended);
      }
    } catch (error) {
      this.#releaseRoom(group);
      for (const call of calls) call.committed({ error });
    }
    for (const call of calls) this.#waitingBytes -= bytesOf(call);
  }

  #rememberTraceContexts(calls: readonly QueuedRequest[], { positions }: AppendResult): void {
    let offset = 0;
    for (const { events, traceparent } of calls) {
      const first = offset;
      offset += events.length;
      if (traceparent === undefined) continue;
      for (const position of positions.slice(first, offset)) {
        if (position !== undefined) this.#tools.traceContexts?.set(position, traceparent);
      }
    }
  }

  /** Plans every event and asks the lanes for room. */
  #assemble(calls: readonly QueuedRequest[]): CommitGroup {
    const events = calls.length === 1 ? calls[0]!.events : calls.flatMap((call) => call.events);
    const { owed, skipped } = planBatch(events, this.#tools);
    const received = new CallCountSums();
    for (const call of calls) received.add(call.counts);
    const batch: Batch = {
      id: this.#tools.newBatchId(),
      receivedAt: this.#arrivalOf(calls),
      events,
      owed: [...owed].flatMap(([destination, indexes]) => this.#splitByRoom(destination, indexes)),
      skipped,
      received: received.take(),
    };
    return { batch, events };
  }

  /** Of the last of them. */
  #arrivalOf(calls: readonly QueuedRequest[]): Monotonic {
    return arrivalOf(
      calls.reduce((latest, call) => Math.max(latest, call.receivedAt), 0),
      this.#tools.clock,
    );
  }

  /** The first ones in memory, as far as there is room. */
  #splitByRoom(destination: number, indexes: readonly number[]): OwedEvents[] {
    const room = this.#tools.liveDelivery.reserve(destination, indexes.length);
    if (room === indexes.length) return [{ destination, state: 'held', indexes }];
    if (room === 0) return [{ destination, state: 'parked', indexes }];
    return [
      { destination, state: 'held', indexes: indexes.slice(0, room) },
      { destination, state: 'parked', indexes: indexes.slice(room) },
    ];
  }

  /** Stored: what is held goes to the lanes, what is parked is announced, room for duplicates is given back. */
  #handOver({ batch, events }: CommitGroup, { positions, held }: AppendResult): void {
    const { liveDelivery: deliverer } = this.#tools;
    batch.owed.forEach(({ destination, state, indexes }, nth) => {
      if (state === 'parked') {
        deliverer.parked(destination, batch.receivedAt);
        return;
      }
      const set = held[nth];
      const deliveries: ReadyDelivery[] = [];
      for (const index of indexes) {
        const position = positions[index];
        if (position === undefined || set === undefined) continue;
        const event = events[index]!;
        const written = event.detached(batch.receivedAt);
        deliveries.push({
          set,
          delivery: { position, rounds: 0 },
          serialized: written,
          source: event.source,
        });
      }
      if (deliveries.length < indexes.length)
        deliverer.release(destination, indexes.length - deliveries.length);
      deliverer.deliver(destination, deliveries);
    });
  }

  /**
   * Not stored, as far as the log could tell: its calls will come again and are counted then.
   * A log that fails may find out later that it did store the batch, and parks it then: so the lanes look.
   */
  #releaseRoom({ batch }: CommitGroup): void {
    const { liveDelivery: deliverer } = this.#tools;
    for (const { destination, state, indexes } of batch.owed) {
      if (state === 'held') deliverer.release(destination, indexes.length);
      deliverer.parked(destination, batch.receivedAt);
    }
  }
}

interface CommitGroup {
  readonly batch: Batch;
  readonly events: readonly AcceptedEvent[];
}

function answerAll(calls: readonly QueuedRequest[], { positions }: AppendResult): void {
  let offset = 0;
  for (const call of calls) {
    const first = offset;
    call.committed({ isDuplicate: (index) => positions[first + index] === undefined });
    offset += call.events.length;
  }
}

function bytesOf(call: QueuedRequest): number {
  let bytes = 0;
  for (const { length } of call.events) bytes += length;
  return bytes;
}

export interface Planner {
  readonly plan: (event: Event, source: Source) => Plan;
  /** The plan of every event of this source that says nothing of where it goes; undefined when it depends on the event. */
  readonly commonPlan?: (source: Source) => Plan | undefined;
  /** Whether any destination takes events of this source; where none does, no event of it is planned. */
  readonly hasDestinations?: (source: Source) => boolean;
}

/** The plans of a batch, by destination: which of its events each is to get, and which not and why. */
export interface BatchPlan {
  /** Indexes of events by id of the destination. */
  readonly owed: ReadonlyMap<number, readonly number[]>;
  readonly skipped: readonly SkippedEvents[];
}

function planBatch(events: readonly AcceptedEvent[], planner: Planner): BatchPlan {
  const owed = new Map<number, number[]>();
  const skipped = new Map<string, { destination: number; reason: string; indexes: number[] }>();
  events.forEach((event, index) => {
    if (planner.hasDestinations?.(event.origin) === false) return;
    const plan = planOf(event, planner);
    for (const destination of plan.owed) owedIndexes(owed, destination.id).push(index);
    for (const { destination, reason } of plan.skipped)
      skippedIndexes(skipped, destination, reason).push(index);
  });
  return { owed, skipped: [...skipped.values()] };
}

/** Most events are planned without being parsed. */
function planOf(event: AcceptedEvent, { plan, commonPlan }: Planner): Plan {
  const common = event.line.hasNoIntegrations ? commonPlan?.(event.origin) : undefined;
  return common ?? plan(event.event, event.origin);
}

function owedIndexes(lists: Map<number, number[]>, destination: number): number[] {
  let list = lists.get(destination);
  if (list === undefined) {
    list = [];
    lists.set(destination, list);
  }
  return list;
}

function skippedIndexes(
  lists: Map<string, { destination: number; reason: string; indexes: number[] }>,
  destination: Destination,
  reason: string,
): number[] {
  const key = `${destination.id}/${reason}`;
  let entry = lists.get(key);
  if (entry === undefined) {
    entry = { destination: destination.id, reason, indexes: [] };
    lists.set(key, entry);
  }
  return entry.indexes;
}
