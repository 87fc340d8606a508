import { StorageError } from '../../../ports/event-log.ts';
import type { MigrationOrigin, MigrationProgress } from '../../../ports/installation.ts';

/** The record of a migration that the database keeps while it is filled, as JSON. */
export interface MigrationRecord {
  readonly origin: Pick<MigrationOrigin, 'id' | 'place' | 'state'>;
  readonly progress: MigrationProgress;
}

const BEGUN: MigrationProgress = {
  phase: 'copying',
  rows: {},
  checksums: {},
  messageIds: 0,
  unreadable: 0,
  leftOut: 0,
};

/** The record of a migration that begins. */
export function newRecord({ id, place, state }: MigrationOrigin): MigrationRecord {
  return { origin: { id, place, state }, progress: BEGUN };
}

/**
 * Throws a `StorageError` unless the record is of a migration from this origin, as it is now. `empty` says
 * how the target is emptied. A migration that has come to its end belongs to its origin whatever became of
 * that.
 */
export function refuseOtherOrigin(
  { origin, progress }: MigrationRecord,
  { id, state }: MigrationOrigin,
  { place, empty }: { readonly place: string; readonly empty: string },
): void {
  if (origin.id !== id)
    throw new StorageError(
      `${place} holds a migration from another installation (${origin.place}): ${empty}, or name another target`,
    );
  if (origin.state !== state && progress.phase !== 'complete')
    throw new StorageError(
      `${origin.place} was used since its migration to ${place} began, so the two do not belong together any more: ${empty}, and begin anew`,
    );
}
