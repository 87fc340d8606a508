import { setTimeout as delay } from 'node:timers/promises';
import type { Position } from '../../../model/event.ts';
import { type LogPage, type LogReader, StorageError } from '../../../ports/event-log.ts';
import { type ChunkSpan, joinSpans } from '../../encoding/chunk-codec.ts';
import { REMNANT } from '../../encoding/chunk-lines.ts';
import { Database, type DatabaseOptions, type Statement, type Transaction } from '../database.ts';
import { type ChunkTable, headOf, type StoredRow } from './chunk-table.ts';
import { Horizon } from './horizon.ts';

const RETAINED_FROM: Statement = {
  name: 'log.retained_from',
  text: `select coalesce((select value::bigint from installation where name = 'retained_from'), 0) as position`,
};

const PRODUCED_TO: Statement = {
  name: 'log.produced_to',
  text: 'select sequence from producer where name = $1',
};

/** Chunks of one page, at most. */
const MOST_CHUNKS = 64;

/**
 * Milliseconds that a page waits for appends under way when it would be empty otherwise, and between two
 * looks.
 */
const WAIT_FOR = 200;
const LOOK_EVERY = 4;

/** Events below this position are past their retention. */
export async function retainedFrom(read: Transaction): Promise<Position> {
  const [row] = await read.rows<{ position: Position }>(RETAINED_FROM);
  return row!.position;
}

export async function producedTo(read: Transaction, producer: string): Promise<number> {
  const [row] = await read.rows<{ sequence: number }>(PRODUCED_TO, [producer]);
  return row?.sequence ?? 0;
}

/**
 * Opens the log of a database for reading, with connections of its own. It reads what is committed, and up to
 * where no append under way can add a lower position. Calls reject with a `StorageError`.
 */
export function openPostgresLogReader(options: DatabaseOptions, chunks: ChunkTable): LogReader {
  return new PostgresLogReader(new Database({ connections: 2, ...options }), chunks);
}

class PostgresLogReader implements LogReader {
  readonly #database: Database;
  readonly #chunks: ChunkTable;
  readonly #horizon = new Horizon();
  #isStopped = false;

  constructor(database: Database, chunks: ChunkTable) {
    this.#database = database;
    this.#chunks = chunks;
  }

  async page(from: Position, max: number): Promise<LogPage> {
    this.#refuseStopped();
    return await this.#database.read(async (read) => {
      const start = Math.max(from, await retainedFrom(read));
      const end = await this.#settledBeyond(read, start);
      const rows = await this.#rows(read, { start, end }, max);
      const first = Math.max(start, rows[0]?.first ?? 0);
      const spans: ChunkSpan[] = [];
      let next = first;
      for (const row of rows) {
        if (row.first > next) break;
        spans.push(this.#spanOf(row, next));
        next = row.first + row.n;
      }
      return { first, ...joinSpans(spans), next };
    });
  }

  async bounds(): Promise<{ readonly first: Position; readonly end: Position }> {
    this.#refuseStopped();
    return await this.#database.read(async (read) => {
      const first = await retainedFrom(read);
      const [last] = await this.#chunks.factsBelow(read, await this.#settledBeyond(read, 0), 1);
      const end = last === undefined ? first : last.first + last.n;
      return { first: Math.min(first, end), end };
    });
  }

  async producedTo(producer: string): Promise<number> {
    this.#refuseStopped();
    return await this.#database.read((read) => producedTo(read, producer));
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return;
    this.#isStopped = true;
    await this.#database.stop();
  }

  #refuseStopped(): void {
    if (this.#isStopped) throw new StorageError('the reader of the log is stopped');
  }

  /**
   * Where the log is settled; waits a moment when that is not beyond `start` and something is about to be.
   */
  async #settledBeyond(read: Transaction, start: Position): Promise<Position> {
    for (const until = Date.now() + WAIT_FOR; ; ) {
      const { settled, end } = await this.#horizon.settled(read);
      if (settled > start || settled === end || Date.now() > until) return settled;
      await delay(LOOK_EVERY);
    }
  }

  /** Whole rows from the one that holds a position on, until they have `max` events behind it. */
  async #rows(
    read: Transaction,
    { start, end }: { readonly start: Position; readonly end: Position },
    max: number,
  ): Promise<StoredRow[]> {
    const [before] = await this.#chunks.factsBelow(read, start + 1, 1);
    const from = before !== undefined && before.first + before.n > start ? before.first : start;
    const facts = await this.#chunks.factsFrom(read, from, MOST_CHUNKS);
    let left = max;
    let below = from;
    for (const { first, n, stage } of facts) {
      if (left <= 0 || first >= end) break;
      below = first + 1;
      if (stage < REMNANT) left -= first + n - Math.max(start, first);
    }
    const rows = await this.#chunks.whole(read, from, below, MOST_CHUNKS);
    return rows.filter(({ first, n, stage }) => stage < REMNANT && first + n > start);
  }

  /** The events of a row from a position on. The lines of a damaged row are empty. */
  #spanOf(row: StoredRow, from: Position): ChunkSpan {
    const skip = from - row.first;
    const n = row.n - skip;
    const chunk = this.#chunks.decode(row);
    if (chunk !== undefined) return { ...chunk, n, skip };
    return {
      n,
      skip: 0,
      body: Buffer.alloc(n - 1, '\n'),
      starts: Uint32Array.from({ length: n + 1 }, (_, line) => line),
      sources: new Uint32Array(n),
      times: headOf(row)?.times.subarray(skip) ?? new Float64Array(n),
    };
  }
}
