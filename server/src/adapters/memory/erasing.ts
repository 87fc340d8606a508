import type { MemoryContents } from './contents.ts';
import { makeGap } from './events.ts';
import { withdraw } from './owed.ts';
import { find } from './search.ts';
import { tallyOfDestination } from './tally.ts';

/** Leaves nothing of a user but gaps and counts; gives how many events there were. */
export function erase(contents: MemoryContents, userId: string): number {
  const gone = new Set(find(contents, { userId }).positions);
  const withdrawn = withdraw(
    contents,
    (position) => gone.has(position),
    () => true,
  );
  for (const { destination, positions } of withdrawn) {
    tallyOfDestination(contents, destination).erased += positions.length;
  }
  // What an endpoint answered may repeat what was in the event.
  contents.failures = contents.failures.filter(({ position }) => !gone.has(position));
  for (const position of gone) makeGap(contents, position);
  return gone.size;
}
