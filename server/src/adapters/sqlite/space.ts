import type { DatabaseSync, StatementSync } from 'node:sqlite';

/** Pages given back in one slice: a quarter of a megabyte. */
const SLICE_PAGES = 64;

/** Free pages below this are left for new events: giving them back would only make the file shrink and grow. */
const KEEP_PAGES = 256;
const KEEP_SHARE = 0.1;

/** The pages of the file. Free pages stay in it until they are given back, a few at a time. */
export class Space {
  readonly #database: DatabaseSync;
  readonly #pageCount: StatementSync;
  readonly #freeCount: StatementSync;
  readonly #pageSize: number;

  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#pageCount = database.prepare('select page_count as n from pragma_page_count');
    this.#freeCount = database.prepare('select freelist_count as n from pragma_freelist_count');
    this.#pageSize = (database.prepare('pragma page_size').get() as { page_size: number }).page_size;
  }

  /** Bytes in use, free pages not counted. */
  used(): number {
    return (this.#count(this.#pageCount) - this.#count(this.#freeCount)) * this.#pageSize;
  }

  /** Bytes of the file. */
  size(): number {
    return this.#count(this.#pageCount) * this.#pageSize;
  }

  /**
   * Gives back one slice of free pages inside the caller's transaction. False when there are few, and the file is not
   * larger than it may be (`limit`, bytes).
   */
  giveBack(limit = Number.POSITIVE_INFINITY): boolean {
    const free = this.#count(this.#freeCount);
    const pages = this.#count(this.#pageCount);
    const few = free <= Math.max(KEEP_PAGES, pages * KEEP_SHARE);
    if (free === 0 || (few && pages * this.#pageSize <= limit)) return false;
    this.#database.exec(`pragma incremental_vacuum(${SLICE_PAGES})`);
    return true;
  }

  /** Free pages; what was deleted may still stand in them. */
  free(): number {
    return this.#count(this.#freeCount);
  }

  /** Gives back a larger slice, whether it is worth it or not. */
  giveBackSome(): void {
    this.#database.exec(`pragma incremental_vacuum(${SLICE_PAGES * 4})`);
  }

  #count(statement: StatementSync): number {
    return (statement.get() as { n: number }).n;
  }
}
