import type { Position } from '../../model/event.ts';
import { MINUTE, type Monotonic } from '../../model/time.ts';
import { type Chunk, type ChunkEvents, concatLines } from './chunk-codec.ts';
import { MAX_CHUNK_EVENTS } from './chunk-lines.ts';

/** Facts of a chunk that can be read without its events. */
export interface ChunkFacts {
  readonly first: Position;
  readonly n: number;
  readonly at: Monotonic;
  readonly until: Monotonic;
  readonly json: number;
  readonly stage: number;
  /** The chunk cannot be written, or its numbers cannot be read and are estimated from its neighbours. */
  readonly isDamaged: boolean;
}

/** A merged chunk with this many events need not wait for more. */
const FULL_EVENTS = MAX_CHUNK_EVENTS / 2;

/** The most bytes of JSON in a merged chunk, so that one event of it is read quickly. */
const MAX_JSON_BYTES = 1024 * 1024;

/** The longest time that small chunks wait for more neighbours. */
const MAX_WAIT: Monotonic = 60 * MINUTE;

/**
 * Whether a merge may be due of the chunks from `first` to `end`. Looking at each of them every second, until
 * there are enough, costs as much as merging them.
 */
export function mayBeDue(
  { first, at }: Pick<ChunkFacts, 'first' | 'at'>,
  end: Position,
  now: Monotonic,
): boolean {
  return end - first >= FULL_EVENTS || at <= now - MAX_WAIT;
}

/** The chunks to merge now. None while more chunks may come that fit in. A large chunk stands alone. */
export function nextMerge(facts: readonly ChunkFacts[], end: Position, now: Monotonic): ChunkFacts[] {
  const chunks = mergeableChunks(facts, end);
  const isComplete = chunks.length < facts.length && (facts[chunks.length]?.first ?? end) < end;
  const events = chunks.reduce((sum, chunk) => sum + chunk.n, 0);
  const isDue = isComplete || events >= FULL_EVENTS || (chunks[0]?.at ?? now) <= now - MAX_WAIT;
  return isDue ? chunks : [];
}

/** The next neighbours that fit into one chunk, below `end`. */
export function mergeableChunks(facts: readonly ChunkFacts[], end: Position): ChunkFacts[] {
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

/** The events of neighbouring chunks as those of one. */
export function mergeEvents(chunks: readonly Chunk[]): ChunkEvents {
  const n = chunks.reduce((sum, chunk) => sum + chunk.n, 0);
  const words = (part: 'sources' | 'plans' | 'keys' | 'users') =>
    concatWords(
      Uint32Array,
      chunks.map((chunk) => chunk[part]),
    );
  return {
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
