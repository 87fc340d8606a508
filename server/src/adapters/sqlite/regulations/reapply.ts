import { copyFileSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { isDeleting } from '../../../model/regulation.ts';
import { StorageError } from '../../../ports/event-log.ts';
import { syncPath } from '../data-folder/files.ts';
import { RESTORE_MARK } from '../data-folder/folder.ts';
import { openSqliteStore } from '../store.ts';
import { JOURNAL_FILE, type JournalEntry, readJournal } from './journal.ts';

/** The regulations that were done again on a restored folder. */
export interface ReappliedRegulations {
  readonly regulations: number;
  readonly events: number;
  /** The profiles of the backup were removed: they are made from the log again. */
  readonly dropsProfiles: boolean;
}

/**
 * Makes a folder that was just restored heed the regulations that came after the backup: those in the journal
 * of the backup, and in `files`. Users are deleted by the keyed hashes of their ids; nobody is notified
 * again. Rejects with a `StorageError`.
 */
export async function reapplyRegulations(
  backup: string,
  folder: string,
  files: readonly string[] = [],
): Promise<ReappliedRegulations> {
  try {
    const reapplied = await reapplyJournals(backup, folder, files);
    rmSync(join(folder, RESTORE_MARK), { force: true });
    syncPath(folder);
    return reapplied;
  } catch (error) {
    const reason = error instanceof StorageError ? error.reason : (error as Error).message;
    throw new StorageError(
      `${reason}; users deleted since the backup are still in ${folder}: remove it, and restore again`,
      {
        cause: error,
      },
    );
  }
}

async function reapplyJournals(
  backup: string,
  folder: string,
  files: readonly string[],
): Promise<ReappliedRegulations> {
  const own = join(backup, JOURNAL_FILE);
  const journals = [...(existsSync(own) ? [own] : []), ...files];
  const entries = new Map(journals.flatMap(readJournal).map((entry) => [entry.id, entry]));
  if (existsSync(own)) copyFileSync(own, join(folder, JOURNAL_FILE));
  if (entries.size === 0) return { regulations: 0, events: 0, dropsProfiles: false };
  const store = await openSqliteStore({ folder, isRestoring: true });
  try {
    const missing: JournalEntry[] = [];
    for (const entry of entries.values()) if (!(await store.knows(entry.id))) missing.push(entry);
    let events = 0;
    for (const entry of missing) events += await store.reapply(entry);
    await store.regulations.scrub();
    const dropsProfiles =
      missing.some(({ type }) => isDeleting(type)) && existsSync(join(folder, 'users.db'));
    if (dropsProfiles)
      for (const name of ['users.db', 'users.db-wal', 'users.db-shm'])
        rmSync(join(folder, name), { force: true });
    return { regulations: missing.length, events, dropsProfiles };
  } finally {
    await store.stop();
  }
}
