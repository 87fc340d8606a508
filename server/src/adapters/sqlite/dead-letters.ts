import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { DeadCount, DeadLetter, DeadPage, DeadQuery, RevivedSlice } from '../../ports/dead-letters.ts';
import type { Counters } from './counters.ts';
import type { Owings } from './owing.ts';
import type { Pending } from './pending.ts';
import type { DeadCountMessage, DeadLettersMessage } from './protocol.ts';
import { decodeRefs, encodeRefs, rangeOf, readableRefs, sealedRefs } from './refs.ts';

/** Rows revived in one slice: a row may hold 20,000 deliveries. */
const SLICE = 8;

/** Rows of a lane looked at in one slice, without what they hold. */
const LOOKED_AT = 1024;

interface DeadLetterParts {
  readonly pending: Pending;
  readonly counters: Counters;
  readonly owings: Owings;
}

/** The rows of table "dead_letter", read the newest first and taken apart when some of them are owed again. */
export class DeadLetterRows {
  readonly #sql: ReturnType<typeof statements>;
  readonly #parts: DeadLetterParts;

  constructor(database: DatabaseSync, parts: DeadLetterParts) {
    this.#sql = statements(database);
    this.#parts = parts;
  }

  list({ query, limit, from }: DeadLettersMessage): DeadPage {
    const letters: DeadLetter[] = [];
    const [id, below = Number.POSITIVE_INFINITY] = placeIn(from);
    const { rows, next } = this.#look(query, id);
    const wanted = positionsIn(query);
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

  count({ query, from }: DeadCountMessage): DeadCount {
    const { rows, next } = this.#look(query, placeIn(from)[0]);
    const wanted = positionsIn(query);
    const sizeOf = (row: Row) => (wanted === undefined ? row.n : this.#positionsOf(row, wanted).length);
    const count = rows.reduce((sum, row) => sum + sizeOf(row), 0);
    return next === undefined ? { count } : { count, next };
  }

  revive({ query, now, before = now, from, origin }: RevivedSlice): DeadCount {
    const old = { ...query, to: Math.min(query.to ?? before, before) };
    const { rows, next } = this.#look(old, placeIn(from)[0]);
    const wanted = positionsIn(query);
    let count = 0;
    let revived = 0;
    for (const row of rows) {
      if (revived === SLICE) return this.#counted({ count, next: String(row.id) }, origin);
      const n = this.#reviveFrom(row, wanted, now);
      count += n;
      if (n > 0) revived++;
    }
    return this.#counted(next === undefined ? { count } : { count, next }, origin);
  }

  #counted(slice: DeadCount, origin: string | undefined): DeadCount {
    if (origin !== undefined && slice.count > 0) this.#parts.owings.count(origin, slice.count);
    return slice;
  }

  #reviveFrom(row: Row, wanted: Wanted | undefined, now: Time): number {
    const going = this.#positionsOf(row, wanted);
    if (going.length === 0) return 0;
    const { pending, counters } = this.#parts;
    const { origin, refs } = this.#contentOf(row);
    this.#take(row, refs, new Set(going));
    pending.bearAgain(row.destination, going, now, origin ?? undefined);
    counters.add('destination', row.destination, `dead:${row.reason}`, -going.length);
    return going.length;
  }

  /**
   * The rows that may hold what is sought, from an id downwards, as far as one slice looks: every lane is looked through down to
   * the same id. Read to the end before anything is changed: a cursor over a table that changes under it sees what it likes.
   */
  #look({ destinations, reason, from = 0, to = Number.MAX_SAFE_INTEGER }: DeadQuery, id: number) {
    const end = destinations.reduce((highest, lane) => {
      const { end: lowest } = this.#sql.end.get(lane, id) as { end: number };
      return Math.max(highest, lowest);
    }, 0);
    const why = reason ?? null;
    const rows = destinations.flatMap(
      (lane) => this.#sql.rows.all(lane, end, id, from, to, why, why) as unknown as Row[],
    );
    rows.sort((a, b) => b.id - a.id);
    return end <= 1 ? { rows } : { rows, next: String(end - 1) };
  }

  /** Ascending. Of `wanted` only those; rows that hold none of them are not read. */
  #positionsOf(row: Row, wanted: Wanted | undefined): Position[] {
    const some = wanted?.get(row.destination);
    if (wanted !== undefined && !some?.sorted.some((one) => one >= row.first && one <= row.last)) return [];
    const positions = decodeRefs(this.#contentOf(row).refs).map(({ position }) => position);
    const found = some === undefined ? positions : positions.filter((position) => some.set.has(position));
    return found.sort((a, b) => a - b);
  }

  #contentOf({ id, destination }: Row): { readonly origin: string | null; readonly refs: Uint8Array } {
    const { origin, refs } = this.#sql.content.get(id) as { origin: string | null; refs: Uint8Array };
    return { origin, refs: readableRefs(destination, refs) };
  }

  #take({ id, destination }: Row, refs: Uint8Array, going: ReadonlySet<Position>): void {
    const left = decodeRefs(refs).filter(({ position }) => !going.has(position));
    if (left.length === 0) {
      this.#sql.delete.run(id);
      return;
    }
    const bytes = encodeRefs(left);
    const { first, last } = rangeOf(bytes);
    this.#sql.rewrite.run(first, last, left.length, sealedRefs(destination, bytes), id);
  }
}

function statements(database: DatabaseSync) {
  const prepare = (sql: string): StatementSync => database.prepare(sql);
  return {
    // Down to where a slice looks in one lane; 0 where it looks at all there are.
    end: prepare(
      `select coalesce((select id from dead_letter indexed by dead_letter_destination
         where destination = ? and id <= ? order by id desc limit 1 offset ${LOOKED_AT - 1}), 0) as end`,
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

/** Begins at an id, and in its row below a position. */
function placeIn(from: string | undefined): readonly [id: number, below?: Position] {
  if (from === undefined) return [Number.MAX_SAFE_INTEGER];
  const [id, below] = from.split('-').map(Number);
  return below === undefined ? [id!] : [id!, below];
}

type Wanted = ReadonlyMap<
  number,
  { readonly sorted: readonly Position[]; readonly set: ReadonlySet<Position> }
>;

/** Only these, by destination. */
function positionsIn({ only }: DeadQuery): Wanted | undefined {
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
interface Row {
  id: number;
  destination: number;
  at: Time;
  reason: string;
  first: Position;
  last: Position;
  n: number;
}
