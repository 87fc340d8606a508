import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { Damage } from '../../ports/event-log.ts';

/**
 * Errors of SQLite and of Node that stand for damaged bytes, and not for a disk that fails for a while: a page that makes
 * no sense (SQLITE_CORRUPT), a file that is none (SQLITE_NOTADB), a length beyond all bounds (SQLITE_TOOBIG), a number that no
 * row of ours holds.
 */
const DAMAGE_CODES: ReadonlySet<number> = new Set([11, 26, 18]);

function isDamage(error: unknown): boolean {
  const { errcode, code } = error as { errcode?: number; code?: string };
  return code === 'ERR_OUT_OF_RANGE' || (errcode !== undefined && DAMAGE_CODES.has(errcode & 0xff));
}

/** What `read` returns, or undefined where damage keeps it from returning anything. */
export function unlessDamaged<Of>(read: () => Of): Of | undefined {
  try {
    return read();
  } catch (error) {
    if (isDamage(error)) return undefined;
    throw error;
  }
}

/**
 * Rows in the order of `rowsFrom(key)`, past those that damage makes unreadable. A damaged page takes all rows on it with
 * it; the next readable row is looked for in steps that double, and then more closely.
 *
 * `towards`: 1 for ascending keys, −1 for descending. `end`: the last key that is worth a look. `keyBehind`: where to go on
 * after a row.
 */
export function* readableRows<Row>(
  rowsFrom: (key: number) => Iterable<Row>,
  { start, end, towards, keyBehind }: Walk<Row>,
): Generator<Row> {
  let key = start;
  while ((end - key) * towards >= 0) {
    try {
      for (const row of rowsFrom(key)) {
        const next = keyBehind(row);
        // A page in the wrong place breaks the order of keys; going back by one would never end.
        if ((next - key) * towards <= 0) continue;
        yield row;
        key = next;
      }
      return;
    } catch (error) {
      if (!isDamage(error)) throw error;
    }
    const next = nextReadable(rowsFrom, key, end, towards);
    if (next === undefined) return;
    key = next;
  }
}

export interface Walk<Row> {
  readonly start: number;
  readonly end: number;
  readonly towards: 1 | -1;
  readonly keyBehind: (row: Row) => number;
}

function nextReadable(
  rowsFrom: (key: number) => Iterable<unknown>,
  from: number,
  end: number,
  towards: 1 | -1,
): number | undefined {
  const isReadable = (distance: number) =>
    unlessDamaged(() => {
      for (const _ of rowsFrom(from + distance * towards)) break;
      return true;
    }) === true;
  let step = 1;
  while (!isReadable(step)) {
    if ((end - (from + step * towards)) * towards < 0) return undefined;
    step *= 2;
  }
  let [bad, good] = [Math.floor(step / 2), step];
  while (good - bad > 1) {
    const middle = Math.floor((bad + good) / 2);
    if (isReadable(middle)) good = middle;
    else bad = middle;
  }
  return from + good * towards;
}

/** Kinds of rows in which damage is counted. */
export type DamagedPart = 'chunk' | 'pending';

/** Damage found so far, by the row it was found in. Each row counts once, however often it is met. */
export class DamageFound {
  readonly #put: StatementSync;
  readonly #drop: StatementSync;
  readonly #found: Found[];
  #news: Omit<Found, 'foundAt'>[] = [];

  constructor(database: DatabaseSync) {
    this.#put = database.prepare('insert or ignore into damage(part, id, n, found_at) values (?, ?, ?, ?)');
    this.#drop = database.prepare(`delete from damage where part = 'chunk' and id + n <= ?`);
    const all = database.prepare('select part, id, n, found_at as foundAt from damage');
    this.#found = unlessDamaged(() => all.all() as unknown as Found[]) ?? [];
  }

  /** Cheap for what is known. It is kept with the next `write`. `n`: how many events or deliveries cannot be read. */
  note(part: DamagedPart, id: number, n: number): void {
    const isSame = (one: Omit<Found, 'foundAt'>) => one.part === part && one.id === id;
    if (!this.#found.some(isSame) && !this.#news.some(isSame)) this.#news.push({ part, id, n });
  }

  /** Writes down what was noted, inside the caller's transaction. */
  write(foundAt: Time): void {
    for (const { part, id, n } of this.#news) {
      this.#put.run(part, id, n, foundAt);
      this.#found.push({ part, id, n, foundAt });
    }
    this.#news = [];
  }

  /** Chunks that end there or before are past their retention, and their damage with them. */
  forgetBelow(position: Position): void {
    const isGone = ({ part, id, n }: Found) => part === 'chunk' && id + n <= position;
    const left = this.#found.filter((one) => !isGone(one));
    if (left.length === this.#found.length) return;
    this.#drop.run(position);
    this.#found.splice(0, this.#found.length, ...left);
  }

  /** Undefined when nothing was found. */
  sum(): Damage | undefined {
    const all = [...this.#found, ...this.#news];
    if (all.length === 0) return undefined;
    const sumOf = (wanted: DamagedPart) =>
      all.reduce((sum, { part, n }) => (part === wanted ? sum + n : sum), 0);
    const foundAt = this.#found.reduce(
      (first, one) => Math.min(first, one.foundAt),
      Number.POSITIVE_INFINITY,
    );
    return {
      events: sumOf('chunk'),
      deliveries: sumOf('pending'),
      ...(Number.isFinite(foundAt) ? { foundAt } : {}),
    };
  }
}

interface Found {
  readonly part: DamagedPart;
  /** The position at which the chunk begins, or the id of the pending set. */
  readonly id: number;
  readonly n: number;
  readonly foundAt: Time;
}
