import { expect, test } from 'vitest';
import { distrustOf, isGroupWritable } from './file-rights.ts';

const ME = 1000;

test.each([
  ['of this user', { uid: ME, mode: 0o100600 }, undefined],
  ['of root, as an orchestrator mounts it', { uid: 0, mode: 0o100440 }, undefined],
  ['that a group may write, as a volume of an orchestrator', { uid: 0, mode: 0o042775 }, undefined],
  [
    'of another user',
    { uid: 1001, mode: 0o100600 },
    'belongs to user 1001, and neither to this user (1000) nor to root',
  ],
  ['that everybody may write', { uid: ME, mode: 0o040777 }, 'may be written by everybody on this machine'],
  [
    'that everybody may write into, each his own',
    { uid: 0, mode: 0o041777 },
    'may be written by everybody on this machine',
  ],
])('a file %s', (_, rights, problem) => {
  expect(distrustOf(rights, ME)).toBe(problem);
  // Systems without such ids say nothing.
  expect(distrustOf(rights, undefined)).toBe(undefined);
});

test('root relies on itself alone', () => {
  expect(distrustOf({ uid: ME, mode: 0o600 }, 0)).toMatch(/^belongs to user 1000/);
  expect(distrustOf({ uid: 0, mode: 0o600 }, 0)).toBe(undefined);
});

test('a group that may write is told from one that may read', () => {
  expect([0o660, 0o640, 0o606].map((mode) => isGroupWritable({ mode }))).toEqual([true, false, false]);
});
