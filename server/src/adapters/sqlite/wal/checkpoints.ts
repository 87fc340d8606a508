import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { StorageError } from '../../../ports/event-log.ts';
import { DATABASE_FILE, fileAt, sharedIdentity, walPath } from '../data-folder/files.ts';

/** 32-bit words in the memory that the writer and the checkpointer share. */
const SIGNALS = 4;
/** The pages in the write-ahead log and the pages copied, as the checkpointer saw them last. */
export const WAL_PAGES = 0;
export const COPIED_PAGES = 1;
/** The command of the writer: `RUN`, `STOP`, or the number of a pause. */
export const COMMAND = 2;
/**
 * The number of the pause that the checkpointer keeps. Every pause has a number of its own, above 0, so that
 * a late answer to one pause is not taken for an answer to the next.
 */
export const PAUSED_BY = 3;

export const RUN = 0;
export const STOP = -1;

/** Given to the checkpointer's thread (checkpointer.ts). */
export interface CheckpointerOptions {
  readonly folder: string;
  /** The shared words, `SIGNALS` of them. */
  readonly shared: SharedArrayBuffer;
  /** Device and inode of the file that the writer has open: another one may come into its place. */
  readonly file: SharedArrayBuffer;
}

/**
 * The thread starts when the log is this long. A server without traffic is spared the thread and its memory.
 */
const THREAD_FROM_BYTES = 512 * 1024;
/**
 * The log starts again from its beginning when it is longer than this and at most `FEW_BYTES` are not copied.
 */
const RESTART_FROM_BYTES = 16 * 1024 * 1024;
/** Copying this much between two commits causes no noticeable delay. */
const FEW_BYTES = 1024 * 1024;
/** Commits between two checks for a restart of the log. */
const CHECK_EVERY = 64;
/** Milliseconds the thread has to close the file. It may be in the middle of a slow sync. */
const PAUSE_LIMIT = 2000;
/** Milliseconds between two attempts to start the thread. A start may fail while files are short. */
const RESTART_DELAY = 5000;

/**
 * The writer's side of checkpoints. A thread copies pages from the write-ahead log into the file; it starts
 * when there is enough to copy. It never quite catches up while commits go on, and only a log that is copied
 * to its last page can start again from its beginning. The writer therefore copies the last few pages itself
 * now and then. If the thread is missing, the writer copies all of them: commits become slower, and nothing
 * is lost.
 */
export class Checkpoints {
  readonly #folder: string;
  readonly #walPath: string;
  readonly #shared = new SharedArrayBuffer(4 * SIGNALS);
  readonly #signals = new Int32Array(this.#shared);
  readonly #file: BigUint64Array<SharedArrayBuffer>;
  /** Resolves when the thread has ended; undefined while there is none. */
  #exited: Promise<void> | undefined;
  #startedAt = Number.NEGATIVE_INFINITY;
  #copyRest: StatementSync;
  #truncate: StatementSync;
  readonly #pageSize: number;
  #commits = 0;
  #pauses = 0;

  /** `file`: as `CheckpointerOptions.file`. */
  constructor(database: DatabaseSync, folder: string, file = sharedIdentity()) {
    this.#folder = folder;
    this.#file = new BigUint64Array(file);
    this.#walPath = walPath(folder);
    this.#pageSize = (database.prepare('pragma page_size').get() as { page_size: number }).page_size;
    [this.#copyRest, this.#truncate] = prepare(database);
    this.#noteFile();
  }

  /**
   * Makes the thread close the file until `resume`. Throws a `StorageError` when it does not within
   * `PAUSE_LIMIT`.
   */
  pause(): void {
    if (this.#exited === undefined) return;
    const pause = ++this.#pauses;
    Atomics.store(this.#signals, COMMAND, pause);
    Atomics.notify(this.#signals, COMMAND);
    const until = performance.now() + PAUSE_LIMIT;
    for (;;) {
      const answered = Atomics.load(this.#signals, PAUSED_BY);
      if (answered === pause) return;
      const left = until - performance.now();
      if (left <= 0) throw new StorageError('the disk is too slow to be opened anew: see what else uses it');
      Atomics.wait(this.#signals, PAUSED_BY, answered, left);
    }
  }

  /** Lets the thread go on. `database`: the writer's new handle. */
  resume(database: DatabaseSync): void {
    [this.#copyRest, this.#truncate] = prepare(database);
    this.#noteFile();
    Atomics.store(this.#signals, COMMAND, RUN);
    Atomics.notify(this.#signals, COMMAND);
  }

  /** Call after every commit. */
  afterCommit(): void {
    if (this.#exited === undefined && this.#walBytes() >= THREAD_FROM_BYTES) this.#start();
    if (++this.#commits % CHECK_EVERY !== 0) return;
    const pages = Atomics.load(this.#signals, WAL_PAGES);
    const left = pages - Atomics.load(this.#signals, COPIED_PAGES);
    if (left * this.#pageSize > FEW_BYTES) return;
    // A log that has begun anew is short in a file that stays long.
    const bytes = this.isRunning ? pages * this.#pageSize : this.#walBytes();
    if (bytes >= RESTART_FROM_BYTES) this.#copyRest.get();
  }

  /** Empties the write-ahead log. False when the thread is using it; try again later. */
  truncateWal(): boolean {
    return (this.#truncate.get() as { busy: number }).busy === 0;
  }

  /** Copies as much of the log into the file as it can. The thread or the next call copies the rest. */
  copyPages(): void {
    try {
      this.#copyRest.get();
    } catch {
      // The pages stay in the log.
    }
  }

  async stop(): Promise<void> {
    Atomics.store(this.#signals, COMMAND, STOP);
    Atomics.notify(this.#signals, COMMAND);
    await this.#exited;
  }

  /** Whether the thread is running. */
  get isRunning(): boolean {
    return this.#exited !== undefined;
  }

  #start(): void {
    const now = performance.now();
    if (now - this.#startedAt < RESTART_DELAY) return;
    this.#startedAt = now;
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
    const thread = new Worker(new URL(`./checkpointer.${extension}`, import.meta.url), {
      workerData: {
        folder: this.#folder,
        shared: this.#shared,
        file: this.#file.buffer,
      } satisfies CheckpointerOptions,
      name: 'millrace-checkpointer',
    });
    thread.unref();
    // An error ends the thread, and its end is handled below.
    thread.on('error', () => {});
    this.#exited = new Promise((resolve) => {
      thread.once('exit', () => {
        this.#exited = undefined;
        // Its last numbers do not describe the log any more.
        Atomics.store(this.#signals, COPIED_PAGES, Atomics.load(this.#signals, WAL_PAGES));
        resolve();
      });
    });
  }

  /** The writer has just opened it. */
  #noteFile(): void {
    const { device, inode } = fileAt(join(this.#folder, DATABASE_FILE)) ?? { device: 0n, inode: 0n };
    this.#file.set([device, inode]);
  }

  #walBytes(): number {
    return statSync(this.#walPath, { throwIfNoEntry: false })?.size ?? 0;
  }
}

function prepare(database: DatabaseSync): [StatementSync, StatementSync] {
  return [
    database.prepare('pragma wal_checkpoint(passive)'),
    database.prepare('pragma wal_checkpoint(truncate)'),
  ];
}
