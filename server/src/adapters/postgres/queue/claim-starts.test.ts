import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ClaimStarts } from './claim-starts.ts';

const CRM = 1;
const NOW = 1_000_000;
const SECOND = 1000;

describe('the start of a claim', () => {
  let starts: ClaimStarts;
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['performance'] });
    starts = new ClaimStarts();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const of = (now = NOW) => starts.of(CRM, now).due;
  const move = (first: number, now = NOW) => starts.move(CRM, starts.of(CRM, now), first);

  it('is the beginning at first, and then a little before the first row that was left', () => {
    expect(of()).toBeLessThan(0);
    move(NOW - 10 * SECOND);
    expect(of()).toBe(NOW - 12 * SECOND);
    move(NOW);
    expect(of()).toBe(NOW - 2 * SECOND);
    expect(starts.of(2, NOW).due).toBeLessThan(0);
  });

  it('is lowered by what is due earlier, and by nothing that is due later', () => {
    move(NOW);
    starts.lower(CRM, NOW - SECOND);
    expect(of()).toBe(NOW - 2 * SECOND);
    starts.lower(CRM, NOW - 3 * SECOND);
    expect(of()).toBe(NOW - 3 * SECOND);
    starts.looked([{ destination: CRM, nextDueAt: NOW - 9 * SECOND }], performance.now());
    expect(of()).toBe(NOW - 9 * SECOND);
  });

  it('stays lowered when a claim that began before ends after it: such claims may follow each other without a pause', () => {
    move(NOW);
    const begun = starts.of(CRM, NOW);
    starts.looked([{ destination: CRM, nextDueAt: 5 }], performance.now());
    starts.move(CRM, begun, NOW);
    expect(of()).toBe(5);
    move(NOW);
    expect(of()).toBe(NOW - 2 * SECOND);
    const late = starts.of(CRM, NOW);
    starts.clear();
    starts.move(CRM, late, NOW);
    expect(of()).toBeLessThan(0);
  });

  it('is the beginning when nobody has looked there for five seconds, and when time went back', () => {
    move(NOW);
    expect(of(NOW - 3 * SECOND)).toBeLessThan(0);
    for (let nth = 0; nth < 3; nth++) {
      vi.advanceTimersByTime(4000);
      starts.looked([], performance.now());
      expect(of()).toBe(NOW - 2 * SECOND);
    }
    vi.advanceTimersByTime(4000);
    move(NOW);
    vi.advanceTimersByTime(1000);
    expect(of()).toBeLessThan(0);
    move(NOW);
    vi.advanceTimersByTime(4999);
    expect(of()).toBe(NOW - 2 * SECOND);
  });
});
