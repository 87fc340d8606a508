import type { Position } from '../../../model/event.ts';
import type { Monotonic } from '../../../model/time.ts';
import type {
  DeadLetterCount,
  DeadLetterPage,
  DeadLetterQuery,
  DeadLetterQueue,
  RedeliverySlice,
} from '../../../ports/delivery-queue.ts';
import {
  type DeadLetterContent,
  type DeadLetterHeader,
  DeadLetterPages,
  type DeadLetterRow,
  DROPPED_ROWS,
  ErasedDeadLetters,
  nextPlace,
  RedeliveredDeadLetters,
  SEARCHED_HEADS,
  sliceStart,
  type TakenDeadLetters,
  WantedPositions,
  WIDE_SPAN,
} from '../../encoding/decisions/dead-letters.ts';
import { positionsBetween, setOrEmpty, summaryOf, withSetChecksum } from '../../encoding/pending-set.ts';
import type { DeadLetterSet } from '../../encoding/results.ts';
import type { Database, Statement, Transaction } from '../database.ts';
import { count } from './ledger.ts';
import type { PendingSets } from './pending.ts';
import { countRedelivered } from './replay-cursors.ts';

/** Rows whose sets are read at once. */
const READ_ROWS = 64;

const INSERT: Statement = {
  name: 'dead_letter.insert',
  text: `insert into dead_letter(destination, at, state, reason, note, first, last, n, origin, refs)
    select * from unnest($1::int[], $2::bigint[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::bigint[], $8::int[], $9::text[],
      $10::bytea[])`,
};

/**
 * The lowest id that a slice looks at: every destination is searched down to the same one; 0 when all rows
 * are looked at.
 */
const SLICE_END: Statement = {
  name: 'dead_letter.slice_end',
  text: `select coalesce(max(e.id), 0) as id from unnest($1::int[]) d(id), lateral (
      select id from dead_letter where destination = d.id and id <= $2 order by id desc limit 1 offset ${SEARCHED_HEADS - 1}
    ) e`,
};

const HEADERS: Statement = {
  name: 'dead_letter.headers',
  text: `select l.id, l.destination, l.at, l.state, l.reason, l.note, l.first, l.last, l.n
    from unnest($1::int[]) d(id) join dead_letter l on l.destination = d.id
    where l.id >= $2 and l.id <= $3 and l.at >= $4 and l.at < $5 and ($6::text is null or l.state = $6)
      and ($7::text is null or l.reason = $7) order by l.id desc`,
};

const SETS: Statement = {
  name: 'dead_letter.sets',
  text: 'select id, origin, refs from dead_letter where id = any($1::bigint[])',
};

const LOCKED_SETS: Statement = {
  name: 'dead_letter.locked_sets',
  text: 'select id, origin, refs from dead_letter where id = any($1::bigint[]) order by id for update',
};

const DELETE: Statement = {
  name: 'dead_letter.delete',
  text: 'delete from dead_letter where id = any($1::bigint[])',
};

const REWRITE: Statement = {
  name: 'dead_letter.rewrite',
  text: `update dead_letter d set first = l.first, last = l.last, n = l.n, refs = l.refs
    from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[], $5::bytea[]) l(id, first, last, n, refs)
    where d.id = l.id`,
};

const NEAR: Statement = {
  name: 'dead_letter.near',
  text: `select id, destination, state, reason, note, refs from dead_letter
      where last >= $1 and last < $2::bigint + ${WIDE_SPAN} and first < $2 and last - first < ${WIDE_SPAN}
    union all select id, destination, state, reason, note, refs from dead_letter
      where last - first >= ${WIDE_SPAN} and last >= $1 and first < $2`,
};

const LOCK_NEAR: Statement = {
  name: 'dead_letter.lock_near',
  text: `select id, destination, state, reason, note, refs from dead_letter where last >= $1 and first < $2 order by id for update`,
};

const DROP: Statement = {
  name: 'dead_letter.drop',
  text: `with old as materialized (
      select id from dead_letter where at < $1 and last < $2 order by at limit ${DROPPED_ROWS} for update skip locked
    ) delete from dead_letter d using old where d.id = old.id returning d.id`,
};

/** Inserts what was given up. The ledger is counted by the caller. */
export function insertDeadLetters(transaction: Transaction, sets: readonly DeadLetterSet[]): void {
  if (sets.length === 0) return;
  const summaries = sets.map(({ encoded }) => summaryOf(encoded));
  transaction.later(INSERT, [
    sets.map(({ destination }) => destination),
    sets.map(({ at }) => at),
    sets.map(({ state }) => state),
    sets.map(({ reason }) => reason),
    sets.map(({ note }) => (note === undefined ? null : Buffer.from(note))),
    summaries.map(({ first }) => first),
    summaries.map(({ last }) => last),
    sets.map(({ n }) => n),
    sets.map(({ origin }) => origin ?? null),
    sets.map(({ destination, encoded }) => withSetChecksum(destination, encoded)),
  ]);
}

/** Sets that may hold a position from one on and below another; the last given up first. */
export async function deadLettersNear(
  transaction: Transaction,
  from: Position,
  below: Position,
): Promise<DeadLetterRow[]> {
  const rows = await transaction.rows<StoredDeadRow>(NEAR, [from, below]);
  return rows.map(opened).sort((a, b) => b.id - a.id);
}

/** Positions from one on and below another that are in a dead letter. */
export async function deadPositionsBetween(
  transaction: Transaction,
  from: Position,
  below: Position,
): Promise<Set<Position>> {
  const sets = await deadLettersNear(transaction, from, below);
  return new Set(sets.flatMap(({ encoded }) => [...positionsBetween(encoded, from, below)]));
}

/**
 * Drops a slice of the dead letters from before a time, but none of an event that is still kept: its history
 * stays exact. False when there are none.
 */
export async function dropDeadLettersBefore(
  transaction: Transaction,
  time: Monotonic,
  retainedFrom: Position,
): Promise<boolean> {
  return (await transaction.rows(DROP, [time, retainedFrom])).length > 0;
}

/** Takes all dead letters of these events out of their rows. The caller counts what is said to be changed. */
export async function eraseDeadLetters(
  transaction: Transaction,
  positions: ReadonlySet<Position>,
): Promise<Pick<TakenDeadLetters, 'count' | 'counts'>> {
  if (positions.size === 0) return { count: 0, counts: [] };
  const erased = new ErasedDeadLetters(positions);
  const rows = await transaction.rows<StoredDeadRow>(LOCK_NEAR, erased.range);
  for (const row of rows) erased.add(opened(row));
  write(transaction, erased);
  return erased;
}

function write(transaction: Transaction, { deleted, rewritten }: TakenDeadLetters): void {
  if (deleted.length > 0) transaction.later(DELETE, [deleted]);
  if (rewritten.length === 0) return;
  transaction.later(REWRITE, [
    rewritten.map(({ id }) => id),
    rewritten.map(({ first }) => first),
    rewritten.map(({ last }) => last),
    rewritten.map(({ n }) => n),
    rewritten.map(({ destination, encoded }) => withSetChecksum(destination, encoded)),
  ]);
}

/** Reads and revives the rows of table "dead_letter", the newest first. */
export class StoredDeadLetters implements DeadLetterQueue {
  readonly #database: Database;
  readonly #pending: PendingSets;

  constructor(database: Database, pending: PendingSets) {
    this.#database = database;
    this.#pending = pending;
  }

  list(query: DeadLetterQuery, limit: number, from?: string): Promise<DeadLetterPage> {
    return this.#database.snapshot(async (read) => {
      const start = sliceStart(from);
      const page = new DeadLetterPages(start, limit);
      const { headers, next } = await look(read, query, start.id);
      for await (const { header, positions } of withPositions(read, headers, new WantedPositions(query))) {
        const full = page.add(header, positions);
        if (full !== undefined) return full;
      }
      return page.end(next);
    });
  }

  count(query: DeadLetterQuery, from?: string): Promise<DeadLetterCount> {
    return this.#database.snapshot(async (read) => {
      const { headers, next } = await look(read, query, sliceStart(from).id);
      const wanted = new WantedPositions(query);
      let n = 0;
      if (wanted.isAll) for (const header of headers) n += header.n;
      else for await (const { positions } of withPositions(read, headers, wanted)) n += positions.length;
      return next === undefined ? { count: n } : { count: n, next };
    });
  }

  redeliver({ query, now, before = now, from, origin }: RedeliverySlice): Promise<DeadLetterCount> {
    return this.#database.write(async (transaction) => {
      const old = { ...query, to: Math.min(query.to ?? before, before) };
      const { headers, next } = await look(transaction, old, sliceStart(from).id);
      const wanted = new WantedPositions(query);
      const taken = new RedeliveredDeadLetters();
      let place = next;
      for await (const row of withPositions(transaction, headers, wanted, LOCKED_SETS)) {
        if (taken.isFull) {
          place = String(row.header.id);
          break;
        }
        taken.add(row.header, row.content, row.positions);
      }
      write(transaction, taken);
      this.#pending.requeue(transaction, taken.requeued(), now);
      if (origin !== undefined && taken.count > 0) countRedelivered(transaction, origin, taken.count);
      count(transaction, taken.counts);
      return place === undefined ? { count: taken.count } : { count: taken.count, next: place };
    });
  }
}

/** The rows of one slice of a query, from an id downwards, and where the next slice begins. */
async function look(
  transaction: Transaction,
  { destinations, state, reason, from = 0, to = Number.MAX_SAFE_INTEGER }: DeadLetterQuery,
  id: number,
): Promise<{ readonly headers: readonly DeadLetterHeader[]; readonly next: string | undefined }> {
  const wanted = [...new Set(destinations)];
  const [end] = await transaction.rows<{ id: number }>(SLICE_END, [wanted, id]);
  const values = [wanted, end!.id, id, from, to, state ?? null, reason ?? null];
  const rows = await transaction.rows<WithNote<DeadLetterHeader>>(HEADERS, values);
  return { headers: rows.map(withNote), next: nextPlace(end!.id) };
}

/** The wanted positions of each row, ascending. A row without any of them is not read. */
async function* withPositions(
  transaction: Transaction,
  headers: readonly DeadLetterHeader[],
  wanted: WantedPositions,
  sets = SETS,
): AsyncGenerator<{ header: DeadLetterHeader; content: DeadLetterContent; positions: Position[] }> {
  const some = headers.filter((header) => wanted.mayBeIn(header));
  for (let from = 0; from < some.length; from += READ_ROWS) {
    const rows = some.slice(from, from + READ_ROWS);
    const stored = await transaction.rows<StoredSet>(sets, [rows.map(({ id }) => id)]);
    const byId = new Map(stored.map((set) => [set.id, set]));
    for (const header of rows) {
      const set = byId.get(header.id);
      if (set === undefined) continue;
      const content = { origin: set.origin, encoded: setOrEmpty(header.destination, set.refs) };
      yield { header, content, positions: wanted.in(header, content) };
    }
  }
}

function opened({ refs, ...row }: StoredDeadRow): DeadLetterRow {
  return { ...withNote(row), encoded: setOrEmpty(row.destination, refs) };
}

/** A row as it is stored: text that may have NUL is bytes. */
type WithNote<Row> = Omit<Row, 'note'> & { readonly note: Uint8Array | null };

function withNote<Row extends { readonly note: Uint8Array | null }>(
  row: Row,
): Omit<Row, 'note'> & { note: string | null } {
  return { ...row, note: row.note === null ? null : Buffer.from(row.note).toString() };
}

interface StoredSet {
  readonly id: number;
  readonly origin: string | null;
  readonly refs: Uint8Array;
}

interface StoredDeadRow extends WithNote<Omit<DeadLetterRow, 'encoded'>> {
  readonly refs: Uint8Array;
}
