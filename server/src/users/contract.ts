import type { IdentityKey } from '../ports/profile-store.ts';

/** How ids are joined. spec/specification.md, "Identities". */
export interface IdentitySettings {
  /** Names of traits that identify a user beside the userId, such as `email`. */
  readonly externalIds: readonly string[];
  /** Values that stand for no one. The empty text and texts of zeros never do, whatever this says. */
  readonly blocked: readonly string[];
  /** Ids that one profile may have. */
  readonly limit: number;
}

export const DEFAULT_IDENTITY_SETTINGS: IdentitySettings = {
  externalIds: [],
  blocked: ['null', 'undefined', 'anonymous', '-1', '0'],
  limit: 1000,
};

/** Makes the key of an identity: a keyed hash of its kind and value as an integer of 53 bits. */
export type IdentityHash = (kind: string, value: string) => IdentityKey;
