import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import type { EventChunk, EventRow } from '../../../ports/installation.ts';
import { NO_PLAN } from '../../encoding/chunk-codec.ts';
import { COMPACTED, MAX_CHUNK_EVENTS } from '../../encoding/chunk-lines.ts';
import { keyHash } from '../../encoding/hashes.ts';
import { Quarantine } from '../damage.ts';
import type { Watermarks } from '../installation.ts';
import { Chunks } from '../log/chunks.ts';
import { KeyIndex } from '../log/key-index.ts';

/** Bytes of memory for filters while keys are written. */
const FILTER_MEMORY = 32 * 1024 * 1024;

/** Writes the log, and the index of its keys as it grows, inside the caller's transactions. */
export class EventWriter {
  readonly #watermarks: Watermarks;
  readonly #chunks: Chunks;
  readonly #keys: KeyIndex;
  readonly #putUnreadable: StatementSync;
  readonly #endOfLog: StatementSync;

  constructor(database: DatabaseSync, watermarks: Watermarks, keySecret: Uint8Array) {
    const quarantine = new Quarantine();
    this.#watermarks = watermarks;
    this.#chunks = new Chunks(database, {
      sumsFrom: 0,
      stored: 0,
      retainedFrom: () => watermarks.retainedFrom,
      hash: keyHash(keySecret),
      quarantine,
      onDamage: () => {},
    });
    this.#keys = new KeyIndex(database, this.#chunks, { watermarks, memory: FILTER_MEMORY, quarantine });
    // A row whose numbers have no checksum is a damaged one.
    this.#putUnreadable = database.prepare(
      `insert into chunk(first, n, at, until, codec, json, stage, sources, keys, users, body)
       values (?, ?, ?, ?, 0, 0, ${COMPACTED}, x'', x'', x'', x'')`,
    );
    this.#endOfLog = database.prepare(
      'select first + n as "end", until from chunk order by first desc limit 1',
    );
  }

  write(rows: readonly EventRow[]): void {
    for (const row of rows) {
      const { end, until } = this.#end();
      // Other engines leave gaps, which would pass for damage here.
      this.#fill(Math.max(end, this.#watermarks.retainedFrom), row.first, until);
      if (row.kind === 'events') this.#put(row);
      else this.#putUnreadable.run(row.first, row.n, row.at, row.until);
    }
    while (this.#keys.flush());
  }

  /** The log goes on from this position, also where nothing stands before it any more. `now`: for a log without any chunk. */
  endAt(position: Position, now: number): void {
    const { end, until } = this.#end();
    if (end < position)
      this.#fill(
        Math.max(end, Math.min(this.#watermarks.retainedFrom, position - 1)),
        position,
        until || now,
      );
  }

  #end(): { readonly end: Position; readonly until: number } {
    const last = this.#endOfLog.get() as { end: Position; until: number } | undefined;
    return last ?? { end: 0, until: 0 };
  }

  #put({ first, n, stage, lines, sources, times, plans, keys, users }: EventChunk): void {
    this.#chunks.put(first, { n, lines, sources, times, plans, keys, users }, stage);
    for (let index = 0; index < n; index++) {
      const [high, low] = [keys[index * 2]!, keys[index * 2 + 1]!];
      if (high !== 0 || low !== 0) this.#keys.add(high, low, first + index, times[index]!);
    }
  }

  /** Places without an event, as erased ones. */
  #fill(from: Position, to: Position, at: number): void {
    for (let first = from; first < to; first += MAX_CHUNK_EVENTS) {
      const n = Math.min(MAX_CHUNK_EVENTS, to - first);
      this.#chunks.put(
        first,
        {
          n,
          lines: Buffer.alloc(n - 1, '\n'),
          sources: new Uint32Array(n),
          times: new Float64Array(n).fill(at),
          plans: new Uint32Array(n).fill(NO_PLAN),
          keys: new Uint32Array(n * 2),
          users: new Uint32Array(n * 2),
        },
        COMPACTED,
      );
    }
  }
}
