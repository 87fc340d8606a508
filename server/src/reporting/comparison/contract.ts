import type { Json } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';

/**
 * Things that may differ between two services that got the same call, because each of them gets it in its own
 * way. Every rule can be switched off, and then its difference counts.
 */
export const COMPARISON_RULES = {
  transport:
    'receivedAt, version, projectId, writeKey, _metadata and channel may differ: each service has its own',
  nulls: 'null is the same as a field that is not there',
  timeForms: 'times are compared as times, however they are written',
  timestamp:
    'timestamp may differ by as much as the two arrivals, and a second: each service corrects it by its own arrival',
  addresses: 'an IPv6 address here is the same as none there: some services note only IPv4',
  numbers: 'numbers are compared by value, and integers beyond 2^53 by their digits',
  messageIds: 'a call whose client sent no messageId is recognised by its ids, name, time and contents',
  waiting: 'a call counts as missing after 4 hours and 15 minutes, when the retries of both are over',
  kinds:
    'events of audiences and traits, of suppressed users, and what a tracking plan adds are counted apart',
} as const;

export type ComparisonRule = keyof typeof COMPARISON_RULES;

/** A question for a comparison of two sources. */
export interface ComparisonRequest {
  /** Id of the source of the service that is to be replaced. */
  readonly there: number;
  readonly here: number;
  /** Calls that arrived from then on. */
  readonly from: Time;
  /** Calls that arrived before. */
  readonly to: Time;
  readonly rules: ReadonlySet<ComparisonRule>;
}

export const SIDES = ['there', 'here'] as const;
export type Side = (typeof SIDES)[number];

/** Calls that are no difference, although only one side has them, or has them so. */
export const APART = ['computed', 'suppressed', 'protocols'] as const;
export type CountedApart = (typeof APART)[number];

/** The outcome of a comparison of two sources. */
export interface SourceComparison {
  /** Calls that both have. */
  readonly equal: number;
  readonly different: number;
  /** Calls that a side does not have. */
  readonly missing: Readonly<Record<Side, number>>;
  /** Calls of one side that the other may still get, because retries are not over. */
  readonly waiting: number;
  readonly apart: Readonly<Record<CountedApart, number>>;
  /** Damaged or erased while it ran. */
  readonly unreadable: number;
  /** By the name of the event and the field, the most frequent first. */
  readonly differences: readonly Difference[];
  /** By the name of the event, the most frequent first. */
  readonly absences: readonly Absence[];
  /** There are more groups than these lists have. */
  readonly isCut: boolean;
}

export interface Difference {
  /** Type and name: `track Order Placed`. */
  readonly event: string;
  /** Path of the field: `properties.price`. */
  readonly field: string;
  readonly count: number;
  readonly examples: readonly DifferenceExample[];
}

export interface DifferenceExample {
  readonly messageId: string;
  readonly there: Json | undefined;
  readonly here: Json | undefined;
}

export interface Absence {
  readonly event: string;
  /** The side that does not have the calls. */
  readonly missing: Side;
  readonly count: number;
  readonly messageIds: readonly string[];
}

/** More calls of one side wait for the other than memory is kept for. */
export class TooManyUnmatched extends Error {}
