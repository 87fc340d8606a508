import type { Destination } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import type { ReplayWish } from '../model/replay.ts';
import type { Source } from '../model/source.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import { likenessOf } from './redelivered.ts';
import type { WalkWish, Wanted } from './walk.ts';

/**
 * Whether events of these sources go to a destination, by its filter and their integrations objects, whatever sources it
 * is connected to and whether or not it is enabled.
 */
export type GoesTo = (
  destination: Destination,
  sources: readonly string[],
) => (event: Event, source: Source) => boolean;

/** By the settings as they are in a snapshot. */
export type WantedBy = (wish: ReplayWish, snapshot: SettingsSnapshot) => Wanted;

/**
 * Which events a replay is about: those of its source, or else of the sources its destination is connected to; of its types;
 * and that the destination's filter and the event's own integrations object let through. Made once per version of the
 * settings, because it is asked for with every slice.
 */
export function wantedBy(goesTo: GoesTo): WantedBy {
  const made = new WeakMap<SettingsSnapshot, Map<string, Wanted>>();
  return (wish, snapshot) => {
    const ofSnapshot = made.get(snapshot) ?? new Map<string, Wanted>();
    made.set(snapshot, ofSnapshot);
    const key = JSON.stringify([wish.destination, wish.source, wish.types, wish.redelivers]);
    const known = ofSnapshot.get(key) ?? makeWanted(wish, snapshot, goesTo);
    ofSnapshot.set(key, known);
    return known;
  };
}

/** The range that a replay walks through, and what of it need not be looked at. */
export function walkWishOf(wish: ReplayWish, { sources, destinations, gone }: SettingsSnapshot): WalkWish {
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

function makeWanted(
  { destination: name, source, types, redelivers }: ReplayWish,
  { sources, destinations, gone }: SettingsSnapshot,
  goesTo: GoesTo,
): Wanted {
  const destination = destinations.find((one) => one.name === name);
  if (destination === undefined) return () => false;
  // What was delivered or given up once may be sent again, whatever the destination takes today.
  if (redelivers !== undefined) return isOf(source, types, [...gone.sources, ...sources]);
  const goes = goesTo(destination, source === undefined ? destination.sources : [source]);
  // A source that was removed may still have events, and a replay may name it.
  const byId = new Map([...gone.sources, ...sources].map((one) => [one.id, one]));
  return (stored) => {
    const from = byId.get(stored.source);
    if (from === undefined) return false;
    return (types === undefined || types.includes(stored.event.type)) && goes(stored.event, from);
  };
}

function isOf(
  name: string | undefined,
  types: ReplayWish['types'],
  sources: readonly Pick<Source, 'id' | 'name'>[],
): Wanted {
  const ids = sources.filter((one) => one.name === name).map(({ id }) => id);
  return ({ source, event }) =>
    (name === undefined || ids.includes(source)) && (types === undefined || types.includes(event.type));
}
