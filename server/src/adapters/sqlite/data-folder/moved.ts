import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { StorageError } from '../../../ports/event-log.ts';
import { syncPath, writeAnew } from './files.ts';

/** Stands in a data folder whose installation was moved to a database. */
const MOVED_FILE = 'moved.json';

/** Stands in a data folder into which an earlier version was moving an installation when it ended. */
const MIGRATION_MARK = 'migration.unfinished';

/** Where an installation was moved to, and when. */
interface Move {
  readonly to: string;
  readonly at: string;
}

/** Where the installation of a folder was moved to; undefined while it is at home there. */
export function movedTo(folder: string): Move | undefined {
  const path = join(folder, MOVED_FILE);
  if (!existsSync(path)) return undefined;
  try {
    const { to, at } = JSON.parse(readFileSync(path, 'utf8')) as Partial<Move>;
    if (typeof to === 'string' && typeof at === 'string') return { to, at };
  } catch {
    // A damaged mark is a mark all the same.
  }
  return { to: 'another place', at: 'some time' };
}

/** Marks a folder whose installation is delivered from another place. Durable when it returns. */
export function markMoved(folder: string, move: Move): void {
  writeAnew(join(folder, MOVED_FILE), `${JSON.stringify(move)}\n`);
  syncPath(folder);
}

/** Whether an earlier version has moved a part of an installation into a folder, and not all of it. */
export function isBeingFilled(folder: string): boolean {
  return existsSync(join(folder, MIGRATION_MARK));
}

/**
 * Throws a `StorageError` for a folder that would deliver what another place delivers too, and for one that
 * is not filled yet.
 */
export function refuseMoved(folder: string): void {
  if (isBeingFilled(folder))
    throw new StorageError(
      `an earlier version was moving an installation from a database into the data folder ${folder}, and not all of it is there: the database is as ` +
        'it was, so start Millrace with that under "database", and remove the folder',
    );
  const move = movedTo(folder);
  if (move === undefined) return;
  throw new StorageError(
    `what is in the data folder ${folder} was moved to ${move.to} at ${move.at}, and is delivered from there: start Millrace with that ` +
      `under "database". Only if nothing was ever started there, remove ${join(folder, MOVED_FILE)}`,
  );
}
