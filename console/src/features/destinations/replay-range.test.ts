import { describe, expect, it } from 'vitest';
import { instantsOf, lastHour, toLocalField } from './replay-range.ts';

describe('the range of a replay', () => {
  it('is the last hour at first, and ends after the event that came just now', () => {
    const now = Date.parse('2026-11-22T14:32:07.386Z');
    const range = instantsOf(lastHour(now));
    expect(range).toEqual({ from: '2026-11-22T13:32:00.000Z', to: '2026-11-22T14:33:00.000Z' });
  });

  it('is written in the local zone, and read in it', () => {
    const time = Date.parse('2026-07-01T00:30:00.000Z');
    expect(new Date(toLocalField(time)).getTime()).toBe(time);
  });

  it.each([
    [{ from: '', to: '2026-11-22T14:00' }, /begins and ends/],
    [{ from: '2026-11-22T15:00', to: '2026-11-22T14:00' }, /before it begins/],
  ])('says what is wrong with %j', (range, reason) => {
    expect(instantsOf(range)).toMatch(reason);
  });
});
