import { describe, expect, test } from 'vitest';
import { seeded } from '../../test/support/seeded.ts';
import { MINUTE, SECOND } from '../model/time.ts';
import { probeDelay } from './circuit-breaker.ts';

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
