import { describe, expect, it } from 'vitest';
import { barsText, destinationDays, endpointBars } from './history.ts';

const range = { from: '2026-11-21T21:00:00.000Z', to: '2026-11-22T21:00:00.000Z', step: 1200 };

it('the day of a destination has a zero while the server did not run, and no p99 of nothing', () => {
  const group = {
    destination: 'crm',
    series: { delivered: [null, 3, 0] },
    totals: { delivered: 3, deliveryP99: null },
    now: { delivered: 0.5 },
    reasons: {},
  };
  expect(destinationDays({ ...range, groups: [group] }).get('crm')).toEqual({
    delivered: [0, 3, 0],
    failing: [false, false, false],
    rate: 0.5,
  });
});

it('a half hour failed when requests did and nothing was delivered', () => {
  const group = {
    destination: 'crm',
    series: { delivered: [3, 3, 0, 0, null], failed: [0, 2, 2, 0, null] },
    totals: {},
    now: {},
    reasons: {},
  };
  const { failing } = destinationDays({ ...range, groups: [group] }).get('crm') ?? {};
  expect(failing).toEqual([false, false, true, false, false]);
});

it('a bar says whether everything failed, something, nothing, or nothing was sent', () => {
  const group = {
    destination: 'crm',
    endpoint: 'https://a.example/in',
    series: { requests: [null, 4, 4, 4, 0], failed: [null, 0, 1, 4, 0] },
    totals: {},
    now: {},
    reasons: {},
  };
  expect(endpointBars({ ...range, groups: [group] }).get('https://a.example/in')).toEqual({
    begin: Date.UTC(2026, 10, 21, 21),
    bars: ['none', 'fine', 'some', 'all', 'none'],
  });
});

describe('the bars of an endpoint in words', () => {
  const begin = Date.UTC(2026, 10, 21, 21);
  const timeOf = (time: number) => new Date(time).toISOString().slice(11, 16);

  it.each([
    [[], 'nothing was sent'],
    [['none', 'none'], 'nothing was sent'],
    [['none', 'fine'], 'no request failed'],
    [
      ['all', 'some', 'fine', 'none'],
      'in 1 everything failed, in 1 something; the last of them 21:20 – 21:40',
    ],
    [['fine', 'some', 'all'], 'in 1 everything failed, in 1 something; the last of them since 21:40'],
  ] as const)('of %j', (bars, words) => {
    expect(barsText({ begin, bars }, timeOf)).toContain(words);
  });
});
