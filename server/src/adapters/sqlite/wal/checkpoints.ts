import { statSync } from 'node:fs';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { StorageError } from '../../../ports/event-log.ts';
import { walPath } from '../data-folder/files.ts';
import { COMMAND, COPIED_PAGES, PAUSED_BY, RUN, SIGNALS, STOP, WAL_PAGES } from './checkpoint-signals.ts';
import type { CheckpointerOptions } from './checkpointer.ts';

/** There is no thread while the log is shorter: a server without traffic is spared one, and the memory it takes. */
const THREAD_FROM_BYTES = 512 * 1024;
/** The write-ahead log starts again from its beginning once it is longer than this… */
const RESTART_FROM_BYTES = 16 * 1024 * 1024;
/** …and so few of its pages are left to be copied that doing it between two commits goes unnoticed. */
const FEW_PAGES = 256;
/** Commits between two looks at it. */
const LOOK_EVERY = 64;
/** Milliseconds the thread has to give up the file; it may be in the middle of a slow sync. */
const PAUSE_LIMIT = 2000;
/** Milliseconds between two attempts to start the thread. It may fail for want of open files, which pass. */
const RESTART_DELAY = 5000;

/**
 * The writer's side of checkpoints. The copying of pages from the write-ahead log into the file is done on a thread of its
 * own, started when there is something worth copying. That thread never quite catches up while commits go on, and only
 * a log that is copied to the last page can start again from its beginning; so now and then the writer copies the last few
 * pages itself. Without the thread it would copy all of them, which commits feel and nothing else.
 */
export class Checkpoints {
  readonly #folder: string;
  /** The path of the log. */
  readonly #log: string;
  readonly #shared = new SharedArrayBuffer(4 * SIGNALS);
  /** Pages in the log and pages copied, as the thread saw them last. */
  readonly #seen = new Int32Array(this.#shared);
  /** Of the thread, while there is one: resolves when it is gone. */
  #exited: Promise<void> | undefined;
  #startedAt = Number.NEGATIVE_INFINITY;
  #copyRest: StatementSync;
  #truncate: StatementSync;
  #commits = 0;
  #pauses = 0;

  constructor(database: DatabaseSync, folder: string) {
    this.#folder = folder;
    this.#log = walPath(folder);
    [this.#copyRest, this.#truncate] = prepare(database);
  }

  /** Until `resume` the thread has no handle on the file. Throws when it does not come to an end of its work. */
  pause(): void {
    if (this.#exited === undefined) return;
    const pause = ++this.#pauses;
    Atomics.store(this.#seen, COMMAND, pause);
    Atomics.notify(this.#seen, COMMAND);
    const until = performance.now() + PAUSE_LIMIT;
    for (;;) {
      const answered = Atomics.load(this.#seen, PAUSED_BY);
      if (answered === pause) return;
      const left = until - performance.now();
      if (left <= 0) throw new StorageError('the disk is too slow to be opened anew: see what else uses it');
      Atomics.wait(this.#seen, PAUSED_BY, answered, left);
    }
  }

  /** The writer has a new handle. */
  resume(database: DatabaseSync): void {
    [this.#copyRest, this.#truncate] = prepare(database);
    Atomics.store(this.#seen, COMMAND, RUN);
    Atomics.notify(this.#seen, COMMAND);
  }

  /** Call after every commit. */
  afterCommit(): void {
    if (this.#exited === undefined && this.#bytes() >= THREAD_FROM_BYTES) this.#start();
    if (++this.#commits % LOOK_EVERY !== 0) return;
    const left = Atomics.load(this.#seen, WAL_PAGES) - Atomics.load(this.#seen, COPIED_PAGES);
    if (left > FEW_PAGES || this.#bytes() < RESTART_FROM_BYTES) return;
    this.#copyRest.get();
  }

  /** Empties the write-ahead log; false when the thread is at work in it and it must be tried again. */
  truncateWal(): boolean {
    return (this.#truncate.get() as { busy: number }).busy === 0;
  }

  /** Copies what it can of the log into the file; what it cannot now, the thread or the next call does. */
  copyPages(): void {
    try {
      this.#copyRest.get();
    } catch {
      // The pages stay in the log, which is open.
    }
  }

  async stop(): Promise<void> {
    Atomics.store(this.#seen, COMMAND, STOP);
    Atomics.notify(this.#seen, COMMAND);
    await this.#exited;
  }

  /** Whether there is a thread. */
  get isRunning(): boolean {
    return this.#exited !== undefined;
  }

  #start(): void {
    const now = performance.now();
    if (now - this.#startedAt < RESTART_DELAY) return;
    this.#startedAt = now;
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
    const thread = new Worker(new URL(`./checkpointer.${extension}`, import.meta.url), {
      workerData: { folder: this.#folder, shared: this.#shared } satisfies CheckpointerOptions,
      name: 'millrace-checkpointer',
    });
    thread.unref();
    // Its end is all there is to know of an error.
    thread.on('error', () => {});
    this.#exited = new Promise((resolve) => {
      thread.once('exit', () => {
        this.#exited = undefined;
        // What it saw last says nothing of the log of now.
        Atomics.store(this.#seen, COPIED_PAGES, Atomics.load(this.#seen, WAL_PAGES));
        resolve();
      });
    });
  }

  #bytes(): number {
    return statSync(this.#log, { throwIfNoEntry: false })?.size ?? 0;
  }
}

function prepare(database: DatabaseSync): [StatementSync, StatementSync] {
  return [
    database.prepare('pragma wal_checkpoint(passive)'),
    database.prepare('pragma wal_checkpoint(truncate)'),
  ];
}
