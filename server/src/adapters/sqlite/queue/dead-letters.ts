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
import {
  decodeSet,
  deliveryIn,
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
import type { LedgerTable } from '../ledger-table.ts';
import type { PendingTable } from './pending.ts';
import type { ReplayCursors } from './replay-cursors.ts';

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

/** The rows of table "dead_letter", read the newest first. A redelivery takes deliveries out of them. */
export class DeadLetterTable {
  readonly #sql: ReturnType<typeof statements>;
  readonly #dependencies: DeadLetterDependencies;

  constructor(database: DatabaseSync, dependencies: DeadLetterDependencies) {
    this.#sql = statements(database);
    this.#dependencies = dependencies;
  }

  insert({ destination, at, reason, n, origin = null, encoded }: DeadLetterSet): void {
    const { first, last } = summaryOf(encoded);
    const stored = withSetChecksum(destination, encoded);
    this.#sql.insert.run(destination, at, reason, first, last, n, origin, stored);
  }

  /** Why a delivery is dead; undefined when it is not. */
  reasonOf(destination: number, position: Position): string | undefined {
    const isIt = (row: DeadLetterRow) =>
      row.destination === destination && deliveryIn(row.encoded, position) !== undefined;
    return this.#rowsNear(position, position + 1).find(isIt)?.reason;
  }

  /** Destinations with a dead letter of an event. */
  destinationsOf(position: Position): number[] {
    const rows = this.#rowsNear(position, position + 1);
    const dead = rows.filter(({ encoded }) => deliveryIn(encoded, position) !== undefined);
    return dead.map(({ destination }) => destination);
  }

  /** Visits the dead letters of these destinations, from a position on and below another. */
  visitBetween(
    from: Position,
    below: Position,
    destinations: ReadonlySet<number>,
    visit: (destination: number, position: Position) => void,
  ): void {
    if (destinations.size === 0) return;
    for (const { destination, encoded } of this.#rowsNear(from, below)) {
      if (!destinations.has(destination)) continue;
      for (const position of positionsBetween(encoded, from, below)) visit(destination, position);
    }
  }

  /** Positions of a range that are in a dead letter. */
  positionsBetween(from: Position, below: Position): Set<Position> {
    const dead = new Set<Position>();
    for (const { encoded } of this.#rowsNear(from, below)) {
      for (const position of positionsBetween(encoded, from, below)) dead.add(position);
    }
    return dead;
  }

  /** Rows that may hold a position of a range; the last given up first. */
  #rowsNear(from: Position, below: Position): DeadLetterRow[] {
    const near = this.#sql.near.all(from, below + WIDE_SPAN, below) as unknown as StoredDeadLetterRow[];
    const wide = this.#sql.wide.all(from, below) as unknown as StoredDeadLetterRow[];
    return [...near, ...wide]
      .sort((a, b) => b.id - a.id)
      .map(({ id, destination, reason, refs }) => ({
        id,
        destination,
        reason,
        encoded: setOrEmpty(destination, refs),
      }));
  }

  /**
   * Drops a slice of the dead letters from before a time, but none of an event that is still kept: its history stays exact.
   * False when there are none.
   */
  dropBefore(time: Time, retainedFrom: Position): boolean {
    return Number(this.#sql.drop.run(time, retainedFrom).changes) > 0;
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
    let rowsTaken = 0;
    const going = new Map<string, RedeliveredSet>();
    let place = next;
    for (const row of rows) {
      if (rowsTaken === REDELIVERED_ROWS || count >= REDELIVERED_LETTERS) {
        place = String(row.id);
        break;
      }
      const n = this.#takeFrom(row, wanted, going);
      count += n;
      if (n > 0) rowsTaken++;
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

  /** Takes the wanted deliveries out of a row. Those of one destination and origin become one set. */
  #takeFrom(
    row: DeadLetterHeader,
    wanted: PositionsByDestination | undefined,
    going: Map<string, RedeliveredSet>,
  ): number {
    const positions = this.#positionsOf(row, wanted);
    if (positions.length === 0) return 0;
    const { destination, reason } = row;
    const { origin, encoded } = this.#contentOf(row);
    this.#take(row, encoded, new Set(positions));
    this.#dependencies.ledger.add('destination', destination, `dead:${reason}`, -positions.length);
    // An event that is owed twice is dead twice. A set holds a position once, so the second goes to a set of its own.
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
   * The rows of one slice of a query, from an id downwards; every destination is searched down to the same id. Reads all rows
   * before any is changed: a cursor over a table that changes meanwhile may skip or repeat rows.
   */
  #look({ destinations, reason, from = 0, to = Number.MAX_SAFE_INTEGER }: DeadLetterQuery, id: number) {
    const end = destinations.reduce((highest, destination) => {
      const { end: lowest } = this.#sql.end.get(destination, id) as { end: number };
      return Math.max(highest, lowest);
    }, 0);
    const why = reason ?? null;
    const rows = destinations.flatMap(
      (destination) =>
        this.#sql.rows.all(destination, end, id, from, to, why, why) as unknown as DeadLetterHeader[],
    );
    rows.sort((a, b) => b.id - a.id);
    return end <= 1 ? { rows } : { rows, next: String(end - 1) };
  }

  /** Ascending; only those of `wanted`. A row without any of them is not read. */
  #positionsOf(row: DeadLetterHeader, wanted: PositionsByDestination | undefined): Position[] {
    const some = wanted?.get(row.destination);
    if (wanted !== undefined && !some?.sorted.some((one) => one >= row.first && one <= row.last)) return [];
    const positions = decodeSet(this.#contentOf(row).encoded).map(({ position }) => position);
    const found = some === undefined ? positions : positions.filter((position) => some.set.has(position));
    return found.sort((a, b) => a - b);
  }

  #contentOf({ id, destination }: DeadLetterHeader): {
    readonly origin: string | null;
    readonly encoded: Uint8Array;
  } {
    const { origin, refs } = this.#sql.content.get(id) as { origin: string | null; refs: Uint8Array };
    return { origin, encoded: setOrEmpty(destination, refs) };
  }

  /** Takes all dead letters of these events out. Returns their numbers by destination and reason. */
  erase(positions: ReadonlySet<Position>): { destination: number; reason: string; n: number }[] {
    const erased: { destination: number; reason: string; n: number }[] = [];
    if (positions.size === 0) return erased;
    let [first, last] = [Number.POSITIVE_INFINITY, 0];
    for (const position of positions) {
      first = Math.min(first, position);
      last = Math.max(last, position);
    }
    for (const { id, destination, reason, encoded } of this.#rowsNear(first, last + 1)) {
      const n = [...positionsBetween(encoded, first, last + 1)].filter((one) => positions.has(one)).length;
      if (n === 0) continue;
      this.#take({ id, destination }, encoded, positions);
      erased.push({ destination, reason, n });
    }
    return erased;
  }

  #take(
    { id, destination }: Pick<DeadLetterHeader, 'id' | 'destination'>,
    encoded: Uint8Array,
    going: ReadonlySet<Position>,
  ): void {
    const left = decodeSet(encoded).filter(({ position }) => !going.has(position));
    if (left.length === 0) {
      this.#sql.delete.run(id);
      return;
    }
    const bytes = encodeSet(left);
    const { first, last } = summaryOf(bytes);
    this.#sql.rewrite.run(first, last, left.length, withSetChecksum(destination, bytes), id);
  }
}

function statements(database: DatabaseSync) {
  const prepare = (sql: string): StatementSync => database.prepare(sql);
  return {
    insert: prepare(
      'insert into dead_letter(destination, at, reason, first, last, n, origin, refs) values (?, ?, ?, ?, ?, ?, ?, ?)',
    ),
    near: prepare(
      `select id, destination, reason, refs from dead_letter
       where last >= ? and last < ? and first < ? and last - first < ${WIDE_SPAN}`,
    ),
    wide: prepare(
      `select id, destination, reason, refs from dead_letter
       where last - first >= ${WIDE_SPAN} and last >= ? and first < ?`,
    ),
    drop: prepare(
      `delete from dead_letter where id in
         (select id from dead_letter where at < ? and last < ? order by at limit ${DROPPED_ROWS})`,
    ),
    // The lowest id that a slice looks at for one destination; 0 when it looks at all its rows.
    end: prepare(
      `select coalesce((select id from dead_letter indexed by dead_letter_destination
         where destination = ? and id <= ? order by id desc limit 1 offset ${SEARCHED_HEADS - 1}), 0) as end`,
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

interface StoredDeadLetterRow {
  readonly id: number;
  readonly destination: number;
  readonly reason: string;
  readonly refs: Uint8Array;
}

interface DeadLetterRow {
  readonly id: number;
  readonly destination: number;
  readonly reason: string;
  readonly encoded: Uint8Array;
}

/** Deliveries that are pending again, as one set. */
interface RedeliveredSet {
  readonly destination: number;
  readonly positions: Set<Position>;
  readonly origin: string | undefined;
}

/** A row without its set, which may be large. */
interface DeadLetterHeader {
  id: number;
  destination: number;
  at: Time;
  reason: string;
  first: Position;
  last: Position;
  n: number;
}
