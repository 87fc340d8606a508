import type { Position } from '../../../model/event.ts';
import { MINUTE, type Time } from '../../../model/time.ts';
import { type Chunk, type ChunkEvents, concatLines } from '../../encoding/chunk-codec.ts';
import { idsOf } from '../../encoding/key-hash.ts';
import { UnwritableChunksError } from '../damage.ts';
import type { Watermarks } from '../installation.ts';
import { type ChunkFacts, COMPACTED, MAX_CHUNK_EVENTS } from '../log/chunk-rows.ts';
import { type Chunks, storedLine } from '../log/chunks.ts';
import { REMEMBERED_BATCHES } from '../log/dedupe.ts';

/** A merged chunk with this many events need not wait for more. */
const FULL_EVENTS = MAX_CHUNK_EVENTS / 2;

/** The most bytes of JSON in a merged chunk, so that one event of it is read quickly. */
const MAX_JSON_BYTES = 1024 * 1024;

/** The longest time that small chunks wait for more neighbours. */
const MAX_WAIT: Time = 60 * MINUTE;

/** Facts read at first in one slice. More are read only where chunks are so small that these do not fill a merged one. */
const FEW_FACTS = 8;

/**
 * Merges small neighbouring chunks into one. Events of single calls then compress as well as batches do, and a search reads
 * one row where it would read hundreds. Positions stay the same.
 */
export class Compaction {
  readonly #chunks: Chunks;
  readonly #watermarks: Watermarks;

  constructor(chunks: Chunks, watermarks: Watermarks) {
    this.#chunks = chunks;
    this.#watermarks = watermarks;
  }

  /** Does one slice inside the caller's transaction. False when there is nothing to merge now. */
  step(now: Time): boolean {
    const end = this.#chunks.firstOfBatches(REMEMBERED_BATCHES);
    let facts = this.#nextFacts(end);
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

  #nextFacts(end: Position): readonly ChunkFacts[] {
    const { compactedTo } = this.#watermarks;
    for (let limit = FEW_FACTS; ; limit *= 2) {
      const facts = this.#chunks.factsFrom(compactedTo, limit);
      const isAll = facts.length < limit || limit >= MAX_CHUNK_EVENTS;
      if (isAll || mergeableChunks(facts, end).length < limit) return facts;
    }
  }

  #merge(all: readonly ChunkFacts[]): void {
    const first: Position = all[0]!.first;
    const chunks = all.map((facts) => this.#chunks.at(facts.first)).filter((chunk) => chunk !== undefined);
    // An unreadable chunk stays as it is, and so do its neighbours: a person may still recover some of it.
    if (chunks.length < all.length) return;
    const n = chunks.reduce((sum, chunk) => sum + chunk.n, 0);
    const words = (part: 'sources' | 'plans' | 'keys' | 'users') =>
      concatWords(
        Uint32Array,
        chunks.map((chunk) => chunk[part]),
      );
    const merged: ChunkEvents = {
      n,
      lines: concatLines(chunks.map(({ body }) => body)),
      times: concatWords(
        Float64Array,
        chunks.map((chunk) => chunk.times),
      ),
      sources: words('sources'),
      plans: words('plans'),
      keys: words('keys'),
      users: words('users'),
    };
    try {
      for (const chunk of chunks) this.#chunks.delete(chunk);
      this.#chunks.put(first, merged, COMPACTED);
    } catch (error) {
      throw error instanceof UnwritableChunksError
        ? new UnwritableChunksError(first, first + n, error)
        : error;
    }
  }
}

/** The chunks to merge now. None while more chunks may come that fit in. A large chunk stands alone. */
function nextMerge(facts: readonly ChunkFacts[], end: Position, now: Time): ChunkFacts[] {
  const chunks = mergeableChunks(facts, end);
  const isComplete = chunks.length < facts.length && (facts[chunks.length]?.first ?? end) < end;
  const events = chunks.reduce((sum, chunk) => sum + chunk.n, 0);
  const isDue = isComplete || events >= FULL_EVENTS || (chunks[0]?.at ?? now) <= now - MAX_WAIT;
  return isDue ? chunks : [];
}

/** The next neighbours that fit into one chunk, below `end`. */
function mergeableChunks(facts: readonly ChunkFacts[], end: Position): ChunkFacts[] {
  const chunks: ChunkFacts[] = [];
  let events = 0;
  let json = 0;
  for (const chunk of facts) {
    events += chunk.n;
    json += chunk.json;
    // Retention drops a chunk when its newest event is old enough, so its events must be about as old.
    const isAsOld = chunks.length === 0 || Math.abs(chunk.until - chunks[0]!.at) <= MAX_WAIT;
    const fits = events <= MAX_CHUNK_EVENTS && json <= MAX_JSON_BYTES && isAsOld;
    const last = chunks.at(-1);
    // A gap between two chunks may be a damaged one. Merging over it would move the positions after it.
    const isNext = last === undefined || chunk.first === last.first + last.n;
    if (chunk.first >= end || !isNext || (chunks.length > 0 && (!fits || chunk.isDamaged))) break;
    chunks.push(chunk);
    if (chunk.isDamaged) break;
  }
  return chunks;
}

function concatWords<Words extends Uint32Array | Float64Array>(
  make: new (length: number) => Words,
  parts: readonly Words[],
): Words {
  const whole = new make(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part as never, at);
    at += part.length;
  }
  return whole;
}

/**
 * A chunk without some of its events. Their lines are empty and their hashes zero; the others keep their positions. Sources,
 * times and plans stay, because they tell nothing about a person.
 */
export function redactEvents(chunk: Chunk, isRedacted: (position: Position) => boolean): ChunkEvents {
  const keys = chunk.keys.slice();
  const users = chunk.users.slice();
  const lines: Uint8Array[] = [];
  for (let index = 0; index < chunk.n; index++) {
    if (!isRedacted(chunk.first + index)) {
      lines.push(storedLine(chunk, chunk.first + index));
      continue;
    }
    lines.push(EMPTY);
    keys.fill(0, index * 2, index * 2 + 2);
    users.fill(0, index * 2, index * 2 + 2);
  }
  const { n, sources, times, plans } = chunk;
  return { n, lines: concatLines(lines), sources, times, plans, keys, users };
}

/** A chunk that keeps some events whole and only the messageId of some others, for dedupe. */
export function reduceToIds(
  chunk: Chunk,
  { keepsEvent, keepsId }: { keepsEvent: (position: Position) => boolean; keepsId: (time: Time) => boolean },
): ChunkEvents {
  const left = redactEvents(chunk, (position) => {
    return !keepsEvent(position) && !keepsId(chunk.times[position - chunk.first]!);
  });
  const lines = Array.from({ length: chunk.n }, (_, index) => {
    const position = chunk.first + index;
    const line = storedLine(chunk, position);
    if (line.length === 0 || keepsEvent(position)) return line;
    return keepsId(chunk.times[index]!) ? Buffer.from(JSON.stringify(idsOf(line).messageId)) : EMPTY;
  });
  const users = left.users.slice();
  lines.forEach((_, index) => {
    if (!keepsEvent(chunk.first + index)) users.fill(0, index * 2, index * 2 + 2);
  });
  return { ...left, users, lines: concatLines(lines) };
}

const EMPTY = Buffer.alloc(0);
