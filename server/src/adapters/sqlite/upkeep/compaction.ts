import type { Position } from '../../../model/event.ts';
import { MINUTE, type Time } from '../../../model/time.ts';
import { UnwritableChunksError } from '../damage.ts';
import type { Watermarks } from '../installation.ts';
import type { Chunk, ChunkEvents } from '../log/chunk-codec.ts';
import { type ChunkFacts, type Chunks, COMPACTED, MAX_CHUNK_EVENTS, storedLine } from '../log/chunks.ts';
import { REMEMBERED_BATCHES } from '../log/dedupe.ts';
import { idsOf } from '../log/key-hash.ts';

/** A chunk is worth merging until it holds this many events. */
const FULL_EVENTS = MAX_CHUNK_EVENTS / 2;

/** Bytes of JSON in one merged chunk, so that reading one event of it stays quick. */
const MAX_JSON_BYTES = 1024 * 1024;

/** Small chunks wait this long for neighbours; after that they are merged with what there is. */
const MAX_WAIT: Time = 60 * MINUTE;

/** Facts looked at in one slice: mostly a few are enough; where every call came alone, it takes all of these. */
const FEW_HEADERS = 32;
const MANY_HEADERS = MAX_CHUNK_EVENTS;

/**
 * Merges neighbouring small chunks into one: single calls then take as little space as batches, since compression needs
 * company, and a search reads one row where it would read hundreds. Positions stay; only rows change.
 */
export class Compaction {
  readonly #chunks: Chunks;
  readonly #marks: Watermarks;

  constructor(chunks: Chunks, marks: Watermarks) {
    this.#chunks = chunks;
    this.#marks = marks;
  }

  /** Does one slice inside the caller's transaction. False when there is nothing to merge now. */
  step(now: Time): boolean {
    const end = this.#chunks.firstOfBatches(REMEMBERED_BATCHES);
    let facts = this.#nextFacts(end);
    let group = nextMerge(facts, end, now);
    // Chunks that are large already are passed over together: each would otherwise cost reading all these facts.
    let passed: ChunkFacts | undefined;
    while (group.length === 1 && facts.length > 1) {
      passed = group[0];
      facts = facts.slice(1);
      group = nextMerge(facts, end, now);
    }
    if (group.length > 1) this.#merge(group);
    const last = group.at(-1) ?? passed;
    if (last === undefined) return false;
    this.#marks.sealedTo = Math.max(this.#marks.sealedTo, last.first + last.n);
    return true;
  }

  #nextFacts(end: Position): readonly ChunkFacts[] {
    const { sealedTo } = this.#marks;
    const few = this.#chunks.factsFrom(sealedTo, FEW_HEADERS);
    const isEnough = few.length < FEW_HEADERS || mergeableChunks(few, end).length < FEW_HEADERS;
    return isEnough ? few : this.#chunks.factsFrom(sealedTo, MANY_HEADERS);
  }

  #merge(group: readonly ChunkFacts[]): void {
    const first: Position = group[0]!.first;
    const chunks = group.map((facts) => this.#chunks.at(facts.first)).filter((chunk) => chunk !== undefined);
    // One that cannot be read stays as it is, and its neighbours with it: what is left of it may still be of use to somebody.
    if (chunks.length < group.length) return;
    const n = chunks.reduce((sum, chunk) => sum + chunk.n, 0);
    const words = (part: 'sources' | 'plans' | 'keys' | 'users') =>
      concatWords(
        Uint32Array,
        chunks.map((chunk) => chunk[part]),
      );
    const merged: ChunkEvents = {
      n,
      lines: Buffer.concat(chunks.flatMap(({ body }, nth) => (nth === 0 ? [body] : [LINE_FEED, body]))),
      times: concatWords(
        Float64Array,
        chunks.map((chunk) => chunk.times),
      ),
      ...{ sources: words('sources'), plans: words('plans'), keys: words('keys'), users: words('users') },
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

const LINE_FEED = Uint8Array.of(10);

/** The chunks to be merged now; none while more may come that would go with them. */
function nextMerge(facts: readonly ChunkFacts[], end: Position, now: Time): ChunkFacts[] {
  const group = mergeableChunks(facts, end);
  const complete = group.length < facts.length && (facts[group.length]?.first ?? end) < end;
  const events = group.reduce((sum, chunk) => sum + chunk.n, 0);
  const isDue = complete || events >= FULL_EVENTS || (group[0]?.at ?? now) <= now - MAX_WAIT;
  return isDue ? group : [];
}

/** The chunks to be merged next: neighbours that fit into one together. A large chunk stands alone. */
function mergeableChunks(facts: readonly ChunkFacts[], end: Position): ChunkFacts[] {
  const group: ChunkFacts[] = [];
  let events = 0;
  let json = 0;
  for (const chunk of facts) {
    events += chunk.n;
    json += chunk.json;
    // Together they are let go of when the youngest is old enough, so they must be about as old.
    const together = group.length === 0 || Math.abs(chunk.until - group[0]!.at) <= MAX_WAIT;
    const fits = events <= MAX_CHUNK_EVENTS && json <= MAX_JSON_BYTES && together;
    const last = group.at(-1);
    // What lies between them may be damaged and cannot be seen; merged, what is behind it would move.
    const isNext = last === undefined || chunk.first === last.first + last.n;
    if (chunk.first >= end || !isNext || (group.length > 0 && (!fits || chunk.isDamaged))) break;
    group.push(chunk);
    if (chunk.isDamaged) break;
  }
  return group;
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
 * A chunk without some of its events: their lines are empty and their hashes are zero, and the others keep their
 * positions. Sources, times and plans stay, because they say nothing about anybody.
 */
export function redactEvents(chunk: Chunk, goes: (position: Position) => boolean): ChunkEvents {
  const keys = chunk.keys.slice();
  const users = chunk.users.slice();
  const lines: Uint8Array[] = [];
  for (let index = 0; index < chunk.n; index++) {
    if (index > 0) lines.push(LINE_FEED);
    if (!goes(chunk.first + index)) {
      lines.push(storedLine(chunk, chunk.first + index));
      continue;
    }
    keys.fill(0, index * 2, index * 2 + 2);
    users.fill(0, index * 2, index * 2 + 2);
  }
  const { n, sources, times, plans } = chunk;
  return { n, lines: Buffer.concat(lines), sources, times, plans, keys, users };
}

/** A chunk of which some events are kept whole, and of some others the messageId alone: dedupe asks for those. */
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
  const joined = lines.flatMap((line, index) => (index === 0 ? [line] : [LINE_FEED, line]));
  return { ...left, users, lines: Buffer.concat(joined) };
}

const EMPTY = Buffer.alloc(0);
