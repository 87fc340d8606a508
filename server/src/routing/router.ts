import { type Destination, type EventFilter, lanesOf } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import { isObject, type Json, type JsonObject } from '../model/json.ts';
import type { Plan, SkipReason } from '../model/plan.ts';
import type { Source } from '../model/source.ts';

/** A destination as it is planned for: looked at once per version of the settings, not per event. */
interface RoutedDestination {
  readonly destination: Destination;
  readonly lanes: readonly Destination[];
  readonly passes: (event: Event) => boolean;
  readonly isFiltered: boolean;
}

/**
 * Plans events: made before the commit, so that what is owed is a fact of the same commit and a restart never plans again
 * with other settings. The destinations of each source are looked up once per version of the settings, not per event.
 */
export class Router {
  readonly #bySource = new Map<string, readonly RoutedDestination[]>();
  /** Plans that are the same for most events of a source, by its name. */
  readonly #common = new Map<string, Plan | undefined>();
  readonly #typeNames: Readonly<Record<Destination['type'], string>>;

  /** `typeNames`: the name of each type in an integrations object, such as `Webhooks`. */
  constructor(
    destinations: readonly Destination[],
    typeNames: Readonly<Record<Destination['type'], string>>,
  ) {
    this.#typeNames = typeNames;
    for (const destination of destinations) {
      const route = {
        destination,
        lanes: lanesOf(destination),
        passes: compileFilter(destination.settings.filter),
        isFiltered: destination.settings.filter !== undefined,
      };
      for (const source of destination.sources) {
        this.#bySource.set(source, [...(this.#bySource.get(source) ?? []), route]);
      }
    }
  }

  /** Whether any destination takes events of this source. */
  hasDestinations(source: Source): boolean {
    return this.#bySource.has(source.name);
  }

  /**
   * The plan of every event of a source that says nothing of integrations; undefined when it depends on the event, because
   * a destination has a filter.
   */
  commonPlan(source: Source): Plan | undefined {
    const { name } = source;
    if (!this.#common.has(name)) {
      const isFiltered = this.#bySource.get(name)?.some((route) => route.isFiltered) ?? false;
      this.#common.set(name, isFiltered ? undefined : this.#planOf(name, {}, () => true));
    }
    return this.#common.get(name);
  }

  plan(event: Event, source: Source): Plan {
    return this.#planOf(source.name, integrationsOf(event), (route) => route.passes(event));
  }

  #planOf(
    source: string,
    integrations: Event['integrations'],
    passes: (route: RoutedDestination) => boolean,
  ): Plan {
    const connected = this.#bySource.get(source) ?? [];
    const owed: Destination[] = [];
    const skipped: { destination: Destination; reason: SkipReason }[] = [];
    for (const route of connected) {
      const reason = this.#reasonToSkip(route, integrations, passes);
      if (reason !== undefined) skipped.push({ destination: route.destination, reason });
      else for (const lane of route.lanes) owed.push(lane);
    }
    return { owed, skipped };
  }

  /** The first that applies, from the destination itself to the event: an event is skipped for one reason. */
  #reasonToSkip(
    route: RoutedDestination,
    integrations: Event['integrations'],
    passes: (route: RoutedDestination) => boolean,
  ): SkipReason | undefined {
    const { enabled, name, type } = route.destination;
    if (!enabled) return 'destination_disabled';
    if (!isEnabledBy(integrations, name, this.#typeNames[type])) return 'integrations';
    return passes(route) ? undefined : 'filtered';
  }
}

/**
 * Whether an integrations object lets an event through to a destination.
 *
 * The destination's own name decides first, then the name of its type, then `All` (or `all`, as one client spells it).
 * Any value but `false` enables: objects are options. Names are case-sensitive. Without a word on it, it is enabled.
 * spec/specification.md, "Integrations object".
 */
export function isEnabledBy(integrations: JsonObject, name: string, typeName: string): boolean {
  for (const key of [name, typeName, 'All', 'all']) {
    const word = ownValue(integrations, key);
    if (word !== undefined && word !== null) return word !== false;
  }
  return true;
}

/** The event's integrations object over the one that some clients put into the context. */
function integrationsOf(event: Event): JsonObject {
  const inContext = ownValue(event.context, 'integrations');
  return isObject(inContext) ? { ...inContext, ...event.integrations } : event.integrations;
}

/** An event can be called `constructor`; what every object inherits is not a word of the client. */
function ownValue(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/**
 * A filter of a destination, made ready for the many events it is asked about: exact names are looked up, and only the
 * few with a `*` are compared one after the other.
 */
function compileFilter(filter: EventFilter | undefined): (event: Event) => boolean {
  if (filter === undefined) return () => true;
  const { types, events } = filter;
  const exact = new Set(events?.filter((name) => !name.endsWith('*')));
  const beginnings = (events ?? []).filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1));
  return ({ type, event: name = '' }) => {
    if (types !== undefined && !types.includes(type)) return false;
    // Only track calls have such a name; a filter of names says nothing about the others.
    if (events === undefined || type !== 'track') return true;
    return exact.has(name) || beginnings.some((beginning) => name.startsWith(beginning));
  };
}
