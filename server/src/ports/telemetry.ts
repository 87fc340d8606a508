import type { Attempt, Decision } from '../model/delivery.ts';
import type { Event, Position } from '../model/event.ts';
import type { Json } from '../model/json.ts';
import type { LatencyHistogram } from '../model/latency-histogram.ts';
import type { JsonLine } from '../model/serialized-event.ts';
import type { Duration, Monotonic, OnWallClock, Time } from '../model/time.ts';

/** Sees events and deliveries as they happen. Must be quick and must not throw. */
export type Observer = (activity: Activity) => void;

/** The current observer. Read for each activity on the hot path, hence a field and no function. */
export interface CurrentObserver {
  /** Undefined while no client is watching; callers then skip building the activity. */
  readonly observer: Observer | undefined;
  /**
   * True when the filter of every client leaves this activity out; callers then skip building it. Asking
   * costs a tenth of a microsecond; building costs several, because the event is parsed for it. `delivery` is
   * given for the activity of a delivery.
   */
  passesOver?(
    line: JsonLine | undefined,
    source: string,
    delivery?: { destination: string; isFailure: boolean },
  ): boolean;
}

export type Activity =
  | {
      readonly kind: 'accepted' | 'duplicate';
      readonly source: string;
      readonly event: Event;
      /** Time from the call's arrival until it was on stable storage. */
      readonly latencyMs: number;
    }
  | {
      readonly kind: 'discarded';
      /** Absent when the source is not known, as with a wrong write key. */
      readonly source?: string;
      readonly reason: string;
    }
  | {
      readonly kind: 'settled';
      /** Name of the event's source. */
      readonly source: string;
      readonly destination: string;
      readonly event: Event;
      readonly attempts: readonly OnWallClock<Attempt>[];
      readonly decision: ShownDecision;
    };

/** A decision without what only the next try needs. */
export type ShownDecision = OnWallClock<
  Exclude<Decision, { kind: 'retry' }> | Omit<Extract<Decision, { kind: 'retry' }>, 'next'>
>;

/**
 * Counts requests, commits and rounds for the metrics page. Called for each of them: must cost no more than
 * adding to a number, and must not throw.
 */
export interface MetricsRecorder {
  /**
   * A request of the receiving API is answered. `code` is one of `spec/errors.json`; undefined when nothing
   * was wrong.
   */
  requestAnswered(status: number, code: string | undefined): void;
  /** A commit of the event log has ended after so much time; `isStored` is false when it failed. */
  committed(took: Duration, isStored: boolean): void;
  /** The recorder of one destination, by its id. Callers keep it. */
  forDestination(destination: number): DeliveryRecorder;
}

/** Counts bugs that were noticed and did not end the process. */
export interface InvariantRecorder {
  /**
   * An invariant did not hold, in a lane or in a report, and the process goes on. Returns whether it is the
   * first time for this one, so that it is logged once.
   */
  invariantFailed(text: string): boolean;
}

/** Measures how long calls take. Called for each request, like `MetricsRecorder`. */
export interface AcceptanceRecorder {
  /** So many calls of one request are stored, so long after it arrived. `source`: the id. */
  callsStored(source: number, took: Duration, calls: number): void;
}

export interface DeliveryRecorder {
  /**
   * A round has ended with this decision. `arrivedAt` is the arrival of its event; absent for a replay, which
   * may be asked for a week later and says nothing of how long deliveries take.
   */
  attemptEnded(
    arrivedAt: Monotonic | undefined,
    attempts: readonly Attempt[],
    decision: Decision,
    now: Monotonic,
  ): void;
}

/** Counters of one part of the hot path for the timeline, since the start. Only their owner changes them. */
export interface FlowCounters {
  /** By id of the source: from the arrival of a call until it was stored. */
  readonly acceptance: ReadonlyMap<number, LatencyHistogram>;
  /** From asking the event log to store a batch until it was on stable storage. */
  readonly commitLatency: LatencyHistogram;
  /** By id of the destination. */
  readonly flows: ReadonlyMap<number, DestinationFlow>;
}

export interface DestinationFlow {
  /** Rounds after which the delivery has to be tried again. */
  readonly retried: number;
  /** From the arrival of an event until it was delivered. */
  readonly latency: LatencyHistogram;
  /** Requests by URL and by the reason of their outcome. */
  readonly endpoints: ReadonlyMap<
    string,
    { readonly accepted: number; readonly failed: ReadonlyMap<string, number> }
  >;
}

/**
 * Counts what no ledger counts of what comes in: calls that belong to no known source, requests that are
 * refused as a whole or for their rate, and values that are changed. Called for every request: must be quick
 * and must not throw.
 */
export interface IngestCounters {
  /** Calls without a source, by reason, that were discarded from a request that is answered with 200. */
  discarded(reasons: Readonly<Record<string, number>>): void;
  /** A request was refused as a whole; `code` is its answer. */
  refused(code: string, request?: RefusedRequest): void;
  /** Values of accepted calls of a source were changed. */
  changed(source: string, changes: ValueChanges): void;
  /**
   * A source whose write key should be in servers alone got calls of browsers or phones: at least so many.
   */
  publicCalls(source: string, calls: number): void;
  /** A request was refused because a source sends more than it may; the client sends it again later. */
  rateLimited(source: string): void;
}

/** A request that was refused before its calls were read. */
export interface RefusedRequest {
  /** The write key of the Authorization header: the request counts under its source. */
  readonly writeKey: string | undefined;
  /** A sentence for the client, beside that of the code. */
  readonly detail?: string | undefined;
}

/**
 * How values of calls are changed. Everything else is kept as it came, or refused.
 *
 * - `numbers_as_text`: numbers that a double cannot hold, which are text of their digits from then on
 * - `unreadable_times`: times that could not be read
 * - `skewed_clocks`: events whose time was not corrected, because their client's clock is more than 24 hours
 *   off
 * - `replaced_message_ids`: messageIds that are none of an event, in whose place another one stands
 * - `shortened_addresses`, `dropped_addresses`: addresses that clients gave as `context.ip`, of which their
 *   source keeps the beginning or nothing
 */
export const VALUE_CHANGES = [
  'numbers_as_text',
  'unreadable_times',
  'skewed_clocks',
  'replaced_message_ids',
  'shortened_addresses',
  'dropped_addresses',
] as const;

export type ValueChange = (typeof VALUE_CHANGES)[number];

export interface ValueChanges {
  readonly counts: Readonly<Partial<Record<ValueChange, number>>>;
  /** A time that could not be read, as the client wrote it. */
  readonly unreadableTime?: string;
}

/** Both together, with the later sample. */
export function addChanges(one: ValueChanges | undefined, other: ValueChanges): ValueChanges {
  if (one === undefined) return other;
  const counts = { ...one.counts };
  for (const kind of VALUE_CHANGES) {
    const n = (counts[kind] ?? 0) + (other.counts[kind] ?? 0);
    if (n > 0) counts[kind] = n;
  }
  return { ...one, ...other, counts };
}

/** Keeps samples of discarded calls, so that operators can see what is wrong with them. */
export interface DiscardSampler {
  /** Called for every discarded call: must be quick when it keeps nothing, and must not throw. */
  add(discarded: DiscardedCall): void;
}

export interface DiscardedCall {
  /** Name of the source; undefined when it is not known. */
  readonly source: string | undefined;
  /** One of `spec/errors.json`. */
  readonly reason: string;
  readonly at: Time;
  /** Gives the call as it came. Valid only until `add` returns. */
  readonly call: () => Json;
}

/** Remembers the W3C trace contexts of events. Only few events have one. */
export interface TraceContexts {
  /** Called before the event is delivered. */
  set(position: Position, traceparent: string): void;
  /** Called for every round: must cost nothing while nothing is remembered. */
  get(position: Position): string | undefined;
}
