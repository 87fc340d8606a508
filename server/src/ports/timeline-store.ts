import type { Time } from '../model/time.ts';

/** Numbers by reason; those that are zero are absent. */
export type ReasonCounts = Readonly<Record<string, number>>;

/** Counts of a latency histogram, as bucket and count in turn. */
export type LatencyPairs = readonly number[];

/** The counts of one interval. Rows of the same interval add up: a restart within it leaves two. */
export interface TimelineRow {
  /** The begin of the interval by the wall clock. */
  readonly at: Time;
  /** By name. A source of which nothing happened is absent. */
  readonly sources: Readonly<Record<string, SourceRow>>;
  /** By name. A destination of which nothing happened and to which nothing is owed is absent. */
  readonly destinations: Readonly<Record<string, DestinationRow>>;
  /** From asking the event log to store a batch until it was on stable storage. Absent without a commit. */
  readonly commits?: LatencyPairs;
}

/** Numbers that are zero are absent. */
export interface SourceRow {
  readonly received?: number;
  readonly accepted?: number;
  readonly duplicates?: number;
  readonly discarded?: ReasonCounts;
  /** From the arrival of a call until it was stored. */
  readonly latency?: LatencyPairs;
}

/** Numbers that are zero are absent. */
export interface DestinationRow {
  readonly owed?: number;
  readonly delivered?: number;
  /** Rounds after which the delivery has to be tried again. */
  readonly retried?: number;
  readonly dead?: ReasonCounts;
  readonly dropped?: ReasonCounts;
  readonly erased?: number;
  readonly skipped?: ReasonCounts;
  /** Owed at the end of the interval. */
  readonly pending?: number;
  /** From the arrival of an event until it was delivered. */
  readonly latency?: LatencyPairs;
  /** By masked URL. */
  readonly endpoints?: Readonly<Record<string, EndpointRow>>;
}

/** Requests to one endpoint. Numbers that are zero are absent. */
export interface EndpointRow {
  readonly accepted?: number;
  readonly failed?: ReasonCounts;
}

/** The length of a row's interval: a minute, and ten of them so that a week can be read quickly. */
export type TimelineLevel = 'minute' | 'tenMinutes';

/**
 * Keeps the rows of the timeline over restarts. It is written beside the event log and promises less: after a
 * crash the last rows may be missing, and a row that cannot be read any more is left out.
 */
export interface TimelineStore {
  /** Rejects when the row cannot be written; it is not there then, or as a whole. */
  append(level: TimelineLevel, row: TimelineRow): Promise<void>;
  /**
   * The rows whose intervals begin in `from` (inclusive) to `to` (exclusive), in the order in which they were
   * appended.
   */
  read(level: TimelineLevel, from: Time, to: Time): AsyncIterable<TimelineRow>;
  /** Forgets days that ended before this time. */
  forgetBefore(time: Time): Promise<void>;
}
