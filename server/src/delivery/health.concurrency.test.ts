import { describe, expect, it } from 'vitest';
import { type Monotonic, SECOND } from '../model/time.ts';
import {
  afterFailure,
  afterSuccess,
  CongestionDetector,
  INITIAL_CONCURRENCY,
  MAX_CONCURRENCY,
  SLOW_START,
} from './health.ts';

describe('concurrency', () => {
  it('grows by one after as many successes as its limit', () => {
    let state = { limit: 3, successes: 0, doublesUntil: 1 };
    state = afterSuccess(state, false);
    state = afterSuccess(state, false);
    expect(state.limit).toBe(3);
    expect(afterSuccess(state, false)).toEqual({ limit: 4, successes: 0, doublesUntil: 1 });
  });

  it('never grows beyond its maximum', () => {
    let state = INITIAL_CONCURRENCY;
    for (let n = 0; n < 100_000; n++) state = afterSuccess(state, false);
    expect(state.limit).toBe(MAX_CONCURRENCY);
  });

  it('halves once when many requests of the same limit fail together', () => {
    let state = { limit: 64, successes: 5, doublesUntil: 16 };
    for (let n = 0; n < 64; n++) state = afterFailure(state, 64);
    expect(state.limit).toBe(32);
  });

  it('never falls below one', () => {
    let state = INITIAL_CONCURRENCY;
    for (let n = 0; n < 20; n++) state = afterFailure(state, state.limit);
    expect(state.limit).toBe(1);
  });

  it('doubles after an outage up to the initial limit, then grows by one', () => {
    let state = SLOW_START;
    const limits = [state.limit];
    while (limits.length < 8) {
      for (let n = state.limit; n > 0; n--) state = afterSuccess(state, false);
      limits.push(state.limit);
    }
    expect(limits).toEqual([1, 2, 4, 8, 16, 17, 18, 19]);
  });

  it('does not double again after a failure, and grows by one', () => {
    let state = afterFailure({ limit: 8, successes: 3, doublesUntil: 16 }, 8);
    for (let n = 0; n < 4; n++) state = afterSuccess(state, false);
    expect(state.limit).toBe(5);
  });

  it('does not grow while requests wait for each other, but returns to the initial limit', () => {
    let state = SLOW_START;
    for (let n = 0; n < 1000; n++) state = afterSuccess(state, true);
    expect(state.limit).toBe(INITIAL_CONCURRENCY.limit);
    for (let n = 0; n < INITIAL_CONCURRENCY.limit; n++) state = afterSuccess(state, false);
    expect(state.limit).toBe(INITIAL_CONCURRENCY.limit + 1);
  });
});

describe('congestion', () => {
  const turn = (congestion: CongestionDetector, now: Monotonic, ...latencies: readonly number[]): boolean => {
    for (const latency of latencies) congestion.record(latency, 0);
    const { isCongested: isFelt } = congestion;
    congestion.startSample(now);
    return isFelt;
  };

  it('is not detected without a baseline', () => {
    expect(new CongestionDetector().isCongested).toBe(false);
    expect(turn(new CongestionDetector(), 0, 500)).toBe(false);
  });

  it('is detected when the fastest of many answers takes more than twice the baseline', () => {
    const congestion = new CongestionDetector();
    turn(congestion, 0, 10, 12);
    expect(turn(congestion, 1, 30, 22, 40)).toBe(true);
    expect(turn(congestion, 2, 30, 20, 40)).toBe(false);
  });

  it('is not detected while one of many answers is fast', () => {
    const congestion = new CongestionDetector();
    turn(congestion, 0, 10);
    expect(turn(congestion, 1, 900, 300, 11, 2000)).toBe(false);
  });

  it('is not detected in fractions of a millisecond', () => {
    const congestion = new CongestionDetector();
    turn(congestion, 0, 0.1);
    expect(turn(congestion, 1, 0.6)).toBe(false);
    expect(turn(congestion, 2, 0.8)).toBe(true);
  });

  it('ends when an endpoint has been slower for a minute, perhaps for good', () => {
    const congestion = new CongestionDetector();
    let now = 1000 * SECOND;
    turn(congestion, now, 10);
    const felt: boolean[] = [];
    for (let second = 1; second <= 70; second++) {
      now += SECOND;
      felt.push(turn(congestion, now, 50));
    }
    expect(felt[0]).toBe(true);
    expect(felt.slice(0, 29)).not.toContain(false);
    expect(felt.slice(61)).not.toContain(true);
  });

  it('takes no time in which an answer may have waited here for a queue at the endpoint', () => {
    const congestion = new CongestionDetector();
    expect(turn(congestion, 0, 1, 2)).toBe(false);
    for (const latency of [6, 9, 7]) congestion.record(latency, 5);
    expect(congestion.isCongested).toBe(false);
    congestion.startSample(1000);
    for (const latency of [16, 12, 40]) congestion.record(latency, 5);
    expect(congestion.isCongested).toBe(true);
  });
});
