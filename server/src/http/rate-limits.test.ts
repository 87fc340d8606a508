import { expect, test } from 'vitest';
import type { Source } from '../model/source.ts';
import { RateLimits } from './rate-limits.ts';

const source = (id: number, rateLimit?: number): Source => ({
  ...{ id, name: `s${id}`, writeKeys: [`k${id}`], enabled: true, mode: 'standard', whenDisabled: 'refuse' },
  ...(rateLimit === undefined ? {} : { rateLimit }),
});

function limitsOf(...sources: Source[]) {
  const clock = {
    time: 0,
    now: () => 0,
    monotonic: () => clock.time,
    after: () => () => {},
    steps: () => [{ at: 0, ahead: 0 }],
  };
  const limits = new RateLimits(clock);
  limits.configure(sources);
  return {
    clock,
    limits,
    admit: (...calls: [number, number][]) => limits.admit(calls.map(([id, n]) => ({ source: id, calls: n }))),
  };
}

test('a source without a limit is never asked to wait', () => {
  const { admit } = limitsOf(source(1), source(2, 1));
  for (let n = 0; n < 100; n++) expect(admit([1, 1000])).toBe(0);
});

test('each source has its own limit', () => {
  const { admit, clock } = limitsOf(source(1, 10), source(2, 20));
  expect([admit([1, 10]), admit([1, 1]), admit([2, 20]), admit([2, 1])]).toEqual([0, 1, 0, 1]);
  clock.time = 1000;
  expect([admit([1, 10]), admit([1, 1]), admit([2, 20]), admit([2, 1])]).toEqual([0, 1, 0, 1]);
});

test('a request of several sources is taken whole or not at all', () => {
  const { admit } = limitsOf(source(1, 10), source(2, 10), source(3));
  expect(admit([2, 10])).toBe(0);
  expect(admit([3, 5], [1, 6], [2, 1])).toBe(1);
  // What the first source gave was given back.
  expect(admit([1, 10])).toBe(0);
});

test('a request of no source is not asked to wait', () => {
  expect(limitsOf(source(1, 1)).admit()).toBe(0);
});

test('saving the sources again opens no gap, and a new limit holds at once', () => {
  const { admit, limits } = limitsOf(source(1, 10));
  expect(admit([1, 10])).toBe(0);
  limits.configure([source(1, 10)]);
  expect(admit([1, 1])).toBe(1);
  limits.configure([source(1)]);
  expect(admit([1, 1000])).toBe(0);
  limits.configure([source(1, 5)]);
  expect([admit([1, 5]), admit([1, 1])]).toEqual([0, 1]);
});
