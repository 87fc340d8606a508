import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../model/event.ts';
import type { Monotonic } from '../../model/time.ts';
import type { Damage } from '../../ports/event-log.ts';

/**
 * Errors of SQLite that mean damaged bytes and not a failing disk: a page that makes no sense
 * (SQLITE_CORRUPT), a file that is no database (SQLITE_NOTADB), a length beyond all bounds (SQLITE_TOOBIG).
 * ERR_OUT_OF_RANGE of Node is a number that no row of ours holds.
 */
const DAMAGE_CODES: ReadonlySet<number> = new Set([11, 26, 18]);

export function isDamageError(error: unknown): boolean {
  const { errcode, code } = error as { errcode?: number; code?: string };
  return code === 'ERR_OUT_OF_RANGE' || (errcode !== undefined && DAMAGE_CODES.has(errcode & 0xff));
}

/**
 * Yields the rows of `rowsFrom(key)` in order and skips those that damage makes unreadable. A damaged page
 * takes all its rows with it. The next readable row is searched in steps that double, and then by bisection.
 */
export function* readableRows<Row>(
  rowsFrom: (key: number) => Iterable<Row>,
  scan: RowScan<Row>,
): Generator<Row> {
  const { start, end, direction, nextKey, quarantine, unreadable } = scan;
  let key = start;
  for (;;) {
    key = unreadable?.skip(key, direction) ?? key;
    if ((end - key) * direction < 0) return;
    let isAtRange = false;
    try {
      for (const row of rowsFrom(key)) {
        const next = nextKey(row);
        // A page in the wrong place breaks the order of keys. Following it backwards would never end.
        if ((next - key) * direction <= 0) continue;
        yield row;
        key = next;
        // With one more step SQLite would read the damaged page.
        isAtRange = unreadable !== undefined && unreadable.skip(key, direction) !== key;
        if (isAtRange) break;
      }
      if (!isAtRange) return;
    } catch (error) {
      if (!quarantine.isConfirmedDamage(error)) throw error;
      const next = nextReadable(rowsFrom, key, scan);
      const [from, to] = direction > 0 ? [key, next ?? end + 1] : [next ?? 0, key];
      unreadable?.add(from, to);
      if (next === undefined) return;
      key = next;
    }
  }
}

export interface RowScan<Row> {
  readonly start: number;
  /** The last key to read. */
  readonly end: number;
  /** 1 for ascending keys, −1 for descending. */
  readonly direction: 1 | -1;
  /** The key to go on from after a row. */
  readonly nextKey: (row: Row) => number;
  readonly quarantine: Quarantine;
  readonly unreadable?: UnreadableRanges;
}

/** Ranges of keys that are known to be unreadable. */
export interface UnreadableRanges {
  /** The key itself, or the end of the unreadable range that it is in. */
  skip(key: number, direction: 1 | -1): number;
  /** Rows of these keys, from (inclusive) to (exclusive), cannot be read. */
  add(from: number, to: number): void;
}

function nextReadable<Row>(
  rowsFrom: (key: number) => Iterable<Row>,
  from: number,
  { end, direction, quarantine }: RowScan<Row>,
): number | undefined {
  const isReadable = (distance: number) =>
    quarantine.unlessDamaged(() => {
      for (const _ of rowsFrom(from + distance * direction)) break;
      return true;
    }) === true;
  let step = 1;
  while (!isReadable(step)) {
    if ((end - (from + step * direction)) * direction < 0) return undefined;
    step *= 2;
  }
  let [bad, good] = [Math.floor(step / 2), step];
  while (good - bad > 1) {
    const middle = Math.floor((bad + good) / 2);
    if (isReadable(middle)) good = middle;
    else bad = middle;
  }
  return from + good * direction;
}

/** Chunks cannot be written or deleted, because one of their pages is damaged. */
export class UnwritableChunksError extends Error {
  readonly first: Position;
  readonly end: Position;

  constructor(first: Position, end: Position, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.name = 'UnwritableChunks';
    this.first = first;
    this.end = end;
  }
}

/**
 * A transaction has read a damaged page. SQLite refuses further writes in it, so it must run again without
 * that page.
 */
class RetryTransaction extends Error {}

/** A step of upkeep has met a damaged page. */
class DamagedStepError extends Error {
  readonly step: string;

  constructor(step: string, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.name = 'DamagedStep';
    this.step = step;
  }
}

/**
 * Damaged places that the store avoids until its next start. A transaction that meets one is rolled back and
 * runs again without it, so that one bad page stops neither the commits nor the rest of upkeep.
 */
export class Quarantine {
  readonly #ranges: { readonly first: Position; readonly end: Position }[] = [];
  readonly #pages = new Set<number>();
  readonly #steps = new Set<string>();
  /**
   * Whether errors that look like damage are treated as damage. A disk that fails for a moment causes the
   * same errors, so the writer waits until a second handle has met them.
   */
  #isConfirmed = true;

  confirm(isConfirmed: boolean): void {
    this.#isConfirmed = isConfirmed;
  }

  isConfirmedDamage(error: unknown): boolean {
    return this.#isConfirmed && isDamageError(error);
  }

  /** The result of `read`; undefined when it fails with confirmed damage. */
  unlessDamaged<Of>(read: () => Of): Of | undefined {
    try {
      return read();
    } catch (error) {
      if (this.isConfirmedDamage(error)) return undefined;
      throw error;
    }
  }

  /**
   * Remembers the place that an error names. False when it names no new one, so that a retry would fail in
   * the same way.
   */
  learnFrom(error: unknown): boolean {
    if (error instanceof RetryTransaction) return true;
    if (error instanceof DamagedStepError && !this.#steps.has(error.step)) {
      this.#steps.add(error.step);
      return true;
    }
    if (!(error instanceof UnwritableChunksError) || this.overlaps(error)) return false;
    this.#ranges.push(error);
    return true;
  }

  /** Avoids positions that cannot be read. Throws inside a transaction, which must then run again. */
  addRange(first: Position, end: Position, database: DatabaseSync): void {
    if (first >= end || this.#ranges.some((range) => first >= range.first && end <= range.end)) return;
    this.#ranges.push({ first, end });
    if (database.isTransaction) throw new RetryTransaction('a damaged page was read');
  }

  /** Avoids a page of a sorted run, by its key in `run_page`. Throws like `addRange`. */
  addPage(page: number, database: DatabaseSync): void {
    if (this.#pages.has(page)) return;
    this.#pages.add(page);
    if (database.isTransaction) throw new RetryTransaction('a damaged page was read');
  }

  hasPage(page: number): boolean {
    return this.#pages.has(page);
  }

  /** Whether any position is avoided. */
  get hasRanges(): boolean {
    return this.#ranges.length > 0;
  }

  /** Whether any position of a range is avoided. */
  overlaps({ first, end }: { readonly first: Position; readonly end: Position }): boolean {
    return this.#ranges.some((range) => first < range.end && end > range.first);
  }

  /** See `UnreadableRanges`. In descending scans a key is one above the rows that are wanted. */
  skip(key: Position, direction: 1 | -1): Position {
    for (let at = key; ; ) {
      const range = this.#ranges.find(({ first, end }) =>
        direction > 0 ? at >= first && at < end : at > first && at <= end,
      );
      if (range === undefined) return at;
      at = direction > 0 ? range.end : range.first;
    }
  }

  /** Runs a step of upkeep, unless it has met damage before. False when there was nothing to do. */
  guard(step: string, run: () => boolean): boolean {
    if (this.#steps.has(step)) return false;
    try {
      return run();
    } catch (error) {
      if (error instanceof UnwritableChunksError || !this.isConfirmedDamage(error)) throw error;
      throw new DamagedStepError(step, error);
    }
  }

  /** Avoids a step, or an operation, that fails because of a damaged page. */
  addStep(name: string): void {
    this.#steps.add(name);
  }

  /** Names of the steps that are not done. */
  get steps(): readonly string[] {
    return [...this.#steps];
  }
}

/** Whether an error names a damaged place that a retry can avoid. It is thrown for confirmed damage only. */
export function canBeAvoided(error: unknown): boolean {
  return (
    error instanceof RetryTransaction ||
    error instanceof DamagedStepError ||
    error instanceof UnwritableChunksError
  );
}

/** Rebuilds every index from its table. A damaged page of an index is then harmless. */
export function rebuildIndexes(database: DatabaseSync, quarantine: Quarantine): void {
  const indexes = database.prepare(
    `select name from sqlite_master where type = 'index' order by tbl_name = 'pending' desc`,
  );
  for (const { name } of indexes.all() as unknown as { name: string }[])
    quarantine.unlessDamaged(() => database.exec(`reindex "${name}"`));
}

/** Kinds of rows in which damage is counted. */
export type DamagedPart = 'chunk' | 'pending';

/** Damage found so far, by the row it was found in. A row counts once, however often it is read. */
export class DamageTable {
  readonly #put: StatementSync;
  readonly #drop: StatementSync;
  /** Rows in the table. */
  readonly #found: DamageRow[];
  /** Rows for the next `write`. */
  #news: Omit<DamageRow, 'foundAt'>[] = [];

  constructor(database: DatabaseSync, quarantine: Quarantine) {
    this.#put = database.prepare('insert or ignore into damage(part, id, n, found_at) values (?, ?, ?, ?)');
    this.#drop = database.prepare(`delete from damage where part = 'chunk' and id + n <= ?`);
    const all = database.prepare('select part, id, n, found_at as foundAt from damage');
    this.#found = quarantine.unlessDamaged(() => all.all() as unknown as DamageRow[]) ?? [];
  }

  /** Notes a damaged row; cheap for a known one. `n`: how many events or deliveries cannot be read. */
  note(part: DamagedPart, id: number, n: number): void {
    const isSame = (one: Omit<DamageRow, 'foundAt'>) => one.part === part && one.id === id;
    if (!this.#found.some(isSame) && !this.#news.some(isSame)) this.#news.push({ part, id, n });
  }

  /** Writes the noted rows inside the caller's transaction. */
  write(foundAt: Monotonic): void {
    for (const { part, id, n } of this.#news) {
      this.#put.run(part, id, n, foundAt);
      this.#found.push({ part, id, n, foundAt });
    }
    this.#news = [];
  }

  /** Forgets damage of chunks that end at a position or below: they are past their retention. */
  forgetBelow(position: Position): void {
    const isGone = ({ part, id, n }: DamageRow) => part === 'chunk' && id + n <= position;
    const left = this.#found.filter((one) => !isGone(one));
    if (left.length === this.#found.length) return;
    this.#drop.run(position);
    this.#found.splice(0, this.#found.length, ...left);
  }

  /** Undefined when there is no damage. `others`: see `Damage`. */
  summary(others: readonly string[]): Damage | undefined {
    const all = [...this.#found, ...this.#news];
    if (all.length + others.length === 0) return undefined;
    const sumOf = (wanted: DamagedPart) =>
      all.reduce((sum, { part, n }) => (part === wanted ? sum + n : sum), 0);
    const foundAt = this.#found.reduce(
      (first, one) => Math.min(first, one.foundAt),
      Number.POSITIVE_INFINITY,
    );
    return {
      events: sumOf('chunk'),
      deliveries: sumOf('pending'),
      foundAt: Number.isFinite(foundAt) ? foundAt : undefined,
      others: others.length === 0 ? undefined : others,
    };
  }
}

interface DamageRow {
  readonly part: DamagedPart;
  /** The position at which the chunk begins, or the id of the pending set. */
  readonly id: number;
  readonly n: number;
  readonly foundAt: Monotonic;
}
