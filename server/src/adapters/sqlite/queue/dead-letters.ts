import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import type { Time } from '../../../model/time.ts';
import type {
  DeadLetter,
  DeadLetterCount,
  DeadLetterPage,
  DeadLetterQuery,
  RedeliverySlice,
} from '../../../ports/delivery-queue.ts';
import type { LedgerTable } from '../ledger.ts';
import { decodeSet, encodeSet, rangeOf, setOrEmpty, withSetChecksum } from './delivery-set-codec.ts';
import type { PendingTable } from './pending.ts';
import type { ReplayCursors } from './replay-cursors.ts';

/** Deliveries revived in one slice, and rows: a row may hold 20,000, or one. */
const SLICE = 20_000;
const SLICE_ROWS = 256;

/** Rows of a lane looked at in one slice, without what they hold. */
const SLICE_HEADERS = 1024;

export interface DeadLetterListMessage {
  readonly query: DeadLetterQuery;
  readonly limit: number;
  readonly from?: string;
}

export interface DeadLetterCountMessage {
  readonly query: DeadLetterQuery;
  readonly from?: string;
}

interface DeadLetterDependencies {
  readonly pending: PendingTable;
  readonly ledger: LedgerTable;
  readonly replayCursors: ReplayCursors;
}

/** The rows of table "dead_letter", read the newest first and taken apart when some of them are owed again. */
export class DeadLetterTable {
  readonly #sql: ReturnType<typeof statements>;
  readonly #dependencies: DeadLetterDependencies;

  constructor(database: DatabaseSync, dependencies: DeadLetterDependencies) {
    this.#sql = statements(database);
    this.#dependencies = dependencies;
  }

  list({ query, limit, from }: DeadLetterListMessage): DeadLetterPage {
    const letters: DeadLetter[] = [];
    const [id, below = Number.POSITIVE_INFINITY] = parseCursor(from);
    const { rows, next } = this.#look(query, id);
    const wanted = onlyPositions(query);
    for (const row of rows) {
      const end = row.id === id ? below : Number.POSITIVE_INFINITY;
      for (const position of this.#positionsOf(row, wanted).reverse()) {
        if (position >= end) continue;
        if (letters.length === limit) return { letters, next: `${row.id}-${position + 1}` };
        letters.push({ destination: row.destination, position, reason: row.reason, at: row.at });
      }
    }
    return next === undefined ? { letters } : { letters, next };
  }

  count({ query, from }: DeadLetterCountMessage): DeadLetterCount {
    const { rows, next } = this.#look(query, parseCursor(from)[0]);
    const wanted = onlyPositions(query);
    const sizeOf = (row: DeadLetterHeader) =>
      wanted === undefined ? row.n : this.#positionsOf(row, wanted).length;
    const count = rows.reduce((sum, row) => sum + sizeOf(row), 0);
    return next === undefined ? { count } : { count, next };
  }

  redeliver({ query, now, before = now, from, origin }: RedeliverySlice): DeadLetterCount {
    const old = { ...query, to: Math.min(query.to ?? before, before) };
    const { rows, next } = this.#look(old, parseCursor(from)[0]);
    const wanted = onlyPositions(query);
    let count = 0;
    let revived = 0;
    const going = new Map<string, RedeliveredSet>();
    let place = next;
    for (const row of rows) {
      if (revived === SLICE_ROWS || count >= SLICE) {
        place = String(row.id);
        break;
      }
      const n = this.#takeFrom(row, wanted, going);
      count += n;
      if (n > 0) revived++;
    }
    for (const { destination, positions, origin } of going.values())
      this.#dependencies.pending.requeue(
        destination,
        [...positions].sort((a, b) => a - b),
        now,
        origin,
      );
    return this.#counted(place === undefined ? { count } : { count, next: place }, origin);
  }

  #counted(slice: DeadLetterCount, origin: string | undefined): DeadLetterCount {
    if (origin !== undefined && slice.count > 0) this.#dependencies.replayCursors.count(origin, slice.count);
    return slice;
  }

  /** Takes what is wanted out of a row; what goes to the same lane on the same behalf becomes one set. */
  #takeFrom(
    row: DeadLetterHeader,
    wanted: PositionsByDestination | undefined,
    going: Map<string, RedeliveredSet>,
  ): number {
    const positions = this.#positionsOf(row, wanted);
    if (positions.length === 0) return 0;
    const { destination, reason } = row;
    const { origin, refs } = this.#contentOf(row);
    this.#take(row, refs, new Set(positions));
    this.#dependencies.ledger.add('destination', destination, `dead:${reason}`, -positions.length);
    // An event that is owed twice is dead twice: a set holds a position once, so the second is in a set of its own.
    for (let nth = 0; ; nth++) {
      const key = `${destination}/${nth}/${origin}`;
      const set = going.get(key) ?? { destination, positions: new Set(), origin: origin ?? undefined };
      if (positions.some((position) => set.positions.has(position))) continue;
      going.set(key, set);
      for (const position of positions) set.positions.add(position);
      return positions.length;
    }
  }

  /**
   * The rows that may hold what is sought, from an id downwards, as far as one slice looks: every lane is looked through down to
   * the same id. Read to the end before anything is changed: a cursor over a table that changes under it sees what it likes.
   */
  #look({ destinations, reason, from = 0, to = Number.MAX_SAFE_INTEGER }: DeadLetterQuery, id: number) {
    const end = destinations.reduce((highest, lane) => {
      const { end: lowest } = this.#sql.end.get(lane, id) as { end: number };
      return Math.max(highest, lowest);
    }, 0);
    const why = reason ?? null;
    const rows = destinations.flatMap(
      (lane) => this.#sql.rows.all(lane, end, id, from, to, why, why) as unknown as DeadLetterHeader[],
    );
    rows.sort((a, b) => b.id - a.id);
    return end <= 1 ? { rows } : { rows, next: String(end - 1) };
  }

  /** Ascending. Of `wanted` only those; rows that hold none of them are not read. */
  #positionsOf(row: DeadLetterHeader, wanted: PositionsByDestination | undefined): Position[] {
    const some = wanted?.get(row.destination);
    if (wanted !== undefined && !some?.sorted.some((one) => one >= row.first && one <= row.last)) return [];
    const positions = decodeSet(this.#contentOf(row).refs).map(({ position }) => position);
    const found = some === undefined ? positions : positions.filter((position) => some.set.has(position));
    return found.sort((a, b) => a - b);
  }

  #contentOf({ id, destination }: DeadLetterHeader): {
    readonly origin: string | null;
    readonly refs: Uint8Array;
  } {
    const { origin, refs } = this.#sql.content.get(id) as { origin: string | null; refs: Uint8Array };
    return { origin, refs: setOrEmpty(destination, refs) };
  }

  #take({ id, destination }: DeadLetterHeader, refs: Uint8Array, going: ReadonlySet<Position>): void {
    const left = decodeSet(refs).filter(({ position }) => !going.has(position));
    if (left.length === 0) {
      this.#sql.delete.run(id);
      return;
    }
    const bytes = encodeSet(left);
    const { first, last } = rangeOf(bytes);
    this.#sql.rewrite.run(first, last, left.length, withSetChecksum(destination, bytes), id);
  }
}

function statements(database: DatabaseSync) {
  const prepare = (sql: string): StatementSync => database.prepare(sql);
  return {
    // Down to where a slice looks in one lane; 0 where it looks at all there are.
    end: prepare(
      `select coalesce((select id from dead_letter indexed by dead_letter_destination
         where destination = ? and id <= ? order by id desc limit 1 offset ${SLICE_HEADERS - 1}), 0) as end`,
    ),
    rows: prepare(
      `select id, destination, at, reason, first, last, n from dead_letter indexed by dead_letter_destination
       where destination = ? and id >= ? and id <= ? and at >= ? and at < ? and (? is null or reason = ?)`,
    ),
    content: prepare('select origin, refs from dead_letter where id = ?'),
    delete: prepare('delete from dead_letter where id = ?'),
    rewrite: prepare('update dead_letter set first = ?, last = ?, n = ?, refs = ? where id = ?'),
  };
}

/** What is owed again as one set. */
interface RedeliveredSet {
  readonly destination: number;
  readonly positions: Set<Position>;
  readonly origin: string | undefined;
}

/** Begins at an id, and in its row below a position. */
function parseCursor(from: string | undefined): readonly [id: number, below?: Position] {
  if (from === undefined) return [Number.MAX_SAFE_INTEGER];
  const [id, below] = from.split('-').map(Number);
  return below === undefined ? [id!] : [id!, below];
}

type PositionsByDestination = ReadonlyMap<
  number,
  { readonly sorted: readonly Position[]; readonly set: ReadonlySet<Position> }
>;

/** Only these, by destination. */
function onlyPositions({ only }: DeadLetterQuery): PositionsByDestination | undefined {
  if (only === undefined) return undefined;
  const byLane = Map.groupBy(only, ({ destination }) => destination);
  return new Map(
    [...byLane].map(([destination, some]) => {
      const sorted = some.map(({ position }) => position).sort((a, b) => a - b);
      return [destination, { sorted, set: new Set(sorted) }];
    }),
  );
}

/** Without what it holds, which may be large. */
interface DeadLetterHeader {
  id: number;
  destination: number;
  at: Time;
  reason: string;
  first: Position;
  last: Position;
  n: number;
}
