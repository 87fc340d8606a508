import { describe, expect, it } from 'vitest';
import {
  bytes,
  clock,
  clockOfDay,
  duration,
  plural,
  rangeText,
  rate,
  relative,
  shortNumber,
} from './format.ts';

const plain = (text: string): string => text.replaceAll('\u202f', ' ');

describe('numbers', () => {
  it.each([
    [0, '0'],
    [9_812, '9,812'],
    [12_431, '12.4 k'],
    [312_000, '312 k'],
    [8_412_906, '8.41 M'],
    [21_538_958, '21.5 M'],
  ])('writes %d as %s', (value, text) => expect(plain(shortNumber(value))).toBe(text));

  it.each([
    [0, '0/s'],
    [0.031, '0.031/s'],
    [5.13, '5.1/s'],
    [2_413.4, '2,413/s'],
  ])('writes a rate of %d as %s', (value, text) => expect(plain(rate(value))).toBe(text));

  it('counts things', () => {
    expect([plural(1, 'destination'), plural(2, 'destination'), plural(0, 'query', 'queries')]).toEqual([
      '1 destination',
      '2 destinations',
      '0 queries',
    ]);
  });

  it.each([
    [612, '612 B'],
    [461_000, '461 kB'],
    [1_200_000_000, '1.20 GB'],
  ])('writes %d bytes as %s', (value, text) => expect(plain(bytes(value))).toBe(text));
});

describe('times', () => {
  it.each([
    [0, '0 s'],
    [0.84, '840 µs'],
    [3.14, '3.1 ms'],
    [12, '12 ms'],
    [5_000, '5.0 s'],
    [38_000, '38 s'],
    [14 * 60_000, '14 min'],
    [178 * 60_000, '2 h 58 min'],
    [12 * 86_400_000, '12 d'],
  ])('writes %d ms as %s', (value, text) => expect(plain(duration(value))).toBe(text));

  it('says how far away a time is', () => {
    expect(plain(relative(1_000, 39_000))).toBe('38 s ago');
    expect(plain(relative(39_000, 1_000))).toBe('in 38 s');
    expect(relative(1_000, 1_400)).toBe('now');
    expect(plain(relative(1_000, 2_900))).toBe('1 s ago');
  });

  it('writes a range with its day, and with both where they differ', () => {
    const at = (day: number, hour: number) => Date.UTC(new Date().getFullYear(), 10, day, hour, 32);
    expect(rangeText(at(20, 13), at(20, 14), 'utc')).toMatch(/^13:32 – 14:32, \w{3} 20 Nov UTC$/);
    expect(rangeText(at(19, 23), at(20, 1), 'utc')).toMatch(
      /^\w{3} 19 Nov.*, 23:32 – \w{3} 20 Nov.*, 01:32$/,
    );
  });

  it('names the day of a time that is not of today', () => {
    const at = (day: number) => Date.UTC(new Date().getFullYear(), 10, day, 14, 32, 7, 386);
    expect(clockOfDay(at(20), at(20) + 60_000, 'utc')).toBe('14:32:07.386');
    expect(clockOfDay(at(19), at(20), 'utc')).toMatch(/^\w{3} 19 Nov, 14:32:07\.386 UTC$/);
  });

  it('writes the milliseconds of a time', () => {
    expect(clock(Date.UTC(2026, 10, 20, 14, 32, 7, 86), 'utc')).toBe('14:32:07.086');
  });
});
