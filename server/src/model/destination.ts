import type { CallType } from './call.ts';
import type { Duration, Monotonic } from './time.ts';

/** One customer URL with the static headers of its requests. */
export interface Endpoint {
  /** Absolute, `http:` or `https:`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Settings of a destination of type `webhooks`. spec/specification.md, "Settings". */
export interface WebhookSettings {
  /** 1–5. A delivery goes to all of them at once. */
  readonly endpoints: readonly Endpoint[];
  /** Signs every request when set (`X-Signature`). */
  readonly sharedSecret?: string;
  /** Standard Webhooks secrets, `whsec_…`; two while one replaces the other. Each adds a signature to every request. */
  readonly signingSecrets?: readonly string[];
  readonly format: 'documented' | 'canonical';
  /** `any`: one accepted request delivers. `each`: every endpoint is a delivery of its own. */
  readonly success: 'any' | 'each';
  /** Which events it gets; all of its sources when absent. */
  readonly filter?: EventFilter;
  /** Requests a second that each URL gets at most. */
  readonly rateLimit?: number;
  /** Requests that each URL has to answer at once at most. */
  readonly concurrency?: number;
}

/** An event passes when it passes every part that is given. */
export interface EventFilter {
  readonly types?: readonly CallType[];
  /** Names of track calls; a `*` at the end stands for any rest. Other calls have no such name and pass. */
  readonly events?: readonly string[];
}

/** Where events go. */
export interface Destination {
  /** Given by the store at first sight of the name, never reused. */
  readonly id: number;
  readonly name: string;
  readonly type: 'webhooks';
  /** Names of the sources it takes events from. */
  readonly sources: readonly string[];
  /** While false, events that arrive are skipped; what is owed waits. */
  readonly enabled: boolean;
  /** While true, everything waits: what is owed, and what arrives. Absent: false. */
  readonly paused?: boolean;
  /** The latest times in which it was paused or disabled, in order: retry windows leave them out. Absent: none. */
  readonly pauses?: readonly Pause[];
  readonly settings: WebhookSettings;
  /** Grows with every change of this destination; one attempt uses one version throughout. */
  readonly version: number;
}

/** Whether anything is sent to it. */
export function isDelivering({ enabled, paused = false }: Pick<Destination, 'enabled' | 'paused'>): boolean {
  return enabled && !paused;
}

/**
 * Between the ids of two lanes of one destination. Ids of records stay below it, and a lane's id inside the 32 bits that
 * some stores keep it in.
 */
const LANE_STEP = 2 ** 24;

/**
 * What the lanes of a destination deliver to. With `any` that is the destination itself. With `each` every endpoint is a
 * delivery of its own (spec/specification.md, "Several endpoints"): each has a lane, with an id of its own wherever
 * deliveries are owed, stored and counted, so that one endpoint neither waits for another nor is tried again because of it.
 * The first endpoint's id is that of the destination.
 */
export function lanesOf(destination: Destination): readonly Destination[] {
  const { endpoints, success } = destination.settings;
  return success === 'any' ? [destination] : endpoints.map((_, place) => laneAt(destination, place));
}

/**
 * The lane at a place, also one that the settings have no longer, as what it once was owed may still be pending: it goes
 * on with the endpoint at its place, and without an endpoint when there is none.
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

/** Ids of every lane it may ever have had: one that its settings have no longer may have deliveries all the same. */
export function everyLaneIdOf(destination: Destination): number[] {
  return Array.from({ length: MAX_ENDPOINTS }, (_, place) => laneAt(destination, place).id);
}

/**
 * A number that stands for one endpoint of a destination, and for no other of any: the same whether it has a lane of its own or
 * shares one, so that a lane may be given for the destination.
 */
export function endpointIdOf({ id }: Pick<Destination, 'id'>, place: number): number {
  return id + place * LANE_STEP;
}

/** The id of the destination that a lane belongs to. */
export function destinationOfLane(lane: number): number {
  return lane % LANE_STEP;
}

/** The place of the endpoint that a lane delivers to; 0 for a destination that is one lane. */
export function endpointIndexOfLane(lane: number): number {
  return Math.floor(lane / LANE_STEP);
}

/** A time in which nothing was sent to a destination because an operator had paused or disabled it. */
export interface Pause {
  readonly from: Monotonic;
  /** Absent while it lasts. */
  readonly to?: Monotonic;
}

/** More pauses than these within one retry window are joined, the oldest first. */
const MAX_PAUSES = 50;

/**
 * Retry windows leave pauses out: this is the time since which `window` has passed at `now`, pauses not counted. What
 * first failed before it has had its window.
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

/** How much of the time from `from` to `now` was paused. */
export function pausedTimeWithin(pauses: readonly Pause[], from: Monotonic, now: Monotonic): Duration {
  let sum = 0;
  for (const pause of pauses) {
    sum += Math.max(0, Math.min(pause.to ?? now, now) - Math.max(pause.from, from));
  }
  return sum;
}

/** The pauses after a switch at `at`. Those that no retry window (`window` long) reaches back to are left out. */
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
