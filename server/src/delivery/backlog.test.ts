import { expect, it } from 'vitest';
import { handClock } from '../../test/support/clock.ts';
import { HOUR } from '../model/time.ts';
import { BacklogLoader, batchOf } from './backlog.ts';

it('does not load an event that is erased between two reads of one claim', async () => {
  const asked = Promise.withResolvers<void>();
  const damaged = Promise.withResolvers<number[]>();
  const loader = new BacklogLoader({ id: 1, name: 'crm' }, {
    log: {
      read: async () => [{ source: 1, event: { messageId: 'm1' } }, undefined],
      damaged: () => {
        asked.resolve();
        return damaged.promise;
      },
    },
    clock: handClock(0),
  } as never);
  const held = [1, 2].map((position) => ({ set: 1, delivery: { position, rounds: 0 } }));
  const loaded = loader.read(held as never);
  await asked.promise;
  loader.drop(new Set([1]));
  damaged.resolve([]);
  expect(await loaded).toEqual(['event_gone', 'event_gone']);
});

it('dates a redelivered event by its redelivery, however old the outage and the event are', () => {
  const redeliveredAt = 5 * HOUR;
  const events = [{ source: 1, event: {}, arrivedAt: 0 }];
  const deliveries = [{ set: 1, delivery: { position: 1, rounds: 0 }, dueAt: redeliveredAt }];
  const windowStart = 4 * HOUR;
  const { ready, dead } = batchOf(deliveries, events as never, { since: 0 }, windowStart);
  expect(dead).toEqual([]);
  expect(ready[0]!.delivery.firstFailedAt).toBe(redeliveredAt);
});
