import { DAY } from '../../../src/model/time.ts';
import type { PromiseFamily, WorldView } from './promise.ts';

/** A call that a client heard of as stored is stored, and once. */
export const stored: PromiseFamily = {
  name: 'stored',
  headings: ['Success', 'Duplicates', 'Message ids'],
  watch: (world) => ({
    acknowledged({ events }) {
      for (const { id, user, position, isErased } of events) {
        if (position !== undefined || isErased || world.suppressedUsers.has(user!)) continue;
        world.fail('acknowledged is stored', `${id} was acknowledged and is not in the store`);
      }
    },
    applied({ operation }, { stored: told }) {
      for (const { id, position } of told)
        if (!world.store.contents.events.has(position!))
          world.fail('acknowledged is stored', `${id} was told to be stored at ${position} and is not there`);
      if (operation === 'recoverOrphans') checkAll(world);
      const { lastPosition } = world.store.contents;
      const { size } = world.book.byPosition;
      if (operation === 'append' && size !== lastPosition)
        world.fail('stored once', `${size} events have ${lastPosition} positions`);
    },
    ended() {
      checkAll(world);
      const seen = new Map<string, number>();
      for (const [position, { source, messageId, receivedAt }] of world.store.contents.events) {
        const key = `${source} ${messageId}`;
        const before = seen.get(key);
        if (before !== undefined && receivedAt - before < DAY)
          return world.fail(
            'stored once',
            `${messageId} is stored twice within a day, the second time at ${position}`,
          );
        seen.set(key, receivedAt);
      }
    },
  }),
};

/** Worlds end long before the retention of their events. */
function checkAll({ book, store, fail }: WorldView): void {
  for (const [position, { id, isErased }] of book.byPosition) {
    if (isErased || store.contents.events.has(position)) continue;
    fail('what is stored stays', `${id} was stored at ${position} and is not there any more`);
    return;
  }
}
