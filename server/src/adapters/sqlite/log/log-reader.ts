import { type BigIntStats, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import type { LogPage, LogReader } from '../../../ports/event-log.ts';
import { StorageError } from '../../../ports/event-log.ts';
import {
  type ChecksumSeed,
  type ChunkRow,
  type ChunkSpan,
  checkNumbers,
  decodeHead,
  decodeLines,
  joinSpans,
} from '../../encoding/chunk-codec.ts';
import { REMNANT } from '../../encoding/chunk-lines.ts';
import { isDamageError, Quarantine, readableRows } from '../damage.ts';
import { DATABASE_FILE, databaseUri } from '../data-folder/files.ts';
import { asStorageError } from '../database.ts';
import { InstallationFacts, ProducerSequences, Watermarks } from '../installation.ts';

/**
 * Opens the log of a data folder for reading, on the calling thread. The store must be open in this process:
 * its write-ahead log has its index in the memory of the process. Every call reads what is committed at that
 * moment, in a transaction as long as one query, so that checkpoints are never held up. Calls reject with a
 * `StorageError`; the next one opens the file anew.
 */
export function openLogReader(folder: string): LogReader {
  return new SqliteLogReader(folder);
}

class SqliteLogReader implements LogReader {
  readonly #folder: string;
  #file: OpenLog | undefined;
  #isStopped = false;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async page(from: Position, max: number): Promise<LogPage> {
    return this.#read((file) => pageOf(file, from, max));
  }

  async bounds(): Promise<{ readonly first: Position; readonly end: Position }> {
    return this.#read((file) => file.bounds());
  }

  async producedTo(producer: string): Promise<number> {
    return this.#read((file) => file.producers.highest(producer));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#close();
  }

  /** Damage is believed when a second handle meets it: a disk that fails for a moment looks the same. */
  #read<Answer>(run: (file: OpenLog) => Answer): Answer {
    try {
      try {
        return this.#open(false).inSnapshot(run);
      } catch (error) {
        if (!isDamageError(error)) throw error;
        this.#close();
        return this.#open(true).inSnapshot(run);
      }
    } catch (error) {
      this.#close();
      throw asStorageError(error, this.#folder);
    }
  }

  /** The open file. Another file in its place is opened instead. */
  #open(mayBeDamaged: boolean): OpenLog {
    if (this.#isStopped) throw new StorageError('the reader of the log is stopped');
    const path = join(this.#folder, DATABASE_FILE);
    const found = statSync(path, { bigint: true, throwIfNoEntry: false });
    if (found === undefined) throw new StorageError(`${path} is missing: put it back in its place`);
    if (this.#file !== undefined && !this.#file.isOf(found)) this.#close();
    this.#file ??= new OpenLog(this.#folder, found, mayBeDamaged);
    return this.#file;
  }

  #close(): void {
    try {
      this.#file?.close();
    } catch {
      // A handle that cannot be closed stays until the end of the thread.
    }
    this.#file = undefined;
  }
}

type PageRow = Omit<ChunkRow, 'keys'>;

/** One handle on the file. */
class OpenLog {
  readonly #database: DatabaseSync;
  readonly #stat: BigIntStats;
  readonly #quarantine = new Quarantine();
  readonly #facts: InstallationFacts;
  readonly producers: ProducerSequences;
  readonly #rowsFrom: StatementSync;
  readonly #first: StatementSync;
  readonly #last: StatementSync;
  readonly #sumsFrom: Position;
  /** Rows are read around damaged pages. */
  readonly #mayBeDamaged: boolean;

  constructor(folder: string, stat: BigIntStats, mayBeDamaged: boolean) {
    this.#stat = stat;
    this.#mayBeDamaged = mayBeDamaged;
    this.#database = new DatabaseSync(databaseUri(folder, 'ro'), { readOnly: true, timeout: 5000 });
    this.#database.exec('pragma cache_size = -2048; pragma temp_store = memory');
    const prepare = (sql: string) => this.#database.prepare(sql);
    this.#rowsFrom = prepare(
      `select first, n, at, until, codec, json, stage, batch, answer, sources, times, plans, users, body from chunk
       where first >= ? order by first`,
    );
    this.#first = prepare('select first, n from chunk where first <= ? order by first desc limit 1');
    this.#last = prepare('select first, n from chunk order by first desc limit 1');
    this.#facts = new InstallationFacts(this.#database);
    this.producers = new ProducerSequences(this.#database);
    this.#sumsFrom = new Watermarks(this.#database).checksumsFrom;
  }

  isOf({ dev, ino }: BigIntStats): boolean {
    return this.#stat.dev === dev && this.#stat.ino === ino;
  }

  /** Everything that `run` reads is of one moment. */
  inSnapshot<Answer>(run: (file: OpenLog) => Answer): Answer {
    this.#database.exec('begin');
    try {
      return run(this);
    } finally {
      this.#database.exec('rollback');
    }
  }

  bounds(): { readonly first: Position; readonly end: Position } {
    const last = this.#quarantine.unlessDamaged(() => this.#last.get()) as Extent | undefined;
    const end = last === undefined ? 0 : last.first + last.n;
    return { first: Math.min(this.retainedFrom(), end), end };
  }

  /** Events below this position are past their retention. */
  retainedFrom(): Position {
    const from = this.#facts.number('retained_from') ?? 0;
    return from === 'damaged' ? 0 : from;
  }

  /** Whole rows from the one that holds a position on, until they have `max` events behind it. */
  rows(from: Position, max: number): TrustedRow[] {
    const before = this.#quarantine.unlessDamaged(() => this.#first.get(from)) as Extent | undefined;
    const start = before !== undefined && before.first + before.n > from ? before.first : from;
    const rows: TrustedRow[] = [];
    let left = max;
    for (const row of this.#rowsFromKey(start)) {
      const seed = checkNumbers(row, this.#sumsFrom);
      // The numbers of a damaged row say nothing, and a remnant is past its retention.
      if (seed === undefined || row.stage >= REMNANT || row.first + row.n <= from) continue;
      rows.push({ row, seed });
      left -= row.first + row.n - Math.max(from, row.first);
      if (left <= 0) break;
    }
    return rows;
  }

  #rowsFromKey(start: Position): Iterable<PageRow> {
    const rowsFrom = (key: number) => this.#rowsFrom.iterate(key) as Iterable<unknown> as Iterable<PageRow>;
    if (!this.#mayBeDamaged) return rowsFrom(start);
    const { end } = this.bounds();
    const nextKey = ({ first }: PageRow) => first + 1;
    return readableRows(rowsFrom, { start, end, direction: 1, nextKey, quarantine: this.#quarantine });
  }

  close(): void {
    this.#database.close();
  }
}

interface Extent {
  readonly first: Position;
  readonly n: number;
}

/** A row whose numbers are whole. */
interface TrustedRow {
  readonly row: PageRow;
  readonly seed: ChecksumSeed;
}

/** The first events from a position on that stand without a gap between them. */
function pageOf(file: OpenLog, from: Position, max: number): LogPage {
  const start = Math.max(from, file.retainedFrom());
  const rows = file.rows(start, max);
  const first = Math.max(start, rows[0]?.row.first ?? 0);
  const spans: ChunkSpan[] = [];
  let next = first;
  for (const { row, seed } of rows) {
    if (row.first > next) break;
    spans.push(spanOf(row, seed, next));
    next = row.first + row.n;
  }
  return { first, ...joinSpans(spans), next };
}

/** The events of a row from a position on. The lines of a damaged row are empty. */
function spanOf(row: PageRow, seed: ChecksumSeed, from: Position): ChunkSpan {
  const skip = from - row.first;
  const n = row.n - skip;
  const lines = decodeLines(row, seed);
  const head = decodeHead(row, seed);
  if (lines !== undefined && head !== undefined) return { n, skip, ...lines, ...head };
  return {
    n,
    skip: 0,
    body: Buffer.alloc(n - 1, '\n'),
    starts: Uint32Array.from({ length: n + 1 }, (_, line) => line),
    sources: new Uint32Array(n),
    times: new Float64Array(n),
  };
}
