import fc from 'fast-check';
import {
  type Condition,
  type EventAggregate,
  PROPERTY_REDUCERS,
  type Reducer,
  type Scalar,
  type Value,
} from '../../src/model/definition.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../src/model/time.ts';

const name = fc.oneof(
  fc.constantFrom('Order Completed', 'plan', "it's", 'a.b', "''", 'and', 'ü 🔑', 'line\nfeed', '#%{}'),
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }),
);

const number = fc.oneof(
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
);

const scalar: fc.Arbitrary<Scalar> = fc.oneof(fc.string({ unit: 'grapheme' }), number, fc.boolean());

const wholeHours = fc.oneof(
  fc.integer({ min: 1, max: 400 }).map((hours) => hours * HOUR),
  fc.integer({ min: 1, max: 3650 }).map((days) => days * DAY),
);
const anyTime = fc.oneof(
  wholeHours,
  fc.integer({ min: 1, max: 100_000 }).map((seconds) => seconds * SECOND),
  fc.integer({ min: 1, max: 1000 }).map((minutes) => minutes * MINUTE),
);

const ORDERED = ['=', '!=', '<', '<=', '>', '>='] as const;

function namedValue(op: 'trait' | 'computed' | 'property'): fc.Arbitrary<Value> {
  return name.map((text) => ({ op, name: text }));
}

/** Comparisons of a value that clients send, which may be of any type. */
function untyped(value: fc.Arbitrary<Value>): fc.Arbitrary<Condition> {
  return fc.oneof(
    fc.record({ op: fc.constantFrom('=', '!=', 'contains' as const), value, to: scalar }),
    fc.record({
      op: fc.constantFrom('<', '<=', '>', '>=' as const),
      value,
      to: fc.oneof(fc.string({ unit: 'grapheme' }), number),
    }),
    fc.record({ op: fc.constantFrom('starts_with', 'ends_with' as const), value, to: fc.string() }),
    fc.record({
      op: fc.constant('in' as const),
      value,
      to: fc.array(scalar, { minLength: 1, maxLength: 4 }),
    }),
    fc.record({ op: fc.constant('exists' as const), value }),
  ) as fc.Arbitrary<Condition>;
}

/** `leaf` joined by `and`, `or` and `not`, a few levels deep. */
function joined(leaf: fc.Arbitrary<Condition>): fc.Arbitrary<Condition> {
  return fc.letrec<{ condition: Condition }>((tie) => ({
    condition: fc.oneof(
      { depthSize: 'small', withCrossShrink: true, maxDepth: 3 },
      leaf,
      fc.record({
        op: fc.constantFrom('and', 'or' as const),
        conditions: fc.array(tie('condition'), { minLength: 2, maxLength: 3 }),
      }) as fc.Arbitrary<Condition>,
      fc.record({ op: fc.constant('not' as const), condition: tie('condition') }),
    ),
  })).condition;
}

const where: fc.Arbitrary<Condition> = fc.oneof(
  untyped(namedValue('property')),
  untyped(fc.oneof(namedValue('trait'), namedValue('computed'))),
  fc
    .tuple(untyped(namedValue('property')), untyped(namedValue('trait')))
    .map((conditions): Condition => ({ op: 'and', conditions })),
  fc
    .array(untyped(namedValue('property')), { minLength: 2, maxLength: 3 })
    .map((conditions): Condition => ({ op: 'or', conditions })),
);

function aggregate(
  reduce: fc.Arbitrary<Reducer>,
  within: fc.Arbitrary<number>,
): fc.Arbitrary<EventAggregate> {
  return fc.record(
    {
      op: fc.constant('event' as const),
      type: fc.constantFrom('track', 'page', 'screen' as const),
      name,
      where,
      within,
      reduce,
    },
    { requiredKeys: ['op', 'type', 'name', 'reduce'] },
  ) as fc.Arbitrary<EventAggregate>;
}

const count: fc.Arbitrary<Reducer> = fc.constant({ op: 'count' });
const reducerOf = (...ops: (typeof PROPERTY_REDUCERS)[number][]): fc.Arbitrary<Reducer> =>
  fc.record({ op: fc.constantFrom(...ops), property: name });

const eventCondition: fc.Arbitrary<Condition> = fc.oneof(
  fc.record({
    op: fc.constantFrom(...ORDERED),
    value: aggregate(count, anyTime),
    to: fc.integer({ min: 1, max: 64 }),
  }),
  fc.record({
    op: fc.constantFrom(...ORDERED),
    value: aggregate(reducerOf('sum', 'avg', 'min', 'max'), wholeHours),
    to: number,
  }),
  untyped(aggregate(reducerOf('first', 'last', 'mode'), wholeHours)),
  fc.record({
    op: fc.constant('contains' as const),
    value: aggregate(reducerOf('unique'), wholeHours),
    to: scalar,
  }),
);

const leaf: fc.Arbitrary<Condition> = fc.oneof(
  untyped(fc.oneof(namedValue('trait'), namedValue('computed'))),
  eventCondition,
  name.map((text): Condition => ({ op: 'audience', name: text })),
  name.map((text): Condition => ({ op: 'group', id: text })),
);

/** Conditions of audiences that the language accepts as long as they are not too large. */
export const audienceConditions: fc.Arbitrary<Condition> = joined(leaf);

/** Definitions of computed traits. */
export const traitAggregates: fc.Arbitrary<EventAggregate> = aggregate(
  fc.oneof(count, reducerOf(...PROPERTY_REDUCERS)),
  wholeHours,
);
