import { describe, expect, test } from 'vitest';
import type {
  AudienceDefinition,
  Computation,
  Condition,
  EventAggregate,
  Reducer,
  TraitDefinition,
} from '../../model/definition.ts';
import type { JsonObject } from '../../model/json.ts';
import { DAY, HOUR, type Time } from '../../model/time.ts';
import { newProfile, type ProfileState } from '../identity/profile-state.ts';
import { setTrait } from '../identity/traits.ts';
import { slotKeysOf } from './audience-compiler.ts';
import { createTraitEngine, type TraitEngine, type UserEvent } from './trait-engine.ts';

const NOON: Time = Date.UTC(2026, 10, 22, 12);
const COUNT: Reducer = { op: 'count' };

describe('an audience', () => {
  test('is entered with the event that fulfils it and left when its window has passed', () => {
    const engine = engineOf(audience('a', atLeast(2, orders({ within: DAY }))));
    const user = userOf('u1');
    engine.apply(user, order(NOON - HOUR));
    expect(engine.evaluate(user, NOON)).toEqual([]);
    engine.apply(user, order(NOON));
    expect(engine.evaluate(user, NOON)).toEqual([{ computation: 1, value: true }]);
    expect(user.computed.get(1)).toMatchObject({ value: true, since: NOON, sent: { value: undefined } });

    const leaves = NOON - HOUR + DAY;
    expect(engine.nextChange(user, NOON)).toBe(leaves);
    expect(engine.evaluate(user, leaves - 1)).toEqual([]);
    expect(engine.evaluate(user, leaves)).toEqual([{ computation: 1, value: false }]);
    expect(engine.nextChange(user, leaves)).toBeUndefined();
  });

  test('of users who did not do something is entered when a window passes', () => {
    const engine = engineOf(audience('a', { op: '=', value: orders({ within: DAY }), to: 0 }));
    const user = userOf('u1');
    engine.apply(user, order(NOON));
    engine.evaluate(user, NOON);
    expect(engine.evaluate(user, engine.nextChange(user, NOON)!)).toEqual([{ computation: 1, value: true }]);
  });

  test('has a profile without a userId for a member only with includeAnonymous', () => {
    const one = audience('a', atLeast(1, orders()));
    const engine = engineOf(one, { ...one, name: 'b', includeAnonymous: true });
    const user = newProfile(1);
    engine.apply(user, order(NOON));
    expect(engine.evaluate(user, NOON)).toEqual([{ computation: 2, value: true }]);
    user.userId = 'u1';
    expect(engine.evaluate(user, NOON)).toEqual([{ computation: 1, value: true }]);
  });

  test('may be defined by others that stand behind it', () => {
    const engine = engineOf(
      audience('rich and loyal', { op: 'audience', name: 'rich' }),
      audience('rich', { op: '>=', value: { op: 'computed', name: 'spent' }, to: 100 }),
      trait('spent', orders({ reduce: { op: 'sum', property: 'total' } })),
    );
    const user = userOf('u1');
    engine.apply(user, order(NOON, { total: 99.5 }));
    expect(engine.evaluate(user, NOON)).toEqual([{ computation: 3, value: 99.5 }]);
    engine.apply(user, order(NOON, { total: 0.5 }));
    expect(engine.evaluate(user, NOON).map(({ computation }) => computation)).toEqual([3, 2, 1]);
  });

  test('that mentions itself through others keeps the value it has, and so do those that need it', () => {
    const engine = engineOf(
      audience('a', { op: 'not', condition: { op: 'audience', name: 'b' } }),
      audience('b', { op: 'audience', name: 'a' }),
      audience('c', { op: 'audience', name: 'a' }),
      audience('d', atLeast(0, orders())),
    );
    expect(engine.circular).toEqual([1, 2, 3]);
    expect(engine.evaluate(userOf('u1'), NOON)).toEqual([{ computation: 4, value: true }]);
  });
});

describe('a number that no double holds, which is kept as the text of its digits', () => {
  const ofTrait = (op: '=' | '!=' | '<' | '<=' | '>' | '>=', to: number): Condition => ({
    op,
    value: { op: 'trait', name: 'n' },
    to,
  });

  test.each([
    ['9007199254740993', '>=', 100, true],
    ['9007199254740993', '>', 2 ** 53, true],
    ['9007199254740993', '<=', 2 ** 53, false],
    ['-9007199254740993', '<', 0, true],
    ['9007199254740992', '=', 2 ** 53, true],
    ['9007199254740993', '=', 2 ** 53, false],
    ['9007199254740993', '!=', 2 ** 53, true],
    ['1e400', '>', Number.MAX_VALUE, true],
    ['-1e400', '<', -Number.MAX_VALUE, true],
    ['1e400', '<', 0, false],
    // What a client has sent as text is no number.
    ['500', '>=', 100, false],
    ['9007199254740991', '>=', 100, false],
    ['90071992547409930x', '>=', 100, false],
  ] as const)('%s %s %d is %s', (value, op, to, isMember) => {
    const engine = engineOf(audience('a', ofTrait(op, to)));
    const user = userOf('u1');
    setTrait(user, 'n', { value, at: NOON, messageId: 'm1', isPublic: false });
    expect(engine.evaluate(user, NOON)).toEqual(isMember ? [{ computation: 1, value: true }] : []);
  });
});

describe('a computed trait', () => {
  test('is absent until the first event, and 0 when a window has passed over the last one', () => {
    const engine = engineOf(trait('t', orders({ within: DAY })));
    const user = userOf('u1');
    expect(engine.evaluate(user, NOON)).toEqual([]);
    engine.apply(user, order(NOON));
    expect(engine.evaluate(user, NOON)).toEqual([{ computation: 1, value: 1 }]);
    expect(engine.evaluate(user, NOON + DAY)).toEqual([{ computation: 1, value: 0 }]);
  });

  test('that lists values changes only when the list does', () => {
    const engine = engineOf(trait('t', orders({ reduce: { op: 'unique', property: 'sku' } })));
    const user = userOf('u1');
    engine.apply(user, order(NOON, { sku: 'b' }));
    engine.evaluate(user, NOON);
    engine.apply(user, order(NOON, { sku: 'b' }));
    expect(engine.evaluate(user, NOON)).toEqual([]);
    engine.apply(user, order(NOON, { sku: 'a' }));
    expect(engine.evaluate(user, NOON)).toEqual([{ computation: 1, value: ['a', 'b'] }]);
  });
});

describe('a condition of an aggregate', () => {
  test('on a property decides about each event, on a trait about the user as it is now', () => {
    const where: Condition = {
      op: 'and',
      conditions: [
        { op: '>=', value: { op: 'property', name: 'total' }, to: 20 },
        { op: '=', value: { op: 'trait', name: 'plan' }, to: 'pro' },
      ],
    };
    const engine = engineOf(audience('a', atLeast(1, orders({ where }))));
    const user = userOf('u1');
    engine.apply(user, order(NOON, { total: 20 }));
    expect(engine.evaluate(user, NOON)).toEqual([]);
    setTrait(user, 'plan', { value: 'pro', at: NOON, messageId: 'm1', isPublic: false });
    expect(engine.evaluate(user, NOON)).toEqual([{ computation: 1, value: true }]);
    setTrait(user, 'plan', { value: null, at: NOON + 1, messageId: 'm2', isPublic: false });
    expect(engine.evaluate(user, NOON)).toEqual([{ computation: 1, value: false }]);
  });

  test('reads no property that every object has', () => {
    const exists: Condition = { op: 'exists', value: { op: 'property', name: 'constructor.name' } };
    const engine = engineOf(audience('a', atLeast(1, orders({ where: exists }))));
    const user = userOf('u1');
    expect(engine.apply(user, order(NOON, {}))).toBe(false);
    expect(engine.apply(user, order(NOON, { constructor: { name: 'x' } }))).toBe(true);
  });
});

describe('a slot', () => {
  const total: Condition = { op: '>', value: { op: 'property', name: 'total' }, to: 1 };
  const sku: Condition = { op: 'exists', value: { op: 'property', name: 'sku' } };

  test('is shared by aggregates that count the same, however they are written', () => {
    const engine = engineOf(
      audience('a', atLeast(1, orders({ where: { op: 'and', conditions: [total, sku] } }))),
      trait('b', orders({ where: { op: 'and', conditions: [sku, { op: 'and', conditions: [total] }] } })),
      trait('c', orders({ reduce: { op: 'sum', property: 'total' }, within: DAY })),
      trait('d', orders({ reduce: { op: 'avg', property: 'total' }, within: DAY })),
      trait('e', orders({ where: total })),
    );
    expect([1, 2, 3, 4, 5].map((id) => engine.aggregatesOf(id).map(({ slot }) => slot))).toEqual([
      [1],
      [1],
      [2],
      [2],
      [3],
    ]);
  });

  test('has the same key whether a number is known for it or not', () => {
    const computation = audience('a', atLeast(3, orders({ within: DAY, where: total })));
    const keys = engineOf(computation)
      .aggregatesOf(1)
      .map(({ key }) => key);
    expect(slotKeysOf(computation)).toEqual(keys);
  });

  test('that no definition uses any more is dropped at the next evaluation', () => {
    const user = userOf('u1');
    const numbers = slotNumbers();
    createTraitEngine([trait('t', orders())], numbers).apply(user, order(NOON));
    const edited = trait('t', orders({ where: total }));
    const engine = createTraitEngine([edited], numbers);
    engine.apply(user, order(NOON, { total: 2 }));
    engine.evaluate(user, NOON);
    expect([...user.slots.keys()]).toEqual([2]);
  });

  test('of a definition that is prepared collects events, and the older version is evaluated', () => {
    const user = userOf('u1');
    const numbers = slotNumbers();
    const edited = trait('t', orders({ where: total }));
    const engine = createTraitEngine([trait('t', orders())], numbers, [edited]);
    engine.apply(user, order(NOON, { total: 2 }));
    engine.apply(user, order(NOON));
    expect(engine.evaluate(user, NOON)).toEqual([{ computation: 1, value: 2 }]);
    expect(createTraitEngine([edited], numbers).evaluate(user, NOON)).toEqual([{ computation: 1, value: 1 }]);
  });

  test('gets stored events alone when they are counted later', () => {
    const user = userOf('u1');
    const engine = engineOf(trait('old', orders()), trait('new', orders({ where: total })));
    const { slot } = engine.aggregatesOf(2)[0]!;
    engine.apply(user, order(NOON, { total: 2 }), new Set([slot]));
    expect([...user.slots.keys()]).toEqual([slot]);
  });
});

test('an event that no definition counts is not mentioned', () => {
  const engine = engineOf(trait('t', orders()));
  expect(engine.mentions('track', 'Order')).toBe(true);
  expect(engine.mentions('track', 'order')).toBe(false);
  expect(engine.mentions('page', 'Order')).toBe(false);
  expect(engine.mentions('identify', undefined)).toBe(false);
  expect(engine.apply(userOf('u1'), { ...order(NOON), name: 'constructor' })).toBe(false);
});

function engineOf(...computations: Computation[]): TraitEngine {
  return createTraitEngine(
    computations.map((one, i) => ({ ...one, id: i + 1 })),
    slotNumbers(),
  );
}

function slotNumbers(): (key: string) => number {
  const numbers = new Map<string, number>();
  return (key) => {
    const number = numbers.get(key) ?? numbers.size + 1;
    numbers.set(key, number);
    return number;
  };
}

function audience(name: string, definition: Condition): AudienceDefinition {
  const base = {
    id: 1,
    version: 1,
    name,
    key: name,
    text: '',
    destinations: [],
    enabled: true,
  };
  return { ...base, kind: 'audience', definition, includeAnonymous: false };
}

function trait(name: string, definition: EventAggregate): TraitDefinition {
  const base = {
    id: 1,
    version: 1,
    name,
    key: name,
    text: '',
    destinations: [],
    enabled: true,
  };
  return { ...base, kind: 'trait', definition };
}

function orders(rest: Partial<EventAggregate> = {}): EventAggregate {
  return { op: 'event', type: 'track', name: 'Order', reduce: COUNT, ...rest };
}

function atLeast(to: number, value: EventAggregate): Condition {
  return { op: '>=', value, to };
}

function userOf(userId: string): ProfileState {
  return { ...newProfile(1), userId };
}

let made = 0;
function order(at: Time, properties: JsonObject = {}): UserEvent {
  return { type: 'track', name: 'Order', properties, at, messageId: `m${++made}` };
}
