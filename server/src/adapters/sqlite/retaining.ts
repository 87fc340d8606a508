import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { Retention } from '../../ports/event-log.ts';
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
      this.#dropChunks(now, retention) ||
      this.#parts.keys.drop(this.#parts.marks.retainedFrom) ||
      this.#dropRemnants(now - retention.deadLetters) ||
      this.#parts.failures.dropBefore(now - retention.deadLetters)
    );
  }

  #dropChunks(now: Time, { events, disk }: Retention): boolean {
    const { chunks, marks, pending, space } = this.#parts;
    const full = disk !== undefined && space.used() > disk;
    const young = now - events;
    const candidates = chunks.factsFrom(marks.retainedFrom, SLICE);
    const old = full ? candidates : candidates.filter(({ until }) => until < young);
    // What this process is delivering from memory goes first to its end.
    const lowestHeld = pending.lowestHeld();
    const going = old.filter(
      ({ first, n }) => first + n <= Math.min(lowestHeld, this.#parts.chunks.firstOfNewest(1)),
    );
    const last = going.at(-1);
    if (last === undefined) return false;
    const cut = last.first + last.n;
    this.#parts.bury(pending.buryBelow(cut), 'retention_over', now);
    for (const facts of going) this.#drop(facts);
    marks.retainedFrom = cut;
    return true;
  }

  #drop({ first, n }: ChunkFacts): void {
    const { chunks, failures } = this.#parts;
    const dead = failures.deadBetween(first, first + n);
    if (dead.size === 0) {
      chunks.delete(first);
      return;
    }
    const chunk: Chunk = chunks.at(first)!;
    const goes = (position: Position) => !dead.has(position);
    chunks.put(first, withoutLines(chunk, goes), REMNANT);
  }

  #dropRemnants(before: Time): boolean {
    const { chunks, marks } = this.#parts;
    const oldest = chunks.oldest();
    if (oldest === undefined || oldest.first >= marks.retainedFrom || oldest.until >= before) return false;
    chunks.delete(oldest.first);
    return true;
  }
}
