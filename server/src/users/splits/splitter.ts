import { type LogReader, StorageError } from '../../ports/event-log.ts';
import type { Logger } from '../../ports/logger.ts';
import type { IdentityKey, ProfileStore } from '../../ports/profile-store.ts';
import type { SplitId, SplitReport } from '../../ports/users.ts';
import type { ProfileComputations } from '../computation/profile-computations.ts';
import type { IdentityHash, UsersSettings } from '../contract.ts';
import type { Slice } from '../slice.ts';
import {
  LEFT_DOCUMENT,
  type LeftOver,
  profilesApart,
  type RemakingDependencies,
  remakeLeft,
  reportOf,
  splitProfiles,
} from './remaking.ts';

type Pairs = readonly (readonly [IdentityKey, IdentityKey])[];

export interface SplitterDependencies {
  readonly store: ProfileStore;
  readonly reader: LogReader;
  readonly hash: IdentityHash;
  readonly logger: Logger;
  readonly computations: ProfileComputations;
  readonly settings: () => UsersSettings;
  /** `apart`: ids that are kept apart beside those of the settings. */
  readonly newSlice: (apart?: Pairs) => Promise<Slice>;
  /** Stores the result of a slice. */
  readonly commit: (slice: Slice) => Promise<void>;
  /** Clears what the processor keeps in memory. */
  readonly forget: () => void;
}

/** Takes profiles apart, each time in a commit of its own between two slices of the log. */
export class Splitter {
  readonly #dependencies: SplitterDependencies;

  constructor(dependencies: SplitterDependencies) {
    this.#dependencies = dependencies;
  }

  /** As `Users.foreseeSplit`. Nothing is stored. */
  async foresee(ids: readonly [SplitId, SplitId]): Promise<SplitReport | undefined> {
    const { store, hash, newSlice, forget } = this.#dependencies;
    const keys = [hash(ids[0].kind, ids[0].value), hash(ids[1].kind, ids[1].value)] as const;
    if ((await store.resolve(keys)).every((owner) => owner === undefined)) return undefined;
    const profiles = await profilesApart([keys], store);
    if (profiles.length === 0) return { keys, profiles: [], told: [], isPoorer: false };
    const slice = await newSlice([keys]);
    try {
      const remade = await splitProfiles(slice, profiles, this.#remaking(slice));
      const { changes } = slice.finish(slice.cursor.position, undefined);
      return { keys, ...reportOf(slice, remade, changes.outbox) };
    } finally {
      forget();
    }
  }

  /**
   * Takes the profiles apart that have ids which are kept apart: a split that was just made, or one that is
   * older than what a backup or an earlier process has left of the profiles.
   */
  async apply(apart: Pairs): Promise<void> {
    const { store, newSlice, commit, forget, logger } = this.#dependencies;
    const profiles = await profilesApart(apart, store);
    if (profiles.length === 0) return;
    try {
      const slice = await newSlice();
      await splitProfiles(slice, profiles, this.#remaking(slice));
      await commit(slice);
      logger.info({ profiles: profiles.length }, 'profiles.split');
    } catch (error) {
      // A fault in Millrace must not stop all other profiles.
      if (error instanceof StorageError) throw error;
      logger.error({ error }, 'profiles.split_failed');
    } finally {
      forget();
    }
  }

  /** Makes profiles anew for users who were not erased although they shared an erased profile. */
  async remakeLeft(): Promise<void> {
    const { store, newSlice, commit, forget } = this.#dependencies;
    const left = (await store.document(LEFT_DOCUMENT)) as unknown as readonly LeftOver[] | undefined;
    if (left === undefined) return;
    const slice = await newSlice();
    await remakeLeft(slice, left, this.#remaking(slice));
    await commit(slice);
    forget();
  }

  #remaking({ identityReader }: Slice): RemakingDependencies {
    const { reader, computations, settings } = this.#dependencies;
    return { reader, computations, settings: settings(), identityReader };
  }
}
