import { DatabaseSync } from 'node:sqlite';
import { workerData } from 'node:worker_threads';
import { databaseUri } from '../data-folder/files.ts';
import { COMMAND, COPIED_PAGES, PAUSED_BY, RUN, STOP, WAL_PAGES } from './checkpoint-signals.ts';

/** Milliseconds between two checkpoints. */
const CHECKPOINT_INTERVAL = 100;

export interface CheckpointerOptions {
  readonly folder: string;
  /** As many words as `checkpoint-words.ts` says. */
  readonly shared: SharedArrayBuffer;
}

/**
 * The thread that copies committed pages from the write-ahead log into the file, all the time, so that no commit has to.
 * When it fails (a full disk, an I/O error) nothing is lost: the pages are in the log. It then tries again on a new handle.
 */
function run({ folder, shared }: CheckpointerOptions): void {
  const seen = new Int32Array(shared);
  let database: DatabaseSync | undefined;
  for (;;) {
    const wish = Atomics.load(seen, COMMAND);
    if (wish === STOP) break;
    if (wish !== RUN) {
      database?.close();
      database = undefined;
      Atomics.store(seen, PAUSED_BY, wish);
      Atomics.notify(seen, PAUSED_BY);
      Atomics.wait(seen, COMMAND, wish);
      continue;
    }
    try {
      database ??= open(folder);
      const { log, checkpointed } = database
        .prepare('pragma wal_checkpoint(passive)')
        .get() as unknown as Checkpoint;
      Atomics.store(seen, WAL_PAGES, log);
      Atomics.store(seen, COPIED_PAGES, checkpointed);
    } catch {
      database?.close();
      database = undefined;
    }
    Atomics.wait(seen, COMMAND, RUN, CHECKPOINT_INTERVAL);
  }
  database?.close();
}

interface Checkpoint {
  log: number;
  checkpointed: number;
}

function open(folder: string): DatabaseSync {
  const database = new DatabaseSync(databaseUri(folder));
  database.exec('pragma synchronous = full; pragma checkpoint_fullfsync = on; pragma cache_size = -256');
  return database;
}

run(workerData as CheckpointerOptions);
