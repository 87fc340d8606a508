import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Delivery } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';

/**
 * ```
 *            append                   claim                     settled to the last delivery
 *   (born) ────────▶ HELD ◀──────────────────────── DUE ◀──┐   HELD ────────────────────────▶ (row deleted)
 *        └────────────────────── no room ────────────▲     │    │
 *                                    adopt: holder gone ───┘    └── retry at t: a new DUE row
 * ```
 * A HELD row belongs to the process of the boot epoch in "owner". A DUE row may be claimed from its "due" time on:
 * parked deliveries at once, failed ones at their next try.
 */
export const HELD = 0;
export const DUE = 1;

/** Rows given up in one slice. */
const EXPIRED_ROWS = 32;

export type PendingStatements = ReturnType<typeof statements>;

/** Every statement on table "pending". */
export function statements(database: DatabaseSync) {
  const prepare = (sql: string): StatementSync => database.prepare(sql);
  return {
    insert: prepare(
      'insert into pending(id, destination, state, owner, due, since, n, refs, first, last, tried) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    ),
    // A statement of its own, so that the rows of the healthy path, which have no origin, cost nothing for it.
    mark: prepare('update pending set origin = ? where id = ?'),
    delete: prepare('delete from pending where id = ?'),
    rewrite: prepare('update pending set n = ?, refs = ?, first = ?, last = ?, tried = ? where id = ?'),
    renew: prepare('update pending set since = ? where id = ?'),
    due: prepare(
      'select id, due, since, n, origin, refs, first, last, tried from pending where destination = ? and state <> 0 and due <= ? order by due, id limit 1',
    ),
    hold: prepare(`update pending set state = ${HELD}, owner = ? where id = ?`),
    waiting: prepare(
      'select coalesce(sum(n), 0) as n from pending where destination = ? and state <> 0 and due > ?',
    ),
    release: prepare('update pending set due = ? where destination = ? and state <> 0 and due > ?'),
    old: prepare(`select id, due, since, n, origin, refs, first, last, tried from pending where destination = ? and state <> 0 and since < ?
       order by since limit ${EXPIRED_ROWS}`),
    below: prepare(
      'select id, destination, due, since, n, origin, refs from pending where (state <> 0 or owner <> ?) and first < ?',
    ),
    heldRows: prepare(
      `select id, destination, origin, refs from pending where state = ${HELD} and owner = ?`,
    ),
    adopted: prepare(`select coalesce(sum(n), 0) as n from pending where state = ${HELD} and owner <> ?`),
    adopt: prepare(`update pending set state = ${DUE} where state = ${HELD} and owner <> ?`),
    park: prepare(`update pending set state = ${DUE} where id = ? and state = ${HELD}`),
    around: prepare(
      'select due, refs from pending where destination = ? and state <> 0 and last >= ? and first <= ?',
    ),
    /** Those of the highest positions first; the numbers of tried and of others leave rows out that hold none of them. */
    highest: prepare(`select last, refs from pending where destination = ? and state <> 0 and first < ?
       and (? is null or iif(?, tried, n - tried) > 0) order by last desc`),
    orphans: prepare(
      `select id, destination, origin, refs from pending where state = ${HELD} and owner <> ?`,
    ),
    lanes:
      prepare(`select destination, sum(iif(state = ${HELD}, n, 0)) as held, sum(iif(state = ${HELD}, 0, n)) as onDisk,
         min(iif(state = ${HELD}, null, due)) as nextDueAt, min(first) as oldest, sum(tried) as retrying
       from pending group by destination order by destination`),
    again: prepare(
      'select destination, refs from pending indexed by pending_origin where origin is not null and first <= ?',
    ),
    nextDue: prepare('select min(due) as due from pending where destination = ? and state <> 0'),
    sums: prepare('select destination, sum(n) as n from pending group by destination'),
  };
}

export interface NewRow {
  destination: number;
  state: typeof HELD | typeof DUE;
  due: Time;
  since: Time;
  n: number;
  origin?: string | undefined;
  refs: Uint8Array;
}

export interface DueRow {
  id: number;
  due: number;
  since: number;
  n: number;
  origin: string | null;
  /** As it stands in the table. */
  refs: Uint8Array;
}

/** A row with what stands beside its set, from which a damaged set can sometimes be made anew. */
export interface FullRow extends DueRow {
  first: Position;
  last: Position;
  tried: number;
}

export interface HeldRow {
  id: number;
  destination: number;
  origin: string | null;
  refs: Uint8Array;
}

/** The `since` of a row of these: from when the first retry window counts. Retries without a first failure count from when they are due. */
export function earliest(deliveries: readonly Delivery[], due: Time): Time {
  return deliveries.reduce(
    (since, one) => Math.min(since, one.firstFailedAt ?? due),
    Number.POSITIVE_INFINITY,
  );
}
