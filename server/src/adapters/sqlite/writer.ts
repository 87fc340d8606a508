import { join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { InvariantError, invariant } from '../../model/invariant.ts';
import type { SecretKeys } from '../../model/secret-keys.ts';
import { NO_SECRET_KEYS } from '../../model/secret-keys.ts';
import type { Duration } from '../../model/time.ts';
import type { ClockMark } from '../../ports/clock.ts';
import type { PendingSetId } from '../../ports/delivery-queue.ts';
import { freeBuffer } from '../encoding/chunk-codec.ts';
import { SecretSeal } from '../encoding/secret-seal.ts';
import { canBeAvoided, isDamageError, Quarantine, rebuildIndexes } from './damage.ts';
import { FileWatcher } from './data-folder/file-watcher.ts';
import { DATABASE_FILE } from './data-folder/files.ts';
import { type FolderLock, lockFolder, makeFolder } from './data-folder/folder.ts';
import {
  HighWaterMark,
  inspectFolder,
  refuseLostCommits,
  refuseMissingFile,
  type StoreProgress,
} from './data-folder/high-water-mark.ts';
import { asStorageError, openDatabase } from './database.ts';
import { readClocks, readProgress, startEpoch } from './installation.ts';
import type { RpcReply, RpcRequest } from './rpc.ts';
import { type AdoptedKey, adoptKey } from './settings/secret-keys.ts';
import { OPERATION_WORDS, type StoreAnswer, type StoreHandlers, Tables } from './tables.ts';
import { SlackWiper } from './users/remnants.ts';
import { Checkpoints } from './wal/checkpoints.ts';

/**
 * The writer thread owns the file. SQLite is synchronous: on a thread of its own a slow disk delays commits
 * and nothing else.
 *
 * Requests and replies come and go in lists. All requests that arrive while a transaction runs share the next
 * one (group commit). Settled deliveries ride along with the next events, and the slower the disk, the larger
 * the groups.
 */
export interface WriterOptions {
  readonly folder: string;
  readonly dedupeWindow: Duration;
  readonly filterMemory: number;
  /** Told which file is open, for other threads: `sharedIdentity`. */
  readonly file: SharedArrayBuffer;
  /** Absent for a use of the store that has nothing to do with its records. */
  readonly secretKeys?: SecretKeys;
}

/** A call of a handler, or an operation of the writer itself. */
export type WriterRequest =
  | RpcRequest<StoreHandlers>
  /** Replied to when the files hold no byte of earlier erasures. */
  | { readonly id: number; readonly name: 'scrub' }
  /** Replied to after every earlier request, when the files are closed. */
  | { readonly id: number; readonly name: 'stop' };

export type WriterReply =
  | RpcReply<StoreHandlers>
  | {
      readonly kind: 'ready';
      readonly keySecret: Uint8Array;
      /** Tells this store from every other. */
      readonly id: string;
      /** See `Store.isBounded`. */
      readonly isBounded: boolean;
      readonly lastMark: ClockMark | undefined;
      /** The high-water mark was damaged and has been written anew. */
      readonly isMarkDamaged: boolean;
      readonly secrets: AdoptedKey;
    }
  | { readonly kind: 'refused'; readonly reason: string }
  /** An invariant did not hold. What was under way is rolled back, and nothing more is done. */
  | {
      readonly kind: 'broken';
      readonly invariant: string;
      readonly stack: string | undefined;
      readonly facts: Readonly<Record<string, unknown>>;
    }
  /** `problem` says why the open files are no longer those of the folder; undefined when they are again. */
  | { readonly kind: 'files'; readonly problem: string | undefined };

type TableRequest = Exclude<WriterRequest, { name: 'scrub' | 'stop' }>;
type WriteRequest = Exclude<WriterRequest, { name: 'stop' }>;

const UNTOUCHED: AdoptedKey = { hasRemnants: false };

/** Milliseconds before the next try to empty the write-ahead log while the checkpointer uses it. */
const BUSY_RETRY = 20;

class Writer {
  readonly #port: MessagePort;
  readonly #options: WriterOptions;
  readonly #lock: FolderLock;
  readonly #epoch: number;
  readonly #keySecret: Uint8Array;
  readonly #id: string;
  readonly #seal: SecretSeal;
  readonly #mark: HighWaterMark;
  readonly #fileWatcher: FileWatcher;
  /** Names of the handlers that change the tables; the same for every file. */
  readonly #writes: ReadonlySet<string>;
  #database: DatabaseSync;
  #transaction: TransactionStatements;
  #tables: Tables | undefined;
  #requests: WriterRequest[] = [];
  /** They are run in this turn of the event loop. */
  #isDue = false;
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
  /** An invariant did not hold: the process ends, and nothing is written any more. */
  #isBroken = false;

  /** `lock`: that of the folder, which the writer releases when it is stopped. */
  constructor(port: MessagePort, options: WriterOptions, lock: FolderLock) {
    this.#port = port;
    this.#options = options;
    this.#lock = lock;
    const { isNew, isMarkDamaged } = inspectFolder(options.folder);
    this.#database = openDatabase(options.folder, { isNew });
    this.#transaction = prepareTransaction(this.#database);
    this.#checkpoints = new Checkpoints(this.#database, options.folder, options.file);
    const { epoch, keySecret, id, isBounded } = startEpoch(this.#database);
    this.#epoch = epoch;
    this.#keySecret = keySecret;
    this.#id = id;
    this.#seal = new SecretSeal(options.secretKeys ?? NO_SECRET_KEYS);
    const secrets = options.secretKeys === undefined ? UNTOUCHED : adoptKey(this.#database, this.#seal);
    this.#tables = this.#loadFirst();
    this.#writes = this.#tables.writes();
    this.#mark = openMark(options.folder, { id, commits: this.#tables.commits });
    this.#fileWatcher = new FileWatcher(options.folder, {
      mark: this.#mark,
      checkpoints: this.#checkpoints,
      isOpen: () => this.#tables !== undefined,
      report: (problem) => this.#reply([{ kind: 'files', problem }]),
    });
    port.on('message', (requests: readonly WriterRequest[]) => this.#receive(requests));
    const lastMark = readClocks(this.#database);
    this.#reply([{ kind: 'ready', keySecret, id, isBounded, lastMark, isMarkDamaged, secrets }]);
  }

  #loadTables(): Tables {
    const options = { ...this.#options, epoch: this.#epoch, keySecret: this.#keySecret, seal: this.#seal };
    return new Tables(this.#database, { ...options, quarantine: this.#quarantine });
  }

  /**
   * Loads the tables at the start. An error that looks like damage counts as damage when a second try meets
   * it again.
   */
  #loadFirst(): Tables {
    this.#quarantine.confirm(false);
    try {
      return this.#loadTables();
    } catch (error) {
      if (!isDamageError(error)) throw error;
      this.#quarantine.confirm(true);
      try {
        return this.#loadTables();
      } catch (again) {
        if (!this.#repair(again)) throw again;
        return this.#loadTables();
      }
    }
  }

  /**
   * Builds the indexes anew, once: they hold nothing that their tables do not hold. False when that cannot
   * help.
   */
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
   * After an operation has failed: whether to do it again at once, around a damaged page. Damage is not
   * believed the first time: the handle is given up, and the next one shows whether the disk had failed for a
   * moment.
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
      this.#tables = this.#loadTables();
      return true;
    } catch {
      return false;
    }
  }

  #receive(requests: readonly WriterRequest[]): void {
    this.#requests.push(...requests);
    if (this.#isDue) return;
    this.#isDue = true;
    // Later, so that every request that has arrived by now shares the commit.
    setImmediate(() => this.#run());
  }

  #run(): void {
    if (this.#isBroken) return;
    this.#isDue = false;
    const requests = this.#requests;
    this.#requests = [];
    const writes: WriteRequest[] = [];
    const reads: TableRequest[] = [];
    const stops: WriterRequest[] = [];
    for (const request of requests) {
      if (request.name === 'stop') stops.push(request);
      else if (request.name === 'scrub' || this.#writes.has(request.name)) writes.push(request);
      else reads.push(request);
    }
    const problem = this.#fileWatcher.problem();
    if (problem !== undefined) {
      this.#reply([...writes, ...reads].map(({ id }) => ({ kind: 'failed', id, reason: problem })));
    } else {
      if (writes.length > 0) this.#commit(writes);
      for (const request of reads) this.#answerRead(request);
    }
    for (const { id } of stops) void this.#stop(id);
  }

  /** Runs all of them in one transaction: they are stored together or fail together. */
  #commit(writes: readonly WriteRequest[]): void {
    const answers: StoreAnswer[] = [];
    let tables: Tables | undefined;
    try {
      tables = this.#openTables();
      const before = tables.commits;
      this.#transaction.begin.get();
      // Maintenance runs every second. Without work it must not cost a sync.
      const mayBeIdle = !this.#isSuspect && writes.every(({ name }) => name === 'maintain');
      const state = mayBeIdle ? this.#state() : '';
      for (const request of writes) {
        answers.push(request.name === 'scrub' ? undefined : tables.handle(request));
      }
      if (mayBeIdle && this.#state() === state) this.#database.exec('rollback');
      else {
        tables.beforeCommit();
        try {
          this.#transaction.commit.get();
        } catch (error) {
          // The commit may have happened all the same. Only the file tells.
          this.#reopen();
          if (this.#openTables().commits !== before + 1) throw error;
        }
        invariant(tables.commits === before + 1, 'a transaction counts as one commit');
      }
      tables.drainNewlyHeld();
      this.#mark.record(tables.commits);
      this.#isSuspect = false;
    } catch (error) {
      if (error instanceof InvariantError) {
        this.#break(error, { commits: tables?.commits, operations: writes.map(({ name }) => name) });
        return;
      }
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
      this.#reply(writes.map(({ id }) => ({ kind: 'failed', id, reason })));
      return;
    }
    // The numbers of a batch stand in the buffer of its lines.
    for (const request of writes)
      if (request.name === 'append') freeBuffer(new Uint8Array(request.message.lines.buffer));
    const replies: WriterReply[] = [];
    writes.forEach(({ id, name }, index) => {
      const reply: WriterReply = { kind: 'done', id, answer: answers[index] };
      if (name === 'scrub') this.#scrubbing.push(reply);
      else replies.push(reply);
    });
    if (replies.length > 0) this.#reply(replies);
    this.#checkpoints.afterCommit();
    if (this.#scrubbing.length > 0) setImmediate(() => this.#scrub());
  }

  /**
   * Removes the bytes of erased events from the files, then replies. Free pages, which may hold such bytes,
   * are given back a slice at a time; then the write-ahead log is emptied, and the unused space in pages is
   * overwritten, also a slice at a time.
   */
  #scrub(): void {
    if (this.#scrubbing.length === 0) return;
    try {
      const tables = this.#openTables();
      if (tables.freePages() > 0) {
        this.#database.exec('begin immediate');
        tables.vacuum();
        this.#database.exec('commit');
        setImmediate(() => this.#scrub());
        return;
      }
      this.#fileWatcher.walTruncated();
      if (!this.#checkpoints.truncateWal()) {
        setTimeout(() => this.#scrub(), BUSY_RETRY);
        return;
      }
      if (!this.#wipeSome()) {
        setImmediate(() => this.#scrub());
        return;
      }
      this.#reply(this.#scrubbing.splice(0));
    } catch (error) {
      if (error instanceof InvariantError) {
        this.#break(error, { operations: ['scrub'] });
        return;
      }
      const { reason } = asStorageError(error, this.#options.folder);
      this.#closeHandle();
      for (const reply of this.#scrubbing.splice(0)) {
        if (reply.kind === 'done') this.#reply([{ kind: 'failed', id: reply.id, reason }]);
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
      this.#reply([{ kind: 'done', id: request.id, answer }], tables.buffersOf(request.name, answer));
    } catch (error) {
      if (error instanceof InvariantError) {
        this.#break(error, { operations: [request.name] });
        return;
      }
      if (this.#canRetry(error)) {
        this.#answerRead(request);
        return;
      }
      if (this.#quarantine.isConfirmedDamage(error)) this.#quarantine.addStep(OPERATION_WORDS[request.name]);
      if (isDamageError(error) || this.#isInTransaction()) this.#closeHandle();
      this.#reply([
        {
          kind: 'failed',
          id: request.id,
          reason: asStorageError(error, this.#options.folder).reason,
        },
      ]);
    }
  }

  /** Rolls back what is under way. The callers hear nothing: the process ends. */
  #break({ message, stack }: InvariantError, facts: Readonly<Record<string, unknown>>): void {
    this.#isBroken = true;
    // A transaction that is open is rolled back when its connection closes.
    this.#closeHandle();
    this.#reply([{ kind: 'broken', invariant: message, stack, facts }]);
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

  #isInTransaction(): boolean {
    return this.#database.isOpen && this.#database.isTransaction;
  }

  /** Gives up the handle and the tables: after a failed write neither can be trusted. */
  #closeHandle(): void {
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
    this.#transaction = prepareTransaction(this.#database);
    // Shows that the disk writes and syncs again, and leaves a short log for its next failure.
    this.#database.exec('pragma wal_checkpoint(truncate)');
    const tables = this.#loadTables();
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
      check: (database) => refuseLostCommits(folder, standing, readProgress(database)),
    });
  }

  async #stop(id: number): Promise<void> {
    await this.#checkpoints.stop();
    if (this.#tables !== undefined) {
      // The last connection to close empties the write-ahead log into the database.
      this.#database.close();
    }
    this.#fileWatcher.stop();
    this.#mark.close();
    this.#lock.release();
    this.#reply([{ kind: 'done', id, answer: undefined }]);
    this.#port.close();
  }

  /**
   * Posts replies to the main thread, as one message: each message costs as much as its reply, and may wake
   * the thread. The buffers in `moved`, which are part of them, are transferred instead of copied.
   */
  #reply(replies: readonly WriterReply[], moved: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(replies, moved);
  }
}

interface TransactionStatements {
  readonly begin: StatementSync;
  readonly commit: StatementSync;
}

/** SQLite would parse their text for every commit, which takes longer than an empty transaction. */
function prepareTransaction(database: DatabaseSync): TransactionStatements {
  return { begin: database.prepare('begin immediate'), commit: database.prepare('commit') };
}

/** Any of the writes of one transaction may be the one that met the damage. */
function wordsFor(writes: readonly WriteRequest[]): string {
  const words = writes.map(({ name }) => (name === 'scrub' ? 'erasing events' : OPERATION_WORDS[name]));
  return [...new Set(words)].join(' or ');
}

function openMark(folder: string, standing: StoreProgress): HighWaterMark {
  try {
    return HighWaterMark.open(folder, standing);
  } catch (error) {
    throw asStorageError(error, folder);
  }
}

/**
 * Opens the store and serves it on `port` until it is stopped. Tells the other end when the folder cannot be
 * used.
 */
export function startWriter(port: MessagePort, options: WriterOptions): void {
  let lock: FolderLock | undefined;
  try {
    makeFolder(options.folder);
    lock = lockFolder(options.folder);
    new Writer(port, options, lock);
  } catch (error) {
    lock?.release();
    const { reason } = asStorageError(error, options.folder);
    port.postMessage([{ kind: 'refused', reason }] satisfies WriterReply[]);
    port.close();
  }
}

// A thread without data is shared by several stores, and starts their writers itself.
if (parentPort !== null && workerData !== undefined) startWriter(parentPort, workerData as WriterOptions);
