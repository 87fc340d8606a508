import { expect, it } from 'vitest';
import type { DestinationStatus } from './queries.ts';
import { troublesOf } from './troubles.ts';

const endpoint = (state: 'healthy' | 'failing', reason: string): DestinationStatus['endpoints'][number] => ({
  endpoint: `https://${reason}.example/`,
  state,
  lastError: { at: '2026-11-22T21:00:00.000Z', reason },
  attempts: {},
  history: [],
});

const failure = (reason: string, count: number) => ({
  endpoint: 'https://a.example/',
  reason,
  count,
  message: '',
  hint: '',
});

it('what goes wrong is each reason once: what fails now first, then the most dead letters', () => {
  const endpoints = [
    endpoint('failing', 'status_503'),
    endpoint('failing', 'status_503'),
    endpoint('healthy', 'old'),
  ];
  const failures = [failure('status_503', 5), failure('status_503', 2), failure('timeout', 1)];
  const dead = { retry_window_over: 2, status_410: 7 };
  expect(troublesOf({ state: 'failing', endpoints, failures, dead })).toEqual([
    { reason: 'status_503', failed: 7, dead: 0, isNow: true },
    { reason: 'status_410', failed: 0, dead: 7, isNow: false },
    { reason: 'retry_window_over', failed: 0, dead: 2, isNow: false },
    { reason: 'timeout', failed: 1, dead: 0, isNow: false },
  ]);
});

it('what a destination refuses goes on until it takes what it is sent again', () => {
  const facts = { endpoints: [endpoint('healthy', 'status_410')], failures: [], dead: { status_410: 3 } };
  expect(troublesOf({ state: 'refusing', ...facts })).toMatchObject([{ isNow: true }]);
  expect(troublesOf({ state: 'healthy', ...facts })).toMatchObject([{ isNow: false }]);
});
