import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../model/event.ts';
import { lineStarts } from '../../model/lines.ts';
import type { Time } from '../../model/time.ts';
import { decodeBody, decodeNumbers, decodeTimes, encodeBody, encodeNumbers, encodeTimes } from './codec.ts';
import { NO_PLAN } from './plans.ts';

/** A chunk holds at most this many events: large enough to compress well, small enough to read one event from. */
export const MAX_EVENTS = 500;

/** Chunks kept decoded: a claim reads neighbours, and a verified duplicate is usually young. */
const KEPT = 16;

/** Stages of a chunk's life, as in the table. */
const FRESH = 0;
export const SEALED = 1;
export const REMNANT = 2;

/** One decoded chunk. */
export interface Chunk {
  readonly first: Position;
  readonly n: number;
  readonly stage: number;
  /** Absent once it is sealed. */
  readonly origin: Origin | undefined;
  readonly body: Buffer;
  readonly starts: Uint32Array;
  readonly sources: Uint32Array;
  readonly times: Float64Array;
  /** Numbers of `plans.ts`. */
  readonly plans: Uint32Array;
  /** Two words for each event. */
  readonly keys: Uint32Array;
  readonly users: Uint32Array;
}

/** Events to be written, or a chunk to be written anew. */
export interface ChunkEvents {
  readonly n: number;
  readonly lines: Uint8Array;
  /** See `lineStarts`; where they are known without a look at the lines. */
  readonly starts?: Uint32Array;
  readonly sources: Uint32Array;
  readonly times: Float64Array;
  readonly plans: Uint32Array;
  readonly keys: Uint32Array;
  readonly users: Uint32Array;
}

/** The batch that events came with, and the answer it got, as `batches.ts` writes it. */
export interface Origin {
  readonly batch: string;
  readonly answer: string;
}

/** The event log's rows. A position is the number of an event since the beginning of the log. */
export class Chunks {
  readonly #sql: ReturnType<typeof statements>;
  readonly #kept = new Map<Position, Chunk>();
  #next: Position;

  constructor(database: DatabaseSync) {
    this.#sql = statements(database);
    const last = this.#sql.last.get() as { first: number; n: number } | undefined;
    // Retention never drops the newest row, so this goes on where the log ended whatever was let go of.
    this.#next = last ? last.first + last.n : 0;
  }

  /** The position the next event will get. */
  get next(): Position {
    return this.#next;
  }

  /** Writes the events in as many rows as they need; the batch and its answer go into the first. */
  append(events: ChunkEvents, origin: Origin): void {
    if (events.n <= MAX_EVENTS) {
      this.put(this.#next, events, FRESH, origin);
      this.#next += events.n;
      return;
    }
    const starts = events.starts ?? lineStarts(events.lines, events.n);
    for (let from = 0; from < events.n; from += MAX_EVENTS) {
      const to = Math.min(from + MAX_EVENTS, events.n);
      const part: ChunkEvents = {
        n: to - from,
        lines: events.lines.subarray(starts[from]!, starts[to]! - 1),
        sources: events.sources.subarray(from, to),
        times: events.times.subarray(from, to),
        plans: events.plans.subarray(from, to),
        keys: events.keys.subarray(from * 2, to * 2),
        users: events.users.subarray(from * 2, to * 2),
      };
      this.put(this.#next, part, FRESH, from === 0 ? origin : undefined);
      this.#next += part.n;
    }
  }

  /** Writes one row, in place of the one that was there. */
  put(first: Position, events: ChunkEvents, stage: number, origin?: Origin): void {
    const { n, lines, sources, times, plans, keys, users } = events;
    const { codec, bytes } = encodeBody(lines, n);
    // The clock may have been set back between two of them.
    const [at, until] = [Math.min(...times), Math.max(...times)];
    this.#sql.put.run(
      ...[first, n, at, until, codec, lines.byteLength - (n - 1), stage],
      ...[origin?.batch ?? null, origin?.answer ?? null],
      encodeNumbers(sources),
      at === until ? null : encodeTimes(times),
      plans.some((plan) => plan !== NO_PLAN) ? encodeNumbers(plans) : null,
      bytesOf(keys),
      bytesOf(users),
      bytes,
    );
    this.#kept.delete(first);
  }

  delete(first: Position): void {
    this.#sql.delete.run(first);
    this.#kept.delete(first);
  }

  /** The chunk that holds a position, or nothing where the log holds no such event. */
  at(position: Position): Chunk | undefined {
    for (const chunk of this.#kept.values()) {
      if (position >= chunk.first && position < chunk.first + chunk.n) return chunk;
    }
    const row = this.#sql.find.get(position) as ChunkRow | undefined;
    if (row === undefined || position >= row.first + row.n) return undefined;
    const chunk = decode(row);
    this.#kept.set(chunk.first, chunk);
    if (this.#kept.size > KEPT) this.#kept.delete(this.#kept.keys().next().value!);
    return chunk;
  }

  /** What is known of the events of the chunk that begins there without their JSON. */
  numbersOf(first: Position): Pick<Chunk, 'first' | 'n' | 'sources' | 'plans'> {
    const row = this.#sql.numbers.get(first) as unknown as Pick<ChunkRow, 'n' | 'sources' | 'plans'>;
    return { first, n: row.n, sources: decodeNumbers(row.sources, row.n), plans: plansIn(row) };
  }

  /** When the event at a position arrived, without reading the event; nothing where the log holds no such event. */
  arrivalOf(position: Position): Time | undefined {
    const row = this.#sql.times.get(position) as Pick<ChunkRow, 'first' | 'n' | 'at' | 'times'> | undefined;
    return row && decodeTimes(row.times, row.n, row.at)[position - row.first];
  }

  /** Chunks from a position on, in order; the one that holds the position comes first. */
  *from(position: Position): Generator<Chunk> {
    const start = this.at(position)?.first ?? position;
    for (const row of this.#sql.from.iterate(start) as Iterable<unknown>) yield decode(row as ChunkRow);
  }

  /** Where the chunk begins that holds a position; the position itself where none does. */
  firstAt(position: Position): Position {
    return (this.#sql.facts.get(position) as ChunkFacts | undefined)?.first ?? position;
  }

  /** Facts of chunks from a position on, at most `limit`, without their contents. */
  factsFrom(position: Position, limit: number): ChunkFacts[] {
    return this.#sql.factsFrom.all(position, limit) as unknown as ChunkFacts[];
  }

  /** Facts of the chunks that begin below a position, at most `limit`, the newest first. */
  factsBelow(position: Position, limit: number): ChunkFacts[] {
    return this.#sql.factsBelow.all(position, limit) as unknown as ChunkFacts[];
  }

  /** Keys of all events from a position on. `until` is when the youngest of them arrived. */
  keysFrom(position: Position, visit: (first: Position, until: Time, keys: Uint32Array) => void): void {
    const start = (this.#sql.facts.get(position) as ChunkFacts | undefined)?.first ?? position;
    for (const row of this.#sql.keysFrom.iterate(start) as Iterable<unknown>) {
      const { first, until, keys } = row as { first: number; until: number; keys: Uint8Array };
      const skip = Math.max(0, position - first);
      visit(first + skip, until, wordsOf(keys).subarray(skip * 2));
    }
  }

  /** Hashes of the users of chunks below a position, the newest chunk first. */
  *usersBelow(position: Position): Generator<{ first: Position; n: number; users: Uint32Array }> {
    for (const row of this.#sql.usersBelow.iterate(position) as Iterable<unknown>) {
      const { first, n, users } = row as { first: number; n: number; users: Uint8Array };
      yield { first, n, users: wordsOf(users) };
    }
  }

  /** Where the chunks of the last so many batches begin; 0 when there are fewer. */
  firstOfBatches(batches: number): Position {
    const row = this.#sql.newest.get(batches - 1) as { first: number } | undefined;
    return row?.first ?? 0;
  }

  oldest(): ChunkFacts | undefined {
    return this.#sql.oldest.get() as ChunkFacts | undefined;
  }
}

export interface ChunkFacts {
  readonly first: Position;
  readonly n: number;
  readonly at: Time;
  readonly until: Time;
  readonly json: number;
  readonly stage: number;
}

interface ChunkRow {
  first: number;
  n: number;
  at: number;
  json: number;
  stage: number;
  batch: string | null;
  answer: string | null;
  codec: number;
  sources: Uint8Array;
  times: Uint8Array | null;
  plans: Uint8Array | null;
  keys: Uint8Array;
  users: Uint8Array;
  body: Uint8Array;
}

function decode(row: ChunkRow): Chunk {
  const { first, n, stage, batch, answer } = row;
  const origin = batch === null || answer === null ? undefined : { batch, answer };
  const body = decodeBody(row.codec, row.body, row.json + n);
  return {
    ...{ first, n, stage, origin, body },
    starts: lineStarts(body, n),
    sources: decodeNumbers(row.sources, n),
    times: decodeTimes(row.times, n, row.at),
    plans: plansIn(row),
    keys: wordsOf(row.keys),
    users: wordsOf(row.users),
  };
}

function plansIn({ n, plans }: Pick<ChunkRow, 'n' | 'plans'>): Uint32Array {
  return plans === null ? new Uint32Array(n).fill(NO_PLAN) : decodeNumbers(plans, n);
}

/** The compact JSON of one event; empty when it was erased. */
export function lineOf(chunk: Chunk, position: Position): Buffer {
  const line = position - chunk.first;
  return chunk.body.subarray(chunk.starts[line]!, chunk.starts[line + 1]! - 1);
}

/** The same of so many events from a position on, with line feeds between them. */
export function linesOf(chunk: Chunk, position: Position, n: number): Buffer {
  const line = position - chunk.first;
  return chunk.body.subarray(chunk.starts[line]!, chunk.starts[line + n]! - 1);
}

function bytesOf(words: Uint32Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
}

/** A copy, because the bytes of a row may begin anywhere and words may not. */
function wordsOf(bytes: Uint8Array): Uint32Array {
  return new Uint32Array(bytes.slice().buffer);
}

const FACTS = 'first, n, at, until, json, stage';

function statements(database: DatabaseSync) {
  const prepare = (sql: string): StatementSync => database.prepare(sql);
  return {
    put: prepare(
      `insert or replace into chunk(first, n, at, until, codec, json, stage, batch, answer, sources, times, plans, keys, users, body)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    delete: prepare('delete from chunk where first = ?'),
    find: prepare(
      `select first, n, at, json, stage, batch, answer, codec, sources, times, plans, keys, users, body
       from chunk where first <= ? order by first desc limit 1`,
    ),
    from: prepare(
      `select first, n, at, json, stage, batch, answer, codec, sources, times, plans, keys, users, body
       from chunk where first >= ? order by first`,
    ),
    facts: prepare(`select ${FACTS} from chunk where first <= ? order by first desc limit 1`),
    factsFrom: prepare(`select ${FACTS} from chunk where first >= ? order by first limit ?`),
    numbers: prepare('select n, sources, plans from chunk where first = ?'),
    factsBelow: prepare(`select ${FACTS} from chunk where first < ? order by first desc limit ?`),
    keysFrom: prepare('select first, until, keys from chunk where first >= ? order by first'),
    usersBelow: prepare('select first, n, users from chunk where first < ? order by first desc'),
    newest: prepare('select first from chunk where batch is not null order by first desc limit 1 offset ?'),
    last: prepare('select first, n from chunk order by first desc limit 1'),
    oldest: prepare(`select ${FACTS} from chunk order by first limit 1`),
    times: prepare('select first, n, at, times from chunk where first <= ? order by first desc limit 1'),
  };
}
