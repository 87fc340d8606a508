import { type Destination, destinationOfLane, everyLaneIdOf, lanesOf } from '../model/destination.ts';
import type { Event, Position } from '../model/event.ts';
import type { Replay, ReplayRequest } from '../model/replay.ts';
import type { Source } from '../model/source.ts';
import type { DeliveryHistories, EventHistory, ReplaySlice } from '../ports/delivery-queue.ts';
import type { EventPrefilter } from '../ports/event-log.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { CursorRange, ReplayFilter } from './cursor.ts';

/**
 * Whether events of these sources go to a destination, by its filter and their integrations objects, whatever sources it
 * is connected to and whether or not it is enabled.
 */
export type RoutingPredicate = (
  destination: Destination,
  sources: readonly string[],
) => (event: Event, source: Source) => boolean;

/** By the settings as they are in a snapshot. */
export type ReplayFilterFor = (wish: ReplayRequest, snapshot: SettingsSnapshot) => ReplayFilter;

/**
 * Which events a replay is about: those of its source, or else of the sources its destination is connected to; of its types;
 * and that the destination's filter and the event's own integrations object let through. Made once per version of the
 * settings, because it is asked for with every slice.
 */
export function replayFilters(goesTo: RoutingPredicate): ReplayFilterFor {
  const made = new WeakMap<SettingsSnapshot, Map<string, ReplayFilter>>();
  return (wish, snapshot) => {
    const ofSnapshot = made.get(snapshot) ?? new Map<string, ReplayFilter>();
    made.set(snapshot, ofSnapshot);
    const key = JSON.stringify([wish.destination, wish.source, wish.types, wish.redelivers]);
    const known = ofSnapshot.get(key) ?? makeReplayFilter(wish, snapshot, goesTo);
    ofSnapshot.set(key, known);
    return known;
  };
}

/** The range that a replay walks through, and what of it need not be looked at. */
export function cursorRangeOf(
  wish: ReplayRequest,
  { sources, destinations, gone }: SettingsSnapshot,
): CursorRange {
  const { from, to, source, types } = wish;
  const destination = destinations.find(({ name }) => name === wish.destination);
  const sourceId = [...sources, ...gone.sources].find(({ name }) => name === source)?.id;
  const [type, ...others] = types ?? [];
  const like = {
    ...(destination === undefined ? {} : likenessOf(wish, destination)),
    ...(source === undefined || sourceId === undefined ? {} : { source: sourceId }),
    ...(type === undefined || others.length > 0 ? {} : { type }),
  };
  return Object.keys(like).length === 0 ? { from, to } : { from, to, like };
}

function makeReplayFilter(
  { destination: name, source, types, redelivers }: ReplayRequest,
  { sources, destinations, gone }: SettingsSnapshot,
  goesTo: RoutingPredicate,
): ReplayFilter {
  const destination = destinations.find((one) => one.name === name);
  if (destination === undefined) return () => false;
  // What was delivered or given up once may be sent again, whatever the destination takes today.
  if (redelivers !== undefined) return isFromSource(source, types, [...gone.sources, ...sources]);
  const goes = goesTo(destination, source === undefined ? destination.sources : [source]);
  // A source that was removed may still have events, and a replay may name it.
  const byId = new Map([...gone.sources, ...sources].map((one) => [one.id, one]));
  return (stored) => {
    const from = byId.get(stored.source);
    if (from === undefined) return false;
    return (types === undefined || types.includes(stored.event.type)) && goes(stored.event, from);
  };
}

function isFromSource(
  name: string | undefined,
  types: ReplayRequest['types'],
  sources: readonly Pick<Source, 'id' | 'name'>[],
): ReplayFilter {
  const ids = sources.filter((one) => one.name === name).map(({ id }) => id);
  return ({ source, event }) =>
    (name === undefined || ids.includes(source)) && (types === undefined || types.includes(event.type));
}

/** Histories asked for at once. Each is a few small reads, and commits wait meanwhile. */
const HISTORIES_AT_ONCE = 100;

/** What need not be looked at for a redelivery of what was delivered. */
function likenessOf(
  { redelivers }: Pick<Replay, 'redelivers'>,
  destination: Destination,
): EventPrefilter | undefined {
  if (redelivers === undefined) return undefined;
  return { owedTo: everyLaneIdOf(destination), isDelivered: true };
}

/** Whom an event is owed to once more: the lanes that have it, or all of them where those are no longer there. */
function lanesToRedeliver({ deliveries }: EventHistory, destination: Destination): number[] {
  const all = lanesOf(destination).map(({ id }) => id);
  const delivered = deliveries
    .filter((one) => one.state === 'delivered' && destinationOfLane(one.destination) === destination.id)
    .map((one) => one.destination);
  const those = all.filter((lane) => delivered.includes(lane));
  return delivered.length === 0 || those.length > 0 ? those : all;
}

/** The events of these that a destination has, and what each of its lanes is owed of them once more. */
export async function selectDelivered(
  positions: readonly Position[],
  destination: Destination,
  history: Pick<DeliveryHistories, 'read'>,
): Promise<Required<Pick<ReplaySlice, 'positions' | 'only'>>> {
  const only = new Map<number, Position[]>(lanesOf(destination).map(({ id }) => [id, []]));
  const wanted: Position[] = [];
  for (let from = 0; from < positions.length; from += HISTORIES_AT_ONCE) {
    const some = positions.slice(from, from + HISTORIES_AT_ONCE);
    for (const [nth, known] of (await history.read(some)).entries()) {
      const lanes = known === undefined ? [] : lanesToRedeliver(known, destination);
      if (lanes.length > 0) wanted.push(some[nth]!);
      for (const lane of lanes) only.get(lane)?.push(some[nth]!);
    }
  }
  return { positions: wanted, only };
}
