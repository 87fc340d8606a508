import { Worker } from 'node:worker_threads';
import { StorageError } from '../../../ports/event-log.ts';
import type { Backup, BackupProgress } from '../../../ports/store.ts';
import type { BackupWorkerMessage, BackupWorkerOptions } from './worker.ts';

/** Makes copies of the file while it is in use, one at a time, each on a thread of its own. */
export class BackupRunner {
  readonly #folder: string;
  readonly #problems: () => readonly string[];
  /** The copy under way, and the shared word that breaks it off. */
  #current: { readonly made: Promise<Backup>; readonly cancelFlag: Int32Array } | undefined;
  #isStopped = false;

  /** `problems` says why the files in the folder are not the open store; empty while they are. */
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
    const cancelFlag = new Int32Array(new SharedArrayBuffer(4));
    const made = runWorker({ folder: this.#folder, into, cancelFlag }, progress);
    this.#current = { made, cancelFlag };
    try {
      return await made;
    } finally {
      this.#current = undefined;
    }
  }

  /** Breaks off the copy under way: many gigabytes must not hold up the end of the program. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#current === undefined) return;
    const { made, cancelFlag } = this.#current;
    Atomics.store(cancelFlag, 0, 1);
    Atomics.notify(cancelFlag, 0);
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
    let result: BackupWorkerMessage | undefined;
    thread.on('message', (message: BackupWorkerMessage) => {
      if (message.kind === 'progress') progress?.(message.written, message.of);
      else result = message;
    });
    thread.on('error', (error) => reject(new StorageError(error.message, { cause: error })));
    // The thread has closed every file only when it has ended.
    thread.on('exit', () => {
      if (result?.kind === 'done') resolve(result.backup);
      else reject(new StorageError(result?.kind === 'failed' ? result.reason : 'the backup was broken off'));
    });
  });
}
