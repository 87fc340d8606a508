import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  atMost,
  column,
  count,
  latency,
  printable,
  remaining,
  secondOfDay,
  size,
  span,
  timeOfDay,
} from './column.ts';

beforeAll(() => void vi.stubEnv('TZ', 'UTC'));
afterAll(() => void vi.unstubAllEnvs());

describe('pieces of a line', () => {
  it('takes the power over the terminal from text that came over the network', () => {
    expect(printable('a\u001b[2Jb\u0007\r\nc\u009b1m\u202ed\u2028')).toBe('a·[2Jb···c·1m·d·');
    expect(printable('Größe 注文 🎉')).toBe('Größe 注文 🎉');
  });

  it('makes columns of exactly their width, never through the middle of a character', () => {
    expect(column('abc', 5)).toBe('abc  ');
    expect(column('abcde', 5)).toBe('abcde');
    expect(column('abcdef', 5)).toBe('abcd…');
    expect(column('🎉🎉🎉🎉', 5)).toBe('🎉🎉…');
    expect(column('🎉🎉🎉🎉', 4)).toBe('🎉… ');
    expect(column('日本', 5)).toBe('日本 ');
    expect(column('e\u0301e\u0301e\u0301', 3)).toBe('e\u0301e\u0301e\u0301');
    expect(column(`e${'\u0301'.repeat(30_000)}xyz`, 3)).toBe('…  ');
    expect(column('x'.repeat(32_768), 3)).toBe('xx…');
    expect(atMost('abc', 5)).toBe('abc');
    expect(atMost('abcdef', 5)).toBe('abcd…');
  });

  it('writes times of day', () => {
    const time = Date.UTC(2026, 0, 2, 3, 4, 5, 6);
    expect(timeOfDay(time)).toBe('03:04:05.006');
    expect(secondOfDay(time)).toBe('03:04:05');
  });

  it('writes how long something took in the unit it is read in', () => {
    expect([0, 0.04, 3.26, 9, 9.96, 123.4, 999.4, 999.6, 5012].map(latency)).toEqual([
      '0 ms',
      '0 ms',
      '3.3 ms',
      '9 ms',
      '10 ms',
      '123 ms',
      '999 ms',
      '1.0 s',
      '5.0 s',
    ]);
  });

  it('writes how long something is still to come', () => {
    expect(
      [-5, 499, 1000, 30_000, 119_000, 120_000, 1_200_000, 5_400_000, 14_400_000].map(remaining),
    ).toEqual([
      'now',
      'now',
      'in 1 s',
      'in 30 s',
      'in 119 s',
      'in 2 min',
      'in 20 min',
      'in 90 min',
      'in 4 h',
    ]);
  });

  it('writes lengths of time, sizes and counts', () => {
    const hour = 3_600_000;
    expect([-5, 400, 119_000, 120_000, 90 * 60_000, 2.5 * hour, 47 * hour, 60 * hour].map(span)).toEqual([
      '0 s',
      '0 s',
      '119 s',
      '2 min',
      '90 min',
      '2.5 h',
      '47 h',
      '2.5 d',
    ]);
    expect([0, 1023, 1024, 1536, 5 * 1024 ** 3, 3000 * 1024 ** 4].map(size)).toEqual([
      '0 bytes',
      '1023 bytes',
      '1 KB',
      '1.5 KB',
      '5 GB',
      '3000 TB',
    ]);
    expect([0, 999, 1234, 1_234_567].map(count)).toEqual(['0', '999', '1,234', '1,234,567']);
  });
});
