import { expect, test } from 'vitest';
import type { JsonObject } from '../model/json.ts';
import { mergePatch } from './merge-patch.ts';

/** The table of RFC 7396, appendix A, as far as both sides are objects, as they always are here. */
const TABLE: readonly [target: string, patch: string, merged: string][] = [
  ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
  ['{"a":"b"}', '{"a":null}', '{}'],
  ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
  ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
  ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
  ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
  ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
  ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
];

test.each(TABLE)('%s with %s is %s', (target, patch, merged) => {
  expect(mergePatch(JSON.parse(target), JSON.parse(patch))).toEqual(JSON.parse(merged));
});

test('the example of RFC 7396 section 3 comes out as it says', () => {
  const target = {
    title: 'Goodbye!',
    author: { givenName: 'John', familyName: 'Doe' },
    tags: ['example', 'sample'],
    content: 'This will be unchanged',
  };
  const patch = {
    title: 'Hello!',
    phoneNumber: '+01-123-456-7890',
    author: { familyName: null },
    tags: ['example'],
  };
  expect(mergePatch(target, patch)).toEqual({
    title: 'Hello!',
    author: { givenName: 'John' },
    tags: ['example'],
    content: 'This will be unchanged',
    phoneNumber: '+01-123-456-7890',
  });
});

test('what is merged is a copy, and keys that mean something to the language are only keys', () => {
  const target: JsonObject = { a: { b: 1 } };
  const merged = mergePatch(target, JSON.parse('{"__proto__":{"x":1},"a":{"c":2}}'));
  expect(target).toEqual({ a: { b: 1 } });
  expect(Object.keys(merged).sort()).toEqual(['__proto__', 'a']);
  expect(({} as { x?: number }).x).toBeUndefined();
});
