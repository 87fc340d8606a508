import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { workerData } from 'node:worker_threads';

/** Milliseconds between two checkpoints. */
const EVERY = 100;

export interface CheckpointerOptions {
  readonly folder: string;
  /** Three words: pages in the log, pages copied, and 1 when it is time to stop. */
  readonly shared: SharedArrayBuffer;
}

/**
 * The thread that copies committed pages from the write-ahead log into the file, all the time, so that no commit has to.
 * When it fails (a full disk, an I/O error) nothing is lost: the pages are in the log. It then tries again on a new handle.
 */
function run({ folder, shared }: CheckpointerOptions): void {
  const seen = new Int32Array(shared);
  let database: DatabaseSync | undefined;
  while (Atomics.load(seen, 2) === 0) {
    try {
      database ??= open(folder);
      const { log, checkpointed } = database
        .prepare('pragma wal_checkpoint(passive)')
        .get() as unknown as Checkpoint;
      Atomics.store(seen, 0, log);
      Atomics.store(seen, 1, checkpointed);
    } catch {
      database?.close();
      database = undefined;
    }
    Atomics.wait(seen, 2, 0, EVERY);
  }
  database?.close();
}

interface Checkpoint {
  log: number;
  checkpointed: number;
}

function open(folder: string): DatabaseSync {
  const database = new DatabaseSync(join(folder, 'millrace.db'));
  database.exec('pragma synchronous = full; pragma checkpoint_fullfsync = on; pragma cache_size = -256');
  return database;
}

run(workerData as CheckpointerOptions);
