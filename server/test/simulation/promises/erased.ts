import type { PromiseFamily } from './promise.ts';

/** Steps of a regulation that come after everything of its users is gone. */
const AFTER_ERASURE = new Set(['notify', 'await', 'finish', 'clean', 'done']);

/** After a deletion has come to its notifications, nothing of the user is sent or stored. */
export const erased: PromiseFamily = {
  name: 'not ever',
  headings: ['Deletion', 'Suppression', 'Delete notification'],
  watch: (world) => {
    /** Positions of erased events whose deletion has gone on. */
    const gone = new Set<number>();
    const users = new Set<string>();
    return {
      applied({ operation, args }, { stored }) {
        for (const user of users) if (!world.deletedUsers.has(user)) users.delete(user);
        for (const { id, user } of stored)
          if (user !== undefined && users.has(user))
            world.fail('deleted is not stored', `${id} of ${user} is stored after the deletion was finished`);
        const { regulations, regulationSubjects } = world.store.contents;
        if (operation !== 'advance' || !AFTER_ERASURE.has(regulations.get(args[0] as string)!.step)) return;
        for (const { position, isErased } of world.book.byPosition.values())
          if (isErased) gone.add(position!);
        for (const { userId } of regulationSubjects.get(args[0] as string) ?? [])
          if (userId !== undefined && world.deletedUsers.has(userId)) users.add(userId);
      },
      sending({ known, id, endpoint }) {
        if (known?.position !== undefined && gone.has(known.position))
          world.fail('erased is not sent', `${id} is sent to ${endpoint.url} after its erasure was finished`);
      },
      ended() {
        const { regulations, events } = world.store.contents;
        for (const { id, step } of regulations.values())
          if (step !== 'done') return world.fail('deletions end', `${id} stands at ${step}`);
        for (const { messageId, userId } of events.values())
          if (userId !== undefined && users.has(userId))
            return world.fail('deleted is gone', `${messageId} of ${userId} is stored at the end`);
      },
    };
  },
};
