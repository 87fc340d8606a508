import { expect, it } from 'vitest';
import { destinationDays, endpointBars } from './history.ts';

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
    rate: 0.5,
  });
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
  expect(endpointBars({ ...range, groups: [group] }).get('https://a.example/in')).toEqual([
    'none',
    'fine',
    'some',
    'all',
    'none',
  ]);
});
