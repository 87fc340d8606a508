import type { Delivery } from '../../../model/delivery.ts';
import type { Position } from '../../../model/event.ts';
import type { Monotonic } from '../../../model/time.ts';
import type { PendingSetId } from '../../../ports/delivery-queue.ts';
import type { LedgerCount } from '../ledger.ts';
import {
  decodeSet,
  earliestFailure,
  encodePositions,
  encodeSet,
  hasRecords,
  withoutSetChecksum,
} from '../pending-set.ts';
import type { DeadDeliveries } from '../results.ts';

/**
 * Decisions of both stores about rows of table "pending". The stores read the rows and write what is decided
 * here.
 */

/** Parked rows stop growing here, so that a claim does not decode many times what it hands out. */
export const PARKED_MAX = 20_000;
const PARKED_SPAN: Monotonic = 1000;

/** Rows expired in one slice. */
export const EXPIRED_ROWS = 32;

/** A row of table "pending"; `refs` is the set with its checksum. */
export interface PendingRow {
  readonly id: PendingSetId;
  readonly destination: number;
  readonly due: Monotonic;
  /** From when the retry window of its oldest delivery counts: its first failure, or its parking. */
  readonly since: Monotonic;
  readonly first: Position;
  readonly last: Position;
  readonly n: number;
  /** How many of the n were tried before. */
  readonly tried: number;
  readonly origin: string | null;
  readonly refs: Uint8Array;
}

/**
 * Whether the row of a second takes deliveries that are parked now. After a clock was set back, they must not
 * hide behind later ones.
 */
export function mayGrow({ since }: { readonly since: Monotonic }, now: Monotonic): boolean {
  return now >= since && now < since + PARKED_SPAN;
}

/**
 * The key of the row that grows. Deliveries of calls, which are nearly all, have no origin and need no text
 * made.
 */
export function growingKey(destination: number, origin: string | null | undefined): number | string {
  return origin === undefined || origin === null ? destination : `${destination} ${origin}`;
}

/**
 * The set of a row. A damaged one is made anew from the other columns, if its deliveries were never tried and
 * have no gaps; otherwise undefined.
 */
export function setOf({ destination, refs, n, first, last, tried }: PendingRow): Uint8Array | undefined {
  const encoded = withoutSetChecksum(destination, refs);
  if (encoded !== undefined || tried > 0 || n !== last - first + 1 || n > PARKED_MAX) return encoded;
  return encodePositions(Array.from({ length: n }, (_, index) => first + index));
}

/**
 * The count for a row whose set cannot be read. The row goes, so that those behind it are delivered; only the
 * number of its deliveries is known.
 */
export function lostWith({ destination, n }: PendingRow): LedgerCount {
  return { scope: 'destination', id: destination, name: 'dead:event_damaged', n };
}

/** The outcome of taking deliveries out of a row. */
export interface TakenFromRow {
  /** The deliveries that stay, in their order; without any the row is deleted. */
  readonly left: readonly Delivery[];
  /** See `PendingRow.since`. */
  readonly since: Monotonic;
  /** The deliveries that were taken out; absent where none was. */
  readonly taken?: DeadDeliveries;
}

/** Takes these deliveries out; undefined where the row holds none of them, or cannot be read. */
export function takeFrom(
  row: PendingRow,
  isTaken: (delivery: Delivery) => boolean,
): Required<TakenFromRow> | undefined {
  const encoded = setOf(row);
  if (encoded === undefined) return undefined;
  const { destination, origin, since } = row;
  const deliveries = decodeSet(encoded);
  const goes = deliveries.filter(isTaken);
  if (goes.length === 0) return undefined;
  const left = deliveries.filter((delivery) => !isTaken(delivery));
  return { left, since, taken: { destination, origin, n: goes.length, encoded: encodeSet(goes) } };
}

/**
 * Takes out of a row that is too old the deliveries whose retry window is over. A parked row goes whole. A
 * row of retries is split, because each delivery has a first failure of its own; its `since` may be that of a
 * delivery that has left it long ago.
 */
export function expireIn(row: PendingRow, encoded: Uint8Array, before: Monotonic): TakenFromRow {
  const { destination, due, n, origin } = row;
  const deliveries = hasRecords(encoded) ? decodeSet(encoded) : [];
  const isOld = (delivery: Delivery) => (delivery.firstFailedAt ?? due) < before;
  const left = deliveries.filter((delivery) => !isOld(delivery));
  const since = earliestFailure(left, due);
  if (left.length === 0) return { left, since, taken: { destination, n, origin, encoded } };
  const old = deliveries.filter(isOld);
  if (old.length === 0) return { left, since };
  return { left, since, taken: { destination, n: old.length, origin, encoded: encodeSet(old) } };
}
