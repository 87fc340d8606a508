import type { Time } from '../../model/time.ts';
import type { Retention } from '../../ports/event-log.ts';
import type { AcceptedAttempts } from './accepted.ts';
import type { Batches } from './batches.ts';
import { type Chunk, type ChunkFacts, type Chunks, REMNANT } from './chunks.ts';
import type { Buried, Failures } from './failures.ts';
import type { Keys } from './keys.ts';
import type { Marks } from './marks.ts';
import type { Pending } from './pending.ts';
import { withoutLines } from './rewrite.ts';
import type { Space } from './space.ts';

/** Chunks that go in one slice. */
const SLICE = 8;

export interface RetainingParts {
  readonly chunks: Chunks;
  readonly keys: Keys;
  readonly pending: Pending;
  readonly failures: Failures;
  readonly accepted: AcceptedAttempts;
  readonly batches: Batches;
  readonly marks: Marks;
  readonly space: Space;
  /** Writes dead letters and counts them. */
  readonly bury: (sets: readonly Buried[], reason: string, at: Time) => void;
}

/**
 * Lets go of what is older than its retention, or beyond the space allowed. Nothing disappears without a trace: what is
 * still owed of an event dies with a reason in the same commit, and events of dead letters stay readable, as the only
 * lines of their chunk, for as long as the dead letters are kept.
 */
export class Retaining {
  readonly #parts: RetainingParts;

  constructor(parts: RetainingParts) {
    this.#parts = parts;
  }

  /** Does one slice inside the caller's transaction. False when there is nothing to let go of now. */
  step(now: Time, retention: Retention): boolean {
    return (
      this.#dropOld(now, retention) ||
      this.#dropForSpace(now, retention) ||
      this.#parts.keys.drop(this.#parts.marks.retainedFrom) ||
      this.#parts.accepted.dropBelow(this.#parts.marks.retainedFrom) ||
      this.#dropRemnants(now, now - retention.deadLetters) ||
      this.#parts.failures.dropBefore(now - retention.deadLetters, this.#parts.marks.retainedFrom)
    );
  }

  #dropOld(now: Time, { events }: Retention): boolean {
    const { chunks, marks } = this.#parts;
    const candidates = chunks.factsFrom(marks.retainedFrom, SLICE);
    // The first that must stay ends it: what is behind is younger, or the clock was set back and it waits its turn.
    const stays = candidates.findIndex(({ until }) => until >= now - events);
    return this.#letGo(stays < 0 ? candidates : candidates.slice(0, stays), now, (chunk) =>
      this.#keepDeadLetters(chunk),
    );
  }

  /** Beyond the space allowed: what is kept for dead letters goes first, then the oldest events, one chunk at a time. */
  #dropForSpace(now: Time, { disk }: Retention): boolean {
    if (disk === undefined || this.#parts.space.used() <= disk) return false;
    const { chunks, marks } = this.#parts;
    return (
      this.#dropRemnants(now, Number.POSITIVE_INFINITY) ||
      this.#letGo(chunks.factsFrom(marks.retainedFrom, 1), now, ({ first }) => chunks.delete(first))
    );
  }

  /** Buries what is still owed of these chunks and lets `drop` remove them. */
  #letGo(candidates: readonly ChunkFacts[], now: Time, drop: (chunk: Chunk) => void): boolean {
    const { chunks, marks, pending, batches, bury } = this.#parts;
    // What this process is delivering from memory goes first to its end. The newest row stays: it says where to go on.
    const end = Math.min(pending.held.lowestFrom(marks.retainedFrom), chunks.firstOfBatches(1));
    const going = candidates.filter(({ first, n }) => first + n <= end);
    const last = going.at(-1);
    if (last === undefined) return false;
    const cut = last.first + last.n;
    bury(pending.buryBetween(marks.retainedFrom, cut), 'retention_over', now);
    for (const { first } of going) {
      const chunk = chunks.at(first)!;
      if (chunk.origin !== undefined) batches.keep(chunk.origin);
      drop(chunk);
    }
    marks.retainedFrom = cut;
    return true;
  }

  #keepDeadLetters(chunk: Chunk): void {
    const { chunks, failures } = this.#parts;
    const dead = failures.deadBetween(chunk.first, chunk.first + chunk.n);
    if (dead.size === 0) chunks.delete(chunk.first);
    else
      chunks.put(
        chunk.first,
        withoutLines(chunk, (position) => !dead.has(position)),
        REMNANT,
      );
  }

  /** What was owed of them once more, and is not delivered yet, dies with them. */
  #dropRemnants(now: Time, before: Time): boolean {
    const { chunks, marks, pending, bury } = this.#parts;
    const oldest = chunks.oldest();
    if (oldest === undefined || oldest.first >= marks.retainedFrom || oldest.until >= before) return false;
    bury(pending.buryBetween(oldest.first, oldest.first + oldest.n), 'retention_over', now);
    chunks.delete(oldest.first);
    return true;
  }
}
