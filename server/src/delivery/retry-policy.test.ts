import { describe, expect, it } from 'vitest';
import { outcomeOf, parseRetryAfter } from '../destinations/http/outcomes.ts';
import type { Delivery, Drop, Outcome } from '../model/delivery.ts';
import { HOUR, MINUTE, SECOND } from '../model/time.ts';
import type { FailureReason } from '../ports/http-client.ts';
import {
  backoff,
  datedFromOutage,
  decide,
  ENDPOINT_RESTS,
  expiryCutoff,
  isRetryWindowOver,
  latestRetryAfter,
  outageFrom,
  RETRY_DELAYS,
  type RoundOutcome,
} from './retry-policy.ts';

const NOW = 1_000_000_000_000;
const NEW: Delivery = { position: 7, rounds: 0 };

function round(outcomes: readonly (Outcome | Drop | undefined)[], random = 0.5) {
  const placed = outcomes.flatMap((outcome, place): RoundOutcome[] => (outcome ? [{ place, outcome }] : []));
  return { outcomes: placed, now: NOW, settingsVersion: 3, random };
}

const accepted: Outcome = { kind: 'accepted', reason: 'status_200', status: 200 };
const retryable: Outcome = { kind: 'retryable', reason: 'status_503', status: 503 };
const refused: Outcome = { kind: 'refused', reason: 'status_400', status: 400 };

const drop: Drop = { kind: 'dropped', reason: 'not_applicable', note: 'no form for it' };

describe('decide', () => {
  it('drops what no endpoint is sent, and nothing that one of them was asked for', () => {
    expect(decide(NEW, round([drop, drop]))).toEqual({ ...drop, at: NOW });
    expect(decide(NEW, round([drop, accepted]))).toEqual({ kind: 'delivered' });
    expect(decide(NEW, round([drop, refused]))).toEqual({ kind: 'dead', reason: 'status_400' });
    expect(decide(NEW, round([drop, retryable]))).toMatchObject({ kind: 'retry', next: { endpoints: 0b10 } });
    // The second endpoint failed for as long as it may, and then its type has nothing for it.
    expect(decide({ ...NEW, rounds: 9, firstFailedAt: NOW - 5 * HOUR }, round([undefined, drop]))).toEqual({
      ...drop,
      at: NOW,
    });
  });

  it('keeps 200 characters of a note, and no half of a pair', () => {
    const long = { ...drop, note: `${'x'.repeat(198)}🔑 and more` };
    expect(decide(NEW, round([long]))).toMatchObject({ note: `${'x'.repeat(198)}\ufffd…` });
    expect(decide(NEW, round([{ ...drop, note: 'x'.repeat(200) }]))).toMatchObject({ note: 'x'.repeat(200) });
    const { note: _, ...silent } = drop;
    expect(decide(NEW, round([silent]))).toEqual({ ...silent, at: NOW });
  });

  it('delivers when the only endpoint accepted', () => {
    expect(decide(NEW, round([accepted]))).toEqual({ kind: 'delivered' });
  });

  it('delivers when any of several endpoints accepted, whatever the others answered', () => {
    expect(decide(NEW, round([refused, retryable, accepted]))).toEqual({ kind: 'delivered' });
  });

  it('gives up when every endpoint refused, with the reason of the first', () => {
    expect(decide(NEW, round([refused, { ...refused, reason: 'status_404' }]))).toEqual({
      kind: 'dead',
      reason: 'status_400',
    });
  });

  it('tries again only the endpoints that may accept later', () => {
    const decision = decide(NEW, round([refused, retryable, retryable]));
    expect(decision).toMatchObject({ kind: 'retry', next: { endpoints: 0b110, settingsVersion: 3 } });
  });

  it('keeps the places of endpoints that were not part of this round', () => {
    const decision = decide(
      { ...NEW, rounds: 1, firstFailedAt: NOW - 1 },
      round([undefined, undefined, retryable]),
    );
    expect(decision).toMatchObject({ kind: 'retry', next: { endpoints: 0b100 } });
  });

  it('records the first failure and counts the rounds', () => {
    expect(decide(NEW, round([retryable]))).toEqual({
      kind: 'retry',
      at: NOW + SECOND,
      next: { position: 7, rounds: 1, firstFailedAt: NOW, endpoints: 1, settingsVersion: 3 },
    });
    const earlier = NOW - 10 * MINUTE;
    expect(decide({ position: 7, rounds: 4, firstFailedAt: earlier }, round([retryable]))).toMatchObject({
      at: NOW + 15 * SECOND,
      next: { rounds: 5, firstFailedAt: earlier },
    });
  });

  it('waits as long as Retry-After asks, when that is longer than the schedule', () => {
    const asks = { ...retryable, notBefore: NOW + 90 * SECOND };
    expect(decide(NEW, round([asks]))).toMatchObject({ at: NOW + 90 * SECOND });
  });

  it('does not come earlier than the schedule because Retry-After is short', () => {
    const asks = { ...retryable, notBefore: NOW + 10 };
    expect(decide(NEW, round([asks]))).toMatchObject({ at: NOW + SECOND });
  });

  it('counts no round in which every endpoint rested, and spreads what waits for the rest', () => {
    const rests = (until: number): Outcome => ({
      kind: 'retryable',
      reason: ENDPOINT_RESTS,
      notBefore: NOW + until,
    });
    const delivery = { position: 7, rounds: 4, firstFailedAt: NOW - MINUTE };
    const after = (outcomes: Outcome[], random: number) => decide(delivery, round(outcomes, random));
    expect(after([rests(MINUTE), rests(HOUR)], 0)).toMatchObject({ at: NOW + MINUTE, next: { rounds: 4 } });
    expect(after([rests(MINUTE)], 0.5)).toMatchObject({ at: NOW + MINUTE + 2500, next: { rounds: 4 } });
    // Asked, it began its rest: the round counts, and nothing waited for it.
    const asksToRest = { ...retryable, notBefore: NOW + MINUTE };
    expect(after([asksToRest], 0.5)).toMatchObject({ at: NOW + MINUTE, next: { rounds: 5 } });
    // An endpoint that rests keeps nobody from asking its sibling, which has its own wish.
    const asks: Outcome = {
      kind: 'retryable',
      reason: 'status_500',
      status: 500,
      notBefore: NOW + 2 * MINUTE,
    };
    expect(after([asks, rests(MINUTE)], 0.5)).toMatchObject({ at: NOW + 2 * MINUTE, next: { rounds: 5 } });
    const fails: Outcome = { kind: 'retryable', reason: 'status_500', status: 500 };
    expect(after([fails, rests(MINUTE)], 0.5)).toMatchObject({ at: NOW + 15 * SECOND, next: { rounds: 5 } });
  });

  it('uses the end of the retry window when Retry-After goes beyond it', () => {
    const firstFailedAt = NOW - 3 * HOUR;
    const asks = { ...retryable, notBefore: NOW + 2 * HOUR };
    expect(decide({ position: 7, rounds: 3, firstFailedAt }, round([asks]))).toMatchObject({
      kind: 'retry',
      at: firstFailedAt + 4 * HOUR,
    });
  });

  it('gives up when the next try would come after the retry window', () => {
    const delivery = { position: 7, rounds: 12, firstFailedAt: NOW - 4 * HOUR + 29 * MINUTE };
    expect(decide(delivery, round([retryable]))).toEqual({ kind: 'dead', reason: 'retry_window_over' });
  });

  it('still makes a try that falls on the last moment of the retry window', () => {
    const delivery = { position: 7, rounds: 12, firstFailedAt: NOW - 4 * HOUR + 30 * MINUTE };
    expect(decide(delivery, round([retryable]))).toMatchObject({ kind: 'retry', at: NOW + 30 * MINUTE });
  });

  it('makes its last try within the window and then dies', () => {
    let delivery = NEW;
    let now = NOW;
    const tries: number[] = [];
    for (;;) {
      const decision = decide(delivery, { ...round([retryable]), now });
      if (decision.kind !== 'retry') {
        expect(decision).toEqual({ kind: 'dead', reason: 'retry_window_over' });
        break;
      }
      delivery = decision.next;
      now = decision.at;
      tries.push(now - NOW);
    }
    expect(tries.length).toBe(17);
    expect(tries.at(-1)).toBeLessThanOrEqual(4 * HOUR);
    expect(tries.at(-1)).toBeGreaterThan(3.5 * HOUR);
  });
});

describe('backoff', () => {
  it('follows the schedule and then repeats its last delay', () => {
    const delays = Array.from({ length: 15 }, (_, index) => backoff(index + 1, 0.5));
    expect(delays).toEqual([...RETRY_DELAYS, 30 * MINUTE, 30 * MINUTE, 30 * MINUTE]);
  });

  it('spreads each delay from 0.8 to 1.2 of itself', () => {
    expect(backoff(1, 0)).toBe(0.8 * SECOND);
    expect(backoff(1, 0.999999)).toBe(1.2 * SECOND);
  });
});

describe('the retry window in an outage', () => {
  it('counts from the outage, of which a start of the program is taken for an old one', () => {
    expect(outageFrom(NOW, true)).toEqual({ since: NOW });
    // Ten minutes are left of the window.
    expect(outageFrom(NOW, false)).toEqual({ since: NOW + 10 * MINUTE - 4 * HOUR });
  });

  it('expires nothing in an outage that is younger, but what was parked in it', () => {
    const before = NOW - 4 * HOUR;
    expect(expiryCutoff({ since: before }, before - HOUR, before)).toBe(before);
    expect(expiryCutoff({ since: before + 1 }, before - 1, before)).toBeUndefined();
    expect(expiryCutoff({ since: before + 1 }, before, before)).toBe(before);
  });

  it('counts from the first failure, or where there is none from the parking in the outage', () => {
    const outage = { since: NOW };
    const failed = { ...NEW, firstFailedAt: NOW - HOUR };
    expect(datedFromOutage(outage, failed, NOW + MINUTE)).toEqual(failed);
    expect(datedFromOutage(outage, NEW, NOW + MINUTE)).toEqual({ ...NEW, firstFailedAt: NOW + MINUTE });
    expect(datedFromOutage(outage, NEW, NOW - MINUTE)).toEqual({ ...NEW, firstFailedAt: NOW });
  });

  it('is over a minute later than it ends, because a try may be so late', () => {
    const failedAgo = (age: number) => isRetryWindowOver({ ...NEW, firstFailedAt: NOW - age }, NOW);
    expect(failedAgo(MINUTE)).toBe(false);
    expect(failedAgo(MINUTE + 1)).toBe(true);
    expect(isRetryWindowOver(NEW, NOW)).toBe(false);
  });
});

it('takes the latest of several Retry-After, and none where there is none', () => {
  expect(latestRetryAfter([NOW + 2, undefined, NOW + 3, NOW])).toBe(NOW + 3);
  expect(latestRetryAfter([undefined])).toBeUndefined();
});

const WALL_NOW = Date.parse('2026-03-04T05:06:07.000Z');
const CLOCK = { now: () => WALL_NOW, monotonic: () => 1000 };
const answered = (status: number, header?: string) =>
  outcomeOf(
    {
      kind: 'answered',
      status,
      body: '',
      latencyMs: 1,
      ...(header === undefined ? {} : { retryAfter: header }),
    },
    CLOCK,
  );

describe('outcomeOf', () => {
  it.each([200, 201, 202, 204, 299])('takes status %i as success', (status) => {
    expect(answered(status)).toEqual({ kind: 'accepted', reason: `status_${status}`, status });
  });

  it.each([408, 429, 500, 501, 502, 503, 504, 505, 599])('takes status %i as worth another try', (status) => {
    expect(answered(status)).toEqual({ kind: 'retryable', reason: `status_${status}`, status });
  });

  it.each([300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 405, 410, 413, 422, 451, 600, 999])(
    'takes status %i as a refusal',
    (status) => {
      expect(answered(status).kind).toBe('refused');
    },
  );

  it.each<[FailureReason, string]>([
    ['timeout', 'retryable'],
    ['name_not_resolved', 'retryable'],
    ['connection_refused', 'retryable'],
    ['connection_closed', 'retryable'],
    ['connection_failed', 'retryable'],
    ['certificate_untrusted', 'retryable'],
    ['protocol_error', 'retryable'],
    ['egress_refused', 'refused'],
    ['invalid_request', 'refused'],
  ])('takes the failure %s as %s', (reason, kind) => {
    expect(outcomeOf({ kind: 'failed', reason, detail: '', latencyMs: 1 }, CLOCK)).toEqual({ kind, reason });
  });

  it('reads Retry-After only where another try is made', () => {
    expect(answered(503, '7')).toMatchObject({ notBefore: 1000 + 7 * SECOND });
    expect(answered(400, '7')).not.toHaveProperty('notBefore');
  });
});

describe('retryAfter', () => {
  it.each([
    ['120', 120 * SECOND],
    [' 3 ', 3 * SECOND],
    ['Wed, 04 Mar 2026 05:07:07 GMT', 60 * SECOND],
    ['999999999', 4 * HOUR],
    ['0', undefined],
    ['-5', undefined],
    ['1.5', undefined],
    ['soon', undefined],
    ['', undefined],
    ['2026', 2026 * SECOND],
    ['Wed, 04 Mar 2026 05:06:00 GMT', undefined],
    ['March 4', undefined],
  ])('reads %j as %j', (header, wait) => {
    expect(parseRetryAfter(header, WALL_NOW)).toBe(wait);
  });
});
