import type { ProfileId, ProfileStore } from '../../ports/profile-store.ts';
import { decodeProfile, type ProfileState } from './profile-state.ts';

/** Profiles that are read at once. */
const PAGE = 500;

export interface WalkOptions {
  /** The walk begins behind this profile. */
  readonly after?: ProfileId;
  /** The walk ends with this profile. */
  readonly to?: ProfileId;
  /** Called after each page; may reject, which ends the walk. */
  readonly between?: () => Promise<void>;
}

/**
 * Yields all profiles, or those of a range, in the order of their numbers. A profile that changes meanwhile
 * is read as it is when the walk comes to it.
 */
export async function* walkProfiles(
  store: Pick<ProfileStore, 'scan'>,
  { after = 0, to = Number.POSITIVE_INFINITY, between }: WalkOptions = {},
): AsyncGenerator<ProfileState> {
  for (let last = after; ; ) {
    const page = await store.scan(last, PAGE);
    for (const { id, state } of page) {
      if (id > to) return;
      last = id;
      yield decodeProfile(id, state);
    }
    if (page.length < PAGE) return;
    await between?.();
  }
}
