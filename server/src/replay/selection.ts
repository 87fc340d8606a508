import type { Destination } from '../model/destination.ts';
import type { Event, Position } from '../model/event.ts';
import { defined } from '../model/json.ts';
import { destinationOfLane, everyLaneIdOf } from '../model/lane.ts';
import type { Replay, ReplayRequest } from '../model/replay.ts';
import type { Source } from '../model/settings.ts';
import type { OnWallClock, Time } from '../model/time.ts';
import type { EventHistory, ReplaySlice } from '../ports/delivery-queue.ts';
import type { EventPrefilter, StoredEvent } from '../ports/event-log.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { HistoryView, LogView } from '../ports/store-view.ts';

/**
 * Makes the predicate that says whether an event of these sources is routed to a destination: by the
 * destination's filter and the event's integrations object. It ignores the sources the destination is
 * connected to, and whether it is enabled.
 */
export type RoutingPredicateFactory = (
  destination: Destination,
  sources: readonly string[],
) => (event: Event, source: Source) => boolean;

/**
 * Tells which events want for the consent that a destination asks for; undefined for one that asks for none.
 */
export type WithholdingFactory = (
  destination: Destination,
) => ((event: Event, source: Source | undefined) => boolean) | undefined;

export interface RoutingRules {
  readonly routingPredicate: RoutingPredicateFactory;
  readonly withholding: WithholdingFactory;
}

/** Makes the filter of a replay, by the settings of a snapshot. */
export type ReplayFilterFactory = (request: ReplayRequest, snapshot: SettingsSnapshot) => ReplayFilter;

/**
 * Makes filters of replays. A replay is about the events of its source (or else of the sources its
 * destination is connected to), of its types, that are routed to the destination. Each filter is cached for
 * its version of the settings, because every slice asks for it.
 */
export function replayFilters(routing: RoutingRules): ReplayFilterFactory {
  const cache = new WeakMap<SettingsSnapshot, Map<string, ReplayFilter>>();
  return (request, snapshot) => {
    const ofSnapshot = cache.get(snapshot) ?? new Map<string, ReplayFilter>();
    cache.set(snapshot, ofSnapshot);
    const key = JSON.stringify([request.destination, request.source, request.types, request.redelivers]);
    const filter = ofSnapshot.get(key) ?? makeReplayFilter(request, snapshot, routing);
    ofSnapshot.set(key, filter);
    return filter;
  };
}

/** The range of a replay, with a prefilter that lets the log skip what cannot be wanted. */
export function cursorRangeOf(
  request: ReplayRequest,
  { sources, destinations, gone }: SettingsSnapshot,
): CursorRange {
  const { from, to, source, types } = request;
  const destination = destinations.find(({ name }) => name === request.destination);
  const sourceId = [...sources, ...gone.sources].find(({ name }) => name === source)?.id;
  const [type, ...others] = types ?? [];
  const like = {
    ...(destination && prefilterOf(request, destination)),
    ...defined({
      source: source === undefined ? undefined : sourceId,
      type: others.length > 0 ? undefined : type,
    }),
  };
  return Object.keys(like).length === 0 ? { from, to } : { from, to, like };
}

function makeReplayFilter(
  { destination: name, source, types, redelivers }: ReplayRequest,
  { sources, destinations, gone }: SettingsSnapshot,
  { routingPredicate, withholding }: RoutingRules,
): ReplayFilter {
  const destination = destinations.find((one) => one.name === name);
  if (destination === undefined) return () => false;
  // A redelivery repeats a delivery that was due once, whatever the destination takes today, but for consent.
  if (redelivers !== undefined) {
    const all = [...gone.sources, ...sources];
    const isAsked = isFromSource(source, types, all);
    const isWithheld = withholding(destination);
    if (isWithheld === undefined) return isAsked;
    const byId = new Map(all.map((one) => [one.id, one]));
    return (stored) => isAsked(stored) && !isWithheld(stored.event, byId.get(stored.source));
  }
  const isRouted = routingPredicate(destination, source === undefined ? destination.sources : [source]);
  // A source that was removed may still have events, and a replay may name it.
  const byId = new Map([...gone.sources, ...sources].map((one) => [one.id, one]));
  return (stored) => {
    const from = byId.get(stored.source);
    if (from === undefined) return false;
    return isWanted(stored.event, types) && isRouted(stored.event, from);
  };
}

function isFromSource(
  name: string | undefined,
  types: ReplayRequest['types'],
  sources: readonly Pick<Source, 'id' | 'name'>[],
): ReplayFilter {
  const ids = sources.filter((one) => one.name === name).map(({ id }) => id);
  return ({ source, event }) => (name === undefined || ids.includes(source)) && isWanted(event, types);
}

/** Delete notifications belong to their regulation and are not sent again. */
function isWanted({ type }: Event, types: ReplayRequest['types']): boolean {
  return type !== 'delete' && (types === undefined || types.includes(type));
}

/** A redelivery of delivered events needs only events that the destination has. */
function prefilterOf(
  { redelivers }: Pick<Replay, 'redelivers'>,
  destination: Destination,
): EventPrefilter | undefined {
  if (redelivers === undefined) return undefined;
  return { owedTo: everyLaneIdOf(destination), isDelivered: true };
}

/** Histories read at once. Each is a few small reads, and commits wait meanwhile. */
const HISTORIES_AT_ONCE = 100;

/** A destination and its lanes, by their ids. */
interface DestinationLanes {
  readonly id: number;
  readonly lanes: readonly number[];
}

/**
 * The events of these that were delivered to a destination, and which of them each of its endpoints gets
 * again.
 */
export async function selectDelivered(
  positions: readonly Position[],
  { id: destination, lanes }: DestinationLanes,
  history: Pick<HistoryView, 'read'>,
): Promise<Required<Pick<ReplaySlice, 'positions' | 'only'>>> {
  const only = new Map<number, Position[]>(lanes.map((id) => [id, []]));
  const delivered: Position[] = [];
  for (let from = 0; from < positions.length; from += HISTORIES_AT_ONCE) {
    const batch = positions.slice(from, from + HISTORIES_AT_ONCE);
    for (const [index, eventHistory] of (await history.read(batch)).entries()) {
      const targets = eventHistory === undefined ? [] : lanesAgain(eventHistory, { id: destination, lanes });
      if (targets.length > 0) delivered.push(batch[index]!);
      for (const id of targets) only.get(id)?.push(batch[index]!);
    }
  }
  return { positions: delivered, only };
}

/**
 * Ids of the endpoints that a delivered event goes to again: those that have it, or all where those are no
 * longer there.
 */
function lanesAgain(
  { deliveries }: OnWallClock<EventHistory>,
  { id: destination, lanes }: DestinationLanes,
): readonly number[] {
  const delivered = deliveries
    .filter((one) => one.state === 'delivered' && destinationOfLane(one.destination) === destination)
    .map((one) => one.destination);
  const stillThere = lanes.filter((id) => delivered.includes(id));
  return delivered.length === 0 || stillThere.length > 0 ? stillThere : lanes;
}

/** The cursor at the end of a range. The store keeps it as a number like any other. */
export const CURSOR_END = Number.MAX_SAFE_INTEGER;

/** Events read at once: enough to be worth a commit, few enough not to hold up other readers. */
const READ_AT_ONCE = 500;

/** Some of the events of a range. */
export interface EventSlice {
  /** The wanted events, in the order of the log. */
  readonly events: readonly { readonly position: Position; readonly stored: StoredEvent }[];
  /** Cursor of the next slice; `CURSOR_END` after the last one. */
  readonly to: number;
}

/** A range of arrival times. */
export interface CursorRange {
  /** Inclusive. */
  readonly from: Time;
  /** Exclusive. */
  readonly to: Time;
  /** Lets the log skip events that cannot be wanted; see ports/event-log.ts. */
  readonly like?: EventPrefilter;
}

/** Whether an event is to be replayed. */
export type ReplayFilter = (stored: StoredEvent) => boolean;

/**
 * Reads the events that arrived in a range of time, the oldest first, because the destination must get the
 * events of a user in their order. It can go on from every cursor it ever gave, also in another process. In
 * memory it holds the positions of one slice of the log and no more.
 */
export class LogCursor {
  readonly #log: Pick<LogView, 'find' | 'read'>;
  readonly #range: CursorRange & { readonly oldestFirst: true };
  /** Cursor at which the positions in memory go on. */
  #cursor = CURSOR_END;
  #positions: readonly Position[] = [];
  /** How many of `#positions` have been read. */
  #taken = 0;
  /** Where the next search of the log begins. */
  #nextSearch = CURSOR_END;

  constructor(log: Pick<LogView, 'find' | 'read'>, { from, to, like }: CursorRange) {
    this.#log = log;
    this.#range = { from, to, oldestFirst: true, ...defined({ like }) };
  }

  /**
   * Reads the slice at a cursor: at most `max` wanted events.
   *
   * @param cursor 0 for the first slice, then `to` of the slice before
   */
  async next(cursor: number, max: number, isWanted: ReplayFilter): Promise<EventSlice> {
    if (cursor === CURSOR_END) return { events: [], to: CURSOR_END };
    if (cursor !== this.#cursor) {
      this.#positions = [];
      this.#taken = 0;
      this.#nextSearch = cursor;
    }
    while (this.#taken === this.#positions.length && this.#nextSearch !== CURSOR_END) {
      const { positions, next = CURSOR_END } = await this.#log.find(this.#range, this.#nextSearch);
      this.#positions = positions;
      this.#taken = 0;
      this.#nextSearch = next;
    }
    const batch = this.#positions.slice(this.#taken, this.#taken + READ_AT_ONCE);
    const stored = await this.#log.read(batch);
    const events: { position: Position; stored: StoredEvent }[] = [];
    let scanned = 0;
    for (; scanned < batch.length && events.length < max; scanned++) {
      const event = stored[scanned];
      if (event !== undefined && this.#isInRange(event) && isWanted(event))
        events.push({ position: batch[scanned]!, stored: event });
    }
    this.#taken += scanned;
    this.#cursor = this.#positions[this.#taken] ?? this.#nextSearch;
    return { events, to: this.#cursor };
  }

  /**
   * The log also finds events that arrived just outside: it keeps the time of a commit, not of each event.
   */
  #isInRange({ event }: StoredEvent): boolean {
    const receivedAt = Date.parse(event.receivedAt);
    return receivedAt >= this.#range.from && receivedAt < this.#range.to;
  }
}
