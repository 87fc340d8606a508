import { isConsented, type Preferences } from '../model/consent.ts';
import { BoundedCache } from '../model/containers.ts';
import type { Destination } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import { type JsonObject, ownValue } from '../model/json.ts';
import { laneIdsOf } from '../model/lane.ts';
import type { OwedLane, Plan, Skip, SkipReason, SkipSet } from '../model/plan.ts';
import {
  categoriesOf,
  type DestinationTypes,
  integrationNamesOf,
  targetsOf,
} from '../ports/destination-type.ts';

/** Destinations that integrations objects know by the same names beside their own. */
interface Kind {
  readonly names: readonly string[];
  /** Tells kinds apart in keys. */
  readonly number: number;
}

/** A destination with what plans need of it. */
interface Route {
  readonly destination: Destination;
  readonly lanes: readonly OwedLane[];
  /** Undefined for a destination that integrations objects are not asked about. */
  readonly kind: Kind | undefined;
  /** Categories of consent that it asks for, if any. */
  readonly categories: readonly string[] | undefined;
  /** Plans list destinations in the order of the settings. */
  readonly place: number;
}

/** Routes that take the same events. The number tells lists apart in keys. */
interface RouteList {
  readonly number: number;
  readonly routes: Route[];
  /** The plan of an event that no other list takes and whose integrations object says nothing. */
  plan?: Plan;
}

/** The meaning of an integrations object for the destinations of an index. */
interface Choice {
  /** Its word on all of them. */
  readonly isOn: boolean;
  /** The kinds of which it says the opposite. */
  readonly others: ReadonlySet<Kind>;
  /** Destinations of which it says the opposite of what it says of their kind, in the order of places. */
  readonly named: readonly { readonly route: Route; readonly isOn: boolean }[];
  readonly key: string;
  /** The part of it that says which kinds are off. */
  readonly kindsKey: string;
}

/** The destinations that want for consent. */
interface Withheld {
  readonly routes: ReadonlySet<Route>;
  readonly key: string;
}

/** The word of an event on the destinations of an index. */
interface Selection {
  readonly choice?: Choice | undefined;
  readonly withheld?: Withheld | undefined;
}

/**
 * Plans are remembered up to so many destinations in all. Integrations objects can make any number of them.
 */
const MAX_REMEMBERED = 200_000;
/** Plans of integrations objects that name more destinations and kinds are made anew each time. */
const MAX_NAMED = 16;

/**
 * The destinations of one source by the types and names of the events they take. A plan costs what its
 * event's takers cost, however many other destinations there are, and events with the same takers get the
 * same plan. What is indexed follows from the settings alone: no event makes the index grow.
 */
export class RouteIndex {
  readonly #routes: readonly Route[];
  readonly #types: DestinationTypes;
  readonly #byName: ReadonlyMap<string, Route>;
  readonly #kindsByName = new Map<string, Kind[]>();
  readonly #lists: RouteList[] = [];
  /** Enabled destinations that take every event of a type. */
  readonly #byType = new Map<string, RouteList>();
  /** Enabled destinations that take track calls of a name, or of names with a beginning. */
  readonly #byEvent = new Map<string, RouteList>();
  readonly #byBeginning = new Map<string, RouteList>();
  readonly #beginningLengths: readonly number[];
  /** Categories of consent that any of the destinations asks for. */
  readonly #categories: readonly string[];
  readonly #withheld = new BoundedCache<string, Withheld>(MAX_REMEMBERED);
  readonly #skipSets = new BoundedCache<string, SkipSet>(MAX_REMEMBERED);
  readonly #plans = new BoundedCache<string, Plan>(MAX_REMEMBERED);
  #deletePlan: Plan | undefined;

  /** `ownNames`: of all destinations that integrations objects are asked about, of other sources too. */
  constructor(
    destinations: readonly Destination[],
    types: DestinationTypes,
    ownNames: ReadonlySet<string> = new Set(),
  ) {
    const kinds = new Map<string, Kind>();
    this.#routes = destinations.map((destination, place) => ({
      destination,
      kind: kindIn(kinds, integrationNamesOf(destination, types), ownNames),
      categories: categoriesOf(destination, types),
      lanes: laneIdsOf(destination, targetsOf(destination, types)).map((id) => ({
        id,
        name: destination.name,
      })),
      place,
    }));
    this.#types = types;
    this.#byName = new Map(this.#routes.map((route) => [route.destination.name, route]));
    this.#categories = [...new Set(this.#routes.flatMap(({ categories = [] }) => categories))];
    for (const kind of kinds.values())
      for (const name of kind.names)
        this.#kindsByName.set(name, [...(this.#kindsByName.get(name) ?? []), kind]);
    for (const route of this.#routes) if (takesNames(route.destination)) this.#addNames(route);
    const lengths = new Set([...this.#byBeginning.keys()].map(({ length }) => length));
    this.#beginningLengths = [...lengths].sort((a, b) => a - b);
  }

  /** Whether plans depend on the event even without integrations. */
  get isByEvent(): boolean {
    return this.asksForConsent || this.#routes.some(({ destination }) => destination.filter !== undefined);
  }

  /** Whether any of the destinations asks for consent: `plan` has to be told the preferences then. */
  get asksForConsent(): boolean {
    return this.#categories.length > 0;
  }

  /** The plan of an event by the consent of the visitor, its integrations object and the filters. */
  plan(
    type: Event['type'],
    name: string,
    { integrations, preferences }: { readonly integrations: JsonObject; readonly preferences?: Preferences },
  ): Plan {
    const lists = this.#listsFor(type, name);
    const choice = this.#choiceOf(integrations);
    const withheld = this.#withheldBy(preferences);
    const [only] = lists;
    if (choice === undefined && withheld === undefined && only !== undefined && lists.length === 1) {
      only.plan ??= this.#planOf(lists, {});
      return only.plan;
    }
    const key = `${lists.map(({ number }) => number).join()} ${choice?.key ?? ''} ${withheld?.key ?? ''}`;
    const known = this.#plans.get(key);
    if (known !== undefined) return known;
    const plan = this.#planOf(lists, { choice, withheld });
    if (choice !== undefined && choice.named.length + choice.others.size > MAX_NAMED) return plan;
    return this.#plans.set(key, plan, 1 + plan.owed.length + plan.skipped.length);
  }

  /**
   * The plan of a delete notification: every enabled destination, but for types that are not told of
   * deletions.
   */
  deletePlan(): Plan {
    if (this.#deletePlan === undefined) {
      const enabled = this.#routes.filter(({ destination }) => destination.enabled);
      const disabled = this.#routes.filter(({ destination }) => !destination.enabled);
      const isTold = ({ destination }: Route) =>
        this.#types.get(destination.type)?.planning.deletes !== false;
      this.#deletePlan = {
        owed: enabled.filter(isTold).flatMap(({ lanes }) => lanes),
        skipped: [
          ...disabled.map((route) => skipOf(route, 'destination_disabled')),
          ...enabled.filter((route) => !isTold(route)).map((route) => skipOf(route, 'filtered')),
        ],
      };
    }
    return this.#deletePlan;
  }

  #addNames(route: Route): void {
    for (const pattern of new Set(route.destination.filter?.events)) {
      const isBeginning = pattern.endsWith('*');
      const lists = isBeginning ? this.#byBeginning : this.#byEvent;
      const key = isBeginning ? pattern.slice(0, -1) : pattern;
      let list = lists.get(key);
      if (list === undefined) {
        list = this.#newList([]);
        lists.set(key, list);
      }
      list.routes.push(route);
    }
  }

  #newList(routes: Route[]): RouteList {
    const list: RouteList = { number: this.#lists.length, routes };
    this.#lists.push(list);
    return list;
  }

  /** The lists of the destinations whose filters let an event pass. A destination may be in several. */
  #listsFor(type: Event['type'], name: string): RouteList[] {
    const lists: RouteList[] = [];
    const all = this.#takersOf(type);
    if (all.routes.length > 0) lists.push(all);
    if (type !== 'track') return lists;
    const exact = this.#byEvent.get(name);
    if (exact !== undefined) lists.push(exact);
    for (const length of this.#beginningLengths) {
      if (length > name.length) break;
      const list = this.#byBeginning.get(name.slice(0, length));
      if (list !== undefined) lists.push(list);
    }
    return lists;
  }

  #takersOf(type: Event['type']): RouteList {
    let list = this.#byType.get(type);
    if (list === undefined) {
      list = this.#newList(this.#routes.filter(({ destination }) => takesAll(destination, type)));
      this.#byType.set(type, list);
    }
    return list;
  }

  /** Undefined when the object says nothing about these destinations. */
  #choiceOf(integrations: JsonObject): Choice | undefined {
    const keys = Object.keys(integrations);
    if (keys.length === 0) return undefined;
    const isOn = isEnabledBy(integrations, []);
    const others = this.#othersIn(integrations, keys, isOn);
    const named: { route: Route; isOn: boolean }[] = [];
    for (const key of keys) {
      const route = this.#byName.get(key);
      if (route?.kind === undefined || !route.destination.enabled) continue;
      const isItOn = isEnabledBy(integrations, [key, ...route.kind.names]);
      if (isItOn !== (others.has(route.kind) ? !isOn : isOn)) named.push({ route, isOn: isItOn });
    }
    if (isOn && others.size === 0 && named.length === 0) return undefined;
    named.sort((a, b) => a.route.place - b.route.place);
    const kindsKey = `${isOn} ${others.size === 0 ? '' : numbersOf(others)}`;
    const signs = named.map((one) => `${one.isOn ? '+' : '-'}${one.route.place}`);
    return { isOn, others, named, kindsKey, key: `${kindsKey} ${signs.join('')}` };
  }

  /** The kinds of which an integrations object says something else than of all. */
  #othersIn(integrations: JsonObject, keys: readonly string[], isOn: boolean): ReadonlySet<Kind> {
    let others: Set<Kind> | undefined;
    for (const key of keys) {
      const kinds = this.#kindsByName.get(key);
      if (kinds === undefined) continue;
      others ??= new Set();
      for (const kind of kinds) if (isEnabledBy(integrations, kind.names) !== isOn) others.add(kind);
    }
    return others ?? NO_KINDS;
  }

  /** Undefined when nothing is withheld. */
  #withheldBy(preferences: Preferences): Withheld | undefined {
    if (preferences === undefined || this.#categories.length === 0) return undefined;
    const key = this.#categories.map((category) => (isConsented(preferences, [category]) ? 1 : 0)).join('');
    const known = this.#withheld.get(key);
    if (known !== undefined) return known.routes.size === 0 ? undefined : known;
    const routes = this.#routes.filter(
      ({ destination, categories = [] }) => destination.enabled && !isConsented(preferences, categories),
    );
    const withheld = this.#withheld.set(key, { routes: new Set(routes), key }, 1 + routes.length);
    return routes.length === 0 ? undefined : withheld;
  }

  #planOf(lists: readonly RouteList[], { choice, withheld }: Selection): Plan {
    const skipSet = this.#skipSetOf({ choice, withheld });
    const passing = new Set(lists.flatMap(({ routes }) => routes));
    const isOwed = (route: Route) => !isOff(route, choice) && withheld?.routes.has(route) !== true;
    const owed = new Set([...passing].filter(isOwed));
    const skipped: Skip[] = [];
    for (const { route, isOn } of choice?.named ?? []) {
      if (withheld?.routes.has(route) === true) continue;
      if (isOn && passing.has(route)) {
        owed.add(route);
        continue;
      }
      owed.delete(route);
      const skip = skipOf(route, isOn ? 'filtered' : 'integrations');
      if (skipSet.get(skip.destination) !== skip.reason) skipped.push(skip);
    }
    const lanes = [...owed].sort((a, b) => a.place - b.place).flatMap((route) => route.lanes);
    return skipSet.size === 0 ? { owed: lanes, skipped } : { owed: lanes, skipped, skipSet };
  }

  /**
   * The reasons why destinations skip events that they are not owed, when some want for consent and kinds are
   * switched off. A destination that takes everything has no reason then.
   */
  #skipSetOf({ choice, withheld }: Selection): SkipSet {
    const key = `${choice?.kindsKey ?? ''} ${withheld?.key ?? ''}`;
    const known = this.#skipSets.get(key);
    if (known !== undefined) return known;
    const reasons = new Map<number, SkipReason>();
    for (const route of this.#routes) {
      const { id, enabled, filter } = route.destination;
      if (!enabled) reasons.set(id, 'destination_disabled');
      else if (withheld?.routes.has(route) === true) reasons.set(id, 'consent');
      else if (isOff(route, choice)) reasons.set(id, 'integrations');
      else if (filter !== undefined) reasons.set(id, 'filtered');
    }
    return this.#skipSets.set(key, reasons, 1 + reasons.size);
  }
}

/** Numbers of kinds in ascending order. */
function numbersOf(kinds: ReadonlySet<Kind>): string {
  if (kinds.size === 1) for (const { number } of kinds) return String(number);
  return Array.from(kinds, ({ number }) => number)
    .sort((a, b) => a - b)
    .join();
}

/** Whether the kind of a destination is switched off. */
function isOff({ kind }: Route, choice: Choice | undefined): boolean {
  if (choice === undefined || kind === undefined) return false;
  return choice.others.has(kind) ? choice.isOn : !choice.isOn;
}

/** The kind of a destination with these names, of those that are known or a new one. */
function kindIn(
  kinds: Map<string, Kind>,
  names: readonly string[] | undefined,
  ownNames: ReadonlySet<string>,
): Kind | undefined {
  if (names === undefined) return undefined;
  const others = names.filter((name) => !ownNames.has(name));
  const key = JSON.stringify(others);
  const kind = kinds.get(key) ?? { names: others, number: kinds.size };
  kinds.set(key, kind);
  return kind;
}

const NO_KINDS: ReadonlySet<Kind> = new Set();

function skipOf({ destination: { id } }: Route, reason: SkipReason): Skip {
  return { destination: id, reason };
}

/**
 * Whether an enabled destination takes every event of a type. Only track calls have a name that filters look
 * at.
 */
function takesAll({ enabled, filter }: Destination, type: Event['type']): boolean {
  if (!enabled) return false;
  if (filter === undefined) return true;
  if (filter.types !== undefined && (type === 'delete' || !filter.types.includes(type))) return false;
  return filter.events === undefined || type !== 'track';
}

/** Whether an enabled destination takes track calls by their names. */
function takesNames({ enabled, filter }: Destination): boolean {
  return enabled && filter?.events !== undefined && (filter.types?.includes('track') ?? true);
}

/**
 * Whether an integrations object lets an event through to a destination with these names.
 *
 * The names decide in their order, then `All` (or `all`, as one client spells it). Every value but `false`
 * enables, because objects are options. Names are case-sensitive. A destination without a key is enabled.
 * spec/specification.md, "Integrations object".
 */
export function isEnabledBy(integrations: JsonObject, names: readonly string[]): boolean {
  const said = firstValueOf(integrations, names) ?? firstValueOf(integrations, ALL_NAMES);
  return said !== false;
}

const ALL_NAMES = ['All', 'all'];

/** The value of the first key that says anything. */
function firstValueOf(integrations: JsonObject, keys: readonly string[]): unknown {
  for (const key of keys) {
    const value = ownValue(integrations, key) ?? undefined;
    if (value !== undefined) return value;
  }
  return undefined;
}
