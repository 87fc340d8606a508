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
  expect(troublesOf({ endpoints, failures, dead: { retry_window_over: 2, status_410: 7 } })).toEqual([
    { reason: 'status_503', failed: 7, dead: 0 },
    { reason: 'status_410', failed: 0, dead: 7 },
    { reason: 'retry_window_over', failed: 0, dead: 2 },
    { reason: 'timeout', failed: 1, dead: 0 },
  ]);
});
