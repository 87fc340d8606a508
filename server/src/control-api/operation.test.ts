import { expect, test } from 'vitest';
import * as z from 'zod';
import { defineOperation, inputParser } from './operation.ts';
import { Problem } from './problem.ts';

const NOTHING = {
  method: 'POST',
  path: 'x',
  role: 'viewer',
  summary: '',
  run: async () => undefined,
} as const;

const read = inputParser(
  defineOperation({
    ...NOTHING,
    query: z.object({ fast: z.enum(['true', 'false'], 'must be true or false').exactOptional() }),
    body: z.strictObject({
      size: z.number().min(1),
      ids: z.array(z.string('must be an id')).exactOptional(),
    }),
  }),
);

function faultsOf(query: object, body: string) {
  try {
    return read({ query, body });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return error.errors ?? error.code;
  }
}

test('query and body come as their schemas have them', () => {
  expect(read({ query: { fast: 'true' }, body: '{"size":2}' })).toEqual({
    query: { fast: 'true' },
    body: { size: 2 },
  });
});

test.each([
  [{ fast: 'yes' }, '{"size":1}', 'query.fast', 'must be true or false, found "yes"'],
  [{ fsat: 'true' }, '{"size":1}', 'query.fsat', 'is not a known key; allowed here: fast'],
  [{}, '{"size":1,"colour":2}', 'body.colour', 'is not a known key; allowed here: size, ids'],
  [{}, '{"size":0}', 'body.size', 'Too small: expected number to be >=1, found 0'],
  [{}, '{"size":"1"}', 'body.size', 'expected number, found "1"'],
  [{}, '{"size":1,"ids":["a",7]}', 'body.ids[1]', 'must be an id, found 7'],
  [{}, '{"size":1,"ids":[null]}', 'body.ids[0]', 'must be an id, found null'],
  [{}, '{}', 'body.size', 'is missing: expected number'],
  [{}, '', 'body.size', 'is missing: expected number'],
  [{}, '[1]', 'body', 'expected object, found a list of 1'],
  [{}, 'null', 'body', 'expected object, found null'],
])('with %j and %s it names %s: %s', (query, body, path, message) => {
  expect(faultsOf(query, body)).toEqual([{ path, message }]);
});

test('all faults of both are told at once', () => {
  expect(faultsOf({ a: '1', b: '2' }, '{"x":1}')).toHaveLength(4);
});

test('a value that is long is told by its beginning', () => {
  const message = `must be true or false, found "${'x'.repeat(79)}…`;
  expect(faultsOf({ fast: 'x'.repeat(1000) }, '{"size":1}')).toEqual([{ path: 'query.fast', message }]);
});

test.each(['{', '{"size":1}}', 'size=1', '\u0000'])('%j is no JSON', (body) => {
  expect(faultsOf({}, body)).toBe('body_not_json');
});

test('an operation without a body does not look at it, and one without a query takes none', () => {
  const plain = inputParser(defineOperation(NOTHING));
  expect(plain({ query: {}, body: '{' })).toEqual({ query: {}, body: undefined });
  expect(() => plain({ query: { dryRun: 'true' }, body: '' })).toThrow(Problem);
});
