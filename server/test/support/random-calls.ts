import fc from 'fast-check';
import { CALL_TYPES } from '../../src/model/event.ts';
import type { Json } from '../../src/model/json.ts';

/** Random calls and batches for tests: mostly as clients send them, sometimes anything else. */

const FIELDS = [
  ...['messageId', 'type', 'channel', 'userId', 'anonymousId', 'previousId', 'groupId', 'event', 'name'],
  ...['category', 'properties', 'traits', 'context', 'integrations', 'timestamp', 'originalTimestamp'],
  ...['sentAt', 'receivedAt', 'writeKey', 'batch', 'library', 'direct', '__proto__', 'constructor', 'toJSON'],
  ...['0', '7up', 'é', '💧', '', 'a', 'b', '_metadata', 'version'],
];

const key = fc.oneof(
  {
    weight: 40,
    arbitrary: fc.constantFrom('a', 'b', 'total', 'nested', 'é', '💧', '', 'library', 'constructor'),
  },
  { weight: 2, arbitrary: fc.constantFrom(...FIELDS) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
);

const time = fc.oneof(
  fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
  fc.constantFrom('2026-11-21T11:00:00.123Z', '2026-11-21T03:35:55+0000', '2026-11-21T03:35:55.654264364Z'),
  fc.constantFrom(
    '2026-11-21T03:35:55,123Z',
    '2016-12-31T23:59:60.000Z',
    ' 2026-11-21',
    '2026-02-30T00:00:00.000Z',
  ),
  // Around a second before and behind the arrival in the tests that use these calls,
  // 2026-11-21T12:00:00.000Z.
  fc.constantFrom('2026-11-21T11:59:59.000Z', '2026-11-21T11:59:59.001Z', '2026-11-21T12:00:00.400+0000'),
  fc.constantFrom('2026-11-21T12:00:00.999Z', '2026-11-21T12:00:01.000Z'),
  fc.constantFrom('2026-11-21T03:35:55.000\u00a0', 'now', ''),
);

const text = fc.oneof(
  fc.constantFrom(
    'u1',
    'user-20481',
    '',
    ' ',
    ' x ',
    'é',
    '用户',
    '💧',
    'a\\b',
    'a"b',
    'a\nb',
    '\u0000',
    '\ud800',
    'x'.repeat(101),
  ),
  fc.constantFrom('server', 'browser', ...CALL_TYPES),
  fc.string({ unit: 'binary', maxLength: 40 }),
  time,
);

const number = fc.oneof(
  fc.integer(),
  fc.double(),
  fc.constantFrom(0, -0, 0.1, 1e21, 1e-7, 123456789012345680000, 2 ** 53, 19.9, 100, 1.5e300, 0.000001),
);

const { value, object } = fc.letrec<{ value: Json; object: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    { weight: 10, arbitrary: fc.constantFrom('', 'x', 'Größe', 'a\\"b\n', '2026-11-21T11:00:00.123Z') },
    text,
    number,
    fc.constantFrom(null, true, false),
    fc.array(tie('value'), { maxLength: 4 }),
    tie('object'),
  ),
  object: fc.array(fc.tuple(key, tie('value')), { maxLength: 6 }).map((fields) => objectOf(fields)),
}));

/** Assigning `__proto__` would not make a field. */
function objectOf(fields: readonly (readonly [string, Json])[]): Json {
  return Object.fromEntries(fields);
}

const library = fc.constantFrom(
  ...['analytics.js', 'analytics-node', 'analytics-ios', 'Jürgens'].map((name) => ({
    name,
    version: '1.2.3',
  })),
);
const context = fc.oneof(
  object,
  fc.record(
    {
      library,
      ip: fc.oneof(
        text,
        fc.constantFrom('203.0.113.9', '::ffff:192.0.2.1', '2001:db8:1:2::3', '0.0.0.0', null),
      ),
      page: object,
      direct: fc.constantFrom(true, false),
    },
    { requiredKeys: ['library'] },
  ),
  fc.record({ library, locale: text }),
);

const id = fc.oneof(
  fc.uuid(),
  fc.constantFrom('u1', 'user 20481', 'Jürgen', '用户', '💧', 'a\\b', 'a"b', 'a\nb'),
);

/** Mostly a valid value, sometimes anything else. */
function likely<T>(good: fc.Arbitrary<T>, odd: fc.Arbitrary<Json> = value): fc.Arbitrary<T | Json> {
  return fc.oneof({ weight: 30, arbitrary: good }, { weight: 1, arbitrary: odd });
}

const nothing = fc.constant(null);

/** Fields in any order. */
export const call = fc
  .record(
    {
      type: likely(fc.constantFrom(...CALL_TYPES)),
      userId: likely(id),
      messageId: likely(id, fc.oneof(text, nothing)),
      anonymousId: likely(id, nothing),
      previousId: likely(id),
      groupId: likely(id, fc.nat()),
      event: likely(id),
      name: likely(text),
      category: likely(text, nothing),
      channel: likely(text),
      properties: likely(object),
      traits: likely(object, nothing),
      context: likely(context),
      integrations: likely(object, nothing),
      timestamp: likely(time),
      originalTimestamp: likely(time),
      sentAt: likely(time, nothing),
      writeKey: fc.constantFrom('wk', 'other', '', null),
      _metadata: object,
    },
    { requiredKeys: ['type', 'userId', 'previousId', 'groupId', 'event'] },
  )
  .chain((fields) => fc.shuffledSubarray(Object.entries(fields), { minLength: Object.keys(fields).length }))
  .map((fields) => objectOf(fields as [string, Json][]));

export const anyCall = fc.oneof({ weight: 9, arbitrary: call }, value);

export const batch = fc
  .tuple(
    fc.array(anyCall, { maxLength: 6 }),
    fc.option(context),
    fc.option(object),
    fc.option(time),
    fc.boolean(),
  )
  .map(([calls, context, integrations, sentAt, behind]) => {
    const around = {
      ...(context === null ? {} : { context }),
      ...(integrations === null ? {} : { integrations }),
      ...(sentAt === null ? {} : { sentAt }),
      writeKey: 'wk',
    };
    return behind ? { batch: calls, ...around } : { ...around, batch: calls };
  });

/**
 * Changes of a text that keep it JSON, or do not: blanks, escapes, other spellings of numbers, doubled keys,
 * cuts.
 */
export const mutation = fc.tuple(
  fc.nat(),
  fc.oneof(
    fc.constantFrom(
      ' ',
      '\n',
      '\t',
      '\ufeff',
      ',',
      ':',
      '"',
      '\\',
      '{',
      '}',
      '[',
      ']',
      '0',
      '.0',
      'e1',
      'E5',
      '-',
      '+',
    ),
    fc.constantFrom(
      '\\u0041',
      '\\/',
      '\\n',
      '\\ud800',
      'null',
      'true',
      '"a":1,',
      '"a":1,"a":2,',
      '"batch":[],',
    ),
    fc.constantFrom(
      '"\\u0062atch":[],',
      '"userId":"u9",',
      '"9":1,',
      '"__proto__":{},',
      '\u0000',
      '\u007f',
      '\u2028',
    ),
    fc.string({ unit: 'binary', maxLength: 3 }),
  ),
  fc.nat({ max: 3 }),
);

export function mutated(json: string, changes: readonly (readonly [number, string, number])[]): string {
  return changes.reduce((text, [place, inserted, removed]) => {
    const at = place % (text.length + 1);
    return text.slice(0, at) + inserted + text.slice(at + removed);
  }, json);
}
