import { describe, expect, it } from 'vitest';
import { afterFailure, afterSuccess, MAX_CONCURRENCY, SLOW_START, START } from './concurrency.ts';

describe('concurrency', () => {
  it('grows by one after as many successes as its limit', () => {
    let state = { limit: 3, successes: 0, doublesUntil: 1 };
    state = afterSuccess(state, false);
    state = afterSuccess(state, false);
    expect(state.limit).toBe(3);
    expect(afterSuccess(state, false)).toEqual({ limit: 4, successes: 0, doublesUntil: 1 });
  });

  it('never grows beyond its maximum', () => {
    let state = START;
    for (let n = 0; n < 100_000; n++) state = afterSuccess(state, false);
    expect(state.limit).toBe(MAX_CONCURRENCY);
  });

  it('halves once when many requests of the same limit fail together', () => {
    let state = { limit: 64, successes: 5, doublesUntil: 16 };
    for (let n = 0; n < 64; n++) state = afterFailure(state, 64);
    expect(state.limit).toBe(32);
  });

  it('never falls below one', () => {
    let state = START;
    for (let n = 0; n < 20; n++) state = afterFailure(state, state.limit);
    expect(state.limit).toBe(1);
  });

  it('doubles after an outage until it is where a new lane starts, then grows by one', () => {
    let state = SLOW_START;
    const limits = [state.limit];
    while (limits.length < 8) {
      for (let n = state.limit; n > 0; n--) state = afterSuccess(state, false);
      limits.push(state.limit);
    }
    expect(limits).toEqual([1, 2, 4, 8, 16, 17, 18, 19]);
  });

  it('does not double again after a failure, and goes up by one from where it fell to', () => {
    let state = afterFailure({ limit: 8, successes: 3, doublesUntil: 16 }, 8);
    for (let n = 0; n < 4; n++) state = afterSuccess(state, false);
    expect(state.limit).toBe(5);
  });

  it('stays where it is while requests wait for each other, but comes back to where a lane starts', () => {
    let state = SLOW_START;
    for (let n = 0; n < 1000; n++) state = afterSuccess(state, true);
    expect(state.limit).toBe(START.limit);
    for (let n = 0; n < START.limit; n++) state = afterSuccess(state, false);
    expect(state.limit).toBe(START.limit + 1);
  });
});
