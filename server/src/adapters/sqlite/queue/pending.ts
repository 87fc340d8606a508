import type { DatabaseSync } from 'node:sqlite';
import type { Delivery } from '../../../model/delivery.ts';
import type { Position } from '../../../model/event.ts';
import { invariant } from '../../../model/invariant.ts';
import type { Monotonic } from '../../../model/time.ts';
import type { HeldDelivery, NextDue, PendingSetId } from '../../../ports/delivery-queue.ts';
import {
  EXPIRED_ROWS,
  expireIn,
  growingKey,
  lostWith,
  mayGrow,
  PARKED_MAX,
  type PendingRow,
  setOf,
  takeFrom,
} from '../../encoding/decisions/pending.ts';
import {
  decodeSet,
  earliestFailure,
  encodePositions,
  encodeSet,
  HeldSet,
  HeldSets,
  isNew,
  RunEncoder,
  splitSet,
  summaryOf,
  withoutSetChecksum,
  withSetChecksum,
} from '../../encoding/pending-set.ts';
import type { DeadDeliveries } from '../../encoding/results.ts';
import type { DamageTable } from '../damage.ts';
import type { LedgerTable } from '../ledger-table.ts';

/**
 * ```
 *            append                   claim                     settled to the last delivery
 *   (born) ────────▶ HELD ◀──────────────────────── DUE ◀──┐   HELD ────────────────────────▶ (row deleted)
 *        └────────────────────── no room ────────────▲     │    │
 *                           recoverOrphans: holder gone ───┘    └── retry at t: a new DUE row
 * ```
 * A HELD row belongs to the process of the epoch in "owner". A DUE row may be claimed from its "due" time on:
 * parked deliveries at once, failed ones at their next try.
 */
export const HELD = 0;
export const DUE = 1;

const COLUMNS = 'id, destination, due, since, first, last, n, tried, origin, refs';

export type PendingStatements = ReturnType<typeof statements>;

/** Every statement on table "pending". */
export function statements(database: DatabaseSync) {
  const prepare = (sql: string) => database.prepare(sql);
  return {
    insert: prepare(
      `insert or replace into pending(id, destination, state, owner, due, since, n, refs, first, last, tried)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    // A separate statement, because rows of the healthy path have no origin.
    setOrigin: prepare('update pending set origin = ? where id = ?'),
    delete: prepare('delete from pending where id = ?'),
    rewrite: prepare('update pending set n = ?, refs = ?, first = ?, last = ?, tried = ? where id = ?'),
    setSince: prepare('update pending set since = ? where id = ?'),
    due: prepare(
      `select ${COLUMNS} from pending where destination = ? and state <> 0 and due <= ? order by due, id limit 1`,
    ),
    hold: prepare(`update pending set state = ${HELD}, owner = ? where id = ?`),
    countWaiting: prepare(
      'select coalesce(sum(n), 0) as n from pending where destination = ? and state <> 0 and due > ?',
    ),
    makeDue: prepare('update pending set due = ? where destination = ? and state <> 0 and due > ?'),
    expired: prepare(`select ${COLUMNS} from pending where destination = ? and state <> 0 and since < ?
       order by since limit ${EXPIRED_ROWS}`),
    below: prepare(`select ${COLUMNS} from pending where (state <> 0 or owner <> ?) and first < ?`),
    between: prepare(
      `select ${COLUMNS} from pending where (state <> 0 or owner <> ?) and last >= ? and first <= ?`,
    ),
    heldRows: prepare(
      `select id, destination, origin, refs from pending where state = ${HELD} and owner = ?`,
    ),
    countOrphans: prepare(
      `select coalesce(sum(n), 0) as n from pending where state = ${HELD} and owner <> ?`,
    ),
    parkOrphans: prepare(`update pending set state = ${DUE} where state = ${HELD} and owner <> ?`),
    park: prepare(`update pending set state = ${DUE} where id = ? and state = ${HELD}`),
    overlapping: prepare(
      'select due, refs from pending where destination = ? and state <> 0 and last >= ? and first <= ?',
    ),
    /** The rows with the highest positions first. The counts exclude rows without any wanted delivery. */
    highest: prepare(`select last, refs from pending where destination = ? and state <> 0 and first < ?
       and (? is null or iif(?, tried, n - tried) > 0) order by last desc`),
    orphans: prepare(
      `select id, destination, origin, refs from pending where state = ${HELD} and owner <> ?`,
    ),
    stats:
      prepare(`select destination, sum(iif(state = ${HELD}, n, 0)) as held, sum(iif(state = ${HELD}, 0, n)) as onDisk,
         min(iif(state = ${HELD}, null, due)) as nextDueAt, min(first) as oldest, sum(tried) as retrying
       from pending group by destination order by destination`),
    requeued: prepare(
      'select destination, refs from pending indexed by pending_origin where origin is not null and first <= ?',
    ),
    nextDue: prepare('select min(due) as due from pending where destination = ? and state <> 0'),
    /** Looks at one row of each destination, the first of it in the index. */
    allNextDue: prepare(`with recursive lane(number) as (
        select min(destination) from pending where state <> 0
        union all
        select (select min(destination) from pending where state <> 0 and destination > number) from lane where number is not null)
      select number as destination, (select min(due) from pending where destination = number and state <> 0) as nextDueAt
      from lane where number is not null`),
    sums: prepare('select destination, sum(n) as n from pending group by destination'),
  };
}

export interface NewPendingRow {
  destination: number;
  state: typeof HELD | typeof DUE;
  due: Monotonic;
  since: Monotonic;
  n: number;
  origin?: string | undefined;
  encoded: Uint8Array;
}

export interface HeldPendingRow {
  id: number;
  destination: number;
  origin: string | null;
  refs: Uint8Array;
}

/** Number of set ids for one start of the program. */
const SETS_PER_EPOCH = 2 ** 32;

/** The rows of table "pending", and the sets that this process holds, in memory. */
export class PendingTable {
  readonly #epoch: number;
  readonly #ledger: LedgerTable;
  readonly #damage: DamageTable;
  /** Set ids are never reused: each start of the program counts in a range of its own. */
  #nextId: PendingSetId;
  readonly #sql: PendingStatements;
  readonly held: HeldSets;
  #newlyHeld: PendingSetId[] = [];
  /** The parked row that still grows, by destination and origin. */
  readonly #growing = new Map<number | string, { id: PendingSetId; since: Monotonic; runs: RunEncoder }>();

  constructor(database: DatabaseSync, { epoch, ledger, damage }: PendingTableDependencies) {
    this.#epoch = epoch;
    this.#ledger = ledger;
    this.#damage = damage;
    const last = database.prepare('select max(id) as id from pending').get() as { id: number | null };
    this.#nextId = Math.max(epoch * SETS_PER_EPOCH, (last.id ?? 0) + 1);
    this.#sql = statements(database);
    const orphans = this.#sql.orphans.all(epoch) as unknown as HeldPendingRow[];
    this.held = new HeldSets(orphans.flatMap((row) => toHeldSet(row) ?? []));
    for (const row of this.#sql.heldRows.all(epoch) as unknown as HeldPendingRow[]) {
      const set = toHeldSet(row);
      if (set !== undefined) this.held.put(row.id, set);
    }
  }

  /** Inserts a set that this process holds. `positions` ascending, not empty. */
  insertHeld(destination: number, positions: readonly Position[], now: Monotonic): PendingSetId {
    const encoded = encodePositions(positions);
    const id = this.#put({ destination, state: HELD, due: now, since: now, n: positions.length, encoded });
    this.#ledger.balance.pending(destination, positions.length);
    this.held.put(id, HeldSet.fromPositions(destination, positions));
    this.#newlyHeld.push(id);
    return id;
  }

  /**
   * Parks new deliveries. Those of about one second share a row, so that an outage costs a row a second
   * instead of a row a commit. The row's positions are nearly always one run, a few bytes long.
   */
  insertParked(destination: number, positions: readonly Position[], now: Monotonic, origin?: string): void {
    invariant(positions.length > 0, 'deliveries that are parked are some');
    this.#ledger.balance.pending(destination, positions.length);
    const key = growingKey(destination, origin);
    let growing = this.#growing.get(key);
    if (growing && !(mayGrow(growing, now) && growing.runs.size < PARKED_MAX)) growing = undefined;
    const runs = growing?.runs ?? new RunEncoder();
    for (const position of positions) runs.add(position);
    if (growing) this.#rewrite({ id: growing.id, destination }, runs.size, runs.bytes());
    else {
      const encoded = runs.bytes();
      const id = this.#put({ destination, state: DUE, due: now, since: now, n: runs.size, origin, encoded });
      this.#growing.set(key, { id, since: now, runs });
    }
  }

  /** Enqueues replayed or redelivered events. `positions` ascending, not empty. */
  requeue(destination: number, positions: readonly Position[], now: Monotonic, origin?: string): void {
    invariant(positions.length > 0, 'deliveries that are enqueued again are some');
    this.#ledger.balance.pending(destination, positions.length);
    const encoded = encodePositions(positions);
    this.#put({ destination, state: DUE, due: now, since: now, n: positions.length, encoded, origin });
  }

  /** Enqueues failed deliveries, to be claimed from `at` on. */
  scheduleRetry(destination: number, at: Monotonic, deliveries: readonly Delivery[], origin?: string): void {
    invariant(deliveries.length > 0, 'deliveries that are retried are some');
    invariant(Number.isFinite(at), 'deliveries that are retried are due at a time');
    this.#ledger.balance.pending(destination, deliveries.length);
    const since = earliestFailure(deliveries, at);
    const encoded = encodeSet(deliveries);
    this.#put({ destination, state: DUE, due: at, since, n: deliveries.length, encoded, origin });
  }

  claim(destination: number, max: number, now: Monotonic): ClaimAnswer {
    const fresh: number[] = [];
    const tried: HeldDelivery[] = [];
    const origins: [PendingSetId, string][] = [];
    let room = max;
    while (room > 0) {
      const row = this.#sql.due.get(destination, now) as unknown as PendingRow | undefined;
      if (row === undefined) break;
      this.#stopGrowing(row);
      const stored = setOf(row) ?? this.#giveUp(row);
      if (stored === undefined) continue;
      const { taken, rest } = splitSet(stored, room);
      const set = HeldSet.fromDeliveries(destination, taken, row.origin);
      let id = row.id;
      if (rest === undefined) this.#sql.hold.run(this.#epoch, id);
      else {
        // The rest keeps its row and its place in the order. The taken deliveries get a row of their own.
        this.#rewrite({ id: row.id, destination }, row.n - taken.length, rest);
        const { due, since } = row;
        const { origin } = set;
        const encoded = encodeSet(taken);
        id = this.#put({ destination, state: HELD, due, since, n: taken.length, origin, encoded });
      }
      this.held.put(id, set);
      this.#newlyHeld.push(id);
      if (set.origin !== undefined) origins.push([id, set.origin]);
      room -= taken.length;
      for (const delivery of taken) {
        if (!isNew(delivery)) tried.push({ set: id, delivery });
        else fresh.push(id, delivery.position, row.due);
      }
    }
    const next = this.#sql.nextDue.get(destination) as { due: number | null };
    const claim = { fresh: Float64Array.from(fresh), tried, origins };
    return next.due === null ? claim : { ...claim, nextDueAt: next.due };
  }

  /**
   * Takes a delivery out of a held set; false when the set does not hold it (any more). `writeSets` updates
   * the row.
   */
  take({
    set,
    destination,
    position,
  }: {
    set: PendingSetId;
    destination: number;
    position: Position;
  }): boolean {
    const held = this.held.get(set);
    return held !== undefined && held.destination === destination && held.take(position);
  }

  /** The origin of a held set. */
  originOf(set: PendingSetId): string | undefined {
    return this.held.get(set)?.origin;
  }

  /** Deletes or rewrites the rows of held sets after `take`. */
  writeSets(sets: Iterable<PendingSetId>): void {
    for (const id of sets) {
      const held = this.held.get(id);
      invariant(held !== undefined, 'a set that results were taken out of is in memory');
      this.#ledger.balance.pending(held.destination, -held.drainTaken());
      if (held.left === 0) {
        this.#sql.delete.run(id);
        this.held.delete(id);
      } else {
        const left = held.deliveries();
        this.#rewrite({ id, destination: held.destination }, left.length, encodeSet(left));
      }
    }
  }

  /** See `DeliveryQueue.nextDue`. */
  nextDue(): NextDue[] {
    return this.#sql.allNextDue.all() as unknown as NextDue[];
  }

  /** Makes all waiting deliveries of a destination due now. Returns how many. */
  makeDue(destination: number, now: Monotonic): number {
    const { n } = this.#sql.countWaiting.get(destination, now) as { n: number };
    if (n > 0) this.#sql.makeDue.run(now, destination, now);
    return n;
  }

  /** Takes out deliveries whose retry window is over, a few rows at a time; empty only when none is left. */
  expire(destination: number, before: Monotonic): DeadDeliveries[] {
    for (;;) {
      const rows = this.#sql.expired.all(destination, before) as unknown as PendingRow[];
      const expired = rows.flatMap((row) => {
        const encoded = setOf(row) ?? this.#giveUp(row);
        if (encoded === undefined) return [];
        const { taken, left, since } = expireIn(row, encoded, before);
        this.#leave(row, left);
        if (left.length > 0) this.#sql.setSince.run(since, row.id);
        if (taken !== undefined) this.#ledger.balance.pending(row.destination, -taken.n);
        return taken ?? [];
      });
      if (expired.length > 0 || rows.length === 0) return expired;
    }
  }

  /** Takes out the deliveries from a position on and below another, except those that this process holds. */
  removeBetween(from: Position, below: Position): DeadDeliveries[] {
    const rows = this.#sql.below.all(this.#epoch, below) as unknown as PendingRow[];
    return this.#takeFrom(rows, ({ position }) => position >= from && position < below);
  }

  #takeFrom(rows: readonly PendingRow[], isTaken: (delivery: Delivery) => boolean): DeadDeliveries[] {
    return rows.flatMap((row) => {
      const found = takeFrom(row, isTaken);
      if (found === undefined) return [];
      this.#leave(row, found.left);
      this.#ledger.balance.pending(row.destination, -found.taken.n);
      return found.taken;
    });
  }

  /** Takes these positions out of every set. Returns the number of deliveries by destination. */
  erase(positions: ReadonlySet<Position>): Map<number, number> {
    const erased = new Map<number, number>();
    const count = (destination: number, n: number) =>
      erased.set(destination, (erased.get(destination) ?? 0) + n);
    const touched: PendingSetId[] = [];
    for (const [id, held] of this.held.entries()) {
      let n = 0;
      for (const position of positions) if (held.take(position)) n++;
      if (n === 0) continue;
      touched.push(id);
      count(held.destination, n);
    }
    this.writeSets(touched);
    if (positions.size === 0) return erased;
    const sorted = [...positions].sort((a, b) => a - b);
    const rows = this.#sql.between.all(this.#epoch, sorted[0]!, sorted.at(-1)!) as unknown as PendingRow[];
    const isErased = ({ position }: Delivery) => positions.has(position);
    for (const { destination, n } of this.#takeFrom(rows, isErased)) count(destination, n);
    return erased;
  }

  /** A row that is claimed or rewritten takes no further deliveries. */
  #stopGrowing({ id, destination, origin }: Pick<PendingRow, 'id' | 'destination' | 'origin'>): void {
    const key = growingKey(destination, origin);
    if (this.#growing.get(key)?.id === id) this.#growing.delete(key);
  }

  /** Leaves only these deliveries in a row on disk. */
  #leave(row: PendingRow, left: readonly Delivery[]): void {
    this.#stopGrowing(row);
    if (left.length === 0) this.#sql.delete.run(row.id);
    else this.#rewrite(row, left.length, encodeSet(left));
  }

  /** Deletes a row that cannot be read, and counts its deliveries. */
  #giveUp(row: PendingRow): undefined {
    this.#sql.delete.run(row.id);
    const lost = lostWith(row);
    this.#ledger.addLost(lost);
    this.#damage.note('pending', row.id, lost.n);
  }

  #rewrite(
    { id, destination }: { id: PendingSetId; destination: number },
    n: number,
    encoded: Uint8Array,
  ): void {
    const { first, last, tried } = summaryOf(encoded);
    this.#sql.rewrite.run(n, withSetChecksum(destination, encoded), first, last, tried, id);
  }

  /** Ids of the sets that this process has come to hold since the last call. */
  drainNewlyHeld(): PendingSetId[] {
    return this.#newlyHeld.splice(0);
  }

  /** Parks held sets whose ids no caller has heard of. */
  park(sets: readonly PendingSetId[]): void {
    for (const id of sets) {
      this.held.delete(id);
      this.#sql.park.run(id);
    }
  }

  /** Parks the sets of processes that are gone. Returns the number of deliveries. */
  recoverOrphans(): number {
    const { n } = this.#sql.countOrphans.get(this.#epoch) as { n: number };
    this.#sql.parkOrphans.run(this.#epoch);
    this.held.dropOrphans();
    return n;
  }

  #put({ destination, state, due, since, n, origin, encoded }: NewPendingRow): PendingSetId {
    const id = this.#nextId++;
    invariant(this.held.get(id) === undefined, 'a new set has a number that no other has');
    const { first, last, tried } = summaryOf(encoded);
    const stored = withSetChecksum(destination, encoded);
    this.#sql.insert.run(id, destination, state, this.#epoch, due, since, n, stored, first, last, tried);
    if (origin !== undefined) this.#sql.setOrigin.run(origin, id);
    return id;
  }
}

/** A claim as bytes; objects only for deliveries that were tried before, which are few. */
export interface ClaimAnswer {
  /** Never tried: three numbers each (set, position, since when it was due). */
  readonly fresh: Float64Array;
  readonly tried: readonly HeldDelivery[];
  /** The origin of each set that has one. */
  readonly origins: readonly (readonly [set: PendingSetId, origin: string])[];
  readonly nextDueAt?: Monotonic;
}

export interface PendingTableDependencies {
  /** Number of this start of the program. */
  readonly epoch: number;
  readonly ledger: LedgerTable;
  readonly damage: DamageTable;
}

/** Undefined where the set is damaged: a later claim rebuilds it or gives it up. */
function toHeldSet({ destination, origin, refs }: Omit<HeldPendingRow, 'id'>): HeldSet | undefined {
  const encoded = withoutSetChecksum(destination, refs);
  return encoded && HeldSet.fromDeliveries(destination, decodeSet(encoded), origin);
}
