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

it('what goes wrong is what fails now, each reason once, then what has died, the most first', () => {
  const endpoints = [
    endpoint('failing', 'status_503'),
    endpoint('failing', 'status_503'),
    endpoint('healthy', 'timeout'),
    endpoint('failing', 'status_410'),
  ];
  expect(troublesOf({ endpoints }, { retry_window_over: 2, status_410: 7 })).toEqual([
    { reason: 'status_503', state: 'retrying' },
    { reason: 'status_410', state: 'dead', count: 7 },
    { reason: 'retry_window_over', state: 'dead', count: 2 },
  ]);
});
