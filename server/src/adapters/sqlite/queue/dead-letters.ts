import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import type { Monotonic } from '../../../model/time.ts';
import type {
  DeadLetterCount,
  DeadLetterPage,
  DeadLetterQuery,
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
import {
  ANSWER_ROWS,
  type AnswerPage,
  answerPage,
  type ChangedAnswer,
  type KeptAnswer,
} from '../../encoding/kept-answers.ts';
import {
  deliveryIn,
  positionsBetween,
  setOrEmpty,
  summaryOf,
  withSetChecksum,
} from '../../encoding/pending-set.ts';
import type { DeadLetterSet } from '../../encoding/results.ts';
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

  insert({ destination, at, state, reason, note, n, origin = null, encoded }: DeadLetterSet): void {
    const { first, last } = summaryOf(encoded);
    const stored = withSetChecksum(destination, encoded);
    this.#sql.insert.run(destination, at, state, reason, note ?? null, first, last, n, origin, stored);
  }

  /** The rows that hold a delivery, the last given up first. */
  rowsOf(destination: number, position: Position): readonly DeadLetterRow[] {
    return this.#rowsNear(position, position + 1).filter(
      (row) => row.destination === destination && deliveryIn(row.encoded, position) !== undefined,
    );
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
      .map(({ refs, ...row }) => ({ ...row, encoded: setOrEmpty(row.destination, refs) }));
  }

  /**
   * Drops a slice of the dead letters from before a time, but none of an event that is still kept: its
   * history stays exact. False when there are none.
   */
  dropBefore(time: Monotonic, retainedFrom: Position): boolean {
    return Number(this.#sql.drop.run(time, retainedFrom).changes) > 0;
  }

  list({ query, limit, from }: DeadLetterListMessage): DeadLetterPage {
    const start = sliceStart(from);
    const page = new DeadLetterPages(start, limit);
    const { headers, next } = this.#look(query, start.id);
    for (const { header, positions } of this.#withPositions(headers, new WantedPositions(query))) {
      const full = page.add(header, positions);
      if (full !== undefined) return full;
    }
    return page.end(next);
  }

  count({ query, from }: DeadLetterCountMessage): DeadLetterCount {
    const { headers, next } = this.#look(query, sliceStart(from).id);
    const wanted = new WantedPositions(query);
    let count = 0;
    if (wanted.isAll) for (const { n } of headers) count += n;
    else for (const { positions } of this.#withPositions(headers, wanted)) count += positions.length;
    return next === undefined ? { count } : { count, next };
  }

  redeliver({ query, now, before = now, from, origin }: RedeliverySlice): DeadLetterCount {
    const old = { ...query, to: Math.min(query.to ?? before, before) };
    const { headers, next } = this.#look(old, sliceStart(from).id);
    const taken = new RedeliveredDeadLetters();
    let place = next;
    for (const { header, content, positions } of this.#withPositions(headers, new WantedPositions(query))) {
      if (taken.isFull) {
        place = String(header.id);
        break;
      }
      taken.add(header, content, positions);
    }
    this.#write(taken);
    const { pending, replayCursors } = this.#dependencies;
    for (const set of taken.requeued()) pending.requeue(set.destination, set.positions, now, set.origin);
    const { count } = taken;
    if (origin !== undefined && count > 0) replayCursors.count(origin, count);
    return place === undefined ? { count } : { count, next: place };
  }

  /**
   * The rows of one slice of a query, from an id downwards; every destination is searched down to the same
   * id. Reads all rows before any is changed: a cursor over a table that changes meanwhile may skip or repeat
   * rows.
   */
  #look(
    { destinations, state, reason, from = 0, to = Number.MAX_SAFE_INTEGER }: DeadLetterQuery,
    id: number,
  ) {
    const wanted = [...new Set(destinations)];
    const end = wanted.reduce((highest, destination) => {
      const { end: lowest } = this.#sql.end.get(destination, id) as { end: number };
      return Math.max(highest, lowest);
    }, 0);
    const [how, why] = [state ?? null, reason ?? null];
    const headers = wanted.flatMap(
      (destination) =>
        this.#sql.rows.all(destination, end, id, from, to, how, why) as unknown as DeadLetterHeader[],
    );
    headers.sort((a, b) => b.id - a.id);
    return { headers, next: nextPlace(end) };
  }

  /** The wanted positions of each row, ascending. A row without any of them is not read. */
  *#withPositions(headers: readonly DeadLetterHeader[], wanted: WantedPositions) {
    for (const header of headers) {
      if (!wanted.mayBeIn(header)) continue;
      const { origin, refs } = this.#sql.content.get(header.id) as {
        origin: string | null;
        refs: Uint8Array;
      };
      const content: DeadLetterContent = { origin, encoded: setOrEmpty(header.destination, refs) };
      yield { header, content, positions: wanted.in(header, content) };
    }
  }

  /**
   * Takes all dead letters of these events out of their rows, and counts them as erased. Returns how many
   * there were.
   */
  erase(positions: ReadonlySet<Position>): number {
    if (positions.size === 0) return 0;
    const erased = new ErasedDeadLetters(positions);
    for (const row of this.#rowsNear(...erased.range)) erased.add(row);
    this.#write(erased);
    return erased.count;
  }

  /** The notes of the rows behind one. */
  answersAfter(id: number): AnswerPage {
    return answerPage(this.#sql.notes.iterate(id) as Iterable<unknown> as Iterable<KeptAnswer>);
  }

  /** Replaces notes. A row may be gone meanwhile, and its number may be that of another one. */
  putAnswers(changed: readonly ChangedAnswer[]): undefined {
    for (const { id, answer, was } of changed) this.#sql.putNote.run(answer, id, was);
  }

  #write({ deleted, rewritten, counts }: TakenDeadLetters): void {
    for (const id of deleted) this.#sql.delete.run(id);
    for (const { id, destination, first, last, n, encoded } of rewritten)
      this.#sql.rewrite.run(first, last, n, withSetChecksum(destination, encoded), id);
    for (const { scope, id, name, n } of counts) this.#dependencies.ledger.add(scope, id, name, n);
  }
}

function statements(database: DatabaseSync) {
  const prepare = (sql: string): StatementSync => database.prepare(sql);
  return {
    insert: prepare(
      `insert into dead_letter(destination, at, state, reason, note, first, last, n, origin, refs)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    near: prepare(
      `select id, destination, state, reason, note, refs from dead_letter
       where last >= ? and last < ? and first < ? and last - first < ${WIDE_SPAN}`,
    ),
    wide: prepare(
      `select id, destination, state, reason, note, refs from dead_letter
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
      `select id, destination, at, state, reason, note, first, last, n from dead_letter indexed by dead_letter_destination
       where destination = ?1 and id >= ?2 and id <= ?3 and at >= ?4 and at < ?5
         and (?6 is null or state = ?6) and (?7 is null or reason = ?7)`,
    ),
    content: prepare('select origin, refs from dead_letter where id = ?'),
    notes: prepare(
      `select id, note as answer from dead_letter where note is not null and id > ? order by id limit ${ANSWER_ROWS}`,
    ),
    putNote: prepare('update dead_letter set note = ? where id = ? and note = ?'),
    delete: prepare('delete from dead_letter where id = ?'),
    rewrite: prepare('update dead_letter set first = ?, last = ?, n = ?, refs = ? where id = ?'),
  };
}

interface StoredDeadLetterRow extends Omit<DeadLetterRow, 'encoded'> {
  readonly refs: Uint8Array;
}
