import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import { decodeBody, decodeSources, encodeBody, encodeSources, lineStarts } from './codec.ts';

/** A chunk holds at most this many events: large enough to compress well, small enough to read one event from. */
const MAX_EVENTS = 500;

/** Chunks kept decoded: a claim reads neighbours, and a verified duplicate is usually young. */
const KEPT = 16;

/** One decoded chunk. */
export interface Chunk {
  readonly first: Position;
  readonly n: number;
  readonly at: Time;
  readonly body: Buffer;
  readonly starts: Uint32Array;
  readonly sources: Uint32Array;
}

export interface NewEvents {
  readonly at: Time;
  readonly n: number;
  readonly lines: Uint8Array;
  readonly sources: Uint32Array;
  readonly keys: Uint32Array;
}

/** The batch that events came with, and the answer it got, as `batches.ts` writes it. */
export interface Origin {
  readonly batch: string;
  readonly answer: string;
}

/** The event log's rows. A position is the number of an event since the beginning of the log. */
export class Chunks {
  readonly #insert: StatementSync;
  readonly #find: StatementSync;
  readonly #keys: StatementSync;
  readonly #last: StatementSync;
  readonly #kept = new Map<Position, Chunk>();
  #next: Position;

  constructor(database: DatabaseSync) {
    this.#insert = database.prepare(
      `insert into chunk(first, n, at, codec, batch, answer, sources, keys, body)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#find = database.prepare(
      'select first, n, at, codec, sources, body from chunk where first <= ? order by first desc limit 1',
    );
    this.#keys = database.prepare('select first, n, at, keys from chunk order by first desc');
    this.#last = database.prepare('select first, n from chunk order by first desc limit 1');
    const last = this.#last.get() as { first: number; n: number } | undefined;
    this.#next = last ? last.first + last.n : 0;
  }

  /** The position the next event will get. */
  get next(): Position {
    return this.#next;
  }

  /** Writes the events in as many rows as they need; the batch and its answer go into the first. */
  append(events: NewEvents, origin: Origin): void {
    if (events.n <= MAX_EVENTS) {
      this.#append(events, origin);
      return;
    }
    const starts = lineStarts(events.lines, events.n);
    for (let from = 0; from < events.n; from += MAX_EVENTS) {
      const to = Math.min(from + MAX_EVENTS, events.n);
      const part = {
        at: events.at,
        n: to - from,
        lines: events.lines.subarray(starts[from]!, starts[to]! - 1),
        sources: events.sources.subarray(from, to),
        keys: events.keys.subarray(from * 2, to * 2),
      };
      this.#append(part, from === 0 ? origin : undefined);
    }
  }

  #append(events: NewEvents, origin: Origin | undefined): void {
    const { codec, bytes } = encodeBody(events.lines, events.n);
    const keys = new Uint8Array(events.keys.buffer, events.keys.byteOffset, events.keys.byteLength);
    this.#insert.run(
      this.#next,
      events.n,
      events.at,
      codec,
      origin?.batch ?? null,
      origin?.answer ?? null,
      encodeSources(events.sources),
      keys,
      bytes,
    );
    this.#next += events.n;
  }

  /** The chunk that holds a position, or nothing where the log holds no such event. */
  at(position: Position): Chunk | undefined {
    for (const chunk of this.#kept.values()) {
      if (position >= chunk.first && position < chunk.first + chunk.n) return chunk;
    }
    const row = this.#find.get(position) as ChunkRow | undefined;
    if (row === undefined || position >= row.first + row.n) return undefined;
    const body = decodeBody(row.codec, row.body);
    const chunk: Chunk = {
      first: row.first,
      n: row.n,
      at: row.at,
      body,
      starts: lineStarts(body, row.n),
      sources: decodeSources(row.sources, row.n),
    };
    this.#kept.set(chunk.first, chunk);
    if (this.#kept.size > KEPT) this.#kept.delete(this.#kept.keys().next().value!);
    return chunk;
  }

  /** The keys of chunks from the newest back, until `until` says stop. */
  keysBackwards(visit: (chunk: { first: Position; at: Time; keys: Uint32Array }) => boolean): void {
    for (const row of this.#keys.iterate() as Iterable<{
      first: number;
      n: number;
      at: number;
      keys: Uint8Array;
    }>) {
      const keys = new Uint32Array(row.keys.slice().buffer);
      if (!visit({ first: row.first, at: row.at, keys })) return;
    }
  }
}

interface ChunkRow {
  first: number;
  n: number;
  at: number;
  codec: number;
  sources: Uint8Array;
  body: Uint8Array;
}

/** The compact JSON of one event; empty when it was erased. */
export function lineOf(chunk: Chunk, position: Position): Buffer {
  const line = position - chunk.first;
  return chunk.body.subarray(chunk.starts[line]!, chunk.starts[line + 1]! - 1);
}
