import fc from 'fast-check';
import { HOUR, SECOND } from '../../src/model/time.ts';
import { computableEvent, computations, json, properties } from './computations.ts';

export const SERVER_SOURCE = 1;
export const PUBLIC_SOURCE = 2;
export const DESTINATIONS = ['crm', 'erp'] as const;
export type DestinationName = (typeof DESTINATIONS)[number];

/** Everything random happens here: what clients send, when, and what goes wrong in between. */
const ids = fc.record(
  {
    userId: fc.constantFrom('u1', 'u2', 'u3'),
    anonymousId: fc.constantFrom('a1', 'a2', 'a3', 'a4'),
  },
  { requiredKeys: [] },
);
const age = fc.oneof(fc.constant(0), fc.integer({ min: -HOUR, max: 30 * HOUR }));
const action = fc
  .record({ ...computableEvent, properties, age })
  .map((rest) => ({ ...rest, op: 'call' as const }));
const traits = fc.record(
  { plan: json, age: json, deep: json, email: fc.constantFrom('e1', 'e2') },
  { requiredKeys: [] },
);
const identify = fc.record({
  op: fc.constant('call' as const),
  type: fc.constant('identify' as const),
  traits,
  age,
});
const group = fc.record({
  op: fc.constant('call' as const),
  type: fc.constant('group' as const),
  groupId: fc.constantFrom('g1', 'g2'),
  age,
});
const alias = fc.record({
  op: fc.constant('call' as const),
  type: fc.constant('alias' as const),
  previousId: fc.constantFrom('u1', 'u2', 'a1', 'a2', 'p1'),
  age,
});
const call = fc
  .tuple(
    ids,
    fc.oneof({ weight: 8, arbitrary: action }, { weight: 3, arbitrary: identify }, group, alias),
    fc.record({ source: fc.constant(PUBLIC_SOURCE) }, { requiredKeys: [] }),
  )
  .map(([who, what, from]) => ({ ...who, ...what, ...from }));
export const step = fc.oneof(
  { weight: 12, arbitrary: call },
  { weight: 4, arbitrary: fc.record({ op: fc.constant('slice' as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({ op: fc.constant('pass' as const), time: fc.integer({ min: 1, max: 9 * HOUR }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ op: fc.constant('pass' as const), time: fc.integer({ min: 1, max: 2 * SECOND }) }),
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('publish' as const), crashes: fc.boolean() }) },
  fc.record({ op: fc.constant('failing commit' as const) }),
  fc.record({
    op: fc.constant('define' as const),
    definitions: computations,
    kept: fc.array(fc.boolean(), { minLength: 7, maxLength: 7 }),
  }),
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant('connect' as const),
      nth: fc.nat({ max: 6 }),
      names: fc.subarray([...DESTINATIONS]),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ op: fc.constant('hear' as const), names: fc.subarray([...DESTINATIONS]) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant('filter' as const),
      name: fc.constantFrom(...DESTINATIONS),
      filter: fc.record(
        {
          types: fc.subarray(['identify', 'track', 'page'] as const),
          events: fc.subarray(['Order', 'Vis*']),
        },
        { requiredKeys: [] },
      ),
    }),
  },
  fc.record({ op: fc.constant('switch' as const), nth: fc.nat({ max: 6 }) }),
  fc.record({
    op: fc.constant('repeat' as const),
    nth: fc.nat({ max: 6 }),
    name: fc.constantFrom(...DESTINATIONS),
  }),
  fc.record({ op: fc.constant('delete' as const), userId: fc.constantFrom('u1', 'u2', 'u3', 'p1') }),
  fc.record({
    op: fc.constant('split' as const),
    userId: fc.constantFrom('u1', 'u2', 'u3', 'p1'),
    other: fc.constantFrom('user u1', 'user u2', 'anonymous a1', 'anonymous a2', 'anonymous p1'),
  }),
  fc.record({ op: fc.constant('rebuild' as const) }),
  fc.record({ op: fc.constant('crash' as const) }),
  { weight: 2, arbitrary: fc.record({ op: fc.constant('check' as const) }) },
);
export type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
