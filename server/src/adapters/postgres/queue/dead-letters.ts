import type { Position } from '../../../model/event.ts';
import type { Time } from '../../../model/time.ts';
import type {
  DeadLetter,
  DeadLetterCount,
  DeadLetterPage,
  DeadLetterQuery,
  DeadLetterQueue,
  RedeliverySlice,
} from '../../../ports/delivery-queue.ts';
import type { LedgerCount } from '../../encoding/ledger.ts';
import {
  decodeSet,
  encodeSet,
  positionsBetween,
  setOrEmpty,
  summaryOf,
  withSetChecksum,
} from '../../encoding/pending-set.ts';
import {
  type DeadLetterSet,
  DROPPED_ROWS,
  onlyPositions,
  type PositionsByDestination,
  parseCursor,
  REDELIVERED_LETTERS,
  REDELIVERED_ROWS,
  SEARCHED_HEADS,
  WIDE_SPAN,
} from '../../encoding/results.ts';
import type { Database, Statement, Transaction } from '../database.ts';
import { count } from './ledger.ts';
import type { PendingSets } from './pending.ts';
import { countRedelivered } from './replay-cursors.ts';

/** Rows whose sets are read at once. */
const READ_ROWS = 64;

const INSERT: Statement = {
  name: 'dead_letter.insert',
  text: `insert into dead_letter(destination, at, reason, first, last, n, origin, refs)
    select * from unnest($1::int[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::int[], $7::text[], $8::bytea[])`,
};

/** The lowest id that a slice looks at: every destination is searched down to the same one; 0 when all rows are looked at. */
const SLICE_END: Statement = {
  name: 'dead_letter.slice_end',
  text: `select coalesce(max(e.id), 0) as id from unnest($1::int[]) d(id), lateral (
      select id from dead_letter where destination = d.id and id <= $2 order by id desc limit 1 offset ${SEARCHED_HEADS - 1}
    ) e`,
};

const HEADERS: Statement = {
  name: 'dead_letter.headers',
  text: `select l.id, l.destination, l.at, l.reason, l.first, l.last, l.n
    from unnest($1::int[]) d(id) join dead_letter l on l.destination = d.id
    where l.id >= $2 and l.id <= $3 and l.at >= $4 and l.at < $5 and ($6::text is null or l.reason = $6) order by l.id desc`,
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
  text: `select id, destination, reason, refs from dead_letter
      where last >= $1 and last < $2::bigint + ${WIDE_SPAN} and first < $2 and last - first < ${WIDE_SPAN}
    union all select id, destination, reason, refs from dead_letter
      where last - first >= ${WIDE_SPAN} and last >= $1 and first < $2`,
};

const LOCK_NEAR: Statement = {
  name: 'dead_letter.lock_near',
  text: `select id, destination, reason, refs from dead_letter where last >= $1 and first < $2 order by id for update`,
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
    sets.map(({ reason }) => reason),
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
): Promise<DeadSet[]> {
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
 * Drops a slice of the dead letters from before a time, but none of an event that is still kept: its history stays exact.
 * False when there are none.
 */
export async function dropDeadLettersBefore(
  transaction: Transaction,
  time: Time,
  retainedFrom: Position,
): Promise<boolean> {
  return (await transaction.rows(DROP, [time, retainedFrom])).length > 0;
}

/** Takes all dead letters of these events out. Resolves to their numbers by destination and reason. */
export async function eraseDeadLetters(
  transaction: Transaction,
  positions: ReadonlySet<Position>,
): Promise<{ destination: number; reason: string; n: number }[]> {
  if (positions.size === 0) return [];
  const sorted = [...positions].sort((a, b) => a - b);
  const [first, below] = [sorted[0]!, sorted.at(-1)! + 1];
  const rows = await transaction.rows<StoredDeadRow>(LOCK_NEAR, [first, below]);
  const erased: { destination: number; reason: string; n: number }[] = [];
  const left: LeftLetters[] = [];
  for (const { id, destination, reason, encoded } of rows.map(opened)) {
    const n = [...positionsBetween(encoded, first, below)].filter((one) => positions.has(one)).length;
    if (n === 0) continue;
    left.push({ id, destination, encoded, going: positions });
    erased.push({ destination, reason, n });
  }
  takeOut(transaction, left);
  return erased;
}

interface LeftLetters {
  readonly id: number;
  readonly destination: number;
  readonly encoded: Uint8Array;
  readonly going: ReadonlySet<Position>;
}

/** Leaves in these rows what does not go, and deletes those that have nothing left. */
function takeOut(transaction: Transaction, rows: readonly LeftLetters[]): void {
  const left = rows.map(({ id, destination, encoded, going }) => {
    const deliveries = decodeSet(encoded).filter(({ position }) => !going.has(position));
    return { id, destination, n: deliveries.length, encoded: encodeSet(deliveries) };
  });
  const done = left.filter(({ n }) => n === 0).map(({ id }) => id);
  if (done.length > 0) transaction.later(DELETE, [done]);
  const others = left.filter(({ n }) => n > 0);
  if (others.length === 0) return;
  const summaries = others.map(({ encoded }) => summaryOf(encoded));
  transaction.later(REWRITE, [
    others.map(({ id }) => id),
    summaries.map(({ first }) => first),
    summaries.map(({ last }) => last),
    others.map(({ n }) => n),
    others.map(({ destination, encoded }) => withSetChecksum(destination, encoded)),
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
      const letters: DeadLetter[] = [];
      const [id, below = Number.POSITIVE_INFINITY] = parseCursor(from);
      const { headers, next } = await look(read, query, id);
      for await (const { row, positions } of withPositions(read, headers, { query })) {
        const end = row.id === id ? below : Number.POSITIVE_INFINITY;
        const { destination, reason, at } = row;
        for (const position of positions.reverse()) {
          if (position >= end) continue;
          if (letters.length === limit) return { letters, next: `${row.id}-${position + 1}` };
          letters.push({ destination, position, reason, at });
        }
      }
      return next === undefined ? { letters } : { letters, next };
    });
  }

  count(query: DeadLetterQuery, from?: string): Promise<DeadLetterCount> {
    return this.#database.snapshot(async (read) => {
      const { headers, next } = await look(read, query, parseCursor(from)[0]);
      let n = 0;
      if (query.only === undefined) n = headers.reduce((sum, row) => sum + row.n, 0);
      else for await (const { positions } of withPositions(read, headers, { query })) n += positions.length;
      return next === undefined ? { count: n } : { count: n, next };
    });
  }

  redeliver({ query, now, before = now, from, origin }: RedeliverySlice): Promise<DeadLetterCount> {
    return this.#database.write(async (write) => {
      const old = { ...query, to: Math.min(query.to ?? before, before) };
      const { headers, next } = await look(write, old, parseCursor(from)[0]);
      const going = new RedeliveredSets();
      let place = next;
      for await (const { row, positions, origin, encoded } of withPositions(write, headers, {
        query,
        isLocked: true,
      })) {
        if (going.isFull) {
          place = String(row.id);
          break;
        }
        going.add(row, { positions, origin, encoded });
      }
      takeOut(write, going.left);
      this.#pending.requeue(write, going.sets(), now);
      if (origin !== undefined && going.count > 0) countRedelivered(write, origin, going.count);
      count(write, going.counts);
      return place === undefined ? { count: going.count } : { count: going.count, next: place };
    });
  }
}

/** Dead letters on their way back. Those of one destination and origin become one set. */
class RedeliveredSets {
  count = 0;
  readonly counts: LedgerCount[] = [];
  readonly left: LeftLetters[] = [];
  readonly #sets = new Map<
    string,
    { readonly destination: number; readonly positions: Set<Position>; readonly origin: string | undefined }
  >();

  get isFull(): boolean {
    return this.left.length >= REDELIVERED_ROWS || this.count >= REDELIVERED_LETTERS;
  }

  add({ id, destination, reason }: DeadHeader, { positions, origin, encoded }: DeadContent): void {
    if (positions.length === 0) return;
    this.left.push({ id, destination, encoded, going: new Set(positions) });
    this.counts.push({
      scope: 'destination',
      id: destination,
      name: `dead:${reason}`,
      n: -positions.length,
    });
    this.count += positions.length;
    // An event that is owed twice is dead twice. A set holds a position once, so the second goes to a set of its own.
    for (let nth = 0; ; nth++) {
      const key = `${destination}/${nth}/${origin}`;
      const set = this.#sets.get(key) ?? { destination, positions: new Set(), origin: origin ?? undefined };
      if (positions.some((position) => set.positions.has(position))) continue;
      this.#sets.set(key, set);
      for (const position of positions) set.positions.add(position);
      return;
    }
  }

  sets() {
    return [...this.#sets.values()].map((set) => ({
      ...set,
      positions: [...set.positions].sort((a, b) => a - b),
    }));
  }
}

/** The rows of one slice of a query, from an id downwards, and where the next slice begins. */
async function look(
  transaction: Transaction,
  { destinations, reason, from = 0, to = Number.MAX_SAFE_INTEGER }: DeadLetterQuery,
  id: number,
): Promise<{ readonly headers: readonly DeadHeader[]; readonly next?: string }> {
  const wanted = [...new Set(destinations)];
  const [end] = await transaction.rows<{ id: number }>(SLICE_END, [wanted, id]);
  const values = [wanted, end!.id, id, from, to, reason ?? null];
  const headers = await transaction.rows<DeadHeader>(HEADERS, values);
  return end!.id <= 1 ? { headers } : { headers, next: String(end!.id - 1) };
}

/** The wanted positions of each row, ascending. A row without any of them is not read. */
async function* withPositions(
  transaction: Transaction,
  headers: readonly DeadHeader[],
  { query, isLocked = false }: { readonly query: DeadLetterQuery; readonly isLocked?: boolean },
): AsyncGenerator<{ readonly row: DeadHeader } & DeadContent> {
  const wanted = onlyPositions(query);
  const some = headers.filter((row) => mayHold(row, wanted));
  for (let from = 0; from < some.length; from += READ_ROWS) {
    const rows = some.slice(from, from + READ_ROWS);
    const ids = rows.map(({ id }) => id);
    const stored = await transaction.rows<StoredSet>(isLocked ? LOCKED_SETS : SETS, [ids]);
    const byId = new Map(stored.map((set) => [set.id, set]));
    for (const row of rows) {
      const set = byId.get(row.id);
      if (set === undefined) continue;
      const encoded = setOrEmpty(row.destination, set.refs);
      const all = decodeSet(encoded).map(({ position }) => position);
      const own = wanted?.get(row.destination)?.set;
      const positions = own === undefined ? all : all.filter((position) => own.has(position));
      yield { row, positions: positions.sort((a, b) => a - b), origin: set.origin, encoded };
    }
  }
}

function mayHold(
  { destination, first, last }: DeadHeader,
  wanted: PositionsByDestination | undefined,
): boolean {
  if (wanted === undefined) return true;
  return wanted.get(destination)?.sorted.some((one) => one >= first && one <= last) ?? false;
}

function opened({ id, destination, reason, refs }: StoredDeadRow): DeadSet {
  return { id, destination, reason, encoded: setOrEmpty(destination, refs) };
}

/** A row without its set, which may be large. */
interface DeadHeader {
  readonly id: number;
  readonly destination: number;
  readonly at: Time;
  readonly reason: string;
  readonly first: Position;
  readonly last: Position;
  readonly n: number;
}

interface DeadContent {
  readonly positions: Position[];
  readonly origin: string | null;
  readonly encoded: Uint8Array;
}

interface StoredSet {
  readonly id: number;
  readonly origin: string | null;
  readonly refs: Uint8Array;
}

interface StoredDeadRow {
  readonly id: number;
  readonly destination: number;
  readonly reason: string;
  readonly refs: Uint8Array;
}

interface DeadSet {
  readonly id: number;
  readonly destination: number;
  readonly reason: string;
  readonly encoded: Uint8Array;
}
