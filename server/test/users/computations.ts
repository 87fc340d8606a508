import fc from 'fast-check';
import {
  COMPARISONS,
  type Computation,
  type Condition,
  type EventAggregate,
  PROPERTY_REDUCERS,
  type Reducer,
  type Scalar,
  type Value,
} from '../../src/model/definition.ts';
import type { Json, JsonObject } from '../../src/model/json.ts';
import { DAY, type Duration, HOUR, MINUTE, SECOND } from '../../src/model/time.ts';

/** There are few names and values, so that random definitions match random events. */
const NAMES = ['Order', 'Visit'] as const;
const TYPES = ['track', 'page'] as const;
const PROPERTIES = ['total', 'plan', 'deep.plan'] as const;
const TRAITS = ['plan', 'age', 'deep.plan'] as const;

const scalar: fc.Arbitrary<Scalar> = fc.oneof(
  fc.constantFrom<Scalar>('a', 'b', 'ab', '', 'Ä', true, false, 0, -1, 2, 0.1, 0.2, 19.99),
  fc.integer({ min: -3, max: 5 }),
);

export const json: fc.Arbitrary<Json> = fc.oneof(
  { weight: 6, arbitrary: scalar },
  fc.constantFrom<Json>(null, [], ['a', 2], ['ab', true], {}, { plan: 'a' }),
);

export const properties: fc.Arbitrary<JsonObject> = fc.record(
  {
    total: fc.oneof(scalar, fc.double({ min: -1000, max: 1000, noNaN: true }).map(toCents)),
    plan: json,
    deep: fc.oneof(json, fc.record({ plan: json })),
  },
  { requiredKeys: [] },
);

const within: fc.Arbitrary<Duration | undefined> = fc.constantFrom(
  undefined,
  10 * SECOND,
  90 * MINUTE,
  HOUR,
  5 * HOUR,
  DAY,
);

const reducer: fc.Arbitrary<Reducer> = fc.oneof(
  fc.constant<Reducer>({ op: 'count' }),
  fc.record({ op: fc.constantFrom(...PROPERTY_REDUCERS), property: fc.constantFrom(...PROPERTIES) }),
);

export const computableEvent = { type: fc.constantFrom(...TYPES), name: fc.constantFrom(...NAMES) };

/**
 * Random definitions; each may mention those before it. In each place it is always an audience, or always a
 * trait.
 */
export const computations: fc.Arbitrary<readonly Computation[]> = fc
  .array(fc.boolean(), { minLength: 1, maxLength: 7 })
  .chain((places) => {
    const names = places.map((_, i) => ({ isAudience: i % 2 === 1, name: `c${i}` }));
    return fc.tuple(
      ...places.map((includeAnonymous, i) => {
        const { isAudience } = names[i]!;
        const mentioned = names.slice(0, i);
        const base = { id: i + 1, version: 1, name: `c${i}`, key: `c${i}`, text: '' };
        const rest = { ...base, destinations: [], enabled: true };
        return isAudience
          ? condition(mentioned, 2).map((definition): Computation => {
              return { ...rest, kind: 'audience', definition, includeAnonymous };
            })
          : aggregate(mentioned).map((definition): Computation => ({ ...rest, kind: 'trait', definition }));
      }),
    );
  });

interface Mentioned {
  readonly isAudience: boolean;
  readonly name: string;
}

function condition(mentioned: readonly Mentioned[], depth: number): fc.Arbitrary<Condition> {
  const traits = mentioned.filter(({ isAudience }) => !isAudience).map(({ name }) => name);
  const value: fc.Arbitrary<Value> = fc.oneof(
    { weight: 4, arbitrary: aggregate(mentioned) },
    trait,
    ...(traits.length === 0
      ? []
      : [fc.record({ op: fc.constant('computed' as const), name: fc.constantFrom(...traits) })]),
  );
  const leaf = fc.oneof({ weight: 5, arbitrary: comparison(value) }, membership(mentioned));
  if (depth === 0) return leaf;
  return fc.oneof({ weight: 2, arbitrary: leaf }, combination(condition(mentioned, depth - 1)));
}

function combination(part: fc.Arbitrary<Condition>): fc.Arbitrary<Condition> {
  return fc.oneof(
    fc.record({
      op: fc.constantFrom('and' as const, 'or' as const),
      conditions: fc.array(part, { minLength: 1, maxLength: 3 }),
    }),
    fc.record({ op: fc.constant('not' as const), condition: part }),
  );
}

function membership(mentioned: readonly Mentioned[]): fc.Arbitrary<Condition> {
  const audiences = mentioned.filter(({ isAudience }) => isAudience).map(({ name }) => name);
  const group = fc.record({ op: fc.constant('group' as const), id: fc.constantFrom('g1', 'g2') });
  if (audiences.length === 0) return group;
  return fc.oneof(
    group,
    fc.record({ op: fc.constant('audience' as const), name: fc.constantFrom(...audiences) }),
  );
}

function comparison(value: fc.Arbitrary<Value>): fc.Arbitrary<Condition> {
  return fc.oneof(
    { weight: 5, arbitrary: fc.record({ op: fc.constantFrom(...COMPARISONS), value, to: scalar }) },
    fc.record({ op: fc.constant('in' as const), value, to: fc.array(scalar, { maxLength: 3 }) }),
    fc.record({ op: fc.constant('exists' as const), value }),
  );
}

const trait = fc.record({ op: fc.constant('trait' as const), name: fc.constantFrom(...TRAITS) });
const property = fc.record({ op: fc.constant('property' as const), name: fc.constantFrom(...PROPERTIES) });

function aggregate(mentioned: readonly Mentioned[]): fc.Arbitrary<EventAggregate> {
  return fc
    .record({
      ...computableEvent,
      where: fc.option(where(mentioned), { nil: undefined }),
      within,
      reduce: reducer,
    })
    .map(({ where, within, ...rest }) => ({
      op: 'event' as const,
      ...rest,
      ...(where && { where }),
      ...(within && { within }),
    }));
}

/** Conditions on the user stand beside those on the event with `and` only. */
function where(mentioned: readonly Mentioned[]): fc.Arbitrary<Condition> {
  const onEvent = fc.oneof(comparison(property), combination(comparison(property)));
  const onUser = fc.oneof(comparison(trait), membership(mentioned));
  const both = fc.array(fc.oneof({ weight: 3, arbitrary: onEvent }, onUser), { minLength: 1, maxLength: 3 });
  return fc.oneof(
    onEvent,
    both.map((conditions): Condition => ({ op: 'and', conditions })),
  );
}

function toCents(value: number): number {
  return Math.round(value * 100) / 100 || 0;
}
