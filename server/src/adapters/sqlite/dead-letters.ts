import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { DeadLetter, DeadPage, DeadQuery } from '../../ports/dead-letters.ts';
import type { Counters } from './counters.ts';
import type { Pending } from './pending.ts';
import { decodeRefs, encodeRefs, rangeOf } from './refs.ts';

/** Rows looked at in one slice: a row may hold 20,000 deliveries. */
const SLICE = 8;

/** The rows of table "dead_letter", read the newest first and taken apart when some of them are owed again. */
export class DeadLetterRows {
  readonly #rows: StatementSync;
  readonly #delete: StatementSync;
  readonly #rewrite: StatementSync;
  readonly #pending: Pending;
  readonly #counters: Counters;

  constructor(database: DatabaseSync, { pending, counters }: { pending: Pending; counters: Counters }) {
    this.#pending = pending;
    this.#counters = counters;
    this.#rows = database.prepare(
      `select id, destination, at, reason, n, origin, refs from dead_letter
       where id <= ? and at >= ? and at < ? order by id desc`,
    );
    this.#delete = database.prepare('delete from dead_letter where id = ?');
    this.#rewrite = database.prepare(
      'update dead_letter set first = ?, last = ?, n = ?, refs = ? where id = ?',
    );
  }

  list(query: DeadQuery, limit: number, from?: string): DeadPage {
    const letters: DeadLetter[] = [];
    const [id = Number.MAX_SAFE_INTEGER, below = Number.POSITIVE_INFINITY] =
      from?.split('-').map(Number) ?? [];
    const { from: since = 0, to = Number.MAX_SAFE_INTEGER } = query;
    // A page rarely needs all rows, and each may hold thousands.
    for (const each of this.#rows.iterate(id, since, to) as Iterable<unknown>) {
      const row = each as Row;
      if (!isMatching(row, query)) continue;
      const end = row.id === id ? below : Number.POSITIVE_INFINITY;
      for (const position of this.#positionsIn(row, query).reverse()) {
        if (position >= end) continue;
        const last = letters.at(-1);
        if (letters.length === limit && last !== undefined)
          return { letters, next: `${row.id}-${position + 1}` };
        letters.push({ destination: row.destination, position, reason: row.reason, at: row.at });
      }
    }
    return { letters };
  }

  revive(query: DeadQuery, now: Time): number {
    let revived = 0;
    let rows = 0;
    const before = { ...query, to: Math.min(query.to ?? now, now) };
    for (const row of this.#matching(before, Number.MAX_SAFE_INTEGER)) {
      const going = this.#positionsIn(row, query);
      if (going.length === 0) continue;
      this.#take(row, new Set(going));
      this.#pending.bearAgain(row.destination, going, now, row.origin ?? undefined);
      this.#counters.add('destination', row.destination, `dead:${row.reason}`, -going.length);
      revived += going.length;
      if (++rows === SLICE) break;
    }
    return revived;
  }

  /** Read to the end before anything is changed: a cursor over a table that changes under it sees what it likes. */
  #matching(query: DeadQuery, id: number): Row[] {
    const { from = 0, to = Number.MAX_SAFE_INTEGER } = query;
    const rows = this.#rows.all(id, from, to) as unknown as Row[];
    return rows.filter((row) => isMatching(row, query));
  }

  /** Ascending. */
  #positionsIn({ destination, refs }: Row, { only }: DeadQuery): Position[] {
    const positions = decodeRefs(refs).map(({ position }) => position);
    const wanted = only?.filter((one) => one.destination === destination).map(({ position }) => position);
    const found =
      wanted === undefined ? positions : positions.filter((position) => wanted.includes(position));
    return found.sort((a, b) => a - b);
  }

  #take({ id, refs }: Row, going: ReadonlySet<Position>): void {
    const left = decodeRefs(refs).filter(({ position }) => !going.has(position));
    if (left.length === 0) {
      this.#delete.run(id);
      return;
    }
    const bytes = encodeRefs(left);
    const { first, last } = rangeOf(bytes);
    this.#rewrite.run(first, last, left.length, bytes, id);
  }
}

function isMatching({ destination, reason }: Row, query: DeadQuery): boolean {
  return query.destinations.includes(destination) && (query.reason ?? reason) === reason;
}

interface Row {
  id: number;
  destination: number;
  at: Time;
  reason: string;
  n: number;
  origin: string | null;
  refs: Uint8Array;
}
