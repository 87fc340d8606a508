import { invariant } from '../../../model/invariant.ts';
import { type Duration, type Monotonic, SECOND } from '../../../model/time.ts';
import type { NextDue } from '../../../ports/delivery-queue.ts';

/** The next claim finds a row that becomes visible later than others by at most this. */
const MARGIN: Duration = 2 * SECOND;

/** Milliseconds after which a claim begins at the beginning again, if nobody has looked there meanwhile. */
const LOOK_WITHIN = 5000;

/** Before every due time. */
const BEGINNING: Monotonic = Number.MIN_SAFE_INTEGER;

/** Where claims of a destination begin. */
interface Start {
  readonly due: Monotonic;
  /** When this process last looked at everything that is due before, by `performance.now`. */
  readonly lookedAt: number;
}

/** Where a claim begins. */
export interface ClaimStart extends Start {
  /** The entry of the destination when the claim began. */
  readonly known: Start | undefined;
}

/**
 * From which due time on a claim looks for rows, by destination.
 *
 * Rows that were claimed stay in the index, dead, for as long as an older transaction is open, such as a dump
 * or a session that somebody forgot. A claim from the beginning passes over each of them again. So it begins
 * a little before the first row that the one before left.
 *
 * A row that this process makes due earlier moves the start back. Rows of others (late commits, sets of a
 * dead process) are found by `DeliveryQueue.nextDue`, which always looks from the beginning, and which nodes
 * ask every three seconds; without it, claims look there themselves every five seconds.
 */
export class ClaimStarts {
  readonly #starts = new Map<number, Start>();
  #lookedAt = Number.NEGATIVE_INFINITY;

  /** Where a claim of what is due at `now` begins. */
  of(destination: number, now: Monotonic): ClaimStart {
    const known = this.#starts.get(destination);
    const lookedAt = Math.max(this.#lookedAt, known?.lookedAt ?? this.#lookedAt);
    const isFresh = performance.now() - lookedAt < LOOK_WITHIN;
    if (known !== undefined && known.due <= now && isFresh) return { due: known.due, lookedAt, known };
    return { due: BEGINNING, lookedAt: performance.now(), known };
  }

  /**
   * A claim that began there has left nothing that is due before `first`. What was found meanwhile to be due
   * earlier still is.
   */
  move(destination: number, { lookedAt, known }: ClaimStart, first: Monotonic): void {
    invariant(!Number.isNaN(first), 'claims of a lane begin at a time');
    const now = this.#starts.get(destination);
    if (now === undefined && known !== undefined) return;
    const lowered = now === known ? Number.POSITIVE_INFINITY : now!.due;
    this.#starts.set(destination, { due: Math.min(first - MARGIN, lowered), lookedAt });
  }

  /** Something may be due that early. */
  lower(destination: number, due: Monotonic): void {
    invariant(!Number.isNaN(due), 'what is due earlier is due at a time');
    const known = this.#starts.get(destination);
    if (known !== undefined && due < known.due) this.#starts.set(destination, { ...known, due });
  }

  /** Somebody looked from the beginning, at that time by `performance.now`. */
  looked(found: readonly NextDue[], at: number): void {
    for (const { destination, nextDueAt } of found) this.lower(destination, nextDueAt);
    this.#lookedAt = Math.max(this.#lookedAt, at);
  }

  /** Anything may be due. */
  clear(): void {
    this.#starts.clear();
  }
}
