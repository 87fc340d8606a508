import { isObject, type Json, type JsonObject } from './json.ts';
import type { Duration } from './time.ts';

/**
 * The JSON form of a condition on a user, as an audience has it. Every comparison with an absent value or
 * null is false, `!=` too. spec/contract.md, "Definitions of traits and audiences".
 */
export type Condition =
  | { readonly op: 'and' | 'or'; readonly conditions: readonly Condition[] }
  | { readonly op: 'not'; readonly condition: Condition }
  | { readonly op: Comparison; readonly value: Value; readonly to: Scalar }
  | { readonly op: 'in'; readonly value: Value; readonly to: readonly Scalar[] }
  | { readonly op: 'exists'; readonly value: Value }
  /** The user is a member of this audience. */
  | { readonly op: 'audience'; readonly name: string }
  /** The user belongs to the group with this id. */
  | { readonly op: 'group'; readonly id: string };

export const COMPARISONS = ['=', '!=', '<', '<=', '>', '>=', 'contains', 'starts_with', 'ends_with'] as const;

export type Comparison = (typeof COMPARISONS)[number];

export type Scalar = string | number | boolean;

/** A value that a condition compares. */
export type Value =
  /** A trait that identify calls set; a dot leads into an object. */
  | { readonly op: 'trait'; readonly name: string }
  /** The value of a computed trait. */
  | { readonly op: 'computed'; readonly name: string }
  /** A property of an event, in `where` only; a dot leads into an object. */
  | { readonly op: 'property'; readonly name: string }
  | EventAggregate;

/** A value reduced from the events of one user, as a computed trait has it. */
export interface EventAggregate {
  readonly op: 'event';
  readonly type: 'track' | 'page' | 'screen';
  /** The name of the tracked action, the page or the screen; empty for pages and screens without a name. */
  readonly name: string;
  /**
   * Condition on the events that count. Conditions on properties look at each event. Conditions on traits
   * look at the user as it is now, and may only stand beside the others with `and`: while one is false, no
   * event counts.
   */
  readonly where?: Condition;
  /** Only events of the last so many milliseconds. */
  readonly within?: Duration;
  readonly reduce: Reducer;
}

export type Reducer = { readonly op: 'count' } | { readonly op: PropertyReducer; readonly property: string };

export const PROPERTY_REDUCERS = [
  'sum',
  'avg',
  'min',
  'max',
  'mode',
  'first',
  'last',
  'unique',
  'unique_count',
] as const;

export type PropertyReducer = (typeof PROPERTY_REDUCERS)[number];

/**
 * An audience or a computed trait as operators write it. spec/contract.md, "Operations on audiences and
 * computed traits".
 */
export type Computation = AudienceDefinition | TraitDefinition;

interface ComputationBase {
  /** Given by the store when it first sees the name; never reused. */
  readonly id: number;
  /** Rises with every real change. */
  readonly version: number;
  readonly name: string;
  /** The name of the trait that destinations get: `name` in snake_case when it was created; never changes. */
  readonly key: string;
  /** The text form. */
  readonly text: string;
  /** Names of the destinations that get changes. */
  readonly destinations: readonly string[];
  readonly enabled: boolean;
}

export interface AudienceDefinition extends ComputationBase {
  readonly kind: 'audience';
  readonly definition: Condition;
  /** Profiles without a userId may be members. */
  readonly includeAnonymous: boolean;
}

export interface TraitDefinition extends ComputationBase {
  readonly kind: 'trait';
  readonly definition: EventAggregate;
}

/**
 * Value of `computation_id` in the events of a computation; it stays the same when the definition changes.
 */
export function computationIdOf({ kind, id }: Pick<Computation, 'kind' | 'id'>): string {
  return `${kind === 'audience' ? 'aud' : 'trait'}_${id}`;
}

/** Whether an origin of deliveries is a computation, and not a replay. */
export function isComputationId(origin: string): boolean {
  return /^(?:aud|trait)_\d+$/.test(origin);
}

/** The value of `computation_id` in the context of an event; undefined for the events of clients. */
export function computationIdIn(context: JsonObject): Json | undefined {
  const { personas } = context;
  return isObject(personas) ? personas['computation_id'] : undefined;
}
