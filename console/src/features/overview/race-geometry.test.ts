import { describe, expect, it } from 'vitest';
import { channel, flowSeconds, outlets, type RaceRates, widthOf } from './race-geometry.ts';

const NOTHING: RaceRates = {
  received: 0,
  accepted: 0,
  owed: 0,
  delivered: 0,
  discarded: 0,
  duplicates: 0,
  skipped: 0,
  retrying: 0,
  dead: 0,
};

describe('the race', () => {
  it('is as wide as the logarithm of its rate', () => {
    expect(widthOf(0)).toBe(1.5);
    expect(widthOf(9)).toBeCloseTo(8.5);
    expect(widthOf(9_999)).toBeCloseTo(29.5);
  });

  it('narrows where fewer come out than went in', () => {
    const { edges } = channel({ ...NOTHING, received: 9_999, accepted: 9_999, owed: 99, delivered: 0 });
    const [top, bottom] = edges.map((path) => Number(/,(\d+\.?\d*) H1200$/.exec(path)?.[1]));
    expect(bottom! - top!).toBeCloseTo(1.5, 0);
    expect(edges[0].startsWith('M0,7.3')).toBe(true);
    expect(edges[1].startsWith('M0,36.8')).toBe(true);
  });

  it('leaves the channel at its lower side, each outlet as wide as its rate', () => {
    const drawn = outlets({ ...NOTHING, received: 9_999, accepted: 9_999, skipped: 999 });
    expect(drawn.map(({ id, width }) => [id, width])).toEqual([
      ['discarded', 1.5],
      ['duplicates', 1.5],
      ['skipped', 22.5],
      ['pending', 1.5],
      ['dead', 1.5],
    ]);
    for (const { path } of drawn) expect(path).not.toContain('NaN');
  });

  it('flows faster with the rate, and stands still without one', () => {
    expect(flowSeconds(0)).toBe(0);
    expect(flowSeconds(1)).toBeGreaterThan(flowSeconds(100));
    expect(flowSeconds(100)).toBeGreaterThan(flowSeconds(100_000));
  });
});
