import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { HashSet } from '../../../model/containers.ts';
import type { Position } from '../../../model/event.ts';
import { checksumOf, withChecksum, withoutChecksum } from '../../encoding/hashes.ts';
import type { Quarantine } from '../damage.ts';
import type { Watermarks } from '../installation.ts';
import type { Chunks } from './chunks.ts';

export interface UserIndexDependencies {
  readonly chunks: Chunks;
  readonly watermarks: Watermarks;
  readonly quarantine: Quarantine;
}

/** Positions of one block. Making its filter is one slice of upkeep: about two milliseconds. */
const BLOCK_EVENTS = 16_384;

/**
 * Bits of the filter per user, and bits that one user sets. The filter is wrong for one user in a hundred.
 */
const BITS_PER_USER = 10;
const PROBES = 4;

/**
 * Bloom filters that tell which users have no event in a block of the log. The user hashes themselves are in
 * the rows of the chunks, spread over the whole file: reading ten million costs a third of a second when the
 * file is in memory, and several seconds when it is not. The filters are side by side in a table of their
 * own, a byte per event or less. Positions never move, so a filter stays valid. An erased user makes it say
 * "perhaps", which is harmless.
 */
export class UserIndex {
  readonly #chunks: Chunks;
  readonly #watermarks: Watermarks;
  readonly #quarantine: Quarantine;
  readonly #get: StatementSync;
  readonly #put: StatementSync;
  readonly #drop: StatementSync;
  /**
   * The users of one block. A memtable in its place takes four times as long: it grows, and visits its keys
   * in order.
   */
  readonly #users = new HashSet(BLOCK_EVENTS);
  /** The block to be made next, and the oldest that is stored. */
  #next: number;
  #oldest: number;

  constructor(database: DatabaseSync, { chunks, watermarks, quarantine }: UserIndexDependencies) {
    this.#chunks = chunks;
    this.#watermarks = watermarks;
    this.#quarantine = quarantine;
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

  /** The first position of the block of a position. */
  static blockStart(position: Position): Position {
    return Math.floor(position / BLOCK_EVENTS) * BLOCK_EVENTS;
  }

  /** Whether the user with this hash certainly has no event in the block that begins at `start`. */
  excludes(start: Position, high: number, low: number): boolean {
    const id = start / BLOCK_EVENTS;
    if (id >= this.#next) return false;
    const row = this.#quarantine.unlessDamaged(() => this.#get.get(id) as { filter: Uint8Array } | undefined);
    const filter = row && withoutChecksum(row.filter, checksumOf(id));
    if (filter === undefined) return false;
    for (let probe = 0; probe < PROBES; probe++) {
      const bit = bitOf(high, low, probe, filter.length * 8);
      if ((filter[bit >>> 3]! & (1 << (bit & 7))) === 0) return true;
    }
    return false;
  }

  /** Makes the next filter, or drops filters of blocks that are gone. False when there is nothing to do. */
  step(): boolean {
    const oldest = Math.floor((this.#chunks.oldest()?.first ?? 0) / BLOCK_EVENTS);
    if (this.#oldest < oldest && this.#oldest < this.#next) {
      this.#drop.run(oldest);
      this.#oldest = oldest;
      return true;
    }
    const id = Math.max(this.#next, oldest);
    // Before compaction a block has too many small chunks to read them in one slice.
    if ((id + 1) * BLOCK_EVENTS > this.#watermarks.compactedTo) return false;
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
        const [high, low] = [chunk.users[index * 2]!, chunk.users[index * 2 + 1]!];
        // Two zeros are no user: the event has none, or was erased.
        if (high !== 0 || low !== 0) users.add(high, low);
      }
    }
    const filter = new Uint8Array(Math.max(1, Math.ceil((users.size * BITS_PER_USER) / 8)));
    users.visit((high, low) => addToFilter(filter, high, low));
    return filter;
  }
}

function addToFilter(filter: Uint8Array, high: number, low: number): void {
  for (let probe = 0; probe < PROBES; probe++) {
    const bit = bitOf(high, low, probe, filter.length * 8);
    filter[bit >>> 3]! |= 1 << (bit & 7);
  }
}

/**
 * The bit of one probe. The two halves of a keyed hash are independent, so their sums serve as further
 * hashes.
 */
function bitOf(high: number, low: number, probe: number, bits: number): number {
  return (high + probe * low) % bits;
}
