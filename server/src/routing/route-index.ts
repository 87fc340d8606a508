import { BoundedCache } from '../model/containers.ts';
import type { Destination } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import { type JsonObject, ownValue } from '../model/json.ts';
import { laneIdsOf } from '../model/lane.ts';
import type { OwedLane, Plan, Skip, SkipReason, SkipSet } from '../model/plan.ts';
import { type DestinationTypes, targetsOf } from '../ports/destination-type.ts';

/** A destination with what plans need of it. */
interface Route {
  readonly destination: Destination;
  readonly lanes: readonly OwedLane[];
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
  /** Types that are off, unless the destination's own name is on. */
  readonly off: readonly Destination['type'][];
  /** Destinations named, in the order of their places. */
  readonly named: readonly { readonly route: Route; readonly isOn: boolean }[];
  readonly key: string;
}

/**
 * Plans are remembered up to so many destinations in all. Integrations objects can make any number of them.
 */
const MAX_REMEMBERED = 200_000;
/** Plans of integrations objects that name more destinations are made anew each time. */
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
  readonly #lists: RouteList[] = [];
  /** Enabled destinations that take every event of a type. */
  readonly #byType = new Map<string, RouteList>();
  /** Enabled destinations that take track calls of a name, or of names with a beginning. */
  readonly #byEvent = new Map<string, RouteList>();
  readonly #byBeginning = new Map<string, RouteList>();
  readonly #beginningLengths: readonly number[];
  readonly #skipSets = new Map<string, SkipSet>();
  readonly #plans = new BoundedCache<string, Plan>(MAX_REMEMBERED);
  #deletePlan: Plan | undefined;

  constructor(destinations: readonly Destination[], types: DestinationTypes) {
    this.#routes = destinations.map((destination, place) => ({
      destination,
      lanes: laneIdsOf(destination, targetsOf(destination, types)).map((id) => ({
        id,
        name: destination.name,
      })),
      place,
    }));
    this.#types = types;
    this.#byName = new Map(this.#routes.map((route) => [route.destination.name, route]));
    for (const route of this.#routes) if (takesNames(route.destination)) this.#addNames(route);
    const lengths = new Set([...this.#byBeginning.keys()].map(({ length }) => length));
    this.#beginningLengths = [...lengths].sort((a, b) => a - b);
  }

  /** Whether plans depend on the event even without integrations. */
  get isFiltered(): boolean {
    return this.#routes.some(({ destination }) => destination.filter !== undefined);
  }

  /** The plan of an event by the filters and its integrations object. */
  plan(type: Event['type'], name: string, integrations: JsonObject): Plan {
    const lists = this.#listsFor(type, name);
    const choice = this.#choiceOf(integrations);
    const [only] = lists;
    if (choice === undefined && only !== undefined && lists.length === 1) {
      only.plan ??= this.#planOf(lists, undefined);
      return only.plan;
    }
    const key = `${lists.map(({ number }) => number).join()} ${choice?.key ?? ''}`;
    const known = this.#plans.get(key);
    if (known !== undefined) return known;
    const plan = this.#planOf(lists, choice);
    if (choice !== undefined && choice.named.length > MAX_NAMED) return plan;
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
    const types = [...this.#types.values()].filter(({ planning }) => planning.integrations);
    const off = types
      .filter(({ integration }) => !isTypeEnabledBy(integrations, integration))
      .map(({ name }) => name);
    const named: { route: Route; isOn: boolean }[] = [];
    for (const key of keys) {
      const route = this.#byName.get(key);
      if (route === undefined || !route.destination.enabled) continue;
      const { name, type } = route.destination;
      const known = types.find((one) => one.name === type);
      if (known === undefined) continue;
      const isOn = isEnabledBy(integrations, name, known.integration);
      if (isOn === off.includes(type)) named.push({ route, isOn });
    }
    if (off.length === 0 && named.length === 0) return undefined;
    named.sort((a, b) => a.route.place - b.route.place);
    const signs = named.map(({ route, isOn }) => `${isOn ? '+' : '-'}${route.place}`);
    return { off, named, key: `${off.join()} ${signs.join('')}` };
  }

  #planOf(lists: readonly RouteList[], choice: Choice | undefined): Plan {
    const off = choice?.off ?? [];
    const skipSet = this.#skipSetOf(off);
    const passing = new Set(lists.flatMap(({ routes }) => routes));
    const owed = new Set(
      off.length === 0 ? passing : [...passing].filter(({ destination }) => !off.includes(destination.type)),
    );
    const skipped: Skip[] = [];
    for (const { route, isOn } of choice?.named ?? []) {
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
   * The reasons why destinations skip events that they are not owed, when these types are off. A destination
   * that takes everything has no reason then.
   */
  #skipSetOf(off: readonly Destination['type'][]): SkipSet {
    const key = off.join();
    let set = this.#skipSets.get(key);
    if (set === undefined) {
      const reasons = new Map<number, SkipReason>();
      for (const { destination } of this.#routes) {
        const { id, enabled, type, filter } = destination;
        if (!enabled) reasons.set(id, 'destination_disabled');
        else if (off.includes(type)) reasons.set(id, 'integrations');
        else if (filter !== undefined) reasons.set(id, 'filtered');
      }
      set = reasons;
      this.#skipSets.set(key, set);
    }
    return set;
  }
}

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
 * Whether an integrations object lets an event through to a destination.
 *
 * The destination's own name decides first, then the name of its type, then `All` (or `all`, as one client
 * spells it). Every value but `false` enables, because objects are options. Names are case-sensitive. A
 * destination without a key is enabled. spec/specification.md, "Integrations object".
 */
export function isEnabledBy(integrations: JsonObject, name: string, typeName: string): boolean {
  return firstValueOf(integrations, [name, typeName, 'All', 'all']) !== false;
}

/** The same for a destination that the object does not name. */
function isTypeEnabledBy(integrations: JsonObject, typeName: string): boolean {
  return firstValueOf(integrations, [typeName, 'All', 'all']) !== false;
}

/** The value of the first key that says anything. */
function firstValueOf(integrations: JsonObject, keys: readonly string[]): unknown {
  return keys
    .map((key) => ownValue(integrations, key))
    .find((value) => value !== undefined && value !== null);
}
