import { statSync } from 'node:fs';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { StorageError } from '../../ports/event-log.ts';
import { COPIED, GO_ON, LOG, PAUSED, STOP, WISH, WORDS } from './checkpoint-words.ts';
import type { CheckpointerOptions } from './checkpointer.ts';
import { logOf } from './file.ts';

/** There is no thread while the log is shorter: a server without traffic is spared one, and the memory it takes. */
const WORTH_COPYING = 512 * 1024;
/** The write-ahead log starts again from its beginning once it is longer than this… */
const LONG_ENOUGH = 16 * 1024 * 1024;
/** …and so few of its pages are left to be copied that doing it between two commits goes unnoticed. */
const FEW_PAGES = 256;
/** Commits between two looks at it. */
const LOOK_EVERY = 64;
/** Milliseconds the thread has to give up the file; it may be in the middle of a slow sync. */
const PAUSE_LIMIT = 2000;
/** Milliseconds between two attempts to start the thread. It may fail for want of open files, which pass. */
const START_AGAIN = 5000;

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
  readonly #shared = new SharedArrayBuffer(4 * WORDS);
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
    this.#log = logOf(folder);
    [this.#copyRest, this.#truncate] = prepare(database);
  }

  /** Until `resume` the thread has no handle on the file. Throws when it does not come to an end of its work. */
  pause(): void {
    if (this.#exited === undefined) return;
    const pause = ++this.#pauses;
    Atomics.store(this.#seen, WISH, pause);
    Atomics.notify(this.#seen, WISH);
    const until = performance.now() + PAUSE_LIMIT;
    for (;;) {
      const answered = Atomics.load(this.#seen, PAUSED);
      if (answered === pause) return;
      const left = until - performance.now();
      if (left <= 0) throw new StorageError('the disk is too slow to be opened anew: see what else uses it');
      Atomics.wait(this.#seen, PAUSED, answered, left);
    }
  }

  /** The writer has a new handle. */
  resume(database: DatabaseSync): void {
    [this.#copyRest, this.#truncate] = prepare(database);
    Atomics.store(this.#seen, WISH, GO_ON);
    Atomics.notify(this.#seen, WISH);
  }

  /** Call after every commit. */
  committed(): void {
    if (this.#exited === undefined && this.#bytes() >= WORTH_COPYING) this.#start();
    if (++this.#commits % LOOK_EVERY !== 0) return;
    const left = Atomics.load(this.#seen, LOG) - Atomics.load(this.#seen, COPIED);
    if (left > FEW_PAGES || this.#bytes() < LONG_ENOUGH) return;
    this.#copyRest.get();
  }

  /** Empties the write-ahead log; false when the thread is at work in it and it must be tried again. */
  empty(): boolean {
    return (this.#truncate.get() as { busy: number }).busy === 0;
  }

  /** Copies what it can of the log into the file; what it cannot now, the thread or the next call does. */
  save(): void {
    try {
      this.#copyRest.get();
    } catch {
      // The pages stay in the log, which is open.
    }
  }

  async stop(): Promise<void> {
    Atomics.store(this.#seen, WISH, STOP);
    Atomics.notify(this.#seen, WISH);
    await this.#exited;
  }

  /** Whether there is a thread. */
  get isRunning(): boolean {
    return this.#exited !== undefined;
  }

  #start(): void {
    const now = performance.now();
    if (now - this.#startedAt < START_AGAIN) return;
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
        Atomics.store(this.#seen, COPIED, Atomics.load(this.#seen, LOG));
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
