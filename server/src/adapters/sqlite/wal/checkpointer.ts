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

/** Milliseconds between two looks at the log. */
const LOOK_INTERVAL = 100;

/**
 * The log is copied when so many bytes of it are not copied yet, or after so many milliseconds. Small commits
 * change the same few pages again and again, and each copy writes them all.
 */
const COPY_FROM_BYTES = 4 * 1024 * 1024;
const COPY_AFTER = 10_000;

/**
 * The checkpointer's thread: copies committed pages from the write-ahead log into the file, so that no commit
 * has to. The file runs on import, so nothing may import it. After an error (a full disk, an I/O error) it
 * tries again on a new handle; nothing is lost, because the pages are still in the log.
 */
function run({ folder, shared, file }: CheckpointerOptions): void {
  const signals = new Int32Array(shared);
  let database: DatabaseSync | undefined;
  let copiedAt = Number.NEGATIVE_INFINITY;
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
      const isTime = performance.now() - copiedAt >= COPY_AFTER;
      const isWorthIt = isTime || bytesLeft(database) >= COPY_FROM_BYTES;
      const { log, checkpointed } = checkpoint(database, isWorthIt ? 'passive' : 'noop');
      if (isWorthIt) copiedAt = performance.now();
      Atomics.store(signals, WAL_PAGES, log);
      Atomics.store(signals, COPIED_PAGES, checkpointed);
    } catch {
      database?.close();
      database = undefined;
    }
    Atomics.wait(signals, COMMAND, RUN, LOOK_INTERVAL);
  }
  database?.close();
}

/** Bytes in the log that are not copied. */
function bytesLeft(database: DatabaseSync): number {
  const { log, checkpointed } = checkpoint(database, 'noop');
  const { page_size: size } = database.prepare('pragma page_size').get() as { page_size: number };
  return (log - checkpointed) * size;
}

/** `noop` copies nothing. */
function checkpoint(database: DatabaseSync, mode: 'passive' | 'noop'): Checkpoint {
  return database.prepare(`pragma wal_checkpoint(${mode})`).get() as unknown as Checkpoint;
}

interface Checkpoint {
  log: number;
  checkpointed: number;
}

/**
 * Throws when another file than the writer's stands there. Its log would be copied and removed, under whoever
 * works with it. Closed before anything is read, the connection does nothing to it.
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
