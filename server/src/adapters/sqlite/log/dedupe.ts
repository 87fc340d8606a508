import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import type { Duration, Monotonic } from '../../../model/time.ts';
import type { CallCounts, Producer } from '../../../ports/event-log.ts';
import { type BatchAnswer, type ChunkEvents, concatLines } from '../../encoding/chunk-codec.ts';
import { messageIdOf, storedLine } from '../../encoding/chunk-lines.ts';
import type { Quarantine } from '../damage.ts';
import type { Chunks, PlannedBatch } from './chunks.ts';
import type { KeyIndex } from './key-index.ts';

/** A batch as it crosses to the writer thread; `lines` is moved, not copied. */
export interface AppendMessage extends PlannedBatch {
  readonly batch: string;
  readonly receivedAt: Monotonic;
  /** The events as compact JSON, one a line. */
  readonly lines: Uint8Array;
  /** See `findLineOffsets`. */
  readonly starts: Uint32Array;
  /** Source id of each event. */
  readonly sources: Uint32Array;
  /** Hash of the source and messageId of each event: high word, low word. */
  readonly keys: Uint32Array;
  /** Dedupe window of each event in milliseconds; absent when all have the store's own. */
  readonly windows?: Float64Array;
  /** Hash of the userId of each event in the same form, or without one of the anonymousId; two zeros where it has neither. */
  readonly users: Uint32Array;
  readonly owed: readonly { destination: number; held: boolean; indexes: Uint32Array }[];
  readonly received: readonly CallCounts[];
  readonly producer?: Producer;
}

/**
 * Finds events whose source and messageId are already in the log. It is exact: the key index proposes positions by hash, and
 * each proposal is compared with the stored event, because two ids may share a hash and an event would be lost. A stored event
 * that cannot be read counts as a different one: an event too many is better than one too few.
 */
export class Dedupe {
  readonly #window: Duration;
  readonly #chunks: Chunks;
  readonly #keys: KeyIndex;

  constructor(chunks: Chunks, keys: KeyIndex, window: Duration) {
    this.#window = window;
    this.#chunks = chunks;
    this.#keys = keys;
  }

  /**
   * The position of each event of a batch, counted from `next`; −1 for a duplicate and for the first `known` events, which are not
   * looked at. The keys of the others go into the key index, so after a transaction that fails the index must be made anew.
   */
  assignPositions(batch: AppendMessage, next: Position, known = 0): Float64Array {
    const positions = new Float64Array(batch.events).fill(-1, 0, known);
    const first = next;
    const mayBeOnDisk = this.#keys.mayBeOnDisk(batch.keys);
    let index = known;
    // One function for the whole batch: it compares the event at `index`.
    const isSame = (position: Position): boolean => {
      if (position < first) return this.#isStored(batch, index, position);
      const earlier = positions.indexOf(position);
      return (
        batch.sources[earlier] === batch.sources[index] &&
        messageIdOf(lineIn(batch, earlier)) === messageIdOf(lineIn(batch, index))
      );
    };
    for (; index < batch.events; index++) {
      const high = batch.keys[index * 2]!;
      const low = batch.keys[index * 2 + 1]!;
      const isDuplicate =
        this.#keys.someInMemory(high, low, isSame) ||
        (mayBeOnDisk[index] === 1 &&
          this.#keys.someOnDisk(high, low, batch.receivedAt - this.#windowOf(batch, index), isSame));
      if (isDuplicate) {
        positions[index] = -1;
        continue;
      }
      positions[index] = next;
      this.#keys.add(high, low, next, batch.receivedAt);
      next++;
    }
    return positions;
  }

  #windowOf(batch: AppendMessage, index: number): Duration {
    return batch.windows?.[index] ?? this.#window;
  }

  /** Whether the stored event at a position is the same as one of the batch, within its dedupe window. */
  #isStored(batch: AppendMessage, index: number, position: Position): boolean {
    const chunk = this.#chunks.at(position);
    if (chunk === undefined) return false;
    const event = position - chunk.first;
    if (batch.receivedAt - chunk.times[event]! >= this.#windowOf(batch, index)) return false;
    if (chunk.sources[event] !== batch.sources[index]) return false;
    const stored = storedLine(chunk, position);
    return stored.length > 0 && messageIdOf(stored) === messageIdOf(lineIn(batch, index));
  }
}

function lineIn({ lines, starts }: AppendMessage, index: number): Buffer {
  const from = starts[index]!;
  return Buffer.from(lines.buffer, lines.byteOffset + from, starts[index + 1]! - 1 - from);
}

/** The positions of the events at these indexes, without the duplicates. */
export function positionsAt(indexes: Uint32Array, places: Float64Array): Position[] {
  const positions: Position[] = [];
  for (const index of indexes) {
    if (places[index]! >= 0) positions.push(places[index]!);
  }
  return positions;
}

/** The batch without its duplicates. A batch without any is not copied. */
export function dropDuplicates(
  message: AppendMessage,
  places: Float64Array,
  plans: Uint32Array,
): ChunkEvents {
  const { receivedAt, events: n, lines, starts, sources, keys, users } = message;
  if (!places.includes(-1)) {
    const times = new Float64Array(n).fill(receivedAt);
    return { n, lines, starts, sources, times, plans, keys, users };
  }
  const kept = [...places.keys()].filter((index) => places[index]! >= 0);
  const wordsOf = (words: Uint32Array) =>
    Uint32Array.from(kept.flatMap((at) => [words[at * 2]!, words[at * 2 + 1]!]));
  return {
    n: kept.length,
    lines: concatLines(kept.map((index) => lines.subarray(starts[index]!, starts[index + 1]! - 1))),
    sources: Uint32Array.from(kept, (index) => sources[index]!),
    times: new Float64Array(kept.length).fill(receivedAt),
    plans: Uint32Array.from(kept, (index) => plans[index]!),
    keys: wordsOf(keys),
    users: wordsOf(users),
  };
}

/** Batches remembered, of those with a chunk and of the others. Chunks of remembered batches are not compacted. */
export const REMEMBERED_BATCHES = 64;

/**
 * The answers to the last batches, written in the transaction of the batch. A caller that lost an answer sends the batch
 * again, gets the same answer, and changes nothing. An answer is stored in the row of the batch's first chunk, which costs no
 * page. Only a batch without a chunk needs a row of its own.
 */
export class RecentBatches {
  readonly #putEmpty: StatementSync;
  readonly #dropEmpty: StatementSync;
  /** Answers by batch id, as `encodeAppended` writes them: of batches with a chunk, and of the others. */
  readonly #ofChunks = new Map<string, string>();
  readonly #ofNone = new Map<string, string>();
  #emptyNumber = 0;

  constructor(database: DatabaseSync, quarantine: Quarantine) {
    this.#putEmpty = database.prepare('insert into empty_batch(number, batch, answer) values (?, ?, ?)');
    this.#dropEmpty = database.prepare('delete from empty_batch where number <= ?');
    const empty = database.prepare('select number, batch, answer from empty_batch order by number');
    for (const { number, batch, answer } of empty.all() as unknown as BatchRow[]) {
      this.#ofNone.set(batch, answer);
      this.#emptyNumber = number;
    }
    const last = database.prepare(
      'select batch, answer from chunk where batch is not null order by first desc limit ?',
    );
    const answered =
      quarantine.unlessDamaged(() => last.all(REMEMBERED_BATCHES) as unknown as BatchRow[]) ?? [];
    for (const { batch, answer } of answered.reverse()) {
      this.#ofChunks.set(batch, answer);
    }
  }

  answerTo(id: string): string | undefined {
    return this.#ofChunks.get(id) ?? this.#ofNone.get(id);
  }

  /** Stores an answer in a row of its own, because retention drops the chunk that had it. */
  keepAnswer({ batch, answer }: BatchAnswer): void {
    if (this.#ofChunks.has(batch)) this.#putEmpty.run(++this.#emptyNumber, batch, answer);
  }

  /** `inChunk`: whether a chunk stores the answer. */
  remember(id: string, answer: string, inChunk: boolean): void {
    if (!inChunk) {
      this.#putEmpty.run(++this.#emptyNumber, id, answer);
      this.#dropEmpty.run(this.#emptyNumber - REMEMBERED_BATCHES);
    }
    const answers = inChunk ? this.#ofChunks : this.#ofNone;
    answers.set(id, answer);
    if (answers.size > REMEMBERED_BATCHES) answers.delete(answers.keys().next().value!);
  }
}

interface BatchRow {
  number: number;
  batch: string;
  answer: string;
}
