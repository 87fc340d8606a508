import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { StorageError } from '../../../ports/event-log.ts';
import { isSealedBy, openRecord, sealRecord, unknownKey } from '../../encoding/sealed-records.ts';
import type { SecretSeal } from '../../encoding/secret-seal.ts';
import { DATABASE_FILE } from '../data-folder/files.ts';
import { InstallationFacts } from '../installation.ts';
import { write } from '../rpc.ts';
import { recordChecksum, type StoredRecordRow } from './records.ts';

/** Handlers about the key of the secrets: the store calls them when the file holds no remnants any more. */
export function secretHandlers(database: DatabaseSync) {
  const facts = new InstallationFacts(database);
  return {
    secretsScrubbed: write((): undefined => {
      facts.put(REMNANTS_FACT, 0);
    }),
  };
}

/** Name of the key that secrets are encrypted with; empty or absent where they are stored as they are. */
const KEY_FACT = 'secrets_key';

/**
 * 1 while the file may still hold bytes of secrets as they were before they were encrypted with another key,
 * or with any.
 */
const REMNANTS_FACT = 'secrets_remnants';

/**
 * The name of the key that a store's secrets are encrypted with; undefined without one. Reads a file of any
 * format.
 */
export function storedKeyName(database: DatabaseSync): string | undefined {
  const hasFacts = database.prepare(`select 1 from pragma_table_info('installation') where name = 'sum'`);
  if (hasFacts.get() === undefined) return undefined;
  const stored = new InstallationFacts(database).bytes(KEY_FACT);
  return stored === undefined || stored === 'damaged'
    ? undefined
    : Buffer.from(stored).toString() || undefined;
}

/** The same of the store in a folder that no server uses; undefined also where there is no store. */
export function keyNameIn(folder: string): string | undefined {
  const path = join(folder, DATABASE_FILE);
  if (!existsSync(path)) return undefined;
  // Immutable: SQLite takes no lock and makes no file beside it.
  const database = new DatabaseSync(`${pathToFileURL(path).href}?immutable=1`, { readOnly: true });
  try {
    return storedKeyName(database);
  } finally {
    database.close();
  }
}

/** The result of a start for the secrets of the store. */
export interface AdoptedKey {
  /** Records that were written anew; undefined where nothing was to be done. */
  readonly records?: number;
  /** The file may hold bytes of secrets as they were before: see `scrub`. */
  readonly hasRemnants: boolean;
}

/**
 * Brings all secrets under the key of this start, in one transaction; without a key but with the one before
 * they are stored as they are again. Versions stay: no record has changed. Throws a `StorageError` where a
 * key is missing, and changes nothing then.
 */
export function adoptKey(database: DatabaseSync, seal: SecretSeal): AdoptedKey {
  const facts = new InstallationFacts(database);
  const stored = storedKeyName(database);
  if (stored !== undefined && !seal.has(stored)) throw new StorageError(unknownKey(stored, seal));
  const hadRemnants = facts.number(REMNANTS_FACT) === 1;
  if (stored === undefined && seal.isEmpty) return { hasRemnants: hadRemnants };
  const rows = database
    .prepare('select id, kind, name, version, gone, document, sum from record')
    .all() as unknown as StoredRecordRow[];
  // A damaged record stays as it is: whoever loads it is told.
  const others = rows.filter((row) => row.sum === recordChecksum(row) && !isSealedBy(seal, row));
  if (stored === seal.current && others.length === 0) return { hasRemnants: hadRemnants };
  database.exec('begin immediate');
  try {
    const update = database.prepare('update record set document = ?, sum = ? where id = ?');
    for (const row of others) {
      const document = sealRecord(seal, seal.current, { ...row, record: openRecord(seal, row) });
      update.run(document, recordChecksum({ ...row, document }), row.id);
    }
    facts.put(KEY_FACT, Buffer.from(seal.current ?? ''));
    if (others.length > 0) facts.put(REMNANTS_FACT, 1);
    database.exec('commit');
  } catch (error) {
    database.exec('rollback');
    throw error;
  }
  return { records: others.length, hasRemnants: hadRemnants || others.length > 0 };
}
