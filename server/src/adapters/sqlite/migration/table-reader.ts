import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { PartCursor, PartPage } from '../../../ports/installation.ts';
import { Quarantine, readableRows } from '../damage.ts';

/** Rows, and bytes of their blobs and texts, after which a page ends. */
const PAGE_ROWS = 1000;
const PAGE_BYTES = 2 * 1024 * 1024;

/** Counts what is left out because it cannot be read. */
export type LeaveOut = (rows: number) => void;

/** How stored rows become rows of a part: none stands for one that cannot be read. */
type Convert<Stored, Row> = (stored: Stored) => readonly Row[] | undefined;

/**
 * Reads a table in the order of a whole number. `sql` selects it as `key`, for rows from a parameter on.
 * Damaged pages of the file are passed, and everything that was on one of them counts as one row.
 */
export class NumberedTableReader<Stored extends { readonly key: number }, Row> {
  readonly #sql: StatementSync;
  readonly #convert: Convert<Stored, Row>;
  readonly #leaveOut: LeaveOut;

  constructor(database: DatabaseSync, sql: string, convert: Convert<Stored, Row>, leaveOut: LeaveOut) {
    this.#sql = database.prepare(sql);
    this.#convert = convert;
    this.#leaveOut = leaveOut;
  }

  page([after = -1]: PartCursor = []): PartPage<Row> {
    const rows: Row[] = [];
    let [n, bytes, key] = [0, 0, Number(after)];
    for (const stored of this.#from(key + 1)) {
      if (n === PAGE_ROWS || bytes > PAGE_BYTES) return { rows, next: [key] };
      const converted = this.#convert(stored);
      if (converted === undefined) this.#leaveOut(1);
      else rows.push(...converted);
      n++;
      bytes += sizeOf(stored);
      ({ key } = stored);
    }
    return { rows };
  }

  #from(start: number): Generator<Stored> {
    const rowsFrom = (key: number) => this.#sql.iterate(key) as Iterable<unknown> as Iterable<Stored>;
    return readableRows(rowsFrom, {
      start,
      end: Number.MAX_SAFE_INTEGER,
      direction: 1,
      nextKey: ({ key }) => key + 1,
      quarantine: new Quarantine(),
      unreadable: { skip: (key) => key, add: () => this.#leaveOut(1) },
    });
  }
}

/** Reads a table in the order of several columns. `sql` takes those of the last row and a limit. */
export class KeyedTableReader<Stored, Row> {
  readonly #sql: StatementSync;
  readonly #convert: Convert<Stored, Row>;
  readonly #keyOf: (stored: Stored) => PartCursor;
  readonly #start: PartCursor;
  readonly #leaveOut: LeaveOut;

  constructor(
    database: DatabaseSync,
    {
      sql,
      start,
      keyOf,
      convert,
      leaveOut,
    }: {
      readonly sql: string;
      /** A key before all others. */
      readonly start: PartCursor;
      readonly keyOf: (stored: Stored) => PartCursor;
      readonly convert: Convert<Stored, Row>;
      readonly leaveOut: LeaveOut;
    },
  ) {
    this.#sql = database.prepare(sql);
    this.#start = start;
    this.#keyOf = keyOf;
    this.#convert = convert;
    this.#leaveOut = leaveOut;
  }

  page(after: PartCursor = this.#start): PartPage<Row> {
    const stored = this.#sql.all(...after, PAGE_ROWS) as unknown as Stored[];
    const rows = stored.flatMap((one) => {
      const converted = this.#convert(one);
      if (converted === undefined) this.#leaveOut(1);
      return converted ?? [];
    });
    return stored.length < PAGE_ROWS ? { rows } : { rows, next: this.#keyOf(stored.at(-1)!) };
  }
}

function sizeOf(stored: object): number {
  let bytes = 0;
  for (const value of Object.values(stored))
    if (typeof value === 'string' || value instanceof Uint8Array) bytes += value.length;
  return bytes;
}
