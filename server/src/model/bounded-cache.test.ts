import { expect, it } from 'vitest';
import { BoundedCache } from './bounded-cache.ts';

it('forgets everything rather than growing beyond its weight, and keeps nothing heavier than that', () => {
  const cache = new BoundedCache<string, number>(10);
  expect(cache.set('a', 1, 6)).toBe(1);
  cache.set('b', 2, 4);
  expect([cache.get('a'), cache.get('b')]).toEqual([1, 2]);
  cache.set('c', 3);
  expect([cache.get('a'), cache.get('b'), cache.get('c')]).toEqual([undefined, undefined, 3]);
  expect(cache.set('d', 4, 11)).toBe(4);
  expect([cache.get('c'), cache.get('d')]).toEqual([3, undefined]);
});
