import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import type { Duration, Monotonic } from '../../../model/time.ts';
import type { AppendResult, CallCounts } from '../../../ports/event-log.ts';
import { unlessDamaged } from '../damage.ts';
import type { BatchAnswer, ChunkEvents } from './chunk-codec.ts';
import { type Chunks, storedLine } from './chunks.ts';
import { idsOf } from './key-hash.ts';
import type { KeyIndex } from './key-index.ts';
import type { PlannedBatch } from './plans.ts';

/** A batch as it crosses to the writer thread; `lines` is moved, not copied. */
export interface AppendMessage extends PlannedBatch {
  readonly batch: string;
  readonly receivedAt: Monotonic;
  /** The events as compact JSON, one a line. */
  readonly lines: Uint8Array;
  /** Where each line begins, and one more: see `findLineOffsets`. */
  readonly starts: Uint32Array;
  /** Source id of each event. */
  readonly sources: Uint32Array;
  /** Key hash of each event: high word, low word. */
  readonly keys: Uint32Array;
  /** Dedupe window of each event in milliseconds; absent when all have the store's own. */
  readonly windows?: Float64Array;
  /** Hash of the userId of each event in the same form; two zeros where it has none. */
  readonly users: Uint32Array;
  readonly owed: readonly { destination: number; held: boolean; indexes: Uint32Array }[];
  readonly received: readonly CallCounts[];
}

/**
 * Finds events whose (source, messageId) is already in the log. Exact: the hash only proposes, and every proposal is
 * compared with the stored event itself, since believing a bare hash would lose an event now and then. What cannot be read is
 * not the same: an event too many is better than one too few.
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
   * The position each event of the batch gets, counted from `next` on; −1 for a duplicate. The keys of the others are
   * remembered, so a transaction that fails afterwards must be followed by new `Keys`.
   */
  assignPositions(batch: AppendMessage, next: Position): Float64Array {
    const positions = new Float64Array(batch.events);
    const first = next;
    const maySealed = this.#keys.mayBeOnDisk(batch.keys);
    for (let index = 0; index < batch.events; index++) {
      const high = batch.keys[index * 2]!;
      const low = batch.keys[index * 2 + 1]!;
      const isSame = (kept: Position): boolean => {
        if (kept < first) return this.#isStored(batch, index, { line: lineIn(batch, index), position: kept });
        const earlier = positions.indexOf(kept);
        return (
          batch.sources[earlier] === batch.sources[index] &&
          messageId(lineIn(batch, earlier)) === messageId(lineIn(batch, index))
        );
      };
      const isKnown =
        this.#keys.someInMemory(high, low, isSame) ||
        (maySealed[index] === 1 &&
          this.#keys.someOnDisk(high, low, batch.receivedAt - this.#windowOf(batch, index), isSame));
      if (isKnown) {
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

  #isStored(
    batch: AppendMessage,
    index: number,
    { line, position }: { line: Buffer; position: Position },
  ): boolean {
    const chunk = this.#chunks.at(position);
    if (chunk === undefined) return false;
    const event = position - chunk.first;
    if (batch.receivedAt - chunk.times[event]! >= this.#windowOf(batch, index)) return false;
    if (chunk.sources[event] !== batch.sources[index]) return false;
    const stored = storedLine(chunk, position);
    return stored.length > 0 && messageId(stored) === messageId(line);
  }
}

function lineIn({ lines, starts }: AppendMessage, index: number): Buffer {
  const from = starts[index]!;
  return Buffer.from(lines.buffer, lines.byteOffset + from, starts[index + 1]! - 1 - from);
}

export function messageId(line: Buffer): string {
  return idsOf(line).messageId;
}

const LINE_FEED = Uint8Array.of(10);

/** Where the events of these indexes stand in the log, the duplicates left out. */
export function positionsAt(indexes: Uint32Array, places: Float64Array): Position[] {
  const positions: Position[] = [];
  for (const index of indexes) {
    if (places[index]! >= 0) positions.push(places[index]!);
  }
  return positions;
}

/** The batch without its duplicates; mostly the batch itself. */
export function dropDuplicates(
  message: AppendMessage,
  places: Float64Array,
  plans: Uint32Array,
): ChunkEvents {
  const { receivedAt, events: n, lines, starts, sources, keys, users } = message;
  if (!places.includes(-1))
    return { n, lines, starts, sources, times: new Float64Array(n).fill(receivedAt), plans, keys, users };
  const kept = [...places.keys()].filter((index) => places[index]! >= 0);
  const parts = kept.flatMap((index, nth) => {
    const line = lines.subarray(starts[index]!, starts[index + 1]! - 1);
    return nth === 0 ? [line] : [LINE_FEED, line];
  });
  const wordsOf = (words: Uint32Array) =>
    Uint32Array.from(kept.flatMap((at) => [words[at * 2]!, words[at * 2 + 1]!]));
  return {
    n: kept.length,
    lines: Buffer.concat(parts),
    sources: Uint32Array.from(kept, (index) => sources[index]!),
    times: new Float64Array(kept.length).fill(receivedAt),
    plans: Uint32Array.from(kept, (index) => plans[index]!),
    keys: wordsOf(keys),
    users: wordsOf(users),
  };
}

/** How many batches are remembered of those with a chunk, and how many of the others. Chunks that carry their answers are not sealed. */
export const REMEMBERED_BATCHES = 64;

/**
 * The answers to the last batches, written by the same transaction: whoever did not hear an answer may send the batch
 * again and changes nothing by it. They stand in the rows of the chunks themselves, so remembering costs no page; only a
 * batch that left no chunk behind needs a row of its own.
 */
export class RecentBatches {
  readonly #putEmpty: StatementSync;
  readonly #dropEmpty: StatementSync;
  /** As `appended.ts` writes them. */
  readonly #ofChunks = new Map<string, string>();
  readonly #ofNone = new Map<string, string>();
  #emptyNumber = 0;

  constructor(database: DatabaseSync) {
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
    const answered = unlessDamaged(() => last.all(REMEMBERED_BATCHES) as unknown as BatchRow[]) ?? [];
    for (const { batch, answer } of answered.reverse()) {
      this.#ofChunks.set(batch, answer);
    }
  }

  answerTo(id: string): string | undefined {
    return this.#ofChunks.get(id) ?? this.#ofNone.get(id);
  }

  /** The chunk that carried an answer goes before the batch is forgotten. */
  keepAnswer({ batch, answer }: BatchAnswer): void {
    if (this.#ofChunks.has(batch)) this.#putEmpty.run(++this.#emptyNumber, batch, answer);
  }

  /** `stored`: whether the answer went into a chunk's row. */
  remember(id: string, answer: string, stored: boolean): void {
    if (!stored) {
      this.#putEmpty.run(++this.#emptyNumber, id, answer);
      this.#dropEmpty.run(this.#emptyNumber - REMEMBERED_BATCHES);
    }
    const answers = stored ? this.#ofChunks : this.#ofNone;
    answers.set(id, answer);
    if (answers.size > REMEMBERED_BATCHES) answers.delete(answers.keys().next().value!);
  }
}

interface BatchRow {
  number: number;
  batch: string;
  answer: string;
}

/**
 * The answer to a batch as it is stored beside its events and sent to the other thread. Mostly the positions follow each
 * other from the first on, and two numbers say it: sent as an object, a hundred positions cost as much as reading them.
 * JSON knows no `undefined`: null.
 */
export function encodeAppended({ positions, held }: AppendResult): string {
  const first = positions[0];
  const gapless = first !== undefined && positions.every((position, index) => position === first + index);
  return JSON.stringify({ positions: gapless ? { first, n: positions.length } : positions, held });
}

export function decodeAppended(text: string): AppendResult {
  const { positions, held } = JSON.parse(text) as {
    positions: { first: number; n: number } | (number | null)[];
    held: (number | null)[];
  };
  return {
    positions: Array.isArray(positions)
      ? positions.map((position) => position ?? undefined)
      : Array.from({ length: positions.n }, (_, index) => positions.first + index),
    held: held.map((set) => set ?? undefined),
  };
}
