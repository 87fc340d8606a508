import { describe, expect, test } from 'vitest';
import { seeded } from '../../test/support/seeded.ts';
import { MINUTE, SECOND } from '../model/time.ts';
import {
  afterFailedRound,
  afterSettingsChange,
  afterSignOfLife,
  beginProbe,
  type CircuitBreaker,
  CLOSED_BREAKER,
  EndpointRest,
  FAILURE_THRESHOLD,
  FAILURE_WINDOW,
  type FailedRound,
  MAX_REST,
  MIN_PROBE_DELAY,
  type OpenBreaker,
  probeDelay,
  RELAPSE_WINDOW,
} from './circuit-breaker.ts';

/** An endpoint that is up and down in turns. */
interface Flapping {
  readonly period: number;
  /** Share of the period in which it is up; this part comes first. */
  readonly up: number;
  /** Phase of the period at time 0. */
  readonly phase: number;
}

/** Healthy time of the endpoint from 0 to `end`. */
function healthyUntil(end: number, { period, up, phase }: Flapping): number {
  const upTo = (time: number) => Math.floor(time / period) * up + Math.min(time % period, up);
  return upTo(phase + end) - upTo(phase);
}

/** Healthy time that passes before a probe is answered, in an outage with the longest mean delay. */
function missed(endpoint: Flapping, hangs: number, random: () => number): number {
  for (let now = 0; ; now += hangs) {
    now += probeDelay(10, random());
    if ((endpoint.phase + now) % endpoint.period < endpoint.up) return healthyUntil(now, endpoint);
  }
}

const PERIODS = [2, 5, 6, 8, 10, 16, 20, 30, 45, 60, 72, 90, 120, 180, 300, 600].map((n) => n * SECOND);
const SHARES = [0.1, 0.25, 0.5, 0.75, 0.9];

describe.each([
  ['refuses at once', 0],
  ['hangs until the time limit', 5 * SECOND],
])('an endpoint that while it is down %s', (_, hangs) => {
  test('is noticed within a minute of being up in 99 of 100 cases, in whatever rhythm it goes up and down', () => {
    const random = seeded(7);
    for (const period of PERIODS) {
      for (const share of SHARES) {
        const all = Array.from({ length: 2000 }, () =>
          missed({ period, up: period * share, phase: random() * period }, hangs, random),
        ).sort((a, b) => a - b);
        expect(all[Math.floor(all.length * 0.99)], `${period} ms, ${share} of it up`).toBeLessThan(MINUTE);
      }
    }
  });
});

test('an endpoint that stays down is asked less than once a second at first, and nine times a minute later', () => {
  const random = seeded(11);
  const sum = (failed: number) => {
    let all = 0;
    for (let n = 0; n < 10_000; n++) {
      const delay = probeDelay(failed, random());
      expect(delay).toBeGreaterThanOrEqual(SECOND);
      all += delay;
    }
    return all / 10_000;
  };
  expect(sum(0)).toBeGreaterThan(1.9 * SECOND);
  expect(MINUTE / sum(20)).toBeLessThan(9);
  expect(MINUTE / sum(20)).toBeGreaterThan(8);
});

const NOW = 1_000_000;

/** A round of one delivery; later ones have greater numbers, and other deliveries. */
function failedRound(nth: number, more: Partial<FailedRound> = {}): FailedRound {
  return { positions: [nth], nth, begun: nth, isProbe: false, now: NOW, random: 0.5, ...more };
}

/** So many failures in a row, of which the first begins the streak. */
function afterFailures(n: number, breaker: CircuitBreaker = CLOSED_BREAKER, now = NOW): CircuitBreaker {
  let after = breaker;
  for (let nth = 1; nth <= n + 1; nth++) after = afterFailedRound(after, failedRound(nth, { now }));
  return after;
}

const OPEN: OpenBreaker = {
  state: 'open',
  failingSince: NOW - 2 * MINUTE,
  openedAt: NOW - MINUTE,
  failedProbes: 3,
  isRest: false,
  nextProbeAt: NOW + 4 * SECOND,
};

describe('a closed breaker', () => {
  test('is as it was at the start when an endpoint shows life', () => {
    const failing = afterFailures(3);
    expect(failing).toMatchObject({ state: 'closed', streak: { failures: { length: 3 } } });
    expect(afterSignOfLife(failing, NOW)).toBe(CLOSED_BREAKER);
    expect(afterSignOfLife(CLOSED_BREAKER, NOW)).toBe(CLOSED_BREAKER);
  });

  test('counts no failure from before the window', () => {
    const failing = afterFailures(FAILURE_THRESHOLD - 1);
    const last = (now: number) => afterFailedRound(failing, failedRound(99, { now })).state;
    expect(last(NOW + FAILURE_WINDOW - 1)).toBe('open');
    expect(last(NOW + FAILURE_WINDOW)).toBe('closed');
  });

  test('remembers the back-off for a minute after an outage, whatever is accepted meanwhile', () => {
    const until = NOW + RELAPSE_WINDOW;
    const relapse = { until, failedProbes: 3 };
    const recovered = afterSignOfLife(OPEN, NOW);
    expect(recovered).toEqual({ state: 'closed', relapse });
    expect(afterSignOfLife(recovered, until - 1)).toEqual({ state: 'closed', relapse });
    expect(afterSignOfLife(afterFailures(3, recovered), until - 1)).toEqual({ state: 'closed', relapse });
    expect(afterSignOfLife(recovered, until)).toBe(CLOSED_BREAKER);
    const again = (now: number) => afterFailures(FAILURE_THRESHOLD, recovered, now);
    expect(again(until - 1)).toMatchObject({ state: 'open', failedProbes: 4 });
    expect(again(until)).toMatchObject({ state: 'open', failedProbes: 0 });
  });

  test('stays as it is when the settings change', () => {
    const failing = afterFailures(3);
    expect(afterSettingsChange(failing, NOW)).toBe(failing);
  });
});

describe('an open breaker', () => {
  test('heeds the failure of its probe alone', () => {
    const probing = beginProbe(OPEN);
    expect(afterFailedRound(OPEN, failedRound(9, { isProbe: true }))).toBe(OPEN);
    expect(afterFailedRound(OPEN, failedRound(9))).toBe(OPEN);
    expect(afterFailedRound(probing, failedRound(9))).toBe(probing);
    expect(afterFailedRound(probing, failedRound(9, { isProbe: true }))).toMatchObject({
      state: 'open',
      failingSince: OPEN.failingSince,
      failedProbes: 4,
    });
  });

  test('probes no earlier than its endpoints may be asked', () => {
    const after = (restsUntil: number) => afterFailedRound(OPEN, failedRound(9, { restsUntil }));
    expect(after(NOW + 20 * SECOND)).toEqual({ ...OPEN, nextProbeAt: NOW + 20 * SECOND });
    expect(after(NOW + SECOND)).toEqual(OPEN);
    const rests = (restsUntil: number) => afterFailedRound(CLOSED_BREAKER, failedRound(1, { restsUntil }));
    expect(rests(NOW + 20 * SECOND)).toMatchObject({ isRest: true, nextProbeAt: NOW + 20 * SECOND });
    expect(rests(NOW + 1)).toMatchObject({ isRest: true, nextProbeAt: NOW + MIN_PROBE_DELAY });
  });

  test('probes when Retry-After says, but waits no longer than the longest rest', () => {
    const failedProbe = (notBefore?: number) =>
      afterFailedRound(beginProbe(OPEN), failedRound(9, { isProbe: true, notBefore }));
    const scheduled = NOW + probeDelay(4, 0.5);
    expect(failedProbe()).toMatchObject({ isRest: false, nextProbeAt: scheduled });
    expect(failedProbe(NOW + 1)).toMatchObject({ nextProbeAt: scheduled });
    expect(failedProbe(NOW + MINUTE)).toMatchObject({ nextProbeAt: NOW + MINUTE });
    expect(failedProbe(NOW + 2 * MAX_REST)).toMatchObject({ nextProbeAt: NOW + MAX_REST });
  });

  test('probes at once when the settings change, unless a probe is under way', () => {
    expect(afterSettingsChange(OPEN, NOW)).toEqual({ ...OPEN, failedProbes: 0, nextProbeAt: NOW });
    const probing = beginProbe(OPEN);
    expect(afterSettingsChange(probing, NOW)).toEqual({ ...probing, failedProbes: 0 });
  });
});

describe('the rest of an endpoint', () => {
  const accepted = { kind: 'accepted', reason: 'status_200', status: 200 } as const;
  const rests = (notBefore: number) =>
    ({ kind: 'retryable', reason: 'status_429', status: 429, notBefore }) as const;
  const UNTIL = NOW + MINUTE;

  function resting(): EndpointRest {
    const rest = new EndpointRest();
    expect(rest.beginRequest()).toBe(false);
    rest.endRequest(rests(UNTIL), false, NOW);
    return rest;
  }

  test('is none before the endpoint asks for it', () => {
    const rest = new EndpointRest();
    expect(rest.beginRequest()).toBe(false);
    expect(rest.until(NOW)).toBeUndefined();
    rest.endRequest(accepted, false, NOW);
    expect(rest.until(NOW)).toBeUndefined();
  });

  test('ends by the answer of one trial, and meanwhile nothing else is asked', () => {
    const rest = resting();
    expect(rest.until(UNTIL - 1)).toBe(UNTIL);
    expect(rest.until(UNTIL)).toBeUndefined();
    expect(rest.beginRequest()).toBe(true);
    expect(rest.until(UNTIL)).toBe(UNTIL + MIN_PROBE_DELAY);
    rest.endRequest(accepted, true, UNTIL);
    expect(rest.until(UNTIL)).toBeUndefined();
    expect(rest.beginRequest()).toBe(false);
  });

  test('goes on when the trial asks for another one, which has a trial too', () => {
    const rest = resting();
    rest.beginRequest();
    rest.endRequest(rests(UNTIL + MINUTE), true, UNTIL);
    expect(rest.until(UNTIL)).toBe(UNTIL + MINUTE);
    expect(rest.until(UNTIL + MINUTE)).toBeUndefined();
  });

  test('is neither ended nor shortened by answers to earlier requests', () => {
    const rest = resting();
    rest.endRequest(accepted, false, NOW);
    rest.endRequest(rests(NOW + SECOND), false, NOW);
    expect(rest.until(NOW)).toBe(UNTIL);
    rest.beginRequest();
    rest.endRequest(accepted, false, UNTIL);
    rest.endRequest(rests(NOW + SECOND), false, UNTIL);
    rest.endRequest(undefined, false, UNTIL);
    expect(rest.until(UNTIL)).toBe(UNTIL + MIN_PROBE_DELAY);
  });

  test('has another trial where the first asked nothing', () => {
    const rest = resting();
    rest.beginRequest();
    rest.endRequest(undefined, true, UNTIL);
    expect(rest.until(UNTIL)).toBeUndefined();
    expect(rest.beginRequest()).toBe(true);
  });

  test('lasts no longer than the longest', () => {
    const rest = resting();
    rest.endRequest(rests(NOW + 2 * MAX_REST), false, NOW);
    expect(rest.until(NOW)).toBe(NOW + MAX_REST);
  });

  test('is over when the settings change, also while its trial is under way', () => {
    const rest = resting();
    rest.beginRequest();
    rest.end();
    expect(rest.until(NOW)).toBeUndefined();
    rest.endRequest(rests(UNTIL), false, NOW);
    expect(rest.until(UNTIL)).toBeUndefined();
  });
});
