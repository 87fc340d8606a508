import { DatabaseSync } from 'node:sqlite';
import { StorageError } from '../../ports/event-log.ts';

/** A table, an index, a view or a trigger, as SQLite lists it. */
interface SchemaObject {
  readonly type: string;
  readonly name: string;
  /** Null for an index that SQLite makes by itself. */
  readonly sql: string | null;
}

const OBJECTS = `select type, name, sql from sqlite_schema where name not like 'sqlite~_%' escape '~' order by type, name`;

/**
 * Refuses a file with a trigger or a view: Millrace makes none, and what others have put there would run with
 * its statements. Comes before the first of them. `file`: which one it is, for people.
 */
export function refuseProgramsIn(database: DatabaseSync, file: string): void {
  const found = objectsIn(database).find(({ type }) => type === 'trigger' || type === 'view');
  if (found !== undefined) throw foreign(found, file);
}

/**
 * Refuses a file with other tables and indexes than `make` makes in an empty one: what is written there could
 * be another's.
 */
export function refuseOthers(
  database: DatabaseSync,
  file: string,
  make: (empty: DatabaseSync) => void,
): void {
  const empty = new DatabaseSync(':memory:');
  try {
    make(empty);
    const ours = objectsIn(empty);
    const expected = new Set(ours.map(textOf));
    const other = objectsIn(database).find((found) => !expected.has(textOf(found)));
    if (other === undefined) return;
    const isOurs = ours.some(({ type, name }) => type === other.type && name === other.name);
    throw isOurs ? changed(other, file) : foreign(other, file);
  } finally {
    empty.close();
  }
}

function objectsIn(database: DatabaseSync): SchemaObject[] {
  return database.prepare(OBJECTS).all() as unknown as SchemaObject[];
}

/** Without comments and line ends, which may have changed since the file was made. */
function textOf({ type, name, sql }: SchemaObject): string {
  return `${type} ${name} ${sql?.replace(/--[^\n]*/g, '').replace(/\s+/g, ' ')}`;
}

function changed({ type, name }: SchemaObject, file: string): StorageError {
  return new StorageError(
    `the ${type} ${JSON.stringify(name)} in ${file} is not as Millrace makes it, so somebody has changed it, or the file is damaged: restore a ` +
      'backup, or choose another one with --data',
  );
}

function foreign({ type, name }: SchemaObject, file: string): StorageError {
  return new StorageError(
    `${file} holds the ${type} ${JSON.stringify(name)}, which Millrace did not make: remove it with sqlite3 while no server ` +
      'runs, if you know where it comes from, or restore a backup',
  );
}
