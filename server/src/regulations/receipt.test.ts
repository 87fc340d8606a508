import { expect, it } from 'vitest';
import { realTurns } from '../../test/support/clock.ts';
import { targetsIn } from '../../test/support/lanes.ts';
import { streamsOf } from './receipt.ts';
import { Turns } from './turns.ts';

const URL = 'https://crm.example/in';
const DESTINATION = {
  ...{ id: 1, name: 'crm', sources: [], enabled: true, type: 'webhooks' },
  settings: { endpoints: [{ url: URL, headers: {} }], format: 'documented' },
} as const;

it('sums up 5,000 notifications in turns, and takes the ids out of the one answer of a stream that is shown', async () => {
  const histories = Array.from({ length: 5000 }, (_, n) => ({
    source: 'website',
    deliveries: [
      {
        ...({ destination: 1, state: 'dead', reason: 'status_500' } as const),
        attempts: [
          {
            ...{ endpoint: URL, startedAt: n, latencyMs: 1, answer: `answer ${n}` },
            outcome: { kind: 'retryable', reason: 'status_500', status: 500 } as const,
          },
        ],
      },
    ],
  }));
  // Each look at the clock is a millisecond later.
  let now = 0;
  let turns = 0;
  let isDone = false;
  setImmediate(function count() {
    turns++;
    if (!isDone) setImmediate(count);
  });
  const redacted: string[] = [];
  const streams = await streamsOf(histories, new Map([[1, DESTINATION as never]]), {
    redact: (text) => {
      redacted.push(text);
      return 'without';
    },
    turns: new Turns({ ...realTurns, monotonic: () => now++ }),
    targetsOf: targetsIn,
  });
  isDone = true;
  expect(streams).toEqual([
    {
      ...{ source: 'website', destination: 'crm', endpoint: URL, status: 'FAILED', sent: 5000, confirmed: 0 },
      answer: { status: 500, reason: 'status_500', body: 'without' },
    },
  ]);
  expect(redacted).toEqual(['answer 4999']);
  expect(turns).toBeGreaterThan(500);
});
