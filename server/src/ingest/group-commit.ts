import type { Monotonic, Time } from '../model/time.ts';
import { arrivalOf, type Clock } from '../ports/clock.ts';
import type { Deliverer, InHand } from '../ports/deliverer.ts';
import type { Appended, Batch, EventLog, Owed, Received } from '../ports/event-log.ts';
import type { Traceparents } from '../ports/traceparents.ts';
import type { AcceptedEvent } from './accepted.ts';
import { type Planner, planned } from './planned.ts';
import { Tally } from './tally.ts';

/**
 * A group is closed when it holds so many events or bytes of JSON, so that a commit stays short. Fewer would cost more: what a
 * commit costs besides its events is as much as 70 of them, and with a disk whose sync takes 10 ms there are no 100 commits a second.
 */
const GROUP_EVENTS = 2000;
const GROUP_BYTES = 2 * 1024 * 1024;

/** Commits under way at once: while one runs on the writer's thread, the next is made ready behind it. */
const COMMITS_UNDER_WAY = 2;

/** Bytes of JSON that may wait for a commit. Beyond it a call is turned away: memory must not grow with a slow disk. */
const WAITING_BYTES = 32 * 1024 * 1024;

export interface GroupCommitTools extends Planner {
  readonly log: Pick<EventLog, 'append'>;
  readonly clock: Pick<Clock, 'monotonic' | 'steps'>;
  readonly deliverer: Deliverer;
  readonly newBatchId: () => string;
  readonly traceparents?: Pick<Traceparents, 'note'>;
  /** Called with every commit, for whatever had better share its sync. */
  readonly beside?: () => void;
}

/** The events of one request, and whom to tell. */
export interface WaitingCall {
  readonly events: readonly AcceptedEvent[];
  readonly counts: readonly Received[];
  readonly receivedAt: Time;
  readonly traceparent?: string | undefined;
  /** Called once: with the answer of the log, or with what went wrong when nothing is stored. */
  readonly committed: (result: Committed | { readonly error: unknown }) => void;
}

/** For each event of the call, whether it was a duplicate. */
export interface Committed {
  readonly isDuplicate: (index: number) => boolean;
}

/**
 * Makes one commit of everything that arrived while the last commits ran. The group adapts by itself: alone, a call is
 * stored at once; under load or on a slow disk, hundreds share one sync.
 */
export class GroupCommit {
  readonly #tools: GroupCommitTools;
  #waiting: WaitingCall[] = [];
  #waitingBytes = 0;
  #underWay = 0;
  #soon = false;
  #idle: (() => void)[] = [];

  constructor(tools: GroupCommitTools) {
    this.#tools = tools;
  }

  /** False when too much is waiting already; the call was not taken. */
  add(call: WaitingCall): boolean {
    const bytes = bytesOf(call);
    if (this.#waitingBytes + bytes > WAITING_BYTES) return false;
    this.#waitingBytes += bytes;
    this.#waiting.push(call);
    this.#commitSoon();
    return true;
  }

  /** Resolves when everything taken so far has its answer. */
  async stop(): Promise<void> {
    while (this.#underWay > 0 || this.#waiting.length > 0)
      await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Not at once: first whatever else has arrived by now, so that it shares the commit. */
  #commitSoon(): void {
    if (this.#soon) return;
    this.#soon = true;
    setImmediate(() => {
      this.#soon = false;
      this.#commit();
    });
  }

  #commit(): void {
    while (this.#waiting.length > 0 && this.#underWay < COMMITS_UNDER_WAY) {
      this.#underWay++;
      void this.#commitGroup(this.#takeGroup()).then(() => {
        this.#underWay--;
        if (this.#waiting.length > 0) this.#commitSoon();
        else if (this.#underWay === 0) for (const wake of this.#idle.splice(0)) wake();
      });
    }
  }

  #takeGroup(): WaitingCall[] {
    let calls = 0;
    let events = 0;
    let bytes = 0;
    while (calls < this.#waiting.length && events < GROUP_EVENTS && bytes < GROUP_BYTES) {
      const call = this.#waiting[calls++]!;
      events += call.events.length;
      bytes += bytesOf(call);
    }
    return this.#waiting.splice(0, calls);
  }

  async #commitGroup(calls: readonly WaitingCall[]): Promise<void> {
    const group = this.#assemble(calls);
    this.#tools.beside?.();
    try {
      const appended = await this.#tools.log.append(group.batch);
      this.#noteTraceparents(calls, appended);
      // First: what is sent now is stored already, but whoever waits for an answer is kept waiting by every request.
      try {
        answerAll(calls, appended);
      } finally {
        // Whatever becomes of an answer: nobody else would deliver them before a restart.
        this.#handOver(group, appended);
      }
    } catch (error) {
      this.#takeBack(group);
      for (const call of calls) call.committed({ error });
    }
    for (const call of calls) this.#waitingBytes -= bytesOf(call);
  }

  #noteTraceparents(calls: readonly WaitingCall[], { positions }: Appended): void {
    let offset = 0;
    for (const { events, traceparent } of calls) {
      const first = offset;
      offset += events.length;
      if (traceparent === undefined) continue;
      for (const position of positions.slice(first, offset)) {
        if (position !== undefined) this.#tools.traceparents?.note(position, traceparent);
      }
    }
  }

  /** Plans every event and asks the lanes for room. */
  #assemble(calls: readonly WaitingCall[]): Group {
    const events = calls.length === 1 ? calls[0]!.events : calls.flatMap((call) => call.events);
    const { owed, skipped } = planned(events, this.#tools);
    const received = new Tally();
    for (const call of calls) received.add(call.counts);
    const batch: Batch = {
      id: this.#tools.newBatchId(),
      receivedAt: this.#arrivalOf(calls),
      events,
      owed: [...owed].flatMap(([destination, indexes]) => this.#owe(destination, indexes)),
      skipped,
      received: received.take(),
    };
    return { batch, events };
  }

  /** Of the last of them. */
  #arrivalOf(calls: readonly WaitingCall[]): Monotonic {
    return arrivalOf(
      calls.reduce((latest, call) => Math.max(latest, call.receivedAt), 0),
      this.#tools.clock,
    );
  }

  /** The first ones in memory, as far as there is room. */
  #owe(destination: number, indexes: readonly number[]): Owed[] {
    const room = this.#tools.deliverer.reserve(destination, indexes.length);
    if (room === indexes.length) return [{ destination, state: 'held', indexes }];
    if (room === 0) return [{ destination, state: 'parked', indexes }];
    return [
      { destination, state: 'held', indexes: indexes.slice(0, room) },
      { destination, state: 'parked', indexes: indexes.slice(room) },
    ];
  }

  /** Stored: what is held goes to the lanes, what is parked is announced, room for duplicates is given back. */
  #handOver({ batch, events }: Group, { positions, held }: Appended): void {
    const { deliverer } = this.#tools;
    batch.owed.forEach(({ destination, state, indexes }, nth) => {
      if (state === 'parked') {
        deliverer.parked(destination, batch.receivedAt);
        return;
      }
      const set = held[nth];
      const deliveries: InHand[] = [];
      for (const index of indexes) {
        const position = positions[index];
        if (position === undefined || set === undefined) continue;
        const event = events[index]!;
        const written = event.alone(batch.receivedAt);
        deliveries.push({ set, delivery: { position, rounds: 0 }, written, source: event.source });
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
  #takeBack({ batch }: Group): void {
    const { deliverer } = this.#tools;
    for (const { destination, state, indexes } of batch.owed) {
      if (state === 'held') deliverer.release(destination, indexes.length);
      deliverer.parked(destination, batch.receivedAt);
    }
  }
}

interface Group {
  readonly batch: Batch;
  readonly events: readonly AcceptedEvent[];
}

function answerAll(calls: readonly WaitingCall[], { positions }: Appended): void {
  let offset = 0;
  for (const call of calls) {
    const first = offset;
    call.committed({ isDuplicate: (index) => positions[first + index] === undefined });
    offset += call.events.length;
  }
}

function bytesOf(call: WaitingCall): number {
  let bytes = 0;
  for (const { length } of call.events) bytes += length;
  return bytes;
}
