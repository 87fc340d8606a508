import { StorageError } from '../../../ports/event-log.ts';
import { type Database, LOCKS, type Statement } from '../database.ts';
import type { MigrationRecord } from './record.ts';

/** The fact that holds the record of the migration into this database. */
export const RECORD = 'migration';

/** The fact that says where an earlier version has moved the installation. */
const MOVED = 'moved_to';

/**
 * Whether the program that moves an installation is at work is told by its lock, which goes with its
 * connection.
 */
const STANDING: Statement = {
  name: 'migration.standing',
  text: `select (select value from installation where name = '${RECORD}') as record,
      (select value from installation where name = '${MOVED}') as moved,
      exists (select from pg_locks where locktype = 'advisory' and classid = 0 and objid = ${LOCKS.migration} and objsubid = 1 and granted
        and database = (select oid from pg_database where datname = current_database())) as moving`,
};

interface StandingRow {
  readonly record: string | null;
  readonly moved: string | null;
  readonly moving: boolean;
}

/** Where an installation was moved to, and when. */
interface Move {
  readonly to: string;
  readonly at: string;
}

/** The record of the migration into this database, and where its installation was moved to. */
async function standingOf(database: Database): Promise<{
  readonly record: MigrationRecord | undefined;
  readonly moved: Move | undefined;
  readonly isMoving: boolean;
}> {
  const [row] = await database.read((read) => read.rows<StandingRow>(STANDING));
  const { record, moved, moving } = row!;
  return {
    record: record === null ? undefined : (JSON.parse(record) as MigrationRecord),
    moved: moved === null ? undefined : (JSON.parse(moved) as Move),
    isMoving: moving,
  };
}

/**
 * Rejects with a `StorageError` for a database that would deliver what another place delivers too, for one
 * that is not filled yet, and for one that is just being moved.
 */
export async function refuseMoved(database: Database): Promise<void> {
  const { record, moved, isMoving } = await standingOf(database);
  if (record !== undefined && record.progress.phase !== 'complete')
    throw new StorageError(
      `an installation is being moved into the database from ${record.origin.place}, and not all of it is there: run millrace migrate again, ` +
        'and it goes on',
    );
  if (moved !== undefined)
    throw new StorageError(
      `what is in the database was moved to ${moved.to} at ${moved.at}, and is delivered from there: start Millrace with that. ` +
        `Only if nothing was ever started there, delete the row '${MOVED}' of the table installation`,
    );
  if (isMoving)
    throw new StorageError('millrace migrate is at work on the database: wait until it has ended');
}
