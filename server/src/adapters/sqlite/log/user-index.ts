import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import { checksumOf, unlessDamaged, withChecksum, withoutChecksum } from '../damage.ts';
import type { Watermarks } from '../installation.ts';
import type { Chunks } from './chunks.ts';

/** Positions of one block. Its filter is made in one slice of upkeep: some two milliseconds. */
const BLOCK_EVENTS = 16_384;

/** Bits for each user of a block, and how many of them one sets: wrong for one user in a hundred. */
const BITS_PER_USER = 10;
const PROBES = 4;

/**
 * Who did nothing in a part of the log. The hashes of users lie in the rows of the chunks, spread over the whole file:
 * looking through ten million costs a third of a second when the file is in memory, and several seconds when it is not. So
 * upkeep makes a filter (Bloom's) for every so many positions, a byte an event or less, side by side in a table of its own. Ranges are of
 * positions, and those never move; what has been erased since makes a filter say "perhaps" and nothing worse.
 */
export class UserIndex {
  readonly #chunks: Chunks;
  readonly #marks: Watermarks;
  readonly #get: StatementSync;
  readonly #put: StatementSync;
  readonly #drop: StatementSync;
  readonly #users = new UserSet();
  #next: number;
  #oldest: number;

  constructor(database: DatabaseSync, chunks: Chunks, marks: Watermarks) {
    this.#chunks = chunks;
    this.#marks = marks;
    this.#get = database.prepare('select filter from user_block where id = ?');
    this.#put = database.prepare('insert into user_block(id, filter) values (?, ?)');
    this.#drop = database.prepare('delete from user_block where id < ?');
    const ids = database.prepare('select min(id) as oldest, max(id) as newest from user_block').get() as {
      oldest: number | null;
      newest: number | null;
    };
    this.#oldest = ids.oldest ?? 0;
    this.#next = ids.newest === null ? 0 : ids.newest + 1;
  }

  /** Where the block of a position begins. */
  static blockStart(position: Position): Position {
    return Math.floor(position / BLOCK_EVENTS) * BLOCK_EVENTS;
  }

  /** Whether the user with this hash certainly did nothing in the block that begins there. */
  excludes(start: Position, high: number, low: number): boolean {
    const id = start / BLOCK_EVENTS;
    if (id >= this.#next) return false;
    const row = unlessDamaged(() => this.#get.get(id) as { filter: Uint8Array } | undefined);
    const filter = row && withoutChecksum(row.filter, checksumOf(id));
    if (filter === undefined) return false;
    for (let probe = 0; probe < PROBES; probe++) {
      const bit = bitOf(high, low, probe, filter.length * 8);
      if ((filter[bit >>> 3]! & (1 << (bit & 7))) === 0) return true;
    }
    return false;
  }

  /** Makes the next filter, or drops those of events that are gone. False when there is nothing to do. */
  step(): boolean {
    const oldest = Math.floor((this.#chunks.oldest()?.first ?? 0) / BLOCK_EVENTS);
    if (this.#oldest < oldest && this.#oldest < this.#next) {
      this.#drop.run(oldest);
      this.#oldest = oldest;
      return true;
    }
    const id = Math.max(this.#next, oldest);
    // Where chunks are still small there are too many of them to be read in one slice.
    if ((id + 1) * BLOCK_EVENTS > this.#marks.sealedTo) return false;
    this.#put.run(id, withChecksum(this.#filterOf(id * BLOCK_EVENTS), checksumOf(id)));
    this.#next = id + 1;
    return true;
  }

  #filterOf(start: Position): Uint8Array {
    const users = this.#users;
    users.clear();
    for (const chunk of this.#chunks.usersBelow(start + BLOCK_EVENTS)) {
      if (chunk.first + chunk.n <= start) break;
      for (let index = 0; index < chunk.n; index++) {
        const position = chunk.first + index;
        if (position < start || position >= start + BLOCK_EVENTS) continue;
        users.add(chunk.users[index * 2]!, chunk.users[index * 2 + 1]!);
      }
    }
    const filter = new Uint8Array(Math.max(1, Math.ceil((users.size * BITS_PER_USER) / 8)));
    users.visit((high, low) => addToFilter(filter, high, low));
    return filter;
  }
}

/** The users of one block, each once, by their hashes: an open-addressing table, at most half full. */
class UserSet {
  readonly #slots = new Uint32Array(BLOCK_EVENTS * 4);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  clear(): void {
    this.#slots.fill(0);
    this.#size = 0;
  }

  /** Two zeros are nobody: the event is of no user, or was erased. */
  add(high: number, low: number): void {
    if (high === 0 && low === 0) return;
    const slots = this.#slots;
    const last = slots.length - 1;
    let at = (low << 1) & last;
    while (slots[at] !== 0 || slots[at + 1] !== 0) {
      if (slots[at] === high && slots[at + 1] === low) return;
      at = (at + 2) & last;
    }
    slots[at] = high;
    slots[at + 1] = low;
    this.#size++;
  }

  visit(each: (high: number, low: number) => void): void {
    const slots = this.#slots;
    for (let at = 0; at < slots.length; at += 2) {
      if (slots[at] !== 0 || slots[at + 1] !== 0) each(slots[at]!, slots[at + 1]!);
    }
  }
}

function addToFilter(filter: Uint8Array, high: number, low: number): void {
  for (let probe = 0; probe < PROBES; probe++) {
    const bit = bitOf(high, low, probe, filter.length * 8);
    filter[bit >>> 3]! |= 1 << (bit & 7);
  }
}

/** The two halves of a keyed hash are independent of each other, so their sums serve as further ones. */
function bitOf(high: number, low: number, probe: number, bits: number): number {
  return (high + probe * low) % bits;
}
