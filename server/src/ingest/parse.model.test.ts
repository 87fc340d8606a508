import fc from 'fast-check';
import { expect, test } from 'vitest';
import * as z from 'zod';
import { amountOf } from '../../test/support/runs.ts';
import { sourceWith } from '../../test/support/sources.ts';
import { CALL_TYPES } from '../model/event.ts';
import type { Json } from '../model/json.ts';
import { indexWriteKeys } from './calls.ts';
import { parseRequest } from './parse.ts';

/**
 * A second definition of valid calls, as a schema (spec/specification.md, "Ids", "Required fields" and
 * "Invalid calls"). The schema is far too slow for every call, but it and the hand-written rules must agree.
 */

/** Absent, `null`, or what it should be. */
const optional = <Schema extends z.ZodType>(schema: Schema) => schema.nullish();
const id = z.union([z.string(), z.int(), z.number()]);
const presentId = z.union([z.string().min(1), z.int(), z.number()]);
const words = z.string();
/** PHP writes an empty object as an empty list. */
const object = z.union([z.record(z.string(), z.unknown()), z.array(z.never()).max(0)]);

const fields = {
  userId: optional(id),
  anonymousId: optional(id),
  previousId: optional(id),
  groupId: optional(id),
  event: optional(words),
  name: optional(words),
  category: optional(words),
  properties: optional(object),
  traits: optional(object),
  context: optional(object),
  integrations: optional(object),
};

const somebody = { error: 'somebody', path: ['userId'] };
const isAboutSomebody = (call: { userId?: unknown; anonymousId?: unknown }) =>
  [call.userId, call.anonymousId].some((id) => (id ?? '') !== '');

const plain = (type: 'identify' | 'page' | 'screen') =>
  z.looseObject({ ...fields, type: z.literal(type) }).refine(isAboutSomebody, somebody);

const model = z.union([
  plain('identify'),
  plain('page'),
  plain('screen'),
  z
    .looseObject({ ...fields, type: z.literal('track'), event: z.string().min(1) })
    .refine(isAboutSomebody, somebody),
  z
    .looseObject({ ...fields, type: z.literal('group'), groupId: presentId })
    .refine(isAboutSomebody, somebody),
  z
    .looseObject({ ...fields, type: z.literal('alias'), previousId: presentId })
    .refine(isAboutSomebody, somebody),
]);

const website = sourceWith();
const keys = indexWriteKeys([website], 'refuse');

const anything = fc.constantFrom<Json[]>(
  '',
  ' ',
  'x',
  'é"\\',
  0,
  -1,
  1.5,
  7,
  true,
  false,
  null,
  [],
  [1],
  {},
  {
    a: 1,
  },
);
const likely = (...good: Json[]) =>
  fc.oneof({ weight: 12, arbitrary: fc.constantFrom(...good) }, { weight: 1, arbitrary: anything });

const call = fc.record(
  {
    type: likely(...CALL_TYPES),
    userId: likely('u1', 7, null),
    anonymousId: likely('a1', null),
    previousId: likely('u0', 6),
    groupId: likely('g1', 7),
    event: likely('E', null),
    name: likely('N', '', null),
    category: likely('C', '', null),
    properties: likely({}, { a: 1 }, null),
    traits: likely({}, { a: [] }, null),
    context: likely({}, { locale: 'de' }, null),
    integrations: likely({}, { All: false }, null),
    timestamp: anything,
    sentAt: anything,
    messageId: anything,
    channel: anything,
    other: anything,
  },
  { requiredKeys: [] },
);
const item = fc.oneof({ weight: 20, arbitrary: call }, { weight: 1, arbitrary: anything });

/** `canonical` bodies are scanned, those with blanks are parsed; both must follow the model. */
function accepts(items: readonly unknown[], canonical: boolean): boolean[] {
  const body = Buffer.from(JSON.stringify({ batch: items }, null, canonical ? undefined : 1));
  const received = parseRequest({ type: 'batch', writeKey: 'wk', body, receivedAt: 0 }, keys, () => 'm');
  if (received.kind === 'refused') throw new Error(received.code);
  const discarded = new Set(received.discards.map(({ index }) => index));
  expect(received.events.length + discarded.size).toBe(items.length);
  return items.map((_, index) => !discarded.has(index));
}

const RUNS = amountOf({ gate: 500, long: 2000 });

test('a call is accepted exactly when the model says that it is valid', () => {
  let valid = 0;
  let invalid = 0;
  fc.assert(
    fc.property(fc.array(item, { maxLength: 8 }), fc.boolean(), (items, canonical) => {
      const expected = items.map((one) => model.safeParse(one).success);
      expect(accepts(items, canonical)).toEqual(expected);
      for (const one of expected) one ? valid++ : invalid++;
    }),
    { numRuns: RUNS },
  );
  expect(Math.min(valid, invalid)).toBeGreaterThan(RUNS / 2);
});
