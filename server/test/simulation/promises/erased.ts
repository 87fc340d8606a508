import { isDeleting, isSuppressing } from '../../../src/model/regulation.ts';
import type { NewRegulation, StoredRegulation } from '../../../src/ports/regulations.ts';
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
    /** Users who are deleted and suppressed, by what the store has of them. */
    const users = new Set<string>();
    /** By user: the regulation that lifted a suppression of theirs last. */
    const lifted = new Map<string, number>();
    const noteLifted = ({ type, userIds }: NewRegulation, { number }: StoredRegulation) => {
      if (type !== 'UNSUPPRESS') return;
      for (const user of userIds) {
        users.delete(user);
        lifted.set(user, number);
      }
    };
    return {
      applied({ operation, args, answer }, { stored }) {
        if (operation === 'create') noteLifted(args[0] as NewRegulation, answer as StoredRegulation);
        for (const { id, user } of stored)
          if (user !== undefined && users.has(user))
            world.fail('deleted is not stored', `${id} of ${user} is stored after the deletion was finished`);
        const { regulations, regulationSubjects } = world.store.contents;
        if (operation !== 'advance') return;
        const { id: regulation, number, type, step } = regulations.get(args[0] as string)!;
        if (!isDeleting(type) || !AFTER_ERASURE.has(step)) return;
        for (const { position, isErased } of world.book.byPosition.values())
          if (isErased) gone.add(position!);
        if (!isSuppressing(type)) return;
        for (const { userId } of regulationSubjects.get(regulation) ?? [])
          if (userId !== undefined && (lifted.get(userId) ?? 0) < number) users.add(userId);
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
