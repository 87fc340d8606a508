import type { Computation } from '../../model/definition.ts';
import type { Position } from '../../model/event.ts';
import type { Json } from '../../model/json.ts';
import type { ProfileStore } from '../../ports/profile-store.ts';
import type { ComputationStatus, Preview, PreviewRequest } from '../../ports/users.ts';
import type { UsersSettings } from '../contract.ts';
import type { IdentityReader } from '../identity/identity-reader.ts';
import type { ProfileState } from '../identity/profile-state.ts';
import type { Slice } from '../slice.ts';
import type { MembershipSync } from '../sync/membership-sync.ts';
import type { NamesById } from './connection-news.ts';
import type { TraitEngine } from './trait-engine.ts';

/** Audiences and computed traits, and the work that they need beside the events that arrive. */
export interface ProfileComputations {
  /** The engine. Read it anew in each slice, as `sync`: settings replace both. */
  readonly engine: TraitEngine;
  readonly sync: MembershipSync;

  /**
   * Reads what was stored with the last commit, and takes these settings. Called before the first slice, when
   * they have changed, and after a slice that was not stored.
   */
  restore(settings: ComputationSettings, terms: RestoreTerms): Promise<void>;

  /**
   * Notes in a slice what follows from settings that have just changed: who may or may not get what is in the
   * outbox. `step` does it too; to be called for a slice without it, before the slice tells anybody
   * something.
   */
  noteSettings(slice: Slice): Promise<void>;

  /**
   * Does a part of what is left to do, such as adding stored events to a new definition, and puts its
   * progress into the slice. Called once a slice, after the events and timers. `position` is the next one
   * that live slices apply. `isPast`: a profile that is to be let go rather than told of.
   */
  step(
    slice: Slice,
    position: Position,
    isPast: (profile: ProfileState) => boolean,
  ): Promise<{ readonly done: number; readonly hasMore: boolean }>;

  /**
   * Documents with what destinations were sent, for a store that is cleared because all profiles are made
   * anew.
   */
  forRebuild(store: ProfileStore, definitions: readonly Computation[]): Promise<Record<string, Json>>;

  /**
   * Has a walk tell a destination every member again; it is stored with the next slice. `bounds`: of the log.
   * False where the computation is not in force yet: each of its destinations is told every member then.
   */
  repeat(computation: number, destination: string, bounds: RestoreTerms['bounds']): boolean;
  /**
   * The slots that count an event at this position; undefined for all. Work under way will add it to the
   * others.
   */
  slotsAt(position: Position): ReadonlySet<number> | undefined;

  /** Ids of the computations in force. */
  readonly activeIds: readonly number[];

  statuses(): readonly ComputationStatus[];

  /**
   * True while all profiles are made anew, and what destinations know of some of them is not in the profiles
   * yet.
   */
  readonly isRebuilding: boolean;

  /** Names of computations that cannot be computed. */
  failed(): readonly string[];

  /** Documents that are to be stored with the slice at work, when it is finished. */
  documents(): Record<string, Json>;

  /**
   * Computes a preview, between slices. `identityReader` reads ids as the next slice will. `check` is called
   * after every step, and throws when the preview is to end.
   */
  preview(
    request: PreviewRequest,
    identityReader: IdentityReader,
    check: () => void,
  ): Promise<Omit<Preview, 'eventsBehind'>>;
}

export type ComputationSettings = Pick<
  UsersSettings,
  'computations' | 'hearing' | 'destinations' | 'consent' | 'forms'
>;

export interface RestoreTerms {
  readonly store: ProfileStore;
  /** The next position that live slices apply. */
  readonly position: Position;
  /** The oldest stored position, and the one behind the newest. */
  readonly bounds: { readonly first: Position; readonly end: Position };
  /** Entries of the outbox up to this one came into the log under the earlier settings. */
  readonly certainTo: number;
  /**
   * Destinations that began or ceased to hear since the last commit of this process, also those that did
   * both.
   */
  readonly switched: readonly string[];
  /**
   * Destinations that were added to a computation or taken away since then, by its id, also those that were
   * both.
   */
  readonly moved: NamesById;
}
