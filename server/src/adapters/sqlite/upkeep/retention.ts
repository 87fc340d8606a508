import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import type { Duration, Time } from '../../../model/time.ts';
import type { Retention } from '../../../ports/event-log.ts';
import type { DamageTable, Quarantine } from '../damage.ts';
import type { Watermarks } from '../installation.ts';
import type { Chunk } from '../log/chunk-codec.ts';
import { type ChunkFacts, type Chunks, IDS_ONLY, REMNANT } from '../log/chunks.ts';
import type { RecentBatches } from '../log/dedupe.ts';
import type { KeyIndex } from '../log/key-index.ts';
import type { QueueTables } from '../queue/queue-tables.ts';
import { reduceToIds } from './compaction.ts';

/** Chunks that go in one slice. */
const SLICE_CHUNKS = 8;

/** Facts of chunks past their retention that are looked at in one slice. */
const SLICE_HEADERS = 256;

export interface RetentionDependencies {
  readonly chunks: Chunks;
  readonly keys: KeyIndex;
  readonly queue: QueueTables;
  readonly batches: RecentBatches;
  readonly marks: Watermarks;
  readonly space: FileSpace;
  readonly damage: DamageTable;
  readonly avoided: Quarantine;
  /** How long a messageId is remembered where nobody says. */
  readonly dedupeWindow: Duration;
}

/**
 * Lets go of what is older than its retention, or beyond the space allowed. Nothing disappears without a trace: what is
 * still owed of an event dies with a reason in the same commit, and events of dead letters stay readable, as the only
 * lines of their chunk, for as long as the dead letters are kept. A messageId outlives its event for as long as a duplicate
 * would be one, because dedupe promises a time and not a number of bytes.
 */
export class RetentionSweep {
  readonly #parts: RetentionDependencies;
  /** Below it no chunk holds events of dead letters. Found anew after a restart. */
  #remnantsFrom: Position = 0;
  /** Below it no chunk is left for its messageIds alone. */
  #idsFrom: Position = 0;

  constructor(parts: RetentionDependencies) {
    this.#parts = parts;
  }

  /** Does one slice inside the caller's transaction. False when there is nothing to let go of now. */
  step(now: Time, retention: Retention): boolean {
    const { keys, queue, marks } = this.#parts;
    const idsSince = now - (retention.messageIds ?? this.#parts.dedupeWindow);
    const { avoided } = this.#parts;
    const oldDeadLetters = now - retention.deadLetters;
    const steps: readonly (readonly [string, () => boolean])[] = [
      ['retention of events', () => this.#dropOld(now, retention.events, idsSince)],
      ['limits.disk', () => this.#dropForSpace(now, retention.disk, idsSince)],
      ['retention of messageIds', () => this.#dropIds(idsSince)],
      ['retention of keys', () => keys.dropOldestRun(Math.min(this.#idsFrom, marks.retainedFrom))],
      ['retention of attempts', () => queue.accepted.dropBelow(marks.retainedFrom)],
      ['retention of dead letters', () => this.#dropRemnants(now, oldDeadLetters, idsSince)],
      ['retention of failures', () => queue.failures.dropBefore(oldDeadLetters, marks.retainedFrom)],
    ];
    return steps.some(([name, step]) => avoided.guard(name, step));
  }

  #dropOld(now: Time, events: Duration, idsSince: Time): boolean {
    const { chunks, marks, queue } = this.#parts;
    const candidates = chunks.factsFrom(marks.retainedFrom, SLICE_CHUNKS);
    // The first that must stay ends it: what is behind is younger, or the clock was set back and it waits its turn.
    const stays = candidates.findIndex(({ until }) => until >= now - events);
    return this.#letGo(stays < 0 ? candidates : candidates.slice(0, stays), now, (chunk) => {
      this.#reduce(chunk, queue.failures.deadBetween(chunk.first, chunk.first + chunk.n), idsSince);
    });
  }

  /** Beyond the space allowed: what is kept for dead letters goes first, then the oldest events, one chunk at a time. */
  #dropForSpace(now: Time, disk: number | undefined, idsSince: Time): boolean {
    if (disk === undefined || this.#parts.space.usedBytes() <= disk) return false;
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
    const { chunks, marks, queue, batches } = this.#parts;
    // What this process is delivering from memory goes first to its end. The newest row stays: it says where to go on.
    const end = Math.min(queue.pending.held.lowestFrom(marks.retainedFrom), chunks.firstOfBatches(1));
    const going = candidates.filter(({ first, n }) => first + n <= end);
    const last = going.at(-1);
    if (last === undefined) return false;
    const cut = last.first + last.n;
    this.#deadLetterBetween(marks.retainedFrom, cut, now);
    for (const { first, isDamaged } of going) {
      const chunk = isDamaged ? undefined : chunks.at(first);
      // A damaged row stays: to delete it SQLite would follow its pages, and they may lead into others.
      if (chunk === undefined) continue;
      if (chunk.batchAnswer !== undefined) batches.keepAnswer(chunk.batchAnswer);
      drop(chunk);
    }
    marks.retainedFrom = cut;
    this.#parts.damage.forgetBelow(cut);
    return true;
  }

  /** Makes dead letters of what is owed from a position on and below another. */
  #deadLetterBetween(from: Position, end: Position, at: Time): void {
    const { pending, settler } = this.#parts.queue;
    for (const set of pending.removeBetween(from, end))
      settler.deadLetter({ ...set, reason: 'retention_over', at });
  }

  /** Leaves of a chunk the events of dead letters, and the messageIds that a duplicate may still come for. */
  #reduce(chunk: Chunk, dead: ReadonlySet<Position>, idsSince: Time): void {
    const { chunks } = this.#parts;
    const hasIds = chunk.times.some((time) => time > idsSince);
    if (dead.size === 0 && !hasIds) chunks.delete(chunk);
    else {
      const left = reduceToIds(chunk, {
        keepsEvent: (position) => dead.has(position),
        keepsId: (time) => time > idsSince,
      });
      chunks.put(chunk.first, left, dead.size > 0 ? REMNANT : IDS_ONLY);
    }
  }

  /** What was owed of their events once more, and is not delivered yet, dies with them. */
  #dropRemnants(now: Time, before: Time, idsSince: Time): boolean {
    const { chunks, marks } = this.#parts;
    for (const facts of chunks.factsFrom(this.#remnantsFrom, SLICE_HEADERS)) {
      if (facts.first >= marks.retainedFrom) return false;
      if (facts.stage === REMNANT && !facts.isDamaged) {
        if (facts.until >= before) return false;
        const end = facts.first + facts.n;
        this.#deadLetterBetween(facts.first, end, now);
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
    for (const { first, n, until, stage, isDamaged } of chunks.factsFrom(this.#idsFrom, SLICE_HEADERS)) {
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

/** Pages given back in one slice: a quarter of a megabyte. */
const SLICE_PAGES = 64;

/** Free pages below this are left for new events: giving them back would only make the file shrink and grow. */
const KEEP_PAGES = 256;
const KEEP_SHARE = 0.1;

/** The pages of the file. Free pages stay in it until they are given back, a few at a time. */
export class FileSpace {
  readonly #database: DatabaseSync;
  readonly #pageCount: StatementSync;
  readonly #freeCount: StatementSync;
  readonly #pageSize: number;

  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#pageCount = database.prepare('select page_count as n from pragma_page_count');
    this.#freeCount = database.prepare('select freelist_count as n from pragma_freelist_count');
    this.#pageSize = (database.prepare('pragma page_size').get() as { page_size: number }).page_size;
  }

  /** Bytes in use, free pages not counted. */
  usedBytes(): number {
    return (this.#count(this.#pageCount) - this.#count(this.#freeCount)) * this.#pageSize;
  }

  /** Bytes of the file. */
  fileBytes(): number {
    return this.#count(this.#pageCount) * this.#pageSize;
  }

  /**
   * Gives back one slice of free pages inside the caller's transaction. False when there are few, and the file is not
   * larger than it may be (`limit`, bytes).
   */
  vacuum(limit = Number.POSITIVE_INFINITY): boolean {
    const free = this.#count(this.#freeCount);
    const pages = this.#count(this.#pageCount);
    const few = free <= Math.max(KEEP_PAGES, pages * KEEP_SHARE);
    if (free === 0 || (few && pages * this.#pageSize <= limit)) return false;
    this.#database.exec(`pragma incremental_vacuum(${SLICE_PAGES})`);
    return true;
  }

  /** Free pages; what was deleted may still stand in them. */
  freePages(): number {
    return this.#count(this.#freeCount);
  }

  /** Gives back a larger slice, whether it is worth it or not. */
  vacuumMore(): void {
    this.#database.exec(`pragma incremental_vacuum(${SLICE_PAGES * 4})`);
  }

  #count(statement: StatementSync): number {
    return (statement.get() as { n: number }).n;
  }
}
