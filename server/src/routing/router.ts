import { isConsented, type Preferences, preferencesIn } from '../model/consent.ts';
import { type Computation, computationIdIn, computationIdOf } from '../model/definition.ts';
import type { Destination } from '../model/destination.ts';
import { type Event, isForwarded } from '../model/event.ts';
import { isObject, type JsonObject, ownValue } from '../model/json.ts';
import { EMPTY_PLAN, type Plan, type Skip } from '../model/plan.ts';
import { AUDIENCES_SOURCE, type Source } from '../model/settings.ts';
import { categoriesOf, type DestinationTypes, integrationNamesOf } from '../ports/destination-type.ts';
import { RouteIndex } from './route-index.ts';

/**
 * Plans which destinations get an event. Plans are made before the commit and stored with it: a restart never
 * plans again with other settings. One router serves one version of the settings.
 *
 * Events of audiences and computed traits go to the destinations of their computation, and by the same rules
 * otherwise. spec/specification.md, "Computation events".
 */
export class Router {
  readonly #bySource = new Map<string, Destination[]>();
  readonly #byComputation = new Map<string, readonly Destination[]>();
  /** Destinations of any audience or computed trait, also of one that is disabled now. */
  readonly #ofAnyComputation: readonly Destination[];
  readonly #types: DestinationTypes;
  /** Of destinations that integrations objects are asked about: no other answers to one of them. */
  readonly #ownNames: ReadonlySet<string>;
  /** Made when the first event needs them. Sources with the same destinations share one. */
  readonly #indexes = new Map<readonly Destination[], RouteIndex>();
  /** Destinations without those that pass calls on, by the list of all. */
  readonly #others = new Map<readonly Destination[], readonly Destination[]>();
  /** Plans of forwarded events, by their plans without destinations that pass calls on. */
  readonly #ofForwarded = new WeakMap<Plan, Plan>();
  readonly #indexesByIds = new Map<string, RouteIndex>();
  /** The plans of events without integrations, by name of their source. */
  readonly #common = new Map<string, Plan | undefined>();

  constructor(
    destinations: readonly Destination[],
    types: DestinationTypes,
    computations: readonly Computation[] = [],
  ) {
    this.#types = types;
    const asked = destinations.filter((one) => integrationNamesOf(one, types) !== undefined);
    this.#ownNames = new Set(asked.map(({ name }) => name));
    for (const computation of computations.filter(({ enabled }) => enabled)) {
      const names = new Set(computation.destinations);
      const connected = destinations.filter((one) => names.has(one.name) && !isPassingOn(one, types));
      this.#byComputation.set(computationIdOf(computation), connected);
    }
    const connected = new Set(computations.flatMap(({ destinations: names }) => names));
    this.#ofAnyComputation = destinations.filter(({ name }) => connected.has(name));
    for (const destination of destinations) {
      for (const source of destination.sources) {
        const list = this.#bySource.get(source);
        if (list === undefined) this.#bySource.set(source, [destination]);
        else list.push(destination);
      }
    }
  }

  /** Whether any destination takes events of this source. */
  hasDestinations(source: Source): boolean {
    return source.shadow !== true && this.#bySource.has(source.name);
  }

  /**
   * The plan of every event of a source without integrations. Undefined when a destination has a filter or
   * asks for consent: the plan then depends on the event.
   */
  commonPlan(source: Source): Plan | undefined {
    const { name } = source;
    if (source.shadow === true) return EMPTY_PLAN;
    if (!this.#common.has(name)) {
      const index = this.#indexOf(this.#bySource.get(name) ?? NOBODY);
      this.#common.set(name, index.isByEvent ? undefined : index.plan('track', '', { integrations: {} }));
    }
    return this.#common.get(name);
  }

  /**
   * A delete notification goes to every enabled destination of its source, whatever consent, filters and
   * integrations objects say: they select events, and a receiver that has data must hear that it is to be
   * deleted.
   */
  plan(event: Event, source: Source): Plan {
    const connected = this.#connectedTo(event, source);
    if (connected.length === 0) return EMPTY_PLAN;
    const index = this.#indexOf(connected);
    if (event.type === 'delete') return index.deletePlan();
    if (isForwarded(event)) return this.#planOfForwarded(event, source, connected);
    return this.#planBy(index, event, source);
  }

  #planBy(index: RouteIndex, event: Event, source: Source): Plan {
    const integrations = integrationsOf(event);
    const preferences = index.asksForConsent ? preferencesOf(event, source, integrations) : undefined;
    return index.plan(event.type, event.event ?? '', { integrations, preferences });
  }

  /** Destinations that pass calls on do not get what another service has sent here. */
  #planOfForwarded(event: Event, source: Source, connected: readonly Destination[]): Plan {
    let others = this.#others.get(connected);
    if (others === undefined) {
      others = connected.filter((one) => !isPassingOn(one, this.#types));
      this.#others.set(connected, others);
    }
    const plan = this.#planBy(this.#indexOf(others), event, source);
    if (others.length === connected.length) return plan;
    let whole = this.#ofForwarded.get(plan);
    if (whole === undefined) {
      const left = connected.filter((one) => isPassingOn(one, this.#types));
      const skipped = left.map(({ id, enabled }): Skip => {
        return { destination: id, reason: enabled ? 'forwarded' : 'destination_disabled' };
      });
      whole = { ...plan, skipped: [...plan.skipped, ...skipped] };
      this.#ofForwarded.set(plan, whole);
    }
    return whole;
  }

  #connectedTo({ type, context }: Event, { name, shadow }: Source): readonly Destination[] {
    if (shadow === true) return NOBODY;
    if (name !== AUDIENCES_SOURCE.name) return this.#bySource.get(name) ?? NOBODY;
    if (type === 'delete') return this.#ofAnyComputation;
    const id = computationIdIn(context);
    return typeof id === 'string' ? (this.#byComputation.get(id) ?? NOBODY) : NOBODY;
  }

  #indexOf(connected: readonly Destination[]): RouteIndex {
    let index = this.#indexes.get(connected);
    if (index === undefined) {
      const ids = connected.map(({ id }) => id).join();
      index = this.#indexesByIds.get(ids) ?? new RouteIndex(connected, this.#types, this.#ownNames);
      this.#indexesByIds.set(ids, index);
      this.#indexes.set(connected, index);
    }
    return index;
  }
}

/** Whether a destination gets only what clients sent here themselves. */
function isPassingOn({ type }: Destination, types: DestinationTypes): boolean {
  return types.get(type)?.planning.isPassingOn === true;
}

/**
 * Makes the predicate that says whether a destination must not get an event once more: it wants for the
 * consent that the destination asks for, or the destination passes calls on and this is none that a client
 * has sent here. Undefined for a destination that may get every event.
 */
export function withholding(
  destination: Destination,
  types: DestinationTypes,
): ((event: Event, source: Pick<Source, 'consent'> | undefined) => boolean) | undefined {
  if (isPassingOn(destination, types)) return (event) => isForwarded(event) || isOfComputation(event);
  const categories = categoriesOf(destination, types);
  if (categories === undefined) return undefined;
  return (event, source = {}) =>
    event.type !== 'delete' && !isConsented(preferencesOf(event, source, integrationsOf(event)), categories);
}

function isOfComputation({ context }: Event): boolean {
  return computationIdIn(context) !== undefined;
}

/** The preferences of a call; nothing consented where its source requires consent and it says nothing. */
function preferencesOf(
  { context }: Event,
  { consent }: Pick<Source, 'consent'>,
  integrations: JsonObject,
): Preferences {
  const said = preferencesIn(context, Object.keys(integrations).length > 0);
  return said ?? (consent === 'required' ? NOTHING_CONSENTED : undefined);
}

const NOTHING_CONSENTED: JsonObject = {};

const NOBODY: readonly Destination[] = [];

/** Merges the event's integrations over those that some clients put into the context. */
function integrationsOf(event: Event): JsonObject {
  const inContext = ownValue(event.context, 'integrations');
  return isObject(inContext) ? { ...inContext, ...event.integrations } : event.integrations;
}
