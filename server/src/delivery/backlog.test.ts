import { expect, it } from 'vitest';
import { handClock } from '../../test/support/clock.ts';
import { BacklogLoader } from './backlog.ts';

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
