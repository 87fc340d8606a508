import { describe, expect, it } from 'vitest';
import type { Delivery, Outcome } from '../model/delivery.ts';
import { HOUR, MINUTE, SECOND } from '../model/time.ts';
import { decide, type PlacedOutcome } from './decide.ts';

const NOW = 1_000_000_000_000;
const NEW: Delivery = { position: 7, rounds: 0 };

function round(outcomes: readonly (Outcome | undefined)[], random = 0.5) {
  const placed = outcomes.flatMap((outcome, place): PlacedOutcome[] => (outcome ? [{ place, outcome }] : []));
  return { outcomes: placed, now: NOW, settingsVersion: 3, random };
}

const accepted: Outcome = { kind: 'accepted', reason: 'status_200', status: 200 };
const retryable: Outcome = { kind: 'retryable', reason: 'status_503', status: 503 };
const refused: Outcome = { kind: 'refused', reason: 'status_400', status: 400 };

describe('decide', () => {
  it('delivers when the only endpoint accepted', () => {
    expect(decide(NEW, round([accepted]))).toEqual({ kind: 'delivered' });
  });

  it('delivers when any of several endpoints accepted, whatever the others said', () => {
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

  it('keeps the places of endpoints that were left out of this round', () => {
    const decision = decide(
      { ...NEW, rounds: 1, firstFailedAt: NOW - 1 },
      round([undefined, undefined, retryable]),
    );
    expect(decision).toMatchObject({ kind: 'retry', next: { endpoints: 0b100 } });
  });

  it('remembers when the first round failed and counts the rounds', () => {
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

  it('makes its last try within the window and then dies, followed from the first failure to the end', () => {
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
