import { describe, test } from 'vitest';
import type { Computation, EventAggregate } from '../../src/model/definition.ts';
import { DAY, HOUR } from '../../src/model/time.ts';
import { amountOf } from '../support/runs.ts';
import { diskPlace, memoryPlace } from './profile-places.ts';
import type { Step } from './profile-steps.ts';
import { compareSteps, compareWithModel } from './profiles-model.ts';

const runs = amountOf({ gate: 120, long: 4000 });

test('profiles, memberships and notifications are those of a naive model, whatever fails in between', () =>
  compareWithModel(memoryPlace, { numRuns: runs }));

test('so are those in users.db', () => compareWithModel(diskPlace, { numRuns: Math.ceil(runs / 3) }));

const BASE = { id: 1, version: 1, text: '', destinations: [], enabled: true } as const;
const ORDERS: EventAggregate = { op: 'event', type: 'track', name: 'Order', reduce: { op: 'count' } };
const COUNTED: Computation = { ...BASE, kind: 'trait', name: 'c0', key: 'c0', definition: ORDERS };
const RECENT: Computation = { ...COUNTED, definition: { ...ORDERS, within: DAY } };
/** The second audience has no member who has ordered, and none without a userId. */
const ANYBODY = audience({ op: '>=', value: ORDERS, to: 0 }, true);
const NOBODY = audience({ op: '<', value: ORDERS, to: 0 }, false);
/** A user who has ordered twice is no member of this one. */
const FEW = audience({ op: '<', value: ORDERS, to: 2 }, false);

const A1 = { anonymousId: 'a1' } as const;
const U1 = { userId: 'u1' } as const;
const U2 = { userId: 'u2' } as const;

describe('as in the naive model', () => {
  test('an anonymous id that an email joined to a user stays with it when another user who has it is deleted', () =>
    compareSteps(memoryPlace(), {
      definitions: [COUNTED],
      steps: [
        order(A1),
        identify('e1', A1),
        identify('e1', U2),
        identify('e2', { ...U1, ...A1 }),
        { op: 'delete', userId: 'u1' },
        define(RECENT),
      ],
    }));

  test('an anonymous member of an audience that has no anonymous ones any more is told so by a rebuild', () =>
    compareSteps(memoryPlace(), {
      definitions: [COUNTED, ANYBODY],
      steps: [
        order(A1),
        { op: 'check' },
        define(COUNTED, NOBODY),
        { op: 'rebuild' },
        order({ ...U1, ...A1 }),
      ],
    }));

  test('an anonymous member to whom a late alias gives an earlier id leaves under the id that was told', () =>
    compareSteps(memoryPlace(), {
      definitions: [COUNTED, ANYBODY],
      steps: [
        order({ anonymousId: 'a2' }),
        { op: 'check' },
        { op: 'call', type: 'alias', anonymousId: 'a2', previousId: 'a1', age: HOUR },
        order({ ...U1, anonymousId: 'a2' }),
      ],
    }));

  // However far the rebuild is when the other one begins to hear.
  test.each([0, 1, 2, 3])(
    'a destination that hears %i slices into a rebuild makes no other hear twice',
    (slices) =>
      compareSteps(memoryPlace(), {
        definitions: [COUNTED, ANYBODY],
        steps: [
          { op: 'hear', names: ['erp'] },
          order(U1),
          ...several(3),
          { op: 'rebuild' },
          ...several(slices),
          { op: 'hear', names: ['crm', 'erp'] },
        ],
      }),
  );

  test('a destination that is told every member again is told so though a rebuild begins meanwhile', () =>
    compareSteps(memoryPlace(), {
      definitions: [COUNTED, ANYBODY],
      steps: [
        order(U1),
        { op: 'check' },
        { op: 'repeat', nth: 0, name: 'crm' },
        { op: 'repeat', nth: 1, name: 'erp' },
        { op: 'rebuild' },
      ],
    }));

  test('a walk whose commit failed counts for nothing in the rebuild behind it', () =>
    compareSteps(memoryPlace(), {
      definitions: [COUNTED],
      steps: [
        order(U1),
        { op: 'check' },
        { op: 'repeat', nth: 0, name: 'crm' },
        { op: 'failing commit' },
        { op: 'rebuild' },
      ],
    }));

  test.each([
    { begins: 'once', again: [] },
    { begins: 'twice', again: [{ op: 'slice' }, { op: 'rebuild' }] as const },
  ])('a destination that is connected as a rebuild begins $begins is told every member', ({ again }) =>
    compareSteps(memoryPlace(), {
      definitions: [COUNTED],
      steps: [
        { op: 'connect', nth: 0, names: ['erp'] },
        order(U1),
        { op: 'check' },
        { op: 'rebuild' },
        { op: 'connect', nth: 0, names: ['crm', 'erp'] },
        ...again,
      ],
    }),
  );

  test.each([
    { meanwhile: 'nothing', steps: [] },
    { meanwhile: 'a rebuild', steps: [{ op: 'rebuild' }] as const },
  ])(
    'a destination that is connected again hears of who is no member any more ($meanwhile meanwhile)',
    ({ steps }) =>
      compareSteps(memoryPlace(), {
        definitions: [COUNTED, FEW],
        steps: [
          order(U1),
          { op: 'check' },
          { op: 'connect', nth: 1, names: [] },
          ...several(3),
          ...steps,
          { op: 'connect', nth: 1, names: ['erp'] },
          order(U1),
        ],
      }),
  );

  test.each([
    { meanwhile: 'a member leaves', before: [order(U1)], steps: [order(U1)] },
    {
      meanwhile: 'a member leaves and comes again',
      before: [order(U1)],
      steps: [order(U1), define(COUNTED, FEW)],
    },
    { meanwhile: 'a rebuild begins', before: [order(U1)], steps: [order(U1), { op: 'rebuild' }] as const },
    {
      meanwhile: 'somebody comes and goes',
      before: [],
      steps: [order(U1), { op: 'check' }, order(U1)] as const,
    },
    {
      meanwhile: 'a member is merged into another one',
      before: [order(U1), order(U2)],
      steps: [{ op: 'call', type: 'alias', previousId: 'u1', age: 0, ...U2 }] as const,
    },
    {
      meanwhile: 'an anonymous member says who it is',
      before: [order(A1)],
      steps: [order({ ...U1, ...A1 })],
    },
  ])(
    'a destination that is connected again hears what others heard ($meanwhile meanwhile)',
    ({ before, steps }) =>
      compareSteps(memoryPlace(), {
        definitions: [COUNTED, FEW],
        steps: [
          ...before,
          { op: 'check' },
          { op: 'connect', nth: 1, names: ['crm'] },
          ...steps,
          { op: 'check' },
          { op: 'connect', nth: 1, names: ['crm', 'erp'] },
        ],
      }),
  );

  test.each([
    { names: ['crm'], again: ['crm', 'erp'] },
    { names: ['crm', 'erp'], again: ['crm'] },
  ] as const)(
    'a destination that gets or loses an audience while events are on their way hears what is so',
    ({ names, again }) =>
      compareSteps(memoryPlace(), {
        definitions: [COUNTED, FEW],
        steps: [
          { op: 'connect', nth: 1, names: [...names] },
          order(U1),
          { op: 'check' },
          order(U1),
          ...several(2),
          { op: 'pass', time: 2000 },
          ...several(2),
          { op: 'connect', nth: 1, names: [...again] },
          { op: 'publish', crashes: false },
          { op: 'check' },
          { op: 'connect', nth: 1, names: ['crm', 'erp'] },
        ],
      }),
  );

  test.each([
    { event: 'a leave', before: [order(U1), { op: 'check' }], after: [] },
    { event: 'an entry', before: [], after: [order(U1), { op: 'check' }] },
  ] as const)(
    '$event that is on its way when an audience is disabled is told when it is enabled again',
    ({ before, after }) =>
      compareSteps(memoryPlace(), {
        definitions: [COUNTED, FEW],
        steps: [
          ...before,
          order(U1),
          ...several(2),
          { op: 'pass', time: 2000 },
          ...several(2),
          { op: 'switch', nth: 1 },
          { op: 'publish', crashes: false },
          ...after,
          { op: 'switch', nth: 1 },
        ],
      }),
  );

  test('what is told of a former id that a split has freed is never older than what was told of it before', () =>
    compareSteps(memoryPlace(), {
      definitions: [COUNTED, audience({ op: '=', value: ORDERS, to: 1 }, true)],
      steps: [
        order(A1),
        { op: 'check' },
        { op: 'delete', userId: 'u3' },
        { op: 'hear', names: [] },
        order({ ...U2, ...A1 }),
        { op: 'check' },
        order({ ...U1, ...A1 }),
        { op: 'split', userId: 'u2', other: 'anonymous a1' },
        { op: 'hear', names: ['erp'] },
      ],
    }));

  test('what is told of a former id after two rebuilds is not older than what was told of it before', () =>
    compareSteps(memoryPlace(), {
      definitions: [COUNTED, ANYBODY],
      steps: [
        order(U2),
        { op: 'check' },
        { op: 'hear', names: [] },
        { op: 'call', type: 'alias', previousId: 'u2', age: 0, ...U1 },
        { op: 'rebuild' },
        { op: 'check' },
        { op: 'rebuild' },
        { op: 'hear', names: ['erp'] },
      ],
    }));

  test('a user stays whose id an alias has given to somebody else who is deleted', () =>
    compareSteps(memoryPlace(), {
      definitions: [COUNTED],
      steps: [
        { op: 'call', type: 'alias', previousId: 'u1', age: 0, ...U2 },
        order(U1),
        ...several(3),
        { op: 'delete', userId: 'u2' },
      ],
    }));

  // However far the rebuild is when the users become one.
  test.each([0, 1, 2, 3])('users who merge %i slices after a rebuild began are told once', (slices) =>
    compareSteps(memoryPlace(), {
      definitions: [COUNTED, ANYBODY],
      steps: [
        order(U2),
        order(U1),
        { op: 'check' },
        { op: 'rebuild' },
        ...several(slices),
        { op: 'call', type: 'alias', previousId: 'u2', age: 0, ...U1 },
      ],
    }),
  );
});

function several(slices: number): Step[] {
  return Array.from({ length: slices }, () => ({ op: 'slice' }) as const);
}

function order(who: Pick<Extract<Step, { op: 'call' }>, 'userId' | 'anonymousId'>): Step {
  return { op: 'call', type: 'track', name: 'Order', properties: {}, age: 0, ...who };
}

function identify(email: 'e1' | 'e2', who: Partial<typeof U1 | typeof U2 | typeof A1>): Step {
  return { op: 'call', type: 'identify', traits: { email }, age: 0, ...who };
}

function define(...definitions: readonly Computation[]): Step {
  return { op: 'define', definitions, kept: definitions.map(() => false) };
}

function audience(
  definition: Extract<Computation, { kind: 'audience' }>['definition'],
  includeAnonymous: boolean,
): Computation {
  return { ...BASE, id: 2, kind: 'audience', name: 'c1', key: 'c1', definition, includeAnonymous };
}
