import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type { Duration } from '../../model/time.ts';
import type { ClockMark } from '../../ports/clock.ts';
import type { PendingSetId } from '../../ports/delivery-queue.ts';
import { canBeAvoided, isDamageError, Quarantine, rebuildIndexes } from './damage.ts';
import { FileWatcher } from './data-folder/file-watcher.ts';
import { DATABASE_FILE } from './data-folder/files.ts';
import { lockFolder, makeFolder } from './data-folder/folder.ts';
import {
  HighWaterMark,
  inspectFolder,
  refuseLostCommits,
  refuseMissingFile,
  type StoreProgress,
} from './data-folder/high-water-mark.ts';
import { asStorageError, openDatabase } from './database.ts';
import {
  InstallationFacts,
  type InstallationIdentity,
  lastEpoch,
  readClocks,
  readProgress,
  startEpoch,
} from './installation.ts';
import type { SettleMessage } from './queue/settle.ts';
import type { RpcReply, RpcRequest } from './rpc.ts';
import { OPERATION_WORDS, type StoreAnswer, type StoreHandlers, Tables } from './tables.ts';
import { SlackWiper } from './users/remnants.ts';
import { Checkpoints } from './wal/checkpoints.ts';
import {
  decodeRecord,
  encodeRecord,
  highestSetOf,
  RedoLog,
  readRedoLog,
  redoable,
  sizeOfSettle,
} from './wal/redo-log.ts';

/**
 * The writer thread owns the file. SQLite is synchronous: on a thread of its own a slow disk delays commits and nothing else.
 *
 * All requests that arrive while a commit runs share the next one (group commit). Settled deliveries ride along with the next
 * events, and the slower the disk, the larger the groups.
 *
 * A large commit is one of the database. Small commits are synced in the redo log, and their transaction stays open until many
 * of them become one commit of the database:
 * ```
 *              small: redo log, answer                        large, or of another kind
 *   (closed) ────────────────────────▶ OPEN ─┐  small   OPEN ───────────────────────────▶ commit, answer, (closed)
 *                                       ▲────┘          OPEN ── after `OPEN_TIME` ──────▶ commit, (closed)
 * ```
 * When the transaction is lost, by an error or with the process, it is made again from the redo log.
 */
export interface WriterOptions {
  readonly folder: string;
  readonly dedupeWindow: Duration;
  readonly filterMemory: number;
}

/** A call of a handler, or an operation of the writer itself. */
export type WriterRequest =
  | RpcRequest<StoreHandlers>
  /** Replied to when the files hold no byte of earlier erasures. */
  | { readonly id: number; readonly name: 'scrub' }
  /** Replied to when other connections see every earlier request in the database. */
  | { readonly id: number; readonly name: 'flush' }
  /** Replied to after every earlier request, when the files are closed. */
  | { readonly id: number; readonly name: 'stop' };

export type WriterReply =
  | RpcReply<StoreHandlers>
  | {
      readonly kind: 'ready';
      readonly keySecret: Uint8Array;
      /** Tells this store from every other. */
      readonly id: string;
      readonly lastMark: ClockMark | undefined;
      /** The high-water mark was damaged and has been written anew. */
      readonly isMarkDamaged: boolean;
    }
  | { readonly kind: 'refused'; readonly reason: string }
  /** `problem` says why the open files are no longer those of the folder; undefined when they are again. */
  | { readonly kind: 'files'; readonly problem: string | undefined };

type TableRequest = Exclude<WriterRequest, { name: 'scrub' | 'flush' | 'stop' }>;
type WriteRequest = Exclude<WriterRequest, { name: 'stop' }>;

/** Milliseconds before the next try to empty the write-ahead log while the checkpointer uses it. */
const BUSY_RETRY = 20;

/** Milliseconds that a transaction stays open for further small commits. The next one after that takes it along. */
const OPEN_TIME = 200;
/** Milliseconds more until the transaction is committed without one. */
const OPEN_GRACE = 50;

/**
 * Milliseconds that a few results wait for events whose sync they can share. Together with the time in which the dispatcher
 * gathers them this is what may be delivered twice after a crash.
 */
const RIDE_TIME = 10;
/** Larger groups of results do not wait: another group waits behind them. */
const LARGEST_RIDE = 4096;

class Writer {
  readonly #port: MessagePort;
  readonly #options: WriterOptions;
  readonly #lock: { release(): void };
  readonly #epoch: number;
  readonly #keySecret: Uint8Array;
  readonly #id: string;
  readonly #mark: HighWaterMark;
  readonly #redo: RedoLog;
  readonly #fileWatcher: FileWatcher;
  /** Names of the handlers that change the tables; the same for every file. */
  readonly #writes: ReadonlySet<string>;
  #database: DatabaseSync;
  #tables: Tables | undefined;
  #requests: WriterRequest[] = [];
  /** The next run is scheduled: at once, or after `RIDE_TIME`. */
  #nextRun: NodeJS.Immediate | undefined;
  #ride: NodeJS.Timeout | undefined;
  /** When the open transaction was begun, and the timer that ends it. */
  #openedAt = 0;
  #openTimer: NodeJS.Timeout | undefined;
  /** Replies to erasures whose bytes still stand in the files. */
  readonly #scrubbing: WriterReply[] = [];
  #wiper: SlackWiper | undefined;
  /** The newest reply that waits for the pages from the first one on. */
  #wipedFor: WriterReply | undefined;
  #checkpoints: Checkpoints;
  /** Rows and steps that are left alone because of damage. */
  readonly #quarantine = new Quarantine();
  #isRepaired = false;
  /** The last handle was given up for apparent damage. */
  #isDamageUnconfirmed = false;
  /** The last transaction failed. The next one shows whether the disk works again. */
  #isSuspect = false;
  /** Sets touched by a transaction whose commit is in doubt. */
  #setsInDoubt: PendingSetId[] = [];

  constructor(port: MessagePort, options: WriterOptions) {
    this.#port = port;
    this.#options = options;
    makeFolder(options.folder);
    this.#lock = lockFolder(options.folder);
    const { isNew, isMarkDamaged } = inspectFolder(options.folder);
    this.#database = openDatabase(options.folder, { isNew });
    this.#checkpoints = new Checkpoints(this.#database, options.folder);
    this.#redoLast();
    const { epoch, keySecret, id } = startEpoch(this.#database);
    this.#epoch = epoch;
    this.#keySecret = keySecret;
    this.#id = id;
    this.#tables = this.#loadFirst({ epoch, keySecret });
    this.#writes = this.#tables.writes();
    this.#redo = new RedoLog(options.folder, { id, commits: this.#tables.commits });
    this.#mark = openMark(options.folder, { id, commits: this.#tables.commits });
    this.#fileWatcher = new FileWatcher(options.folder, {
      mark: this.#mark,
      checkpoints: this.#checkpoints,
      isOpen: () => this.#tables !== undefined,
      report: (problem) => this.#reply({ kind: 'files', problem }),
    });
    port.on('message', (request: WriterRequest) => this.#receive(request));
    this.#reply({ kind: 'ready', keySecret, id, lastMark: readClocks(this.#database), isMarkDamaged });
  }

  /** By default as this start of the program sees them. */
  #loadTables(identity = { epoch: this.#epoch, keySecret: this.#keySecret }): Tables {
    return new Tables(this.#database, { ...this.#options, ...identity, quarantine: this.#quarantine });
  }

  /** Loads the tables at the start. An error that looks like damage counts as damage when a second try meets it again. */
  #loadFirst(identity: Pick<InstallationIdentity, 'epoch' | 'keySecret'>): Tables {
    this.#quarantine.confirm(false);
    try {
      return this.#loadTables(identity);
    } catch (error) {
      if (!isDamageError(error)) throw error;
      this.#quarantine.confirm(true);
      try {
        return this.#loadTables(identity);
      } catch (again) {
        if (!this.#repair(again)) throw again;
        return this.#loadTables(identity);
      }
    }
  }

  /**
   * Does again what the last process has answered and not committed, as that process: its results belong to sets that it held,
   * and what it held becomes orphaned with the next epoch.
   */
  #redoLast(): void {
    const { id, commits } = readProgress(this.#database);
    const records = id === undefined ? [] : readRedoLog(this.#options.folder, { id, commits });
    const keySecret = new InstallationFacts(this.#database).bytes('key_secret');
    if (records.length === 0 || keySecret === undefined || keySecret === 'damaged') return;
    const identity = { epoch: lastEpoch(this.#database), keySecret };
    for (;;) {
      try {
        this.#redoAll(this.#loadFirst(identity), records);
        return;
      } catch (error) {
        if (this.#database.isTransaction) this.#database.exec('rollback');
        if (!this.#quarantine.isConfirmedDamage(error) && !canBeAvoided(error))
          this.#quarantine.confirm(true);
        if (!isDamageError(error) && !canBeAvoided(error)) throw error;
        if (!this.#quarantine.learnFrom(error) && !this.#repair(error)) throw error;
      }
    }
  }

  /** Does the requests of these records again, in one commit. */
  #redoAll(tables: Tables, records: readonly Buffer[]): void {
    const requests = records.flatMap(decodeRecord);
    tables.reserveSetsTo(highestSetOf(requests));
    this.#database.exec('begin immediate');
    for (const request of requests) tables.handle({ id: 0, ...request });
    tables.drainNewlyHeld();
    tables.beforeCommit(records.length);
    this.#database.exec('commit');
  }

  /** The tables as the file and the redo log have them, after the open transaction was lost. */
  #reloadTables(): Tables {
    const tables = this.#loadTables();
    const records = this.#redo.recordsAfter(tables.commits);
    if (records.length > 0) this.#redoAll(tables, records);
    this.#redo.restart({ id: this.#id, commits: tables.commits });
    return tables;
  }

  /** Builds the indexes anew, once: they hold nothing that their tables do not hold. False when that cannot help. */
  #repair(error: unknown): boolean {
    if (this.#isRepaired || !this.#quarantine.isConfirmedDamage(error)) return false;
    this.#isRepaired = true;
    try {
      if (this.#database.isTransaction) this.#database.exec('rollback');
      rebuildIndexes(this.#database, this.#quarantine);
      return true;
    } catch {
      return false;
    }
  }

  /**
   * After an operation has failed: whether to do it again at once, around a damaged page. Damage is not believed the first
   * time: the handle is given up, and the next one shows whether the disk had failed for a moment.
   */
  #canRetry(error: unknown): boolean {
    if (!isDamageError(error) && !canBeAvoided(error)) {
      this.#quarantine.confirm(false);
      this.#isDamageUnconfirmed = false;
      return false;
    }
    const isCertain = canBeAvoided(error) || this.#quarantine.isConfirmedDamage(error);
    if (isCertain && !this.#quarantine.learnFrom(error) && !this.#repair(error)) return false;
    if (!isCertain) {
      const wasDoubted = this.#isDamageUnconfirmed;
      this.#isDamageUnconfirmed = true;
      if (!wasDoubted) return false;
      this.#quarantine.confirm(true);
    }
    try {
      if (this.#database.isTransaction) this.#database.exec('rollback');
      this.#tables = this.#reloadTables();
      return true;
    } catch {
      return false;
    }
  }

  #receive(request: WriterRequest): void {
    this.#requests.push(request);
    if (this.#nextRun !== undefined) return;
    const canWait =
      request.name === 'settle' && sizeOfSettle(request.message as SettleMessage) <= LARGEST_RIDE;
    if (canWait) this.#ride ??= setTimeout(() => this.#run(), RIDE_TIME);
    // Later, so that every request that has arrived by now shares the commit.
    else this.#nextRun = setImmediate(() => this.#run());
  }

  #run(): void {
    clearTimeout(this.#ride);
    this.#ride = undefined;
    this.#nextRun = undefined;
    const requests = this.#requests;
    this.#requests = [];
    const writes: WriteRequest[] = [];
    const reads: TableRequest[] = [];
    const stops: WriterRequest[] = [];
    for (const request of requests) {
      if (request.name === 'stop') stops.push(request);
      else if (isTableRequest(request) && !this.#writes.has(request.name)) reads.push(request);
      else writes.push(request);
    }
    const problem = this.#fileWatcher.problem();
    if (problem !== undefined) {
      for (const { id } of [...writes, ...reads]) this.#reply({ kind: 'failed', id, reason: problem });
    } else {
      if (writes.length > 0) this.#commit(writes);
      for (const request of reads) this.#answerRead(request);
    }
    for (const { id } of stops) void this.#stop(id);
  }

  /** Runs all of them in one transaction: they are stored together or fail together. Without any, ends the open one. */
  #commit(writes: readonly WriteRequest[]): void {
    const answers: StoreAnswer[] = [];
    let tables: Tables | undefined;
    try {
      tables = this.#openTables();
      const isOpen = this.#database.isTransaction;
      if (!isOpen) this.#database.exec('begin immediate');
      // Maintenance runs every second. Without work it must not cost a sync.
      const mayBeIdle = !isOpen && !this.#isSuspect && writes.every(({ name }) => name === 'maintain');
      const state = mayBeIdle ? this.#state() : '';
      for (const request of writes)
        answers.push(isTableRequest(request) ? tables.handle(request) : undefined);
      if (mayBeIdle && this.#state() === state) this.#database.exec('rollback');
      else if (!this.#commitToRedoLog(tables, writes, answers))
        this.#commitToDatabase(tables, writes.length > 0 ? 1 : 0);
      this.#openTables().drainNewlyHeld();
      this.#mark.record(this.#openTables().commits + this.#redo.records.length);
      this.#isSuspect = false;
    } catch (error) {
      if (this.#canRetry(error)) {
        this.#commit(writes);
        return;
      }
      if (this.#quarantine.isConfirmedDamage(error)) this.#quarantine.addStep(wordsFor(writes));
      const { reason } = asStorageError(error, this.#options.folder);
      this.#isSuspect = true;
      // The callers hear that it failed, even if the commit turns out to have happened.
      if (tables !== undefined) this.#setsInDoubt.push(...tables.drainNewlyHeld());
      this.#closeHandle();
      for (const { id } of writes) this.#reply({ kind: 'failed', id, reason });
      return;
    }
    writes.forEach(({ id, name }, index) => {
      const reply: WriterReply = { kind: 'done', id, answer: answers[index] };
      if (name === 'scrub') this.#scrubbing.push(reply);
      else this.#reply(reply);
    });
    if (!this.#database.isTransaction) this.#checkpoints.afterCommit();
    if (this.#scrubbing.length > 0) setImmediate(() => this.#scrub());
  }

  /** Commits the open transaction: all records of the redo log, and `more` commits that it has not. */
  #commitToDatabase(tables: Tables, more: 0 | 1): void {
    this.#endOpenTime();
    const commits = this.#redo.records.length + more;
    const expected = tables.commits + commits;
    tables.beforeCommit(commits);
    try {
      this.#database.exec('commit');
    } catch (error) {
      // The commit may have happened all the same. Only the file tells.
      this.#reopen();
      if (this.#openTables().commits !== expected) throw error;
    }
    this.#redo.restart({ id: this.#id, commits: expected });
  }

  /** Syncs a small commit and leaves the transaction open. False when the database must take it. */
  #commitToRedoLog(
    tables: Tables,
    writes: readonly WriteRequest[],
    answers: readonly StoreAnswer[],
  ): boolean {
    const now = performance.now();
    const isNew = this.#redo.records.length === 0;
    if (writes.length === 0 || tables.hasUnwrittenClocks || (!isNew && now - this.#openedAt >= OPEN_TIME))
      return false;
    const requests = redoable(writes);
    if (requests === undefined || !this.#redo.append(encodeRecord(requests, answers))) return false;
    if (isNew) {
      this.#openedAt = now;
      this.#openTimer = setTimeout(() => this.#commit([]), OPEN_TIME + OPEN_GRACE);
    }
    return true;
  }

  #endOpenTime(): void {
    clearTimeout(this.#openTimer);
    this.#openTimer = undefined;
  }

  /**
   * Removes the bytes of erased events from the files, then replies. Free pages, which may hold such bytes, are given back a
   * slice at a time; then the write-ahead log is emptied, and the unused space in pages is overwritten, also a slice at a time.
   */
  #scrub(): void {
    if (this.#scrubbing.length === 0) return;
    try {
      // Since the erasure, small commits may have come.
      if (this.#tables !== undefined && this.#database.isTransaction) this.#commit([]);
      const tables = this.#openTables();
      if (tables.freePages() > 0) {
        this.#database.exec('begin immediate');
        tables.vacuum();
        this.#database.exec('commit');
        setImmediate(() => this.#scrub());
        return;
      }
      this.#redo.erase();
      this.#fileWatcher.walTruncated();
      if (!this.#checkpoints.truncateWal()) {
        setTimeout(() => this.#scrub(), BUSY_RETRY);
        return;
      }
      if (!this.#wipeSome()) {
        setImmediate(() => this.#scrub());
        return;
      }
      for (const reply of this.#scrubbing.splice(0)) this.#reply(reply);
    } catch (error) {
      const { reason } = asStorageError(error, this.#options.folder);
      this.#closeHandle();
      for (const reply of this.#scrubbing.splice(0)) {
        if (reply.kind === 'done') this.#reply({ kind: 'failed', id: reply.id, reason });
      }
    }
  }

  /** Overwrites a slice of unused space, while the write-ahead log is empty. True after the last one. */
  #wipeSome(): boolean {
    const path = join(this.#options.folder, DATABASE_FILE);
    if (this.#wiper?.isOf(path) !== true) this.#wiper = new SlackWiper(path);
    if (this.#wipedFor !== this.#scrubbing.at(-1)) this.#wiper.restart();
    this.#wipedFor = this.#scrubbing.at(-1);
    const { isDone, wiped } = this.#wiper.wipe();
    // The pages in memory still have the old bytes, and would be written with them.
    if (wiped > 0) this.#database.exec('pragma shrink_memory');
    if (isDone) this.#wipedFor = undefined;
    return isDone;
  }

  #answerRead(request: TableRequest): void {
    try {
      const tables = this.#openTables();
      const answer = tables.handle(request);
      this.#reply({ kind: 'done', id: request.id, answer }, tables.buffersOf(request.name, answer));
    } catch (error) {
      if (this.#canRetry(error)) {
        this.#answerRead(request);
        return;
      }
      if (this.#quarantine.isConfirmedDamage(error)) this.#quarantine.addStep(OPERATION_WORDS[request.name]);
      if (isDamageError(error)) this.#closeHandle();
      this.#reply({
        kind: 'failed',
        id: request.id,
        reason: asStorageError(error, this.#options.folder).reason,
      });
    }
  }

  /** A text that differs after rows were changed or pages given back. */
  #state(): string {
    const sql = 'select total_changes() as changes, page_count as pages from pragma_page_count()';
    return JSON.stringify(this.#database.prepare(sql).get());
  }

  /** The tables. Opens the file anew if the last handle was given up. */
  #openTables(): Tables {
    if (this.#tables === undefined) this.#reopen();
    return this.#tables!;
  }

  /** Gives up the handle and the tables: after a failed write neither can be trusted. */
  #closeHandle(): void {
    this.#endOpenTime();
    this.#redo.close();
    this.#tables = undefined;
    try {
      this.#database.close();
    } catch {
      // A handle that cannot be closed stays until the end of the process.
    }
  }

  #reopen(): void {
    this.#closeHandle();
    // The checkpointer must not read the write-ahead log before it has been synced anew.
    this.#checkpoints.pause();
    this.#fileWatcher.pause();
    this.#database = this.#openAgain();
    // Shows that the disk writes and syncs again, and leaves a short log for its next failure.
    this.#database.exec('pragma wal_checkpoint(truncate)');
    const tables = this.#reloadTables();
    if (this.#setsInDoubt.length > 0) {
      this.#database.exec('begin immediate');
      tables.park(this.#setsInDoubt);
      this.#database.exec('commit');
      this.#setsInDoubt = [];
    }
    this.#checkpoints.resume(this.#database);
    this.#fileWatcher.resume();
    this.#tables = tables;
  }

  /** Opens the same store as before. Refuses an empty store in its place, and one that has lost a commit. */
  #openAgain(): DatabaseSync {
    const { folder } = this.#options;
    const standing: StoreProgress = { id: this.#id, commits: this.#mark.commits };
    refuseMissingFile(folder, standing);
    return openDatabase(folder, {
      check: (database) => {
        const { commits, ...found } = readProgress(database);
        const redo = this.#redo.recordsAfter(commits).length;
        refuseLostCommits(folder, standing, { ...found, commits: commits + redo });
      },
    });
  }

  async #stop(id: number): Promise<void> {
    if (this.#tables !== undefined && this.#database.isTransaction) this.#commit([]);
    await this.#checkpoints.stop();
    // Where the last commit has failed, the next start needs it.
    if (this.#redo.records.length === 0) this.#redo.remove();
    // The last connection to close empties the write-ahead log into the database.
    if (this.#tables !== undefined) this.#database.close();
    this.#fileWatcher.stop();
    this.#mark.close();
    this.#lock.release();
    this.#reply({ kind: 'done', id, answer: undefined });
    this.#port.close();
  }

  /** Posts a reply to the main thread. The buffers in `moved`, which are part of it, are transferred instead of copied. */
  #reply(reply: WriterReply, moved: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(reply, moved);
  }
}

/** Any of the writes of one transaction may be the one that met the damage. */
function wordsFor(writes: readonly WriteRequest[]): string {
  const words = writes.map((request) =>
    isTableRequest(request) ? OPERATION_WORDS[request.name] : 'erasing events',
  );
  return [...new Set(words)].join(' or ');
}

function isTableRequest(request: WriterRequest): request is TableRequest {
  return request.name !== 'scrub' && request.name !== 'flush' && request.name !== 'stop';
}

function openMark(folder: string, standing: StoreProgress): HighWaterMark {
  try {
    return HighWaterMark.open(folder, standing);
  } catch (error) {
    throw asStorageError(error, folder);
  }
}

/** Opens the store and serves it on `port` until it is stopped. Tells the other end when the folder cannot be used. */
export function startWriter(port: MessagePort, options: WriterOptions): void {
  try {
    new Writer(port, options);
  } catch (error) {
    const { reason } = asStorageError(error, options.folder);
    port.postMessage({ kind: 'refused', reason } satisfies WriterReply);
    port.close();
  }
}

// A thread without data is shared by several stores, and starts their writers itself.
if (parentPort !== null && workerData !== undefined) startWriter(parentPort, workerData as WriterOptions);
