import type { Position } from '../../model/event.ts';
import type { Duration, Time } from '../../model/time.ts';
import type { Retention } from '../../ports/event-log.ts';
import type { AcceptedAttempts } from './accepted.ts';
import type { Batches } from './batches.ts';
import type { Chunk } from './chunk-codec.ts';
import { type ChunkFacts, type Chunks, IDS_ONLY, REMNANT } from './chunks.ts';
import type { DamageAvoided } from './damage.ts';
import type { Buried, Failures } from './failures.ts';
import type { Keys } from './keys.ts';
import type { Marks } from './marks.ts';
import type { Pending } from './pending.ts';
import { withIdsOnly } from './rewrite.ts';
import type { Space } from './space.ts';

/** Chunks that go in one slice. */
const SLICE = 8;

/** Facts of chunks past their retention that are looked at in one slice. */
const REMNANTS = 256;

export interface RetainingParts {
  readonly chunks: Chunks;
  readonly keys: Keys;
  readonly pending: Pending;
  readonly failures: Failures;
  readonly accepted: AcceptedAttempts;
  readonly batches: Batches;
  readonly marks: Marks;
  readonly space: Space;
  readonly avoided: DamageAvoided;
  /** How long a messageId is remembered where nobody says. */
  readonly dedupeWindow: Duration;
  /** Of chunks that end there or before. */
  readonly forgetDamage: (position: Position) => void;
  /** Writes dead letters and counts them. */
  readonly bury: (sets: readonly Buried[], reason: string, at: Time) => void;
}

/**
 * Lets go of what is older than its retention, or beyond the space allowed. Nothing disappears without a trace: what is
 * still owed of an event dies with a reason in the same commit, and events of dead letters stay readable, as the only
 * lines of their chunk, for as long as the dead letters are kept. A messageId outlives its event for as long as a duplicate
 * would be one, because dedupe promises a time and not a number of bytes.
 */
export class Retaining {
  readonly #parts: RetainingParts;
  /** Below it no chunk holds events of dead letters. Found anew after a restart. */
  #remnantsFrom: Position = 0;
  /** Below it no chunk is left for its messageIds alone. */
  #idsFrom: Position = 0;

  constructor(parts: RetainingParts) {
    this.#parts = parts;
  }

  /** Does one slice inside the caller's transaction. False when there is nothing to let go of now. */
  step(now: Time, retention: Retention): boolean {
    const { keys, accepted, failures, marks } = this.#parts;
    const idsSince = now - (retention.messageIds ?? this.#parts.dedupeWindow);
    const { avoided } = this.#parts;
    const oldDeadLetters = now - retention.deadLetters;
    const steps: readonly (readonly [string, () => boolean])[] = [
      ['retention of events', () => this.#dropOld(now, retention.events, idsSince)],
      ['limits.disk', () => this.#dropForSpace(now, retention.disk, idsSince)],
      ['retention of messageIds', () => this.#dropIds(idsSince)],
      ['retention of keys', () => keys.drop(Math.min(this.#idsFrom, marks.retainedFrom))],
      ['retention of attempts', () => accepted.dropBelow(marks.retainedFrom)],
      ['retention of dead letters', () => this.#dropRemnants(now, oldDeadLetters, idsSince)],
      ['retention of failures', () => failures.dropBefore(oldDeadLetters, marks.retainedFrom)],
    ];
    return steps.some(([name, step]) => avoided.guarded(name, step));
  }

  #dropOld(now: Time, events: Duration, idsSince: Time): boolean {
    const { chunks, marks, failures } = this.#parts;
    const candidates = chunks.factsFrom(marks.retainedFrom, SLICE);
    // The first that must stay ends it: what is behind is younger, or the clock was set back and it waits its turn.
    const stays = candidates.findIndex(({ until }) => until >= now - events);
    return this.#letGo(stays < 0 ? candidates : candidates.slice(0, stays), now, (chunk) => {
      this.#reduce(chunk, failures.deadBetween(chunk.first, chunk.first + chunk.n), idsSince);
    });
  }

  /** Beyond the space allowed: what is kept for dead letters goes first, then the oldest events, one chunk at a time. */
  #dropForSpace(now: Time, disk: number | undefined, idsSince: Time): boolean {
    if (disk === undefined || this.#parts.space.used() <= disk) return false;
    const { chunks, marks } = this.#parts;
    return (
      this.#dropRemnants(now, Number.POSITIVE_INFINITY, idsSince) ||
      this.#letGo(chunks.factsFrom(marks.retainedFrom, 1), now, (chunk) =>
        this.#reduce(chunk, new Set(), idsSince),
      )
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
    for (const { first, isDamaged } of going) {
      const chunk = isDamaged ? undefined : chunks.at(first);
      // A damaged row stays: to delete it SQLite would follow its pages, and they may lead into others.
      if (chunk === undefined) continue;
      if (chunk.origin !== undefined) batches.keep(chunk.origin);
      drop(chunk);
    }
    marks.retainedFrom = cut;
    this.#parts.forgetDamage(cut);
    return true;
  }

  /** Leaves of a chunk the events of dead letters, and the messageIds that a duplicate may still come for. */
  #reduce(chunk: Chunk, dead: ReadonlySet<Position>, idsSince: Time): void {
    const { chunks } = this.#parts;
    const hasIds = chunk.times.some((time) => time > idsSince);
    if (dead.size === 0 && !hasIds) chunks.delete(chunk);
    else {
      const left = withIdsOnly(chunk, {
        keepsEvent: (position) => dead.has(position),
        keepsId: (time) => time > idsSince,
      });
      chunks.put(chunk.first, left, dead.size > 0 ? REMNANT : IDS_ONLY);
    }
  }

  /** What was owed of their events once more, and is not delivered yet, dies with them. */
  #dropRemnants(now: Time, before: Time, idsSince: Time): boolean {
    const { chunks, marks, pending, bury } = this.#parts;
    for (const facts of chunks.factsFrom(this.#remnantsFrom, REMNANTS)) {
      if (facts.first >= marks.retainedFrom) return false;
      if (facts.stage === REMNANT && !facts.isDamaged) {
        if (facts.until >= before) return false;
        const end = facts.first + facts.n;
        bury(pending.buryBetween(facts.first, end), 'retention_over', now);
        const chunk = chunks.at(facts.first);
        if (chunk !== undefined) this.#reduce(chunk, new Set(), idsSince);
        this.#remnantsFrom = end;
        return true;
      }
      this.#remnantsFrom = facts.first + facts.n;
    }
    return false;
  }

  /** Drops messageIds of which no duplicate can come any more. */
  #dropIds(idsSince: Time): boolean {
    const { chunks, marks } = this.#parts;
    for (const { first, n, until, stage, isDamaged } of chunks.factsFrom(this.#idsFrom, REMNANTS)) {
      if (first >= marks.retainedFrom) return false;
      if (stage === IDS_ONLY && !isDamaged) {
        if (until > idsSince) return false;
        chunks.delete({ first, n });
        this.#idsFrom = first + n;
        return true;
      }
      // The messageIds of a remnant go with its dead letters.
      this.#idsFrom = first + n;
    }
    return false;
  }
}
