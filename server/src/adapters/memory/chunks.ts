import type { Position } from '../../model/event.ts';
import type { Chunk } from './chunk.ts';
import type { StoredRecord } from './stored-record.ts';

/** Events by position, in the order they were stored. What was erased or let go of is not in it. */
export class Chunks {
  readonly #chunks: Chunk[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Puts a chunk behind all others. The one before is let go of when nothing was added to it. */
  add(chunk: Chunk): void {
    if (this.#chunks.at(-1)?.size === 0) this.#chunks.pop();
    this.#chunks.push(chunk);
  }

  /** Gives the next position to an event of the newest chunk: see `Chunk.add`. */
  grow(index: number): Position {
    this.#size++;
    return this.#chunks.at(-1)!.add(index);
  }

  has(position: Position): boolean {
    return this.#of(position) !== undefined;
  }

  get(position: Position): StoredRecord | undefined {
    return this.#of(position)?.at(position);
  }

  /** Bytes of its JSON; 0 when it is not there. */
  lengthOf(position: Position): number {
    return this.#of(position)?.lengthOf(position) ?? 0;
  }

  delete(position: Position): void {
    const place = this.#placeOf(position);
    const chunk = this.#chunks[place];
    if (chunk?.has(position) !== true) return;
    chunk.remove(position);
    this.#size--;
    if (chunk.size === 0) this.#chunks.splice(place, 1);
  }

  /** Events may be deleted meanwhile. */
  *[Symbol.iterator](): IterableIterator<[Position, StoredRecord]> {
    for (const chunk of this.#chunks.slice()) {
      for (let position = chunk.first; position < chunk.end; position++) {
        if (chunk.has(position)) yield [position, chunk.at(position)];
      }
    }
  }

  #of(position: Position): Chunk | undefined {
    const chunk = this.#chunks[this.#placeOf(position)];
    return chunk?.has(position) === true ? chunk : undefined;
  }

  /** The place of the last chunk that begins at or before a position; −1 when none does. */
  #placeOf(position: Position): number {
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#chunks[middle]!.first <= position) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}
