import { invariant } from '../model/invariant.ts';
import type { ProfileChanges, UsersCursor } from '../ports/profile-store.ts';

/**
 * Checks what one slice is about to store. It stands still otherwise, and says so: profiles are made again
 * from the events, and a wrong one would be told to destinations.
 *
 * @param before the cursor with which the slice began
 */
export function checkChanges(changes: ProfileChanges, before: UsersCursor): void {
  const { cursor, put, bind, outbox, merges, timers } = changes;
  invariant(cursor.position >= before.position, 'a slice does not go back in the log');
  invariant(cursor.nextProfile >= before.nextProfile, 'numbers of profiles are not given again');
  invariant(
    cursor.nextOutbox === before.nextOutbox + outbox.length,
    'the outbox has a number for each of its entries',
  );
  for (let nth = 0; nth < outbox.length; nth++)
    invariant(outbox[nth]!.sequence === before.nextOutbox + nth, 'entries of the outbox follow each other');
  const removed = new Set(changes.removed);
  const unbound = new Set(changes.unbind);
  for (const { id } of put) {
    invariant(id < cursor.nextProfile, 'a profile that is stored was given its number');
    invariant(!removed.has(id), 'a profile that was merged away is not stored');
  }
  for (const { key, profile } of bind) {
    invariant(profile < cursor.nextProfile, 'an id is bound to a profile that was given its number');
    invariant(!removed.has(profile), 'no id is bound to a profile that was merged away');
    invariant(!unbound.has(key), 'an id that is bound is not let go as well');
  }
  for (const { winner, loser } of merges) {
    invariant(winner !== loser, 'a profile is merged into another one');
    invariant(removed.has(loser), 'a profile that was merged into another is gone');
  }
  for (const { minute } of timers) invariant(Number.isInteger(minute), 'a timer is of a whole minute');
}
