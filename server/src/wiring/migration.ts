import { resolve } from 'node:path';
import { openFolderSource } from '../adapters/sqlite/migration/source.ts';
import { createSystemClock } from '../adapters/system/clock.ts';
import type { MigrationMoment, MigrationReport } from '../migration/contract.ts';
import { migrate } from '../migration/migration.ts';
import { StorageError } from '../ports/event-log.ts';
import type { InstallationSize, InstallationSource } from '../ports/installation.ts';

export { isBeingFilled, movedTo } from '../adapters/sqlite/data-folder/moved.ts';
export type { MigrationMoment } from '../migration/contract.ts';
export { StorageError } from '../ports/event-log.ts';

export interface InstallationMove {
  /** A data folder. */
  readonly from: string;
  /** The postgres:// address of a database. */
  readonly to: string;
}

export interface MoveOptions extends InstallationMove {
  /** Called before anything is written. */
  readonly begin?: (preview: MovePreview) => void;
  readonly watch?: (moment: MigrationMoment) => void;
  readonly isStopped?: () => boolean;
}

/** Preview of a move. */
export interface MovePreview extends InstallationSize {
  readonly from: string;
  readonly to: string;
  readonly leftBehind: readonly string[];
}

export function isDatabase(place: string): boolean {
  return /^postgres(ql)?:\/\//.test(place);
}

// The driver of PostgreSQL is loaded here only, as in storage.ts.

/** Moves the installation of a data folder into a database. Rejects with a `StorageError`. */
export async function moveInstallation({
  from,
  to,
  begin,
  ...options
}: MoveOptions): Promise<MigrationReport & { readonly from: string; readonly to: string }> {
  const source = openFolderSource(resolve(from));
  try {
    const { openDatabaseTarget } = await import('../adapters/postgres/migration/target.ts');
    const target = await openDatabaseTarget(to);
    try {
      const preview = await previewOf(source, target.place);
      begin?.(preview);
      const clock = createSystemClock(source.lastClockMark).mark();
      const report = await migrate({ source, target, clock, ofEvents: preview.events, ...options });
      return { ...report, from: source.place, to: target.place };
    } finally {
      await target.stop();
    }
  } finally {
    await source.stop();
  }
}

/**
 * Says what a move would do. Only looks, also whether the source could be moved now. Rejects with a
 * `StorageError`.
 */
export async function previewMove({ from, to }: InstallationMove): Promise<MovePreview> {
  const source = openFolderSource(resolve(from));
  try {
    const movedTo = await source.movedTo();
    if (movedTo !== undefined) throw new StorageError(`${source.place} was moved to ${movedTo} before`);
    // An address may hold a password.
    const { placeOf } = await import('../adapters/postgres/connection.ts');
    return await previewOf(source, placeOf(to));
  } finally {
    await source.stop();
  }
}

async function previewOf(source: InstallationSource, to: string): Promise<MovePreview> {
  const leftBehind = [...source.leftBehind(), IN_MEMORY];
  return { ...(await source.size()), from: source.place, to, leftBehind };
}

const IN_MEMORY =
  'sign-ins at the console, samples of discarded calls and counters of metrics are in the memory of a server, and end with it as at every restart';
