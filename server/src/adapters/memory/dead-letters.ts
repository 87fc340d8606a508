import type { DeadLetter, DeadLetters, DeadQuery } from '../../ports/dead-letters.ts';
import type { Holder, Letter, MemoryContents, PendingSet } from './contents.ts';
import { assertOpen } from './contents.ts';
import { putOnDisk } from './due.ts';
import { countFor } from './owed.ts';
import { tallyOfDestination } from './tally.ts';

/** A page begins at a place in the order of burial, counted from the end. */
export function openDeadLetters(contents: MemoryContents, holder: Holder): DeadLetters {
  return {
    async list(query, limit, from = '0') {
      const found = contents.letters.filter(isIn(query)).reverse();
      const end = Number(from) + limit;
      const letters = found.slice(Number(from), end).map(({ origin: _, ...letter }) => letter);
      return end < found.length ? { letters, next: String(end) } : { letters };
    },

    async count(query) {
      return { count: contents.letters.filter(isIn(query)).length };
    },

    async revive({ query, now, before = now, origin }) {
      assertOpen(contents, holder);
      const old = { ...query, to: Math.min(query.to ?? before, before) };
      const going = new Set(contents.letters.filter(isIn(old)));
      contents.letters = contents.letters.filter((letter) => !going.has(letter));
      for (const letter of going) owe(contents, letter, now);
      if (origin !== undefined && going.size > 0) countFor(contents, origin, going.size);
      return { count: going.size };
    },
  };
}

function isIn({ destinations, reason, from = 0, to = Number.POSITIVE_INFINITY, only }: DeadQuery) {
  return (letter: DeadLetter): boolean =>
    destinations.includes(letter.destination) &&
    (reason === undefined || letter.reason === reason) &&
    letter.at >= from &&
    letter.at < to &&
    (only === undefined ||
      only.some((one) => one.destination === letter.destination && one.position === letter.position));
}

function owe(contents: MemoryContents, { destination, position, reason, origin }: Letter, now: number): void {
  const { dead } = tallyOfDestination(contents, destination);
  const left = dead.get(reason)! - 1;
  if (left === 0) dead.delete(reason);
  else dead.set(reason, left);
  const deliveries = new Map([[position, { position, rounds: 0 }]]);
  const set: PendingSet = {
    ...{ id: ++contents.lastSet, destination, origin, dueAt: now, holder: undefined, deliveries },
  };
  contents.sets.set(set.id, set);
  putOnDisk(contents, set);
}
