import { DatabaseSync } from 'node:sqlite';
import { workerData } from 'node:worker_threads';
import { databaseUri, isWritersFile } from '../data-folder/files.ts';
import {
  type CheckpointerOptions,
  COMMAND,
  COPIED_PAGES,
  PAUSED_BY,
  RUN,
  STOP,
  WAL_PAGES,
} from './checkpoints.ts';

/** Milliseconds between two checkpoints. */
const CHECKPOINT_INTERVAL = 100;

/**
 * The checkpointer's thread: copies committed pages from the write-ahead log into the file, so that no commit has to. The
 * file runs on import, so nothing may import it. After an error (a full disk, an I/O error) it tries again on a new handle;
 * nothing is lost, because the pages are still in the log.
 */
function run({ folder, shared, file }: CheckpointerOptions): void {
  const signals = new Int32Array(shared);
  let database: DatabaseSync | undefined;
  for (;;) {
    const command = Atomics.load(signals, COMMAND);
    if (command === STOP) break;
    if (command !== RUN) {
      database?.close();
      database = undefined;
      Atomics.store(signals, PAUSED_BY, command);
      Atomics.notify(signals, PAUSED_BY);
      Atomics.wait(signals, COMMAND, command);
      continue;
    }
    try {
      database ??= open(folder, file);
      const { log, checkpointed } = database
        .prepare('pragma wal_checkpoint(passive)')
        .get() as unknown as Checkpoint;
      Atomics.store(signals, WAL_PAGES, log);
      Atomics.store(signals, COPIED_PAGES, checkpointed);
    } catch {
      database?.close();
      database = undefined;
    }
    Atomics.wait(signals, COMMAND, RUN, CHECKPOINT_INTERVAL);
  }
  database?.close();
}

interface Checkpoint {
  log: number;
  checkpointed: number;
}

/**
 * Throws when another file than the writer's stands there. Its log would be copied and removed, under whoever works with it. Closed before
 * anything is read, the connection does nothing to it.
 */
function open(folder: string, writers: SharedArrayBuffer): DatabaseSync {
  const database = new DatabaseSync(databaseUri(folder));
  if (!isWritersFile(folder, writers)) {
    database.close();
    throw new Error('another file is in the place of the open one');
  }
  database.exec('pragma synchronous = full; pragma checkpoint_fullfsync = on; pragma cache_size = -256');
  return database;
}

run(workerData as CheckpointerOptions);
