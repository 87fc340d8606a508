import type {
  InstallationPart,
  InstallationTables,
  PartCursor,
  PartPage,
} from '../../../ports/installation.ts';

/** Parts that are tables of users.db. */
export type ProfilePart =
  | 'profileCursor'
  | 'profiles'
  | 'identities'
  | 'timers'
  | 'outbox'
  | 'merges'
  | 'profileDocuments';

/** Parts that are tables of millrace.db, without the log. */
export type StorePart = Exclude<InstallationPart, 'events' | ProfilePart>;

/** The reader of each part, by its name. */
export type PartReaders = {
  readonly [Part in InstallationPart]: {
    page(after?: PartCursor): PartPage<InstallationTables[Part]>;
  };
};
