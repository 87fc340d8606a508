import { describe, expect, it } from 'vitest';
import { BusyDetector } from './client.ts';

describe('the detector of a busy main thread', () => {
  const looks = (...shares: number[]) => {
    const detector = new BusyDetector();
    return shares.map((share) => detector.look(share));
  };

  it('finds it busy at the first look that finds little time left', () => {
    expect(looks(0, 0.69, 0.7, 1)).toEqual([false, false, true, true]);
  });

  it('finds it free after two looks in a row only', () => {
    expect(looks(1, 0.2, 0.9, 0.2, 0.2, 0)).toEqual([true, true, true, true, false, false]);
  });

  it('is free before the first look', () => {
    expect(new BusyDetector().isBusy).toBe(false);
  });
});
