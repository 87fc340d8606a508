import { expect, test } from 'vitest';
import * as z from 'zod';
import { textInQuery } from '../../src/control-api/ids.ts';
import { inputParser } from '../../src/control-api/operation.ts';
import { Problem } from '../../src/control-api/problem.ts';
import { type ControlOperationDependencies, controlOperations } from '../../src/wiring/control-operations.ts';

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

/** The last of the controls of ASCII stands apart from the others. */
const CONTROLS = [...Array.from({ length: 0x20 }, (_, code) => code), 0x7f].map((code) =>
  String.fromCharCode(code),
);

/** Whether a request with this in a parameter is refused for it. */
function isRefused({ operation, field }: (typeof PARAMETERS)[number], text: string): boolean {
  try {
    inputParser(operation)({ query: { [field]: text }, body: '' });
    return false;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return (error.errors ?? []).some(({ path }) => path.startsWith(`query.${field}`));
  }
}

test.each(PARAMETERS)('$name takes control characters in $field only if it is an id', (parameter) => {
  const refused = CONTROLS.filter((control) => isRefused(parameter, `a${control}b`));
  expect(refused).toEqual(IDS.includes(parameter.field) ? [] : CONTROLS);
});

test('the character that is refused is named, as a URL writes it', () => {
  const told = ['a\0b', 'a\tb', 'a\u007fb'].map(
    (text) => textInQuery.safeParse(text).error?.issues[0]?.message,
  );
  expect(told).toEqual(
    ['00', '09', '7F'].map((code) => `must not have the control character U+00${code} (%${code}) in it`),
  );
  expect(textInQuery.parse('Order\u00a0Placed \u{1f389}\u2028')).toBe('Order\u00a0Placed \u{1f389}\u2028');
});
