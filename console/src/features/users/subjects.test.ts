import { expect, it } from 'vitest';
import { subjectsOf } from './subjects.ts';

it('userIds are taken one a line, each once, and may have blanks inside', () => {
  expect(subjectsOf(' u1 \r\n\nu 2\nu1\nu1\n')).toEqual([' u1 ', 'u 2', 'u1']);
});
