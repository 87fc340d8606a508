import type { Delivery } from '../../../model/delivery.ts';
import type { Position } from '../../../model/event.ts';
import { invariant } from '../../../model/invariant.ts';
import type { Monotonic } from '../../../model/time.ts';
import type {
  Claim,
  ClaimedDelivery,
  HeldDelivery,
  NextDue,
  PendingSetId,
} from '../../../ports/delivery-queue.ts';
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
import type { LedgerCount } from '../../encoding/ledger.ts';
import {
  earliestFailure,
  encodePositions,
  encodeSet,
  isNew,
  RunEncoder,
  splitSet,
  summaryOf,
  withoutSetChecksum,
  withSetChecksum,
} from '../../encoding/pending-set.ts';
import type { DeadDeliveries, RetryGroup } from '../../encoding/results.ts';
import { type Database, type Statement, type Transaction, UnknownCommitError } from '../database.ts';
import { type ClaimStart, ClaimStarts } from './claim-starts.ts';
import { countLost } from './ledger.ts';

/**
 * ```
 *            append                   claim                     settled to the last delivery
 *   (born) ────────▶ held ◀──────────────────────── due ◀──┐   held ────────────────────────▶ (row deleted)
 *        └────────────────────── no room ────────────▲     │    │
 *                        adoption: the owner is gone ──────┘    └── retry at t: a new row
 * ```
 * A held row has the number of the process that delivers it in "owner", and any row without an owner may be
 * claimed from its "due" time on. The rows are the only truth: a process keeps no copy of what it holds,
 * because others erase from it and, when its lease is gone, take it. Every statement that changes several
 * rows locks them in the order of their ids, or skips locked ones.
 */
const INSERT: Statement = {
  name: 'pending.insert',
  text: `insert into pending(id, destination, owner, due, since, first, last, n, tried, refs, origin)
    select * from unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
      $8::int[], $9::int[], $10::bytea[], $11::text[])`,
};

const REWRITE: Statement = {
  name: 'pending.rewrite',
  text: `update pending p set since = l.since, first = l.first, last = l.last, n = l.n, tried = l.tried, refs = l.refs
    from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::int[], $6::int[], $7::bytea[])
      l(id, since, first, last, n, tried, refs)
    where p.id = l.id`,
};

const DELETE: Statement = {
  name: 'pending.delete',
  text: 'delete from pending where id = any($1::bigint[])',
};

const COLUMNS = 'id, destination, due, since, first, last, n, tried, origin, refs';

const GROWING: Statement = {
  name: 'pending.growing',
  text: `select ${COLUMNS} from pending where id = any($1::bigint[]) and owner is null for update skip locked`,
};

/** The longest due first, from `$4` on. What another process is just taking is passed over. */
const DUE: Statement = {
  name: 'pending.due',
  text: `select ${COLUMNS} from pending where destination = $1 and owner is null and due <= $2 and due >= $4
    order by due, id limit $3 for update skip locked`,
};

const HOLD: Statement = {
  name: 'pending.hold',
  text: 'update pending set owner = $1 where id = any($2::bigint[])',
};

/** Rows that another process has adopted meanwhile have another owner. */
const PUT_BACK: Statement = {
  name: 'pending.put_back',
  text: 'update pending set owner = null where owner = $1 and id = any($2::bigint[])',
};

const NEXT_DUE: Statement = {
  name: 'pending.next_due',
  text: 'select min(due) as due from pending where destination = $1 and owner is null and due >= $2',
};

/** Looks at one row of each destination, the first of it in the index. */
const ALL_NEXT_DUE: Statement = {
  name: 'pending.all_next_due',
  text: `with recursive next(destination, due) as (
      (select destination, due from pending where owner is null order by destination, due limit 1)
      union all
      select p.* from next, lateral (select destination, due from pending
        where owner is null and destination > next.destination order by destination, due limit 1) p
    ) select destination, due as "nextDueAt" from next`,
};

const MINE: Statement = {
  name: 'pending.mine',
  text: `select ${COLUMNS} from pending where id = any($1::bigint[]) and owner = $2 order by id for update`,
};

const MAKE_DUE: Statement = {
  name: 'pending.make_due',
  text: `with due as (
      update pending set due = $2 where destination = $1 and owner is null and due > $2 returning n
    ) select coalesce(sum(n), 0) as n from due`,
};

const EXPIRED: Statement = {
  name: 'pending.expired',
  text: `select ${COLUMNS} from pending where destination = $1 and owner is null and since < $2
    order by since limit $3 for update skip locked`,
};

const BELOW: Statement = {
  name: 'pending.below',
  text: `select ${COLUMNS} from pending where owner is null and first < $1 order by id for update`,
};

const LOWEST: Statement = {
  name: 'pending.lowest',
  text: 'select min(first) as first from pending where first >= $1 and first < $2',
};

const BETWEEN: Statement = {
  name: 'pending.between',
  text: `select ${COLUMNS} from pending where last >= $1 and first <= $2 order by id for update`,
};

/** New deliveries of one destination, at ascending positions; none where every event was a duplicate. */
export interface NewSet {
  readonly destination: number;
  readonly state: 'held' | 'parked';
  readonly positions: readonly Position[];
  readonly now: Monotonic;
  readonly origin?: string | undefined;
}

interface ClaimRequest {
  readonly destination: number;
  readonly max: number;
  readonly now: Monotonic;
}

/** A row to be inserted. */
interface BornSet {
  readonly destination: number;
  readonly owner?: number;
  readonly due: Monotonic;
  readonly since: Monotonic;
  readonly origin?: string | null | undefined;
  readonly n: number;
  readonly encoded: Uint8Array;
}

/** Room for the set ids of one process. */
const SETS_PER_PROCESS = 2 ** 32;

/** Rows that a claim locks at once. */
const CLAIMED_ROWS = 64;

/** The rows of table "pending". */
export class PendingSets {
  #born = 0;
  /**
   * The row that was parked last, by destination and origin: it may still grow. Only a hint, because the row
   * may be gone or locked.
   */
  readonly #growing = new Map<number | string, { readonly id: PendingSetId; readonly since: Monotonic }>();
  /**
   * Ends with the claim of a destination that is under way: two would take each other's rows for taken by
   * another node.
   */
  readonly #claims = new Map<number, Promise<unknown>>();
  /**
   * Sets of claims whose commit is in doubt, by destination: if it has happened, nobody else knows that this
   * process holds them.
   */
  readonly #inDoubt = new Map<number, readonly PendingSetId[]>();
  readonly #starts = new ClaimStarts();
  /**
   * Deliveries in a row, as the last claim of a destination found them: no more rows are read and locked than
   * it is likely to need.
   */
  readonly #rowSizes = new Map<number, number>();

  /**
   * Owes new events inside the transaction that stores them. Resolves to one entry for each set: its id if it
   * is held, undefined if it is parked or empty.
   */
  async owe(transaction: Transaction, sets: readonly NewSet[]): Promise<(PendingSetId | undefined)[]> {
    const held: (PendingSetId | undefined)[] = [];
    const born: BornSet[] = [];
    const ids: PendingSetId[] = [];
    const grown = await this.#grow(transaction, sets);
    for (const set of sets) {
      const { destination, state, positions, now, origin } = set;
      held.push(undefined);
      transaction.balance.pending(destination, positions.length);
      if (positions.length === 0 || grown.has(set)) continue;
      const id = this.#nextId(transaction);
      const encoded = encodePositions(positions);
      const row = { destination, due: now, since: now, n: positions.length, encoded, origin };
      ids.push(id);
      if (state === 'parked') {
        born.push(row);
        this.#growing.set(growingKey(destination, origin), { id, since: now });
      } else {
        born.push({ ...row, owner: transaction.process });
        held[held.length - 1] = id;
      }
    }
    this.#insert(transaction, born, ids);
    return held;
  }

  /**
   * Adds parked deliveries to the row of the last second, so that an outage costs a row a second instead of a
   * row a commit. Such a row is nearly always one run, a few bytes long. Resolves to the sets that found a
   * row.
   */
  async #grow(transaction: Transaction, sets: readonly NewSet[]): Promise<ReadonlySet<NewSet>> {
    const fitting = new Map<PendingSetId, NewSet>();
    for (const set of sets) {
      const key = growingKey(set.destination, set.origin);
      const growing = set.state === 'parked' ? this.#growing.get(key) : undefined;
      if (growing && mayGrow(growing, set.now) && set.positions.length > 0) fitting.set(growing.id, set);
    }
    const grown = new Set<NewSet>();
    if (fitting.size === 0) return grown;
    const left: LeftSet[] = [];
    for (const row of await transaction.rows<PendingRow>(GROWING, [[...fitting.keys()]])) {
      const set = fitting.get(row.id)!;
      const encoded = withoutSetChecksum(row.destination, row.refs);
      const runs = encoded && RunEncoder.resume(encoded);
      if (runs === undefined || runs.size >= PARKED_MAX || runs.end > set.positions[0]!) continue;
      for (const position of set.positions) runs.add(position);
      left.push({ ...row, n: runs.size, encoded: runs.bytes() });
      grown.add(set);
    }
    rewrite(transaction, left);
    return grown;
  }

  /** Enqueues replayed or redelivered events. `positions` ascending, not empty. */
  requeue(
    transaction: Transaction,
    sets: readonly {
      readonly destination: number;
      readonly positions: readonly Position[];
      readonly origin?: string | undefined;
    }[],
    now: Monotonic,
  ): void {
    const born = sets.map(({ destination, positions, origin }) => ({
      destination,
      due: now,
      since: now,
      n: positions.length,
      encoded: encodePositions(positions),
      origin,
    }));
    for (const { destination, n } of born) transaction.balance.pending(destination, n);
    this.#insert(transaction, born);
  }

  /** Enqueues failed deliveries, to be claimed from `at` on. */
  scheduleRetries(transaction: Transaction, groups: Iterable<RetryGroup>): void {
    const born = Array.from(groups, ({ destination, at, origin, deliveries }) => {
      const since = earliestFailure(deliveries, at);
      return { destination, due: at, since, n: deliveries.length, encoded: encodeSet(deliveries), origin };
    });
    for (const { destination, n } of born) transaction.balance.pending(destination, n);
    this.#insert(transaction, born);
  }

  /** See `DeliveryQueue.claim`. One claim of a destination at a time. */
  claim(database: Database, request: ClaimRequest): Promise<Claim> {
    const { destination, now } = request;
    const earlier = this.#claims.get(destination);
    const claiming = (async () => {
      await earlier;
      const inDoubt = this.#inDoubt.get(destination) ?? [];
      let taken: readonly HeldDelivery[] = [];
      const start = this.#starts.of(destination, now);
      const work = async (transaction: Transaction) => {
        if (inDoubt.length > 0) transaction.later(PUT_BACK, [transaction.process, inDoubt]);
        const claimed = await this.#claim(transaction, request, start);
        taken = claimed.deliveries;
        return claimed;
      };
      try {
        const { deliveries, next } = await database.write(work);
        this.#inDoubt.delete(destination);
        const due = (await next)[0]!.due ?? undefined;
        this.#starts.move(destination, start, Math.min(due ?? now, now));
        return due === undefined ? { deliveries } : { deliveries, nextDueAt: due };
      } catch (error) {
        const sets = new Set(taken.map(({ set }) => set));
        if (error instanceof UnknownCommitError) this.#inDoubt.set(destination, [...inDoubt, ...sets]);
        throw error;
      }
    })();
    const ended = claiming.catch(() => undefined);
    this.#claims.set(destination, ended);
    void ended.then(() => {
      if (this.#claims.get(destination) === ended) this.#claims.delete(destination);
    });
    return claiming;
  }

  async #claim(transaction: Transaction, { destination, max, now }: ClaimRequest, { due }: ClaimStart) {
    const deliveries: ClaimedDelivery[] = [];
    const lost: LedgerCount[] = [];
    for (let room = max; room > 0; room = max - deliveries.length) {
      const likely = Math.ceil(room / (this.#rowSizes.get(destination) ?? 1)) + 1;
      const limit = Math.min(room, CLAIMED_ROWS, likely);
      const rows = await transaction.rows<PendingRow>(DUE, [destination, now, limit, due]);
      if (rows.length > 0)
        this.#rowSizes.set(destination, rows.reduce((sum, { n }) => sum + n, 0) / rows.length);
      const whole: PendingSetId[] = [];
      for (const row of rows) {
        if (deliveries.length === max) break;
        const encoded = setOf(row) ?? giveUp(transaction, row, lost);
        if (encoded === undefined) continue;
        const { taken, rest } = splitSet(encoded, max - deliveries.length);
        const id = rest === undefined ? row.id : this.#split(transaction, row, { taken, rest });
        if (rest === undefined) whole.push(id);
        const origin = row.origin === null ? {} : { origin: row.origin };
        for (const delivery of taken)
          deliveries.push({ set: id, delivery, ...origin, dueAt: isNew(delivery) ? row.due : undefined });
      }
      if (whole.length > 0) transaction.later(HOLD, [transaction.process, whole]);
      if (rows.length < limit) break;
    }
    countLost(transaction, lost);
    // Not awaited: the commit shares its round trip. When it fails, the commit says so.
    const next = transaction.rows<{ due: Monotonic | null }>(NEXT_DUE, [destination, due]);
    next.catch(() => undefined);
    return { deliveries, next };
  }

  /** See `DeliveryQueue.nextDue`. */
  async nextDue(database: Database): Promise<readonly NextDue[]> {
    const at = performance.now();
    const found = await database.read((read) => read.rows<NextDue>(ALL_NEXT_DUE));
    this.#starts.looked(found, at);
    return found;
  }

  /** See `DeliveryQueue.makeDue`. */
  async makeDue(transaction: Transaction, destination: number, now: Monotonic): Promise<number> {
    const [made] = await transaction.rows<{ n: number }>(MAKE_DUE, [destination, now]);
    this.#starts.lower(destination, now);
    return made!.n;
  }

  /** Sets were adopted. They keep the time from which they have been due. */
  adopted(): void {
    this.#starts.clear();
  }

  /** The rest keeps its row and its place in the order. The taken deliveries get a row of their own. */
  #split(
    transaction: Transaction,
    row: PendingRow,
    { taken, rest }: { readonly taken: readonly Delivery[]; readonly rest: Uint8Array },
  ): PendingSetId {
    rewrite(transaction, [{ ...row, n: row.n - taken.length, encoded: rest }]);
    const { destination, due, since, origin } = row;
    const facts = { destination, due, since, origin, owner: transaction.process };
    const [id] = this.#insert(transaction, [{ ...facts, n: taken.length, encoded: encodeSet(taken) }]);
    return id!;
  }

  #insert(transaction: Transaction, sets: readonly BornSet[], given?: PendingSetId[]): PendingSetId[] {
    const ids = given ?? sets.map(() => this.#nextId(transaction));
    if (sets.length === 0) return ids;
    for (const { destination, owner, due, n } of sets) {
      invariant(n > 0, 'a set for the database has a delivery');
      invariant(Number.isFinite(due), 'a set for the database is due at a time');
      if (owner === undefined) this.#starts.lower(destination, due);
    }
    const summaries = sets.map(({ encoded }) => summaryOf(encoded));
    transaction.later(INSERT, [
      ids,
      sets.map(({ destination }) => destination),
      sets.map(({ owner }) => owner ?? null),
      sets.map(({ due }) => due),
      sets.map(({ since }) => since),
      summaries.map(({ first }) => first),
      summaries.map(({ last }) => last),
      sets.map(({ n }) => n),
      summaries.map(({ tried }) => tried),
      sets.map(({ destination, encoded }) => withSetChecksum(destination, encoded)),
      sets.map(({ origin }) => origin ?? null),
    ]);
    return ids;
  }

  /** Ids are never reused: each process counts in a range of its own. */
  #nextId({ process }: Transaction): PendingSetId {
    return process * SETS_PER_PROCESS + this.#born++;
  }
}

/** A set with what is left of it. */
type LeftSet = Pick<PendingRow, 'id' | 'destination' | 'since' | 'n'> & { readonly encoded: Uint8Array };

function rewrite(transaction: Transaction, sets: readonly LeftSet[]): void {
  if (sets.length === 0) return;
  const summaries = sets.map(({ encoded }) => summaryOf(encoded));
  transaction.later(REWRITE, [
    sets.map(({ id }) => id),
    sets.map(({ since }) => since),
    summaries.map(({ first }) => first),
    summaries.map(({ last }) => last),
    sets.map(({ n }) => n),
    summaries.map(({ tried }) => tried),
    sets.map(({ destination, encoded }) => withSetChecksum(destination, encoded)),
  ]);
}

/** Leaves only these deliveries in their rows, and deletes a row that has none left. */
export function leave(
  transaction: Transaction,
  sets: readonly (Pick<PendingRow, 'id' | 'destination' | 'since'> & {
    readonly left: readonly Delivery[];
  })[],
): void {
  const done = sets.filter(({ left }) => left.length === 0).map(({ id }) => id);
  if (done.length > 0) transaction.later(DELETE, [done]);
  const others = sets.filter(({ left }) => left.length > 0);
  rewrite(
    transaction,
    others.map((set) => ({ ...set, n: set.left.length, encoded: encodeSet(set.left) })),
  );
}

/** The rows of these sets that this process holds, locked until the commit. */
export function heldRows(transaction: Transaction, sets: readonly PendingSetId[]): Promise<PendingRow[]> {
  return transaction.rows(MINE, [sets, transaction.process]);
}

/** Takes out deliveries whose retry window is over, a few rows at a time; empty only when none is left. */
export async function takeExpired(
  transaction: Transaction,
  destination: number,
  before: Monotonic,
): Promise<DeadDeliveries[]> {
  for (;;) {
    const values = [destination, before, EXPIRED_ROWS];
    const rows = await transaction.rows<PendingRow>(EXPIRED, values);
    const lost: LedgerCount[] = [];
    const expired = rows.flatMap((row) => {
      const encoded = setOf(row) ?? giveUp(transaction, row, lost);
      if (encoded === undefined) return [];
      const { taken, left, since } = expireIn(row, encoded, before);
      leave(transaction, [{ ...row, since, left }]);
      if (taken !== undefined) transaction.balance.pending(destination, -taken.n);
      return taken ?? [];
    });
    countLost(transaction, lost);
    if (expired.length > 0 || rows.length === 0) return expired;
  }
}

/** Takes out the deliveries from a position on and below another that no process holds. */
export async function takeBetween(
  transaction: Transaction,
  from: Position,
  below: Position,
): Promise<DeadDeliveries[]> {
  const isBetween = ({ position }: Delivery) => position >= from && position < below;
  return takeFromAll(transaction, await transaction.rows<PendingRow>(BELOW, [below]), isBetween);
}

/** The lowest position from one on and below another that is pending; undefined when none is. */
export async function lowestPending(
  transaction: Transaction,
  from: Position,
  below: Position,
): Promise<Position | undefined> {
  const [row] = await transaction.rows<{ first: Position | null }>(LOWEST, [from, below]);
  return row!.first ?? undefined;
}

/**
 * Takes these positions out of every set, whoever holds it. Resolves to the number of deliveries by
 * destination.
 */
export async function erasePending(
  transaction: Transaction,
  positions: ReadonlySet<Position>,
): Promise<Map<number, number>> {
  const erased = new Map<number, number>();
  if (positions.size === 0) return erased;
  const sorted = [...positions].sort((a, b) => a - b);
  const rows = await transaction.rows<PendingRow>(BETWEEN, [sorted[0], sorted.at(-1)]);
  const isErased = ({ position }: Delivery) => positions.has(position);
  for (const { destination, n } of takeFromAll(transaction, rows, isErased))
    erased.set(destination, (erased.get(destination) ?? 0) + n);
  return erased;
}

function takeFromAll(
  transaction: Transaction,
  rows: readonly PendingRow[],
  isTaken: (delivery: Delivery) => boolean,
): DeadDeliveries[] {
  return rows.flatMap((row) => {
    const found = takeFrom(row, isTaken);
    if (found === undefined) return [];
    leave(transaction, [{ ...row, left: found.left }]);
    transaction.balance.pending(row.destination, -found.taken.n);
    return found.taken;
  });
}

/** Deletes a row that cannot be read, and counts its deliveries. */
function giveUp(transaction: Transaction, row: PendingRow, lost: LedgerCount[]): undefined {
  transaction.later(DELETE, [[row.id]]);
  lost.push(lostWith(row));
}
