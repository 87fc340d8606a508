import { describe, expect, it } from 'vitest';
import { afterFailure, afterSuccess, MAX_CONCURRENCY, START } from './concurrency.ts';

describe('concurrency', () => {
  it('grows by one after as many successes as its limit', () => {
    let state = { limit: 3, successes: 0 };
    state = afterSuccess(state);
    state = afterSuccess(state);
    expect(state.limit).toBe(3);
    expect(afterSuccess(state)).toEqual({ limit: 4, successes: 0 });
  });

  it('never grows beyond its maximum', () => {
    let state = START;
    for (let n = 0; n < 100_000; n++) state = afterSuccess(state);
    expect(state.limit).toBe(MAX_CONCURRENCY);
  });

  it('halves once when many requests of the same limit fail together', () => {
    let state = { limit: 64, successes: 5 };
    for (let n = 0; n < 64; n++) state = afterFailure(state, 64);
    expect(state.limit).toBe(32);
  });

  it('never falls below one', () => {
    let state = START;
    for (let n = 0; n < 20; n++) state = afterFailure(state, state.limit);
    expect(state.limit).toBe(1);
  });
});
