import type { Position } from '../../../model/event.ts';
import type { Monotonic } from '../../../model/time.ts';
import { type Chunk, freeBuffer } from '../../encoding/chunk-codec.ts';
import { COMPACTED, MAX_CHUNK_EVENTS } from '../../encoding/chunk-lines.ts';
import {
  type ChunkFacts,
  mayBeDue,
  mergeableChunks,
  mergeEvents,
  nextMerge,
} from '../../encoding/chunk-merge.ts';
import { UnwritableChunksError } from '../damage.ts';
import type { Watermarks } from '../installation.ts';
import { type Chunks, REMEMBERED_BATCHES } from '../log/chunks.ts';

/** Facts read at first. More are read only where chunks are so small that these do not fill a merged one. */
const FEW_FACTS = 8;

/**
 * Merges small neighbouring chunks into one. Events of single calls then compress as well as batches do, and
 * a search reads one row where it would read hundreds. Positions stay the same.
 */
export class Compaction {
  readonly #chunks: Chunks;
  readonly #watermarks: Watermarks;

  constructor(chunks: Chunks, watermarks: Watermarks) {
    this.#chunks = chunks;
    this.#watermarks = watermarks;
  }

  /** Does one slice inside the caller's transaction. False when there is nothing to merge now. */
  step(now: Monotonic): boolean {
    const end = this.#chunks.firstOfBatches(REMEMBERED_BATCHES);
    let facts = this.#nextFacts(end, now);
    let merge = nextMerge(facts, end, now);
    // Large chunks are passed in one slice. Each would otherwise cost a read of all these facts.
    let passed: ChunkFacts | undefined;
    while (merge.length === 1 && facts.length > 1) {
      passed = merge[0];
      facts = facts.slice(1);
      merge = nextMerge(facts, end, now);
    }
    if (merge.length > 1) this.#merge(merge);
    const last = merge.at(-1) ?? passed;
    if (last === undefined) return false;
    this.#watermarks.compactedTo = Math.max(this.#watermarks.compactedTo, last.first + last.n);
    return true;
  }

  #nextFacts(end: Position, now: Monotonic): readonly ChunkFacts[] {
    const facts = this.#chunks.factsFrom(this.#watermarks.compactedTo, 1);
    if (facts[0] === undefined || !mayBeDue(facts[0], end, now)) return [];
    while (facts.length < MAX_CHUNK_EVENTS && mergeableChunks(facts, end).length === facts.length) {
      const last = facts.at(-1)!;
      const more = this.#chunks.factsFrom(last.first + last.n, Math.max(FEW_FACTS, facts.length));
      if (more.length === 0) break;
      facts.push(...more);
    }
    return facts;
  }

  #merge(all: readonly ChunkFacts[]): void {
    const first: Position = all[0]!.first;
    const last = all.at(-1)!;
    const end = last.first + last.n;
    const chunks = this.#chunks.between(first, end) ?? this.#oneByOne(all);
    // An unreadable chunk stays as it is, and so do its neighbours: a person may still recover some of it.
    if (chunks.length !== all.length) return;
    const merged = mergeEvents(chunks);
    const { n } = merged;
    try {
      this.#chunks.deleteBetween(first, end);
      this.#chunks.put(first, merged, COMPACTED);
      for (const chunk of chunks) freeBuffer(chunk.body);
      freeBuffer(merged.lines);
    } catch (error) {
      throw error instanceof UnwritableChunksError
        ? new UnwritableChunksError(first, first + n, error)
        : error;
    }
  }

  /** The chunks that can be read. The others are reported as damaged. */
  #oneByOne(all: readonly ChunkFacts[]): readonly Chunk[] {
    return all.map(({ first }) => this.#chunks.at(first)).filter((chunk) => chunk !== undefined);
  }
}
