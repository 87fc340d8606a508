import { StorageError } from '../../../ports/event-log.ts';
import type { MigrationRecord } from '../../encoding/migration-record.ts';
import type { Database, Statement } from '../database.ts';
import { LOCKS } from '../schema.ts';

/** The fact that holds the record of the migration into this database. */
export const RECORD = 'migration';

/** The fact that says where the installation was moved to. */
const MOVED = 'moved_to';

/** Whether the program that moves an installation is at work is told by its lock, which goes with its connection. */
const STANDING: Statement = {
  name: 'migration.standing',
  text: `select (select value from installation where name = '${RECORD}') as record,
      (select value from installation where name = '${MOVED}') as moved,
      exists (select from pg_locks where locktype = 'advisory' and classid = 0 and objid = ${LOCKS.migration} and objsubid = 1 and granted
        and database = (select oid from pg_database where datname = current_database())) as moving`,
};

const MARK: Statement = {
  name: 'migration.mark',
  text: `insert into installation(name, value) values ('${MOVED}', $1) on conflict (name) do nothing`,
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
export async function standingOf(database: Database): Promise<{
  readonly record?: MigrationRecord;
  readonly moved?: Move;
  readonly isMoving: boolean;
}> {
  const [row] = await database.read((read) => read.rows<StandingRow>(STANDING));
  const { record, moved, moving } = row!;
  return {
    ...(record === null ? {} : { record: JSON.parse(record) as MigrationRecord }),
    ...(moved === null ? {} : { moved: JSON.parse(moved) as Move }),
    isMoving: moving,
  };
}

export async function markMoved(database: Database, move: Move): Promise<void> {
  await database.read((session) => session.rows(MARK, [JSON.stringify(move)]));
}

/**
 * Rejects with a `StorageError` for a database that would deliver what another place delivers too, for one that is not filled yet, and
 * for one that is just being moved.
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
      `what is in the database was moved to ${moved.to} at ${moved.at}, and is delivered from there: start Millrace with that, or move it ` +
        `back with millrace migrate. Only if nothing was ever started there, delete the row '${MOVED}' of the table installation`,
    );
  if (isMoving)
    throw new StorageError('millrace migrate is moving what is in the database: wait until it has ended');
}
