import { expect, test } from 'vitest';
import * as z from 'zod';
import { inputParser } from '../../src/control-api/operation.ts';
import { Problem } from '../../src/control-api/problem.ts';
import { type ControlOperationDependencies, controlOperations } from '../../src/control-operations.ts';

/** Stands for every dependency: an operation that is only parsed calls none. */
const NOTHING = new Proxy(() => {}, {
  get: () => NOTHING,
  apply: () => NOTHING,
}) as unknown as ControlOperationDependencies;

/** Ids are taken as they are; the JSON forms say so in words of their own. */
const IDS = ['userId', 'anonymousId', 'messageId'];

const PARAMETERS = controlOperations(NOTHING).flatMap((operation) => {
  const { query, method, path } = operation;
  const fields = query === undefined ? [] : Object.keys(fieldsOf(query));
  return fields.map((field) => ({ operation, name: `${method} ${path}`, field }));
});

function fieldsOf(query: z.ZodType): object {
  if (!(query instanceof z.ZodObject)) throw new Error('A query is an object of fields.');
  return query.shape;
}

test.each(PARAMETERS)('$name takes U+0000 in $field only if it is an id', ({ operation, field }) => {
  let refused: readonly string[] = [];
  try {
    inputParser(operation)({ query: { [field]: 'a\0b' }, body: '' });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    refused = (error.errors ?? []).map(({ path }) => path);
  }
  expect(refused.some((path) => path.startsWith(`query.${field}`))).toBe(!IDS.includes(field));
});
