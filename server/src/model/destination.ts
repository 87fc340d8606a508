import type { CallType } from './event.ts';
import type { SigningKey } from './signing-key.ts';
import type { Duration, Monotonic } from './time.ts';

/** A URL of the customer, with the headers that all its requests have. */
export interface Endpoint {
  /** Absolute, `http:` or `https:`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Settings of a destination of type `webhooks`. spec/specification.md, "Settings". */
export interface WebhookSettings {
  /** 1–5 endpoints. A delivery goes to all of them at once. */
  readonly endpoints: readonly Endpoint[];
  /** Signs every request when set (`X-Signature`). */
  readonly sharedSecret?: string;
  /** Takes the place of `sharedSecret` soon: a second signature (`X-Signature-Next`) while receivers change over. */
  readonly nextSharedSecret?: string;
  /** Standard Webhooks secrets, `whsec_…`; two while one replaces the other. Each adds a signature to every request. */
  readonly signingSecrets?: readonly string[];
  /** Adds a signature that receivers verify without a secret, with the public key of the destination. Absent: false. */
  readonly publicSignature?: boolean;
  readonly format: 'documented' | 'canonical';
  /** `any`: a delivery needs one accepted request. `each`: every endpoint is a delivery of its own. */
  readonly success: 'any' | 'each';
  /** Selects events; absent for all events of its sources. */
  readonly filter?: EventFilter;
  /** Requests per second that each URL gets at most. */
  readonly rateLimit?: number;
  /** Requests under way at once to each URL at most. */
  readonly concurrency?: number;
}

/** An event passes when it passes every part that is given. */
export interface EventFilter {
  readonly types?: readonly CallType[];
  /** Names of track calls; a `*` at the end stands for any rest. Other calls have no such name, and pass. */
  readonly events?: readonly string[];
}

/** Where events go. */
export interface Destination {
  /** Given by the store when it first sees the name; never reused. */
  readonly id: number;
  readonly name: string;
  readonly type: 'webhooks';
  /** Names of its sources. */
  readonly sources: readonly string[];
  /** While false, new events are skipped, and pending deliveries wait. */
  readonly enabled: boolean;
  /** While true, new and pending deliveries wait. Absent: false. */
  readonly paused?: boolean;
  /** The latest periods in which it was paused or disabled, in order; retry windows leave them out. Absent: none. */
  readonly pauses?: readonly Pause[];
  readonly settings: WebhookSettings;
  /** Made by the server when `publicSignature` is switched on, and forgotten when it is switched off. */
  readonly signingKey?: SigningKey;
  /** Grows with every change of the destination. One round of attempts uses one version. */
  readonly version: number;
}

/** Whether changes of audiences and computed traits, which are identify events, come to a destination that these name. */
export function hearsOfComputations({
  enabled,
  settings,
}: Pick<Destination, 'enabled' | 'settings'>): boolean {
  return enabled && settings.filter?.types?.includes('identify') !== false;
}

/** The states of a destination. It is in the first that holds. spec/specification.md, "State of a destination". */
export const DESTINATION_STATES = [
  'disabled',
  'paused',
  /** Requests fail in a way that is tried again, and none has shown life since. */
  'failing',
  /** Deliveries die for good, all or some (`RefusalTracker`). */
  'refusing',
  /** Nothing can be owed: it has no source, and no audience or computed trait names it. */
  'no_source',
  /** No request to it has ended yet. */
  'never_asked',
  'healthy',
] as const;

export type DestinationStateName = (typeof DESTINATION_STATES)[number];

/** Whether the destination is sent anything. */
export function isDelivering({ enabled, paused = false }: Pick<Destination, 'enabled' | 'paused'>): boolean {
  return enabled && !paused;
}

/**
 * Distance between the ids of two lanes of one destination. Ids of records stay below it, and ids of lanes fit in the 32 bits that
 * some stores have for them.
 */
const LANE_STEP = 2 ** 24;

/**
 * The lanes of a destination. With `any` the only lane is the destination itself. With `each` every endpoint has a lane
 * (spec/specification.md, "Several endpoints"), with an id of its own under which deliveries are stored and counted: no endpoint
 * waits for another or is tried again because of another. The id of the first lane is that of the destination.
 */
export function lanesOf(destination: Destination): readonly Destination[] {
  const { endpoints, success } = destination.settings;
  return success === 'any' ? [destination] : endpoints.map((_, place) => laneAt(destination, place));
}

/**
 * The lane at a place. The settings may have lost its endpoint while deliveries are still pending: the lane goes on with the
 * endpoint that has the place now, and without one when there is none.
 */
export function laneAt(destination: Destination, place: number): Destination {
  const { settings } = destination;
  if (place === 0 && settings.success === 'any') return destination;
  const endpoints = settings.endpoints.slice(place, place + 1);
  return {
    ...destination,
    id: destination.id + place * LANE_STEP,
    settings: { ...settings, endpoints, success: 'any' },
  };
}

/** A destination has at most this many endpoints. spec/specification.md, "Settings". */
const MAX_ENDPOINTS = 5;

/** Ids of all lanes that the destination may ever have had. A lane without an endpoint may still have deliveries. */
export function everyLaneIdOf(destination: Destination): number[] {
  return Array.from({ length: MAX_ENDPOINTS }, (_, place) => laneAt(destination, place).id);
}

/**
 * A number for one endpoint, unique among all destinations. It is the same for a destination and for a lane of it.
 */
export function endpointIdOf({ id }: Pick<Destination, 'id'>, place: number): number {
  return id + place * LANE_STEP;
}

/** The id of the destination of a lane. */
export function destinationOfLane(lane: number): number {
  return lane % LANE_STEP;
}

/** The place of a lane's endpoint in the settings; 0 for a destination with one lane. */
export function endpointIndexOfLane(lane: number): number {
  return Math.floor(lane / LANE_STEP);
}

/** A period in which a destination was sent nothing, because an operator had paused or disabled it. */
export interface Pause {
  readonly from: Monotonic;
  /** Absent while the pause lasts. */
  readonly to?: Monotonic;
}

/** Pauses kept within one retry window. When there are more, the oldest two become one. */
const MAX_PAUSES = 50;

/**
 * The time since which `window` has passed at `now`, pauses left out. Deliveries that first failed before it have used up their
 * retry window.
 */
export function retryWindowStart(pauses: readonly Pause[], window: Duration, now: Monotonic): Monotonic {
  let left = window;
  let end = now;
  for (let nth = pauses.length - 1; nth >= 0; nth--) {
    const { from, to = now } = pauses[nth]!;
    if (from >= end) continue;
    const sending = end - Math.min(to, end);
    if (sending >= left) break;
    left -= sending;
    end = from;
  }
  return end - left;
}

/** Paused time between `from` and `now`. */
export function pausedTimeWithin(pauses: readonly Pause[], from: Monotonic, now: Monotonic): Duration {
  let sum = 0;
  for (const pause of pauses) {
    sum += Math.max(0, Math.min(pause.to ?? now, now) - Math.max(pause.from, from));
  }
  return sum;
}

/** The pauses after a switch at `at`, without those too old for any retry window of the length `window`. */
export function recordSwitch(
  pauses: readonly Pause[],
  { isServed, at, window }: { readonly isServed: boolean; readonly at: Monotonic; readonly window: Duration },
): readonly Pause[] {
  // A store from another machine may hold pauses that this machine's clock has not reached.
  const past = pauses.filter(({ from }) => from <= at);
  const last = past.at(-1);
  const isOpen = last !== undefined && last.to === undefined;
  if (!isServed) return isOpen ? past : mergeOldest([...past, { from: Math.max(at, last?.to ?? at) }]);
  // A destination that an earlier version disabled has no beginning: all of its past counts as a pause.
  const ended = isOpen ? { from: last.from, to: at } : { from: last?.to ?? 0, to: at };
  const all = [...(isOpen ? past.slice(0, -1) : past), ended];
  const start = retryWindowStart(all, window, at);
  return mergeOldest(all.filter(({ to = at }) => to > start));
}

function mergeOldest(pauses: readonly Pause[]): readonly Pause[] {
  if (pauses.length <= MAX_PAUSES) return pauses;
  const [first, second, ...rest] = pauses;
  return [{ ...second, from: first!.from }, ...rest];
}

/** A destination of an event's source that does not get the event, by id, and why. */
export interface Skip {
  readonly destination: number;
  readonly reason: string;
}

/** Why destinations skip events, by id of the destination. Many plans share one object, which never changes. */
export type SkipSet = ReadonlyMap<number, string>;

/**
 * The part of a plan that stores keep. Most of many filtered destinations skip every event for the same reason, so that plans
 * name them together, in a set that they share. See `skipsOf`.
 */
export interface EventPlan {
  /** Lanes. */
  readonly owed: readonly { readonly id: number }[];
  /** Destinations that skip the event for a reason of its own, whatever the set says. */
  readonly skipped: readonly Skip[];
  readonly skipSet?: SkipSet;
}

/**
 * The destinations of an event. Every destination of its source is either owed or skipped. Events with the same destinations share
 * one object.
 */
export interface Plan extends EventPlan {
  /** Lanes: a destination with `success: each` has one for each endpoint. See `lanesOf`. */
  readonly owed: readonly Destination[];
}

/** Every destination that skips the events of a plan, by id. The set does not count where the plan says something else. */
export function skipsOf({ owed, skipped, skipSet }: EventPlan): Skip[] {
  const reasons = new Map(skipSet);
  for (const { id } of owed) reasons.delete(destinationOfLane(id));
  for (const { destination, reason } of skipped) reasons.set(destination, reason);
  return Array.from(reasons, ([destination, reason]) => ({ destination, reason })).sort(
    (a, b) => a.destination - b.destination,
  );
}

/** The plans of a batch of events: each once, and the events by their plans and destinations. */
export interface GroupedPlans {
  readonly plans: readonly EventPlan[];
  /** For each event the index of its plan in `plans`. */
  readonly planIndexes: readonly number[];
  /** Indexes of events by id of the lane that they are owed to. */
  readonly owed: ReadonlyMap<number, readonly number[]>;
}

/** Groups events by their plans: `plans` has one entry for each event. */
export function groupByPlan(plans: readonly EventPlan[]): GroupedPlans {
  const places = new Map<EventPlan, number>();
  const owed = new Map<number, number[]>();
  const planIndexes = plans.map((plan, index) => {
    for (const { id } of plan.owed) {
      const indexes = owed.get(id);
      if (indexes === undefined) owed.set(id, [index]);
      else indexes.push(index);
    }
    const place = places.get(plan) ?? places.size;
    places.set(plan, place);
    return place;
  });
  return { plans: [...places.keys()], planIndexes, owed };
}

/** The plan of an event whose source has no destinations. */
export const EMPTY_PLAN: Plan = { owed: [], skipped: [] };

/** See `spec/errors.json`. */
export type SkipReason = 'destination_disabled' | 'integrations' | 'filtered';

/** A removed destination has nowhere to send to: its pending deliveries are given up. */
export function withoutEndpoints(destination: Destination): Destination {
  const settings = { ...destination.settings, endpoints: [] };
  return { ...destination, enabled: true, paused: false, settings };
}
