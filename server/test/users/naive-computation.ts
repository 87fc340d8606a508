import type { Computation, Condition, EventAggregate, Value } from '../../src/model/definition.ts';
import { isObject, type Json, type JsonObject } from '../../src/model/json.ts';
import { type Duration, HOUR, type Time } from '../../src/model/time.ts';
import type { UserEvent } from '../../src/users/computation/trait-engine.ts';

/** A user as the naive model knows it: everything it ever did. */
export interface NaiveUser {
  readonly userId: string | undefined;
  readonly events: readonly UserEvent[];
  readonly traits: Readonly<Record<string, Json>>;
  readonly groups: readonly string[];
}

/**
 * The value of each computation by name, computed anew from all events. It is the specification's "Computed
 * traits" and "Audiences" said a second time, as plainly as possible: nothing is kept, nothing is shared.
 */
export function computeNaively(
  computations: readonly Computation[],
  user: NaiveUser,
  now: Time,
): ReadonlyMap<number, Json> {
  const values = new Map<number, Json>();
  const computedValue = (kind: Computation['kind'], name: string): Json => {
    const computation = computations.find((one) => one.kind === kind && one.name === name);
    if (computation === undefined) return null;
    const known = values.get(computation.id);
    if (known !== undefined) return known;
    const value = compute(computation);
    values.set(computation.id, value);
    return value;
  };
  const compute = (computation: Computation): Json => {
    if (computation.kind === 'audience') {
      if (user.userId === undefined && !computation.includeAnonymous) return false;
      return holds(computation.definition, undefined);
    }
    const aggregate = computation.definition;
    const ever = matching({ ...aggregate, where: withoutUser(aggregate.where) } as EventAggregate);
    return ever.length === 0 ? null : (reduce(aggregate, undefined) ?? null);
  };

  const holds = (condition: Condition, event: UserEvent | undefined): boolean => {
    switch (condition.op) {
      case 'and':
        return condition.conditions.every((one) => holds(one, event));
      case 'or':
        return condition.conditions.some((one) => holds(one, event));
      case 'not':
        return !holds(condition.condition, event);
      case 'audience':
        return computedValue('audience', condition.name) === true;
      case 'group':
        return user.groups.includes(condition.id);
    }
    const value = read(condition.value, event, condition) ?? null;
    if (value === null) return false;
    const to = (condition as { to?: unknown }).to;
    switch (condition.op) {
      case 'exists':
        return true;
      case 'in':
        return condition.to.some((one) => one === value);
      case '=':
        return value === to;
      case '!=':
        return !isNested(value) && value !== to;
      case 'contains':
        if (Array.isArray(value)) return value.some((one) => one === to);
        return typeof value === 'string' && typeof to === 'string' && value.indexOf(to) >= 0;
      case 'starts_with':
        return typeof value === 'string' && typeof to === 'string' && value.indexOf(to) === 0;
      case 'ends_with':
        return (
          typeof value === 'string' &&
          typeof to === 'string' &&
          value.slice(-to.length || value.length) === to
        );
    }
    if (typeof value !== typeof to || (typeof value !== 'number' && typeof value !== 'string')) return false;
    const order = value < to! ? -1 : value > to! ? 1 : 0;
    return { '<': order < 0, '<=': order <= 0, '>': order > 0, '>=': order >= 0 }[condition.op];
  };

  const read = (value: Value, event: UserEvent | undefined, use: Condition | undefined): Json | undefined => {
    switch (value.op) {
      case 'trait':
        return user.traits[value.name] ?? dig(user.traits, value.name);
      case 'computed':
        return computedValue('trait', value.name);
      case 'property':
        return event === undefined ? undefined : dig(event.properties, value.name);
      case 'event':
        return reduce(value, use);
    }
  };

  /** Events that the aggregate counts, wherever in time. */
  const matching = (aggregate: EventAggregate): UserEvent[] =>
    user.events.filter(
      (event) =>
        event.type === aggregate.type &&
        event.name === aggregate.name &&
        (aggregate.where === undefined || holds(aggregate.where, event)) &&
        (aggregate.reduce.op === 'count' ||
          isReducible(aggregate.reduce.op, dig(event.properties, aggregate.reduce.property))),
    );

  const reduce = (aggregate: EventAggregate, use: Condition | undefined): Json | undefined => {
    const { within, reduce: reducer } = aggregate;
    const all = matching(aggregate);
    if (reducer.op === 'count') {
      if (within === undefined) return all.length;
      const exact = all.filter(({ at }) => at > now - within).length;
      return exact <= mostCompared(use) ? exact : all.filter(({ at }) => isInBuckets(at, within, now)).length;
    }
    const counted = within === undefined ? all : all.filter(({ at }) => isInBuckets(at, within, now));
    return reduceValues(reducer.op, counted, (event) => dig(event.properties, reducer.property)!);
  };

  for (const { kind, name } of computations) computedValue(kind, name);
  return values;
}

/** The newest 64 are exact, and so are all that decide a comparison with at most 64. */
function mostCompared(use: Condition | undefined): number {
  const to = use === undefined ? [] : use.op === 'in' ? use.to : 'to' in use ? [use.to] : [0];
  const numbers = to.filter((one) => typeof one === 'number');
  return numbers.length === 0 || Math.max(...numbers) > 64 ? 64 : Number.POSITIVE_INFINITY;
}

function isInBuckets(at: Time, within: Duration, now: Time): boolean {
  const leaves = (Math.floor(at / HOUR) + 1 + Math.ceil(within / HOUR)) * HOUR;
  return now < leaves;
}

function reduceValues(
  op: string,
  events: readonly UserEvent[],
  valueIn: (event: UserEvent) => Json,
): Json | undefined {
  const values = events.map(valueIn);
  const numbers = values as number[];
  const ordered = [...events].sort((a, b) => a.at - b.at || (a.messageId < b.messageId ? -1 : 1));
  const different = [...new Set(values)].sort(byTypeThenSize);
  switch (op) {
    case 'sum':
      return numbers.length === 0 ? undefined : Number(billionths(numbers)) / 1e9;
    case 'avg':
      return numbers.length === 0 ? undefined : Number(billionths(numbers)) / (1e9 * numbers.length);
    case 'min':
      return numbers.length === 0 ? undefined : Math.min(...numbers);
    case 'max':
      return numbers.length === 0 ? undefined : Math.max(...numbers);
    case 'first':
      return ordered[0] && valueIn(ordered[0]);
    case 'last':
      return ordered.length === 0 ? undefined : valueIn(ordered.at(-1)!);
    case 'mode': {
      const counted = different.map((value) => ({
        value,
        times: values.filter((one) => one === value).length,
      }));
      const most = Math.max(0, ...counted.map(({ times }) => times));
      return most < 2 || different.length > 200
        ? undefined
        : counted.find(({ times }) => times === most)!.value;
    }
    case 'unique':
      return different.length === 0 ? undefined : different.slice(0, 100);
    default:
      return different.length;
  }
}

function billionths(numbers: readonly number[]): bigint {
  return numbers.reduce((sum, number) => sum + BigInt(Math.round(number * 1e9)), 0n);
}

function byTypeThenSize(a: Json, b: Json): number {
  if (typeof a !== typeof b) return typeof a < typeof b ? -1 : 1;
  return a! < b! ? -1 : 1;
}

function isReducible(op: string, value: Json | undefined): boolean {
  if (op === 'sum' || op === 'avg' || op === 'min' || op === 'max') return typeof value === 'number';
  return value !== undefined && value !== null && !isNested(value);
}

function isNested(value: Json): boolean {
  return typeof value === 'object' && value !== null;
}

function dig(object: JsonObject, path: string): Json | undefined {
  if (Object.hasOwn(object, path)) return object[path];
  let value: Json | undefined = object;
  for (const name of path.split('.')) {
    value = isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  }
  return value;
}

/**
 * `where` without its conditions on the user: a trait of the user appears with the first event, whatever the
 * user is like.
 */
function withoutUser(where: Condition | undefined): Condition | undefined {
  if (where === undefined) return undefined;
  if (where.op === 'and') {
    return { op: 'and', conditions: where.conditions.flatMap((one) => withoutUser(one) ?? []) };
  }
  return looksAtEvent(where) ? where : undefined;
}

function looksAtEvent(condition: Condition): boolean {
  if (condition.op === 'and' || condition.op === 'or') return condition.conditions.some(looksAtEvent);
  if (condition.op === 'not') return looksAtEvent(condition.condition);
  return 'value' in condition && condition.value.op === 'property';
}
