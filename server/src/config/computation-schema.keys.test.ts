import { expect, test } from 'vitest';
import keys from '../../../spec/fixtures/computations/keys.json' with { type: 'json' };
import { snakeCase } from './computation-schema.ts';

test.each(keys)('the key of $name is $key', ({ name, key }) => {
  expect(snakeCase(name)).toBe(key);
});

test('a key is its own key', () => {
  for (const { key } of keys) expect(snakeCase(key)).toBe(key);
});
