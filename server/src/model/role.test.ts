import { expect, test } from 'vitest';
import { mayAct, ROLES } from './role.ts';

test('each role may do what those before it may', () => {
  const table = ROLES.map((role) => ROLES.filter((least) => mayAct(role, least)));
  expect(table).toEqual([['viewer'], ['viewer', 'editor'], ['viewer', 'editor', 'admin']]);
});
