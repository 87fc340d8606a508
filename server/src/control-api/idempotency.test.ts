import { beforeEach, describe, expect, test } from 'vitest';
import { type HandClock, handClock } from '../../test/support/clock.ts';
import { DAY } from '../model/time.ts';
import { IdempotencyCache } from './idempotency.ts';
import { Problem } from './problem.ts';

let clock: HandClock;
let repeats: IdempotencyCache<number>;
let made: number;

beforeEach(() => {
  clock = handClock(1_000_000);
  repeats = new IdempotencyCache(clock);
  made = 0;
});

const make = async () => ++made;

describe('a request with a key', () => {
  test('is made once for a day', async () => {
    expect(await repeats.runOnce('k', 'body', make)).toBe(1);
    await clock.pass(DAY - 1);
    expect(await repeats.runOnce('k', 'body', make)).toBe(1);
    await clock.pass(1);
    expect(await repeats.runOnce('k', 'body', make)).toBe(2);
    expect(await repeats.runOnce('k', 'body', make)).toBe(2);
  });

  test('is made once when it comes twice at the same time', async () => {
    const { promise, resolve } = Promise.withResolvers<number>();
    const both = [1, 2].map(() => repeats.runOnce('k', '', () => promise));
    resolve(7);
    expect(await Promise.all(both)).toEqual([7, 7]);
  });

  test('is refused with another body, also while the first is under way', async () => {
    const { promise, resolve } = Promise.withResolvers<number>();
    const first = repeats.runOnce('k', '{"a":1}', () => promise);
    await expect(repeats.runOnce('k', '{"a":2}', make)).rejects.toThrow('idempotency_key_reused');
    resolve(1);
    expect(await first).toBe(1);
    await expect(repeats.runOnce('k', '', make)).rejects.toThrow(Problem);
    expect(made).toBe(0);
  });

  test('is another request with another key', async () => {
    expect(await repeats.runOnce('k', '', make)).toBe(1);
    expect(await repeats.runOnce('l', '', make)).toBe(2);
  });
});

describe('a request that fails', () => {
  test('fails for everybody who waits for it, and may be made again, with another body too', async () => {
    const { promise, reject } = Promise.withResolvers<number>();
    const both = [1, 2].map(() => repeats.runOnce('k', 'a', () => promise));
    reject(new Problem('name_taken'));
    for (const one of both) await expect(one).rejects.toThrow('name_taken');
    expect(await repeats.runOnce('k', 'b', make)).toBe(1);
    expect(await repeats.runOnce('k', 'b', make)).toBe(1);
  });
});

test('the thousand newest are remembered, and no more', async () => {
  for (let n = 0; n < 1001; n++) await repeats.runOnce(`k${n}`, '', make);
  expect(await repeats.runOnce('k1', '', make)).toBe(2);
  expect(await repeats.runOnce('k0', '', make)).toBe(1002);
});
