import { Worker } from 'node:worker_threads';
import { StorageError } from '../../../ports/event-log.ts';
import type { Backup, BackupProgress } from '../../../ports/store.ts';
import type { BackupWorkerMessage, BackupWorkerOptions } from './worker.ts';

/** Copies of the file while it is in use, one at a time, each on a thread that lives as long as it. */
export class BackupRunner {
  readonly #folder: string;
  readonly #problems: () => readonly string[];
  /** Of the copy under way: its promise, and the word by which its thread is told to break off. */
  #current: { readonly made: Promise<Backup>; readonly wish: Int32Array } | undefined;
  #isStopped = false;

  /** `problems` says why what is in the folder now is not the store. */
  constructor(folder: string, problems: () => readonly string[]) {
    this.#folder = folder;
    this.#problems = problems;
  }

  async make(into: string, progress?: BackupProgress): Promise<Backup> {
    if (this.#isStopped) throw new StorageError('the store is stopped');
    const [problem] = this.#problems();
    if (problem !== undefined) throw new StorageError(problem);
    if (this.#current !== undefined) {
      throw new StorageError(
        'another backup is being made: wait for its end, or look at it with GET /api/v1/backups',
      );
    }
    const wish = new Int32Array(new SharedArrayBuffer(4));
    const made = runWorker({ folder: this.#folder, into, cancelFlag: wish }, progress);
    this.#current = { made, wish };
    try {
      return await made;
    } finally {
      this.#current = undefined;
    }
  }

  /** Breaks off what is under way: a copy of many gigabytes must not hold up the end of the program. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#current === undefined) return;
    const { made, wish } = this.#current;
    Atomics.store(wish, 0, 1);
    Atomics.notify(wish, 0);
    await made.catch(() => {});
  }
}

function runWorker(options: BackupWorkerOptions, progress?: BackupProgress): Promise<Backup> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const thread = new Worker(new URL(`./worker.${extension}`, import.meta.url), {
    workerData: options,
    name: 'millrace-backup',
  });
  return new Promise((resolve, reject) => {
    let report: BackupWorkerMessage | undefined;
    thread.on('message', (said: BackupWorkerMessage) => {
      if (said.kind === 'progress') progress?.(said.written, said.of);
      else report = said;
    });
    thread.on('error', (error) => reject(new StorageError(error.message, { cause: error })));
    // Only then has it let go of every file.
    thread.on('exit', () => {
      if (report?.kind === 'done') resolve(report.backup);
      else reject(new StorageError(report?.kind === 'failed' ? report.reason : 'the backup was broken off'));
    });
  });
}
