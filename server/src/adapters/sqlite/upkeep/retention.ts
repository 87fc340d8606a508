import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import type { Duration, Monotonic } from '../../../model/time.ts';
import type { Retention } from '../../../ports/event-log.ts';
import type { Chunk } from '../../encoding/chunk-codec.ts';
import { IDS_ONLY, REMNANT } from '../../encoding/chunk-lines.ts';
import type { ChunkFacts } from '../../encoding/chunk-merge.ts';
import { remnantOf } from '../../encoding/decisions/retention.ts';
import type { DamageTable } from '../damage.ts';
import { USERS_FILE } from '../data-folder/files.ts';
import type { Watermarks } from '../installation.ts';
import type { Chunks, RecentBatches } from '../log/chunks.ts';
import type { KeyIndex } from '../log/key-index.ts';
import type { QueueTables } from '../queue/queue-tables.ts';

/** Chunks dropped in one slice. */
const SLICE_CHUNKS = 8;

/** Facts of chunks past their retention that one slice reads. */
const SLICE_FACTS = 256;

/** A kind of background work. `Damage.others` shows the name of a step that met damage. */
export interface UpkeepStep {
  readonly name: string;
  /** Does one slice inside the caller's transaction. False when there is nothing to do now. */
  readonly run: (now: Monotonic, retention: Retention) => boolean;
}

export interface RetentionDependencies {
  readonly chunks: Chunks;
  readonly keys: KeyIndex;
  readonly queue: QueueTables;
  readonly batches: RecentBatches;
  readonly watermarks: Watermarks;
  readonly space: FileSpace;
  readonly damage: DamageTable;
  /** How long a messageId is remembered when `Retention.messageIds` is absent. */
  readonly dedupeWindow: Duration;
}

/**
 * Drops events past their retention, or beyond `limits.disk`. Nothing disappears without a trace. Deliveries
 * still owed of an event become dead letters in the same commit. Events of dead letters stay readable, as the
 * only lines of their chunk, as long as the dead letters are kept. A messageId stays until its dedupe window
 * is over, because dedupe promises a time and not a number of bytes. The stages of a chunk are drawn in
 * chunk-rows.ts.
 */
export class RetentionSweep {
  readonly #dependencies: RetentionDependencies;
  /** Below this position no chunk is a remnant. Found again after a restart. */
  #remnantsFrom: Position = 0;
  /** Below this position no chunk holds only messageIds. */
  #idsFrom: Position = 0;

  constructor(dependencies: RetentionDependencies) {
    this.#dependencies = dependencies;
  }

  /** In the order in which they run. */
  steps(): readonly UpkeepStep[] {
    const { keys, queue, watermarks, dedupeWindow } = this.#dependencies;
    const idsSince = (now: Monotonic, { messageIds }: Retention) => now - (messageIds ?? dedupeWindow);
    return [
      {
        name: 'retention of events',
        run: (now, retention) => this.#dropOld(now, retention.events, idsSince(now, retention)),
      },
      {
        name: 'limits.disk',
        run: (now, retention) => this.#dropForSpace(now, retention.disk, idsSince(now, retention)),
      },
      {
        name: 'retention of messageIds',
        run: (now, retention) => this.#dropIds(idsSince(now, retention)),
      },
      {
        name: 'retention of keys',
        run: () => keys.dropOldestRun(Math.min(this.#idsFrom, watermarks.retainedFrom)),
      },
      {
        name: 'retention of attempts',
        run: () => queue.successfulAttempts.dropBelow(watermarks.retainedFrom),
      },
      {
        name: 'retention of dead letters',
        run: (now, retention) =>
          this.#dropRemnants(now, now - retention.deadLetters, idsSince(now, retention)),
      },
      {
        name: 'retention of failures',
        run: (now, retention) => this.#dropFailures(now - retention.deadLetters),
      },
    ];
  }

  #dropFailures(before: Monotonic): boolean {
    const { queue, watermarks } = this.#dependencies;
    const hasDropped = queue.deadLetters.dropBefore(before, watermarks.retainedFrom);
    return queue.failedAttempts.dropBefore(before, watermarks.retainedFrom) || hasDropped;
  }

  #dropOld(now: Monotonic, events: Duration, idsSince: Monotonic): boolean {
    const { chunks, watermarks, queue } = this.#dependencies;
    const [oldest] = chunks.factsFrom(watermarks.retainedFrom, 1);
    if (oldest === undefined || oldest.until >= now - events) return false;
    const candidates = chunks.factsFrom(watermarks.retainedFrom, SLICE_CHUNKS);
    // The first chunk that must stay ends the slice. Later ones are newer, or the clock was set back and they
    // wait.
    const stays = candidates.findIndex(({ until }) => until >= now - events);
    return this.#dropChunks(stays < 0 ? candidates : candidates.slice(0, stays), now, (chunk) => {
      this.#reduce(chunk, queue.deadLetters.positionsBetween(chunk.first, chunk.first + chunk.n), idsSince);
    });
  }

  /** Frees space: drops remnants first, then the oldest events, one chunk at a time. */
  #dropForSpace(now: Monotonic, disk: number | undefined, idsSince: Monotonic): boolean {
    const { chunks, watermarks, space } = this.#dependencies;
    if (disk === undefined || space.usedBytes() <= space.shareOfLog(disk)) return false;
    return (
      this.#dropRemnants(now, Number.POSITIVE_INFINITY, idsSince) ||
      this.#dropChunks(chunks.factsFrom(watermarks.retainedFrom, 1), now, (chunk) =>
        this.#reduce(chunk, new Set(), idsSince),
      )
    );
  }

  /** Dead-letters what is owed of these chunks, and drops them. False when none of them can go. */
  #dropChunks(candidates: readonly ChunkFacts[], now: Monotonic, drop: (chunk: Chunk) => void): boolean {
    const { chunks, watermarks, queue, batches } = this.#dependencies;
    // Events that this process delivers from memory wait. The newest row stays, because it says where the log
    // goes on.
    const end = Math.min(queue.pending.held.lowestFrom(watermarks.retainedFrom), chunks.firstOfBatches(1));
    const expired = candidates.filter(({ first, n }) => first + n <= end);
    const last = expired.at(-1);
    if (last === undefined) return false;
    const cut = last.first + last.n;
    this.#deadLetterBetween(watermarks.retainedFrom, cut, now);
    for (const { first, isDamaged } of expired) {
      const chunk = isDamaged ? undefined : chunks.at(first);
      // A damaged row stays. To delete it SQLite would follow its pages, which may lead into other rows.
      if (chunk === undefined) continue;
      if (chunk.batchAnswer !== undefined) batches.keepAnswer(chunk.batchAnswer);
      drop(chunk);
    }
    watermarks.retainedFrom = cut;
    this.#dependencies.damage.forgetBelow(cut);
    return true;
  }

  /** Makes dead letters of what is owed from a position on and below another. */
  #deadLetterBetween(from: Position, end: Position, at: Monotonic): void {
    const { pending, settler } = this.#dependencies.queue;
    for (const set of pending.removeBetween(from, end))
      settler.deadLetter({ ...set, state: 'dead', reason: 'retention_over', at });
  }

  /**
   * Reduces a chunk to the events of dead letters and the recent messageIds, or deletes it when it has
   * neither.
   */
  #reduce(chunk: Chunk, dead: ReadonlySet<Position>, idsSince: Monotonic): void {
    const { chunks } = this.#dependencies;
    const left = remnantOf(chunk, { dead, idsSince });
    if (left === undefined) chunks.delete(chunk);
    else chunks.put(chunk.first, left.events, left.stage);
  }

  /**
   * Drops remnants whose time is over. Replayed deliveries of their events that are still pending become dead
   * letters.
   */
  #dropRemnants(now: Monotonic, before: Monotonic, idsSince: Monotonic): boolean {
    const { chunks, watermarks } = this.#dependencies;
    if (this.#remnantsFrom >= watermarks.retainedFrom) return false;
    for (const facts of chunks.factsFrom(this.#remnantsFrom, SLICE_FACTS)) {
      if (facts.first >= watermarks.retainedFrom) {
        this.#remnantsFrom = watermarks.retainedFrom;
        return false;
      }
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

  /** Drops messageIds whose dedupe window is over. */
  #dropIds(idsSince: Monotonic): boolean {
    const { chunks, watermarks } = this.#dependencies;
    if (this.#idsFrom >= watermarks.retainedFrom) return false;
    for (const { first, n, until, stage, isDamaged } of chunks.factsFrom(this.#idsFrom, SLICE_FACTS)) {
      if (first >= watermarks.retainedFrom) {
        this.#idsFrom = watermarks.retainedFrom;
        return false;
      }
      if (stage === IDS_ONLY && !isDamaged) {
        if (until > idsSince) return false;
        chunks.delete({ first, n });
        this.#idsFrom = first + n;
        return true;
      }
      // The messageIds of a remnant stay as long as its dead letters.
      this.#idsFrom = first + n;
    }
    return false;
  }
}

/** Bytes given back to the disk in one slice. */
const SLICE_BYTES = 256 * 1024;

/**
 * Free space that stays for new events, at least and as a share of the file. Otherwise the file would shrink
 * and grow.
 */
const KEEP_BYTES = 1024 * 1024;
const KEEP_SHARE = 0.1;

/** The pages of the file. Free pages stay in it until a few at a time are given back to the disk. */
export class FileSpace {
  readonly #database: DatabaseSync;
  readonly #folder: string;
  readonly #pageCount: StatementSync;
  readonly #freeCount: StatementSync;
  readonly #pageSize: number;

  constructor(database: DatabaseSync, folder: string) {
    this.#database = database;
    this.#folder = folder;
    this.#pageCount = database.prepare('select page_count as n from pragma_page_count');
    this.#freeCount = database.prepare('select freelist_count as n from pragma_freelist_count');
    this.#pageSize = (database.prepare('pragma page_size').get() as { page_size: number }).page_size;
  }

  /** Bytes of the pages in use. */
  usedBytes(): number {
    return (this.#count(this.#pageCount) - this.#count(this.#freeCount)) * this.#pageSize;
  }

  /**
   * The part of `limits.disk` that the log may take: what profiles leave of it, and at least half of it. A
   * large file of profiles must not cost every stored event, from which profiles are made again.
   */
  shareOfLog(disk: number): number {
    const profiles = [USERS_FILE, `${USERS_FILE}-wal`].map(
      (name) => statSync(join(this.#folder, name), { throwIfNoEntry: false })?.size ?? 0,
    );
    return Math.max(disk / 2, disk - profiles[0]! - profiles[1]!);
  }

  /** Bytes of the file. */
  fileBytes(): number {
    return this.#count(this.#pageCount) * this.#pageSize;
  }

  /**
   * Gives back one slice of free pages inside the caller's transaction. False when there are few of them and
   * the file is within `limit` bytes.
   */
  vacuum(limit = Number.POSITIVE_INFINITY): boolean {
    const free = this.#count(this.#freeCount);
    const pages = this.#count(this.#pageCount);
    const few = free <= Math.max(KEEP_BYTES / this.#pageSize, pages * KEEP_SHARE);
    if (free === 0 || (few && pages * this.#pageSize <= limit)) return false;
    this.#giveBack(SLICE_BYTES);
    return true;
  }

  /** The number of free pages. They may still hold deleted bytes. */
  freePages(): number {
    return this.#count(this.#freeCount);
  }

  /** Gives back a larger slice, also when few pages are free. */
  vacuumMore(): void {
    this.#giveBack(4 * SLICE_BYTES);
  }

  #giveBack(bytes: number): void {
    this.#database.exec(`pragma incremental_vacuum(${bytes / this.#pageSize})`);
  }

  #count(statement: StatementSync): number {
    return (statement.get() as { n: number }).n;
  }
}
