import { expect, it } from 'vitest';
import { soFar } from './computations.ts';

it('a number that is not complete says how many events it does not count yet', () => {
  expect(soFar({ eventsBehind: 1 })).toBe(' so far (1 event is not counted yet)');
  expect(soFar({ eventsBehind: 12_345 })).toBe(' so far (12,345 events are not counted yet)');
  expect(soFar({})).toBe('');
});
