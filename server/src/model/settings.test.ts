import { expect, test } from 'vitest';
import { hasRole, ROLES } from './settings.ts';

test('each role may do what those before it may', () => {
  const table = ROLES.map((role) => ROLES.filter((least) => hasRole(role, least)));
  expect(table).toEqual([
    ['metrics'],
    ['metrics', 'viewer'],
    ['metrics', 'viewer', 'editor'],
    ['metrics', 'viewer', 'editor', 'admin'],
  ]);
});
