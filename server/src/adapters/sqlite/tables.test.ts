import { expect, test } from 'vitest';
import { OPERATION_WORDS } from './tables.ts';

test('an operator is told of damage in words, not with the name of an operation', () => {
  const names = Object.keys(OPERATION_WORDS).filter((name) => /[A-Z]/.test(name));
  expect(names.length).toBeGreaterThan(10);
  for (const [name, words] of Object.entries(OPERATION_WORDS)) {
    expect(words).toMatch(/^[a-z ]+$/);
    expect(words).not.toBe(name);
  }
});
