import { statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StorageError } from '../../ports/event-log.ts';
import { asStorageError } from './database.ts';
import { DATABASE, inspectedFileOf, logOf } from './file.ts';
import { readMark, type Standing } from './high-water-mark.ts';
import { type FoundStanding, standingIn } from './installation.ts';
import { beginsWhole } from './log-head.ts';
import { refuseForeign } from './schema.ts';

/** What a start may do with a folder. */
export interface Inspected {
  /** There is nothing in it yet. */
  readonly isNew: boolean;
  /** Its mark is damaged and has to be made anew. */
  readonly isMarkDamaged: boolean;
}

/**
 * Looks at the files of a data folder that nobody uses, before anybody opens them to write, and changes nothing in them.
 * Throws a `StorageError` when what was committed there is not there any more, or when it is no store of ours.
 */
export function inspect(folder: string): Inspected {
  try {
    const mark = readMark(folder);
    const file = sizeOf(join(folder, DATABASE));
    const log = sizeOf(logOf(folder)) ?? 0;
    if (!file) {
      if (mark !== undefined || log > 0) throw gone(folder, file === undefined ? 'missing' : 'empty', mark);
      return { isNew: true, isMarkDamaged: false };
    }
    // Left by a start that was cut off in its very first moment. A read-only connection could not undo it.
    const isUnfinished = mark === undefined && (sizeOf(join(folder, `${DATABASE}-journal`)) ?? 0) > 0;
    if (!isUnfinished) compare(folder, mark, read(folder));
    return { isNew: false, isMarkDamaged: mark === 'damaged' };
  } catch (error) {
    throw asStorageError(error, folder);
  }
}

/** Throws when the file that was open is missing or empty. */
export function refuseMissing(folder: string, standing: Standing): void {
  const size = sizeOf(join(folder, DATABASE));
  if (!size) throw gone(folder, size === undefined ? 'missing' : 'empty', standing);
}

/** Throws when a store that was found is not the one that the mark speaks of, or an earlier state of it. */
export function compare(folder: string, mark: Standing | 'damaged' | undefined, found: FoundStanding): void {
  if (mark === undefined || mark === 'damaged') return;
  const { commits } = found;
  if (found.id === undefined && commits === 0) {
    // Nothing was ever committed, or everything is in a log that is gone.
    if (mark.commits > 0) throw lost(folder, mark, 0);
    return;
  }
  if (found.id !== mark.id && found.id !== 'damaged') {
    throw new StorageError(
      `the millrace.db in the data folder ${folder} is of another installation than the one that ran there: bring back its ` +
        `own, or choose another folder with --data; to use this one, restore it: millrace restore ${folder} --data NEW`,
    );
  }
  if (commits < mark.commits) throw lost(folder, mark, commits);
}

function read(folder: string): FoundStanding {
  // A log that SQLite would take for empty is not shown to it.
  const database = new DatabaseSync(inspectedFileOf(folder, beginsWhole(logOf(folder))), {
    readOnly: true,
  });
  try {
    // Keeps the index of the log in memory.
    database.exec('pragma locking_mode = exclusive');
    refuseForeign(database);
    return standingIn(database);
  } catch (error) {
    if (!/not a database/i.test(String(error))) throw error;
    throw gone(folder, 'no database', readMark(folder));
  } finally {
    database.close();
  }
}

function gone(
  folder: string,
  what: 'missing' | 'empty' | 'no database',
  mark: Standing | 'damaged' | undefined,
) {
  const held = typeof mark === 'object' ? `, and it held ${commitsOf(mark.commits)}` : '';
  const state = what === 'no database' ? 'is damaged from its first byte on' : `is ${what}`;
  return new StorageError(
    `the store of the data folder ${folder} is gone: millrace.db ${state}${held}. Bring the file back, or ${ADVICE}; ` +
      'to begin anew with nothing, move the folder away',
  );
}

function lost(folder: string, { commits }: Standing, found: number): StorageError {
  const log = logOf(folder);
  const size = sizeOf(log);
  const why =
    size === undefined
      ? 'its write-ahead log, millrace.db-wal, is missing'
      : size === 0
        ? 'its write-ahead log, millrace.db-wal, is empty'
        : 'its write-ahead log, millrace.db-wal, is damaged, or millrace.db is an older copy';
  const aside = size ? `move ${log} away, and ` : '';
  return new StorageError(
    `the store of the data folder ${folder} has lost its last ${commitsOf(commits - found)} of ${commits}: ${why}. ` +
      `Bring back what was there, or ${ADVICE}; to go on without them, ${aside}check and copy the rest: ` +
      `millrace restore ${folder} --data NEW`,
  );
}

const ADVICE = 'restore a backup into another folder (millrace restore)';

function commitsOf(commits: number): string {
  return commits === 1 ? '1 commit' : `${commits} commits`;
}

/** Nothing when there is no such file. */
function sizeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size;
}
