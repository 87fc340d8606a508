import type { Attempt, Decision } from '../model/delivery.ts';
import type { Event, Position } from '../model/event.ts';
import type { Json } from '../model/json.ts';
import type { Duration, Monotonic, Time } from '../model/time.ts';

/** Somebody who watches events and deliveries as they happen. What they do must be quick and must not throw. */
export type Observer = (happening: Activity) => void;

/**
 * Who watches now; `undefined` when nobody does, and then nothing is made up for anybody. Asked at each happening, so that
 * whoever comes later is seen. It is asked on the hot path: it must be as cheap as reading a field.
 */
export type CurrentObserver = () => Observer | undefined;

export type Activity =
  | {
      readonly kind: 'accepted' | 'duplicate';
      readonly source: string;
      readonly event: Event;
      /** From the call's arrival to its being on stable storage. */
      readonly latencyMs: number;
    }
  | {
      readonly kind: 'discarded';
      /** Absent where none is known, as with a wrong write key. */
      readonly source?: string;
      readonly reason: string;
    }
  | {
      readonly kind: 'settled';
      /** Where the event came from. */
      readonly source: string;
      readonly destination: string;
      readonly event: Event;
      /** Both with their times by the wall clock. */
      readonly attempts: readonly Attempt[];
      readonly decision: Decision;
    };

/**
 * Adds up what happens, for somebody who looks at the sums now and then. Called for every request, every commit and every
 * round, so it must cost no more than adding to a number, and it must not throw.
 */
export interface MetricsRecorder {
  /** A request of the receiving API is being answered. `code`: of `spec/errors.json`; undefined when nothing was wrong. */
  requestAnswered(status: number, code: string | undefined): void;
  /** A commit of the event log has ended, so long after it was asked for; `isStored`: and not failed. */
  committed(took: Duration, isStored: boolean): void;
  /** What is counted of one destination, by its id. Asked for once and kept. */
  forDestination(destination: number): DeliveryRecorder;
}

export interface DeliveryRecorder {
  /** A round has ended with this decision. `arrivedAt`: when its event did. */
  attemptEnded(arrivedAt: Monotonic, attempts: readonly Attempt[], decision: Decision, now: Monotonic): void;
}

/**
 * Counts what is not stored and has no source in the ledger, or none that is known yet. Called for every request, so it
 * must be quick and must not throw.
 */
export interface DiscardCounters {
  /** Calls without a source that were discarded in a request that was answered 200, by reason. */
  discarded(reasons: Readonly<Record<string, number>>): void;
  /** A request that was refused as a whole; `code` is what it was answered. */
  refused(code: string, request?: RefusedRequest): void;
  /** Times that clients sent and that were not used. */
  clockErrors(counts: ClockErrorCounts): void;
}

/** What is known of a request that was refused before its calls were looked at. */
export interface RefusedRequest {
  /** Of the Authorization header; with it the request can be counted under its source. */
  readonly writeKey: string | undefined;
  /** What the client was told beside the sentence of the code. */
  readonly detail?: string | undefined;
}

export interface ClockErrorCounts {
  /** Times that could not be read. */
  readonly unparseable: number;
  /** Events whose time was not corrected, because their client's clock is more than 24 hours off. */
  readonly skewed: number;
}

/** Keeps some of the calls that were not accepted, so that somebody can see what is wrong with them. */
export interface DiscardSampler {
  /** Called for every discarded call, so it must be quick when it keeps nothing, and it must not throw. */
  add(discarded: DiscardedCall): void;
}

export interface DiscardedCall {
  /** Name of the source; undefined when none can be named. */
  readonly source: string | undefined;
  /** One of `spec/errors.json`. */
  readonly reason: string;
  readonly at: Time;
  /** The call as it came. Only valid until `add` returns. */
  readonly call: () => Json;
}

/** Remembers in which trace events came (W3C Trace Context). Few calls say so: for the others it is not asked to remember. */
export interface TraceContexts {
  /** Before anything of the event is sent. */
  set(position: Position, traceparent: string): void;
  /** Asked for every round, so it must cost nothing while nothing is remembered. */
  get(position: Position): string | undefined;
}
