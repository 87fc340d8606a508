import type { DatabaseSync } from 'node:sqlite';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type { Duration } from '../../model/time.ts';
import type { PendingSetId } from '../../ports/delivery-queue.ts';
import { StorageError } from '../../ports/event-log.ts';
import {
  canBeAvoided,
  confirmDamage,
  isConfirmedDamage,
  isDamageError,
  Quarantine,
  rebuildIndexes,
} from './damage.ts';
import { FileWatcher } from './data-folder/file-watcher.ts';
import { lockFolder, makeFolder } from './data-folder/folder.ts';
import {
  HighWaterMark,
  inspectFolder,
  refuseLostCommits,
  refuseMissingFile,
  type StoreProgress,
} from './data-folder/high-water-mark.ts';
import { asStorageError, openDatabase } from './database.ts';
import { readClocks, readProgress, startEpoch } from './installation.ts';
import type { RpcAnswers, RpcKind, RpcRequest, WriterReply } from './rpc.ts';
import { dispatch, Tables } from './tables.ts';
import { Checkpoints } from './wal/checkpoints.ts';

/**
 * The thread that owns the file. SQLite is synchronous: here a slow disk delays commits and nothing else.
 *
 * Everything that arrived while the last transaction ran makes up the next one (group commit), so settled deliveries
 * ride along with the next events and the slower the disk, the larger the groups.
 */
export interface WriterOptions {
  readonly folder: string;
  readonly dedupeWindow: Duration;
  readonly filterMemory: number;
}

const WRITES: ReadonlySet<RpcKind> = new Set([
  'append',
  'settle',
  'claim',
  'release',
  'expire',
  'adopt',
  'revive',
  'owe',
  'apply',
  'keepHealth',
  'maintain',
  'erase',
  'scrub',
]);

/** Milliseconds until the write-ahead log is tried again when the checkpointer is at it. */
const BUSY_RETRY = 20;

class Writer {
  readonly #port: MessagePort;
  readonly #options: WriterOptions;
  readonly #lock: { release(): void };
  readonly #epoch: number;
  readonly #keySecret: Uint8Array;
  readonly #id: string;
  readonly #mark: HighWaterMark;
  readonly #fileWatcher: FileWatcher;
  #database: DatabaseSync;
  #tables: Tables | undefined;
  #requests: RpcRequest[] = [];
  /** Answers to erasures whose bytes are not gone yet. */
  readonly #scrubbing: WriterReply[] = [];
  #checkpoints: Checkpoints;
  /** What upkeep leaves alone, because damage was met there. */
  readonly #quarantine = new Quarantine();
  #isRepaired = false;
  /** A handle was given up for what looked like damage. */
  #isDamageUnconfirmed = false;
  /** The last transaction failed: the next one is to show whether the disk is well again. */
  #isSuspect = false;
  /** Sets that a transaction took in hand of which nobody knows whether it happened. */
  #setsInDoubt: PendingSetId[] = [];

  constructor(port: MessagePort, options: WriterOptions) {
    this.#port = port;
    this.#options = options;
    makeFolder(options.folder);
    this.#lock = lockFolder(options.folder);
    const { isNew, isMarkDamaged } = inspectFolder(options.folder);
    this.#database = openDatabase(options.folder, { isNew });
    this.#checkpoints = new Checkpoints(this.#database, options.folder);
    const { epoch, keySecret, id } = startEpoch(this.#database);
    this.#epoch = epoch;
    this.#keySecret = keySecret;
    this.#id = id;
    this.#tables = this.#loadFirst();
    this.#mark = openMark(options.folder, { id, commits: this.#tables.commits });
    this.#fileWatcher = new FileWatcher(options.folder, {
      mark: this.#mark,
      checkpoints: this.#checkpoints,
      isOpen: () => this.#tables !== undefined,
      report: (reply) => this.#reply(reply),
    });
    port.on('message', (request: RpcRequest) => this.#receive(request));
    this.#reply({ kind: 'ready', keySecret, lastMark: readClocks(this.#database), isMarkDamaged });
  }

  #loadTables(): Tables {
    const options = { ...this.#options, epoch: this.#epoch, keySecret: this.#keySecret };
    return new Tables(this.#database, { ...options, avoided: this.#quarantine });
  }

  /** At the start nobody waits for a second handle to show that damage is damage. */
  #loadFirst(): Tables {
    confirmDamage(false);
    try {
      return this.#loadTables();
    } catch (error) {
      if (!isDamageError(error)) throw error;
      confirmDamage(true);
      try {
        return this.#loadTables();
      } catch (again) {
        if (!this.#repair(again)) throw again;
        return this.#loadTables();
      }
    }
  }

  /** Builds the indexes anew, once: they hold nothing that their tables do not. False when that cannot help. */
  #repair(error: unknown): boolean {
    if (this.#isRepaired || !isConfirmedDamage(error)) return false;
    this.#isRepaired = true;
    try {
      if (this.#database.isTransaction) this.#database.exec('rollback');
      rebuildIndexes(this.#database);
      return true;
    } catch {
      return false;
    }
  }

  /**
   * After an operation has failed: whether it may go well when it is done again at once, around a damaged page. What looks like
   * damage for the first time is not believed: the handle is given up, and the next one shows whether it was the disk.
   */
  #canRetry(error: unknown): boolean {
    if (!isDamageError(error) && !canBeAvoided(error)) {
      confirmDamage(false);
      this.#isDamageUnconfirmed = false;
      return false;
    }
    const isCertain = canBeAvoided(error) || isConfirmedDamage(error);
    if (isCertain && !this.#quarantine.learnFrom(error) && !this.#repair(error)) return false;
    if (!isCertain) {
      const wasDoubted = this.#isDamageUnconfirmed;
      this.#isDamageUnconfirmed = true;
      if (!wasDoubted) return false;
      confirmDamage(true);
    }
    try {
      if (this.#database.isTransaction) this.#database.exec('rollback');
      this.#tables = this.#loadTables();
      return true;
    } catch {
      return false;
    }
  }

  #receive(request: RpcRequest): void {
    // Not at once: first whatever else has arrived, so that it shares the commit.
    if (this.#requests.length === 0) setImmediate(() => this.#run());
    this.#requests.push(request);
  }

  #run(): void {
    const requests = this.#requests;
    this.#requests = [];
    const amiss = this.#fileWatcher.amiss();
    const {
      stops = [],
      writes = [],
      reads = [],
    } = Object.groupBy(requests, ({ kind }) =>
      kind === 'stop' ? 'stops' : WRITES.has(kind) ? 'writes' : 'reads',
    );
    if (amiss !== undefined) {
      for (const { id } of [...writes, ...reads]) this.#reply({ kind: 'failed', id, reason: amiss });
    } else {
      if (writes.length > 0) this.#commit(writes);
      for (const request of reads) this.#answerRead(request);
    }
    for (const { id } of stops) void this.#stop(id);
  }

  /** One transaction for all of them: they are stored together or fail together. */
  #commit(writes: readonly RpcRequest[]): void {
    const answers: RpcAnswers[RpcKind][] = [];
    let contents: Tables | undefined;
    try {
      contents = this.#openTables();
      const before = contents.commits;
      this.#database.exec('begin immediate');
      // Upkeep that finds nothing to do once a second must not cost a sync once a second.
      const mayBeIdle = !this.#isSuspect && writes.every(({ kind }) => kind === 'maintain');
      const state = mayBeIdle ? this.#state() : '';
      for (const request of writes) answers.push(dispatch(contents, request));
      if (mayBeIdle && this.#state() === state) this.#database.exec('rollback');
      else {
        contents.beforeCommit();
        try {
          this.#database.exec('commit');
        } catch (error) {
          // The commit may have happened all the same. Only the file knows.
          this.#reopen();
          if (this.#openTables().commits !== before + 1) throw error;
        }
      }
      contents.drainNewlyHeld();
      this.#mark.record(contents.commits);
      this.#isSuspect = false;
    } catch (error) {
      if (this.#canRetry(error)) {
        this.#commit(writes);
        return;
      }
      if (isConfirmedDamage(error)) this.#quarantine.addStep(writes.map(({ kind }) => kind).join(' or '));
      const { reason } = asStorageError(error, this.#options.folder);
      this.#isSuspect = true;
      // Should it turn out to have happened, its callers have been told otherwise.
      if (contents !== undefined) this.#setsInDoubt.push(...contents.drainNewlyHeld());
      this.#closeHandle();
      for (const { id } of writes) this.#reply({ kind: 'failed', id, reason });
      return;
    }
    writes.forEach(({ id, kind }, index) => {
      const reply: WriterReply = { kind: 'done', id, answer: answers[index] };
      if (kind === 'scrub') this.#scrubbing.push(reply);
      else this.#reply(reply);
    });
    this.#checkpoints.afterCommit();
    if (this.#scrubbing.length > 0) setImmediate(() => this.#scrub());
  }

  /**
   * An erasure is answered when the bytes are gone: free pages, which may still hold them, are given back a slice at a
   * time, then the write-ahead log is emptied.
   */
  #scrub(): void {
    if (this.#scrubbing.length === 0) return;
    try {
      const contents = this.#openTables();
      if (contents.freePages() > 0) {
        this.#database.exec('begin immediate');
        contents.vacuum();
        this.#database.exec('commit');
        setImmediate(() => this.#scrub());
        return;
      }
      this.#fileWatcher.walTruncated();
      if (!this.#checkpoints.truncateWal()) {
        setTimeout(() => this.#scrub(), BUSY_RETRY);
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

  #answerRead(request: RpcRequest): void {
    try {
      const answer = dispatch(this.#openTables(), request);
      this.#reply({ kind: 'done', id: request.id, answer });
    } catch (error) {
      if (this.#canRetry(error)) {
        this.#answerRead(request);
        return;
      }
      if (isConfirmedDamage(error)) this.#quarantine.addStep(request.kind);
      if (isDamageError(error)) this.#closeHandle();
      this.#reply({
        kind: 'failed',
        id: request.id,
        reason: asStorageError(error, this.#options.folder).reason,
      });
    }
  }

  /** Differs when rows were changed, or pages given back. */
  #state(): string {
    const sql = 'select total_changes() as changes, page_count as pages from pragma_page_count()';
    return JSON.stringify(this.#database.prepare(sql).get());
  }

  /** The contents, opened anew if the last handle was given up. */
  #openTables(): Tables {
    if (this.#tables === undefined) this.#reopen();
    return this.#tables!;
  }

  /** After a failed write neither the handle nor what we believe of the file can be trusted: both are made anew. */
  #closeHandle(): void {
    this.#tables = undefined;
    try {
      this.#database.close();
    } catch {
      // A handle that cannot even be closed is left to the end of the process.
    }
  }

  #reopen(): void {
    this.#closeHandle();
    // Nobody may take the write-ahead log at its word before it has been synced anew.
    this.#checkpoints.pause();
    this.#fileWatcher.pause();
    this.#database = this.#openAgain();
    // Shows that the disk writes and syncs again, and leaves a short log for the next time it does not.
    this.#database.exec('pragma wal_checkpoint(truncate)');
    const contents = this.#loadTables();
    if (this.#setsInDoubt.length > 0) {
      this.#database.exec('begin immediate');
      contents.park(this.#setsInDoubt);
      this.#database.exec('commit');
      this.#setsInDoubt = [];
    }
    this.#checkpoints.resume(this.#database);
    this.#fileWatcher.resume();
    this.#tables = contents;
  }

  /** Only what was open before: never an empty store in its place, nor one that has lost a commit. */
  #openAgain(): DatabaseSync {
    const { folder } = this.#options;
    const standing: StoreProgress = { id: this.#id, commits: this.#mark.commits };
    refuseMissingFile(folder, standing);
    return openDatabase(folder, {
      check: (database) => refuseLostCommits(folder, standing, readProgress(database)),
    });
  }

  async #stop(id: number): Promise<void> {
    await this.#checkpoints.stop();
    // The last one to close a database empties its write-ahead log into it.
    if (this.#tables !== undefined) this.#database.close();
    this.#fileWatcher.stop();
    this.#mark.close();
    this.#lock.release();
    this.#reply({ kind: 'done', id, answer: undefined });
    this.#port.close();
  }

  #reply(reply: WriterReply): void {
    const answer = reply.kind === 'done' ? reply.answer : undefined;
    const given = typeof answer === 'object' && 'lines' in answer ? [answer.lines.buffer as ArrayBuffer] : [];
    this.#port.postMessage(reply, given);
  }
}

function openMark(folder: string, standing: StoreProgress): HighWaterMark {
  try {
    return HighWaterMark.open(folder, standing);
  } catch (error) {
    throw asStorageError(error, folder);
  }
}

if (parentPort !== null) {
  try {
    new Writer(parentPort, workerData as WriterOptions);
  } catch (error) {
    const reason =
      error instanceof StorageError
        ? error.reason
        : asStorageError(error, (workerData as WriterOptions).folder).reason;
    parentPort.postMessage({ kind: 'refused', reason } satisfies WriterReply);
    parentPort.close();
  }
}
