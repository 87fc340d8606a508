import { type Computation, computationIdIn, computationIdOf } from '../model/definition.ts';
import {
  type Destination,
  type EventFilter,
  lanesOf,
  type Plan,
  type SkipReason,
} from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import { isObject, type Json, type JsonObject } from '../model/json.ts';
import { AUDIENCES_SOURCE, type Source } from '../model/settings.ts';

/** A destination with everything about it that plans need, made once per version of the settings. */
interface RoutedDestination {
  readonly destination: Destination;
  readonly lanes: readonly Destination[];
  readonly passes: (event: Event) => boolean;
  readonly isFiltered: boolean;
}

/**
 * Plans which destinations get an event. Plans are made before the commit and stored with it: a restart never plans again with
 * other settings. One router serves one version of the settings.
 *
 * Events of audiences and computed traits go to the destinations of their computation, and by the same rules otherwise.
 * spec/specification.md, "Computation events".
 */
export class Router {
  readonly #bySource = new Map<string, readonly RoutedDestination[]>();
  readonly #byComputation = new Map<string, readonly RoutedDestination[]>();
  /** Destinations of any audience or computed trait, also of one that is disabled now. */
  readonly #ofAnyComputation: readonly RoutedDestination[];
  /** The plans of events without integrations, by name of their source. */
  readonly #common = new Map<string, Plan | undefined>();
  readonly #typeNames: Readonly<Record<Destination['type'], string>>;

  /** `typeNames`: the name of each type in an integrations object, such as `Webhooks`. */
  constructor(
    destinations: readonly Destination[],
    typeNames: Readonly<Record<Destination['type'], string>>,
    computations: readonly Computation[] = [],
  ) {
    this.#typeNames = typeNames;
    const routes = destinations.map((destination) => ({
      destination,
      lanes: lanesOf(destination),
      passes: compileFilter(destination.settings.filter),
      isFiltered: destination.settings.filter !== undefined,
    }));
    for (const computation of computations.filter(({ enabled }) => enabled)) {
      const connected = routes.filter(({ destination }) =>
        computation.destinations.includes(destination.name),
      );
      this.#byComputation.set(computationIdOf(computation), connected);
    }
    const connected = new Set(computations.flatMap(({ destinations }) => destinations));
    this.#ofAnyComputation = routes.filter(({ destination }) => connected.has(destination.name));
    for (const route of routes) {
      const { destination } = route;
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
   * The plan of every event of a source without integrations. Undefined when a destination has a filter: the plan then depends on
   * the event.
   */
  commonPlan(source: Source): Plan | undefined {
    const { name } = source;
    if (!this.#common.has(name)) {
      const isFiltered = this.#bySource.get(name)?.some((route) => route.isFiltered) ?? false;
      this.#common.set(
        name,
        isFiltered ? undefined : this.#planOf(this.#bySource.get(name) ?? [], {}, () => true),
      );
    }
    return this.#common.get(name);
  }

  /**
   * A delete notification goes to every enabled destination of its source, whatever the filters and integrations objects say: they
   * select events, and a receiver that has data must hear that it is to be deleted.
   */
  plan(event: Event, source: Source): Plan {
    const connected = this.#connectedTo(event, source);
    if (event.type === 'delete') return this.#planOf(connected, {}, () => true);
    return this.#planOf(connected, integrationsOf(event), (route) => route.passes(event));
  }

  #connectedTo({ type, context }: Event, { name }: Source): readonly RoutedDestination[] {
    if (name !== AUDIENCES_SOURCE.name) return this.#bySource.get(name) ?? [];
    if (type === 'delete') return this.#ofAnyComputation;
    const id = computationIdIn(context);
    return typeof id === 'string' ? (this.#byComputation.get(id) ?? []) : [];
  }

  #planOf(
    connected: readonly RoutedDestination[],
    integrations: Event['integrations'],
    passes: (route: RoutedDestination) => boolean,
  ): Plan {
    const owed: Destination[] = [];
    const skipped: { destination: Destination; reason: SkipReason }[] = [];
    for (const route of connected) {
      const reason = this.#reasonToSkip(route, integrations, passes);
      if (reason !== undefined) skipped.push({ destination: route.destination, reason });
      else for (const lane of route.lanes) owed.push(lane);
    }
    return { owed, skipped };
  }

  /** The first reason that applies: an event is skipped for one reason. */
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
 * The destination's own name decides first, then the name of its type, then `All` (or `all`, as one client spells it). Every
 * value but `false` enables, because objects are options. Names are case-sensitive. A destination without a key is enabled.
 * spec/specification.md, "Integrations object".
 */
export function isEnabledBy(integrations: JsonObject, name: string, typeName: string): boolean {
  for (const key of [name, typeName, 'All', 'all']) {
    const value = ownValue(integrations, key);
    if (value !== undefined && value !== null) return value !== false;
  }
  return true;
}

/** Merges the event's integrations over those that some clients put into the context. */
function integrationsOf(event: Event): JsonObject {
  const inContext = ownValue(event.context, 'integrations');
  return isObject(inContext) ? { ...inContext, ...event.integrations } : event.integrations;
}

/** Reads own properties only: a name may be `constructor`, which every object inherits. */
function ownValue(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/**
 * Compiles a destination's filter, which runs for every event. Exact names are looked up in a set; only names with a `*` are
 * compared one after the other.
 */
function compileFilter(filter: EventFilter | undefined): (event: Event) => boolean {
  if (filter === undefined) return () => true;
  const { types, events } = filter;
  const exact = new Set(events?.filter((name) => !name.endsWith('*')));
  const beginnings = (events ?? []).filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1));
  return ({ type, event: name = '' }) => {
    if (types !== undefined && (type === 'delete' || !types.includes(type))) return false;
    // Only track calls have such a name. A filter of names lets other calls pass.
    if (events === undefined || type !== 'track') return true;
    return exact.has(name) || beginnings.some((beginning) => name.startsWith(beginning));
  };
}
