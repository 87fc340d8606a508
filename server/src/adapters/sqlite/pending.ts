import type { DatabaseSync } from 'node:sqlite';
import type { Delivery } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { Held, SetId } from '../../ports/backlog.ts';
import type { Buried } from './failures.ts';
import { HeldSet } from './held-set.ts';
import { HeldSets } from './held-sets.ts';
import {
  DUE,
  type DueRow,
  earliest,
  type FullRow,
  HELD,
  type HeldRow,
  type NewRow,
  type PendingStatements,
  statements,
} from './pending-rows.ts';
import type { ClaimMessage } from './protocol.ts';
import {
  decodeRefs,
  encodeRefs,
  encodeRuns,
  factsOf,
  hasRecords,
  isNew,
  openedRefs,
  Runs,
  sealedRefs,
  splitRefs,
} from './refs.ts';

/** Room for set ids within one start of the program. */
const SETS_PER_EPOCH = 2 ** 32;

/** Retries due within the same tenth of a second share a row. */
const DUE_STEP = 100;

/** Parked rows stop growing here, so that a claim never decodes more than it hands out many times over. */
const PARKED_MAX = 20_000;
const PARKED_SPAN: Time = 1000;

/** The rows of table "pending", and in memory what this process holds of them. */
export class Pending {
  readonly #epoch: number;
  readonly #onLost: (lost: LostSet) => void;
  /** Set ids are never used twice: each start of the program counts in a range of its own. */
  #nextId: SetId;
  readonly #sql: PendingStatements;
  readonly held: HeldSets;
  /** Sets that came into the hands of this process since `taken` was asked. */
  #taken: SetId[] = [];
  /** The parked row of each destination that still grows. */
  readonly #growing = new Map<number, { id: SetId; since: Time; runs: Runs }>();

  /** `onLost`: the deliveries of a damaged set were given up; only their number is known. */
  constructor(database: DatabaseSync, epoch: number, onLost: (lost: LostSet) => void) {
    this.#epoch = epoch;
    this.#onLost = onLost;
    const last = database.prepare('select max(id) as id from pending').get() as { id: number | null };
    this.#nextId = Math.max(epoch * SETS_PER_EPOCH, (last.id ?? 0) + 1);
    this.#sql = statements(database);
    const orphans = this.#sql.orphans.all(epoch) as unknown as HeldRow[];
    this.held = new HeldSets(orphans.flatMap((row) => heldSetOf(row) ?? []));
    for (const row of this.#sql.heldRows.all(epoch) as unknown as HeldRow[]) {
      const set = heldSetOf(row);
      if (set !== undefined) this.held.put(row.id, set);
    }
  }

  /** A new set in the hands of this process. `positions` ascending, not empty. */
  bearHeld(destination: number, positions: readonly Position[], now: Time): SetId {
    const refs = encodeRuns(positions);
    const id = this.#put({ destination, state: HELD, due: now, since: now, n: positions.length, refs });
    this.held.put(id, HeldSet.ofNew(destination, positions));
    this.#taken.push(id);
    return id;
  }

  /**
   * Parks new deliveries. Those of about one second share a row, so that an outage costs a row a second and not a row a
   * commit: the row's positions are nearly always one run, a few bytes long.
   */
  bearParked(destination: number, positions: readonly Position[], now: Time): void {
    let growing = this.#growing.get(destination);
    // A clock that was set back must not hide later deliveries behind earlier ones.
    const fits = growing && now >= growing.since && now < growing.since + PARKED_SPAN;
    if (growing && !(fits && growing.runs.size < PARKED_MAX)) growing = undefined;
    const runs = growing?.runs ?? new Runs();
    for (const position of positions) runs.add(position);
    if (growing) this.#rewrite({ id: growing.id, destination }, runs.size, runs.bytes());
    else {
      const refs = runs.bytes();
      const id = this.#put({ destination, state: DUE, due: now, since: now, n: runs.size, refs });
      this.#growing.set(destination, { id, since: now, runs });
    }
  }

  /** Deliveries that are owed once more, each row with its origin. `positions` ascending, not empty. */
  bearAgain(destination: number, positions: readonly Position[], now: Time, origin?: string): void {
    const refs = encodeRuns(positions);
    this.#put({ destination, state: DUE, due: now, since: now, n: positions.length, refs, origin });
  }

  /** Deliveries that failed, to be claimed at `at`. */
  wait(destination: number, at: Time, deliveries: readonly Delivery[], origin?: string): void {
    const since = earliest(deliveries, at);
    const refs = encodeRefs(deliveries);
    this.#put({ destination, state: DUE, due: at, since, n: deliveries.length, refs, origin });
  }

  /** The time from which a retry due at `at` may be claimed: never before it, and at most a step after. */
  static dueStep(at: Time): Time {
    return Math.ceil(at / DUE_STEP) * DUE_STEP;
  }

  claim(destination: number, max: number, now: Time): ClaimMessage {
    const fresh: number[] = [];
    const tried: Held[] = [];
    const origins: [SetId, string][] = [];
    let room = max;
    while (room > 0) {
      const row = this.#sql.due.get(destination, now) as FullRow | undefined;
      if (row === undefined) break;
      if (this.#growing.get(destination)?.id === row.id) this.#growing.delete(destination);
      const opened = openedRefs(destination, row.refs) ?? this.#madeAnew(row, destination);
      if (opened === undefined) continue;
      const { taken, rest } = splitRefs(opened, room);
      const set = HeldSet.of(destination, taken, row.origin);
      let id = row.id;
      if (rest === undefined) this.#sql.hold.run(this.#epoch, id);
      else {
        // The rest stays in its row, with its place in the order; what is taken becomes a row of its own.
        this.#rewrite({ id: row.id, destination }, row.n - taken.length, rest);
        const { due, since } = row;
        const { origin } = set;
        const refs = encodeRefs(taken);
        id = this.#put({ destination, state: HELD, due, since, n: taken.length, origin, refs });
      }
      this.held.put(id, set);
      this.#taken.push(id);
      if (set.origin !== undefined) origins.push([id, set.origin]);
      room -= taken.length;
      for (const delivery of taken) {
        if (isNew(delivery)) fresh.push(id, delivery.position);
        else tried.push({ set: id, delivery });
      }
    }
    const next = this.#sql.nextDue.get(destination) as { due: number | null };
    const claim = { fresh: Float64Array.from(fresh), tried, origins };
    return next.due === null ? claim : { ...claim, nextDueAt: next.due };
  }

  /**
   * Takes a delivery out of the set this process holds; false when it is not in it (any more).
   * The row is brought up to date by `writeTouched`.
   */
  take({ set, destination, position }: { set: SetId; destination: number; position: Position }): boolean {
    const held = this.held.get(set);
    return held !== undefined && held.destination === destination && held.take(position);
  }

  /** On whose behalf a set that this process holds is owed once more. */
  originOf(set: SetId): string | undefined {
    return this.held.get(set)?.origin;
  }

  /** Deletes or rewrites the rows of sets that deliveries were taken from. */
  writeTouched(sets: Iterable<SetId>): void {
    for (const id of sets) {
      const held = this.held.get(id);
      if (held === undefined) continue;
      if (held.left === 0) {
        this.#sql.delete.run(id);
        this.held.delete(id);
      } else {
        const left = held.deliveries();
        this.#rewrite({ id, destination: held.destination }, left.length, encodeRefs(left));
      }
    }
  }

  /** Makes due what waits for later. */
  release(destination: number, now: Time): number {
    const { n } = this.#sql.waiting.get(destination, now) as { n: number };
    if (n > 0) this.#sql.release.run(now, destination, now);
    return n;
  }

  /**
   * Takes out what the retry window has passed, a few rows at a time; nothing only when nothing is left. What is parked
   * goes as it stands in its row; a row of retries is taken apart, because each of them has a first failure of its own.
   */
  expire(destination: number, before: Time): Omit<Buried, 'destination'>[] {
    for (;;) {
      const rows = this.#sql.old.all(destination, before) as unknown as FullRow[];
      const expired = rows.flatMap((row) => this.#expireIn(row, destination, before));
      if (expired.length > 0 || rows.length === 0) return expired;
    }
  }

  #expireIn(row: FullRow, destination: number, before: Time): Omit<Buried, 'destination'>[] {
    if (this.#growing.get(destination)?.id === row.id) this.#growing.delete(destination);
    const refs = openedRefs(destination, row.refs) ?? this.#madeAnew(row, destination);
    if (refs === undefined) return [];
    const deliveries = hasRecords(refs) ? decodeRefs(refs) : [];
    const isOld = (delivery: Delivery) => (delivery.firstFailedAt ?? row.due) < before;
    const left = deliveries.filter((delivery) => !isOld(delivery));
    if (left.length === 0) {
      this.#sql.delete.run(row.id);
      return [{ n: row.n, origin: row.origin, refs }];
    }
    // With a time of its own again: the row's may be that of a delivery that has left it long ago.
    this.#rewrite({ id: row.id, destination }, left.length, encodeRefs(left));
    this.#sql.renew.run(earliest(left, row.due), row.id);
    const old = deliveries.filter(isOld);
    return old.length === 0 ? [] : [{ n: old.length, origin: row.origin, refs: encodeRefs(old) }];
  }

  /** Takes out everything owed from a position on and below another that this process does not hold. */
  buryBetween(from: Position, position: Position): Buried[] {
    const buried: Buried[] = [];
    for (const row of this.#sql.below.all(this.#epoch, position) as unknown as (DueRow & {
      destination: number;
    })[]) {
      const refs = openedRefs(row.destination, row.refs);
      if (refs === undefined) continue;
      const deliveries = decodeRefs(refs);
      const isBetween = (delivery: Delivery) => delivery.position >= from && delivery.position < position;
      const goes = deliveries.filter(isBetween);
      const stays = deliveries.filter((delivery) => !isBetween(delivery));
      if (goes.length === 0) continue;
      this.#replace(row, stays);
      const { destination, origin } = row;
      buried.push({ destination, origin, n: goes.length, refs: encodeRefs(goes) });
    }
    return buried;
  }

  /** Takes these positions out of every set, wherever they are; how many deliveries of each destination went. */
  erase(positions: ReadonlySet<Position>): Map<number, number> {
    const erased = new Map<number, number>();
    const count = (destination: number, n: number) =>
      erased.set(destination, (erased.get(destination) ?? 0) + n);
    const touched: SetId[] = [];
    for (const [id, held] of this.held.entries()) {
      let n = 0;
      for (const position of positions) if (held.take(position)) n++;
      if (n === 0) continue;
      touched.push(id);
      count(held.destination, n);
    }
    this.writeTouched(touched);
    let highest = 0;
    for (const position of positions) highest = Math.max(highest, position + 1);
    for (const row of this.#sql.below.all(this.#epoch, highest) as unknown as (DueRow & {
      destination: number;
    })[]) {
      const refs = openedRefs(row.destination, row.refs);
      if (refs === undefined) continue;
      const deliveries = decodeRefs(refs);
      const stays = deliveries.filter((delivery) => !positions.has(delivery.position));
      if (stays.length === deliveries.length) continue;
      this.#replace(row, stays);
      count(row.destination, deliveries.length - stays.length);
    }
    return erased;
  }

  /** Leaves only these deliveries in a row on disk. */
  #replace(row: DueRow & { destination: number }, stays: readonly Delivery[]): void {
    if (this.#growing.get(row.destination)?.id === row.id) this.#growing.delete(row.destination);
    if (stays.length === 0) this.#sql.delete.run(row.id);
    else this.#rewrite(row, stays.length, encodeRefs(stays));
  }

  /**
   * The deliveries of a damaged set that were never tried and followed each other: what stands beside the set says which. Any
   * other is given up, and its row with it, so that what stands behind it is delivered.
   */
  #madeAnew({ id, n, first, last, tried }: FullRow, destination: number): Uint8Array | undefined {
    if (tried === 0 && n === last - first + 1 && n <= PARKED_MAX)
      return encodeRuns(Array.from({ length: n }, (_, index) => first + index));
    this.#sql.delete.run(id);
    this.#onLost({ id, destination, n });
    return undefined;
  }

  #rewrite({ id, destination }: { id: SetId; destination: number }, n: number, refs: Uint8Array): void {
    const { first, last, tried } = factsOf(refs);
    this.#sql.rewrite.run(n, sealedRefs(destination, refs), first, last, tried, id);
  }

  /** What came into the hands of this process since this was asked last. */
  taken(): SetId[] {
    return this.#taken.splice(0);
  }

  /** Puts sets back on disk that nobody was told of. */
  park(sets: readonly SetId[]): void {
    for (const id of sets) {
      this.held.delete(id);
      this.#sql.park.run(id);
    }
  }

  /** Parks what a process that is gone held. */
  adopt(): number {
    const { n } = this.#sql.adopted.get(this.#epoch) as { n: number };
    this.#sql.adopt.run(this.#epoch);
    this.held.adopted();
    return n;
  }

  #put({ destination, state, due, since, n, origin, refs }: NewRow): SetId {
    const id = this.#nextId++;
    const { first, last, tried } = factsOf(refs);
    const sealed = sealedRefs(destination, refs);
    this.#sql.insert.run(id, destination, state, this.#epoch, due, since, n, sealed, first, last, tried);
    if (origin !== undefined) this.#sql.mark.run(origin, id);
    return id;
  }
}

/** A damaged set whose deliveries were given up. */
export interface LostSet {
  readonly id: SetId;
  readonly destination: number;
  readonly n: number;
}

/** Undefined where the set is damaged: it is given up, or made anew, when it is claimed. */
function heldSetOf({ destination, origin, refs }: Omit<HeldRow, 'id'>): HeldSet | undefined {
  const opened = openedRefs(destination, refs);
  return opened && HeldSet.of(destination, decodeRefs(opened), origin);
}
