import { resolve } from 'node:path';
import { openFolderSource } from './adapters/sqlite/migration/source.ts';
import { openFolderTarget } from './adapters/sqlite/migration/target.ts';
import { createSystemClock } from './adapters/system/clock.ts';
import type { MigrationMoment, MigrationReport } from './migration/contract.ts';
import { migrate } from './migration/migration.ts';
import { StorageError } from './ports/event-log.ts';
import type { InstallationSize, InstallationSource, InstallationTarget } from './ports/installation.ts';

export { isBeingFilled, movedTo } from './adapters/sqlite/data-folder/moved.ts';
export type { MigrationMoment } from './migration/contract.ts';
export { StorageError } from './ports/event-log.ts';

export interface InstallationMove {
  /** A data folder, or the postgres:// address of a database. */
  readonly from: string;
  /** The other kind. */
  readonly to: string;
}

export interface MoveOptions extends InstallationMove {
  /** Called before anything is written. */
  readonly begin?: (preview: MovePreview) => void;
  readonly watch?: (moment: MigrationMoment) => void;
  readonly isStopped?: () => boolean;
}

/** What a move would do. */
export interface MovePreview extends InstallationSize {
  readonly from: string;
  readonly to: string;
  readonly leftBehind: readonly string[];
}

export function isDatabase(place: string): boolean {
  return /^postgres(ql)?:\/\//.test(place);
}

/** Moves the installation of a data folder into a database, or back. Rejects with a `StorageError`. */
export async function moveInstallation({
  from,
  to,
  begin,
  ...options
}: MoveOptions): Promise<MigrationReport & { readonly from: string; readonly to: string }> {
  return await withSource({ from, to }, async (source) => {
    const target = await openTarget(to);
    try {
      const preview = await previewOf(source, target.place);
      begin?.(preview);
      const clock = createSystemClock(source.lastClockMark).mark();
      const report = await migrate({ source, target, clock, ofEvents: preview.events, ...options });
      return { ...report, from: source.place, to: target.place };
    } finally {
      await target.stop();
    }
  });
}

/** Says what a move would do. Only looks, also whether the source could be moved now. Rejects with a `StorageError`. */
export async function previewMove(move: InstallationMove): Promise<MovePreview> {
  return await withSource(move, async (source) => {
    const movedTo = await source.movedTo();
    if (movedTo !== undefined) throw new StorageError(`${source.place} was moved to ${movedTo} before`);
    return await previewOf(source, await placeOf(move.to));
  });
}

async function previewOf(source: InstallationSource, to: string): Promise<MovePreview> {
  const leftBehind = [...source.leftBehind(), IN_MEMORY];
  return { ...(await source.size()), from: source.place, to, leftBehind };
}

const IN_MEMORY =
  'sign-ins at the console, samples of discarded calls and counters of metrics are in the memory of a server, and end with it as at every restart';

/** A place for people: an address may hold a password. */
async function placeOf(place: string): Promise<string> {
  if (!isDatabase(place)) return resolve(place);
  return (await import('./adapters/postgres/connection.ts')).placeOf(place);
}

async function withSource<Answer>(
  { from, to }: InstallationMove,
  work: (source: InstallationSource) => Promise<Answer>,
): Promise<Answer> {
  if (isDatabase(from) === isDatabase(to))
    throw new StorageError(
      isDatabase(from)
        ? 'both places are databases: copy one with the tools of PostgreSQL (pg_dump, pg_basebackup)'
        : 'both places are folders: copy one with millrace backup and restore',
    );
  const source = await openSource(from);
  try {
    return await work(source);
  } finally {
    await source.stop();
  }
}

// The driver of PostgreSQL is loaded here only, as in storage.ts.

async function openSource(place: string): Promise<InstallationSource> {
  if (!isDatabase(place)) return openFolderSource(resolve(place));
  const { openDatabaseSource } = await import('./adapters/postgres/migration/source.ts');
  return await openDatabaseSource(place);
}

async function openTarget(place: string): Promise<InstallationTarget> {
  if (!isDatabase(place)) return openFolderTarget(resolve(place));
  const { openDatabaseTarget } = await import('./adapters/postgres/migration/target.ts');
  return await openDatabaseTarget(place);
}
