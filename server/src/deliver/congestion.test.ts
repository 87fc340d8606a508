import { describe, expect, it } from 'vitest';
import { SECOND, type Time } from '../model/time.ts';
import { Congestion } from './congestion.ts';

describe('congestion', () => {
  const turn = (congestion: Congestion, now: Time, ...latencies: readonly number[]): boolean => {
    for (const latency of latencies) congestion.note(latency);
    const { isFelt } = congestion;
    congestion.turn(now);
    return isFelt;
  };

  it('is not felt before anything is known', () => {
    expect(new Congestion().isFelt).toBe(false);
    expect(turn(new Congestion(), 0, 500)).toBe(false);
  });

  it('is felt when the quickest of many answers takes more than twice as long as the quickest ever', () => {
    const congestion = new Congestion();
    turn(congestion, 0, 10, 12);
    expect(turn(congestion, 1, 30, 22, 40)).toBe(true);
    expect(turn(congestion, 2, 30, 20, 40)).toBe(false);
  });

  it('is not felt where answers are spread widely and one of them is quick', () => {
    const congestion = new Congestion();
    turn(congestion, 0, 10);
    expect(turn(congestion, 1, 900, 300, 11, 2000)).toBe(false);
  });

  it('is not felt in fractions of a millisecond', () => {
    const congestion = new Congestion();
    turn(congestion, 0, 0.1);
    expect(turn(congestion, 1, 0.6)).toBe(false);
    expect(turn(congestion, 2, 0.8)).toBe(true);
  });

  it('ends when an endpoint has been slower for a minute: it may have become so for good', () => {
    const congestion = new Congestion();
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
});
