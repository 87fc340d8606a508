import type { ProfileId, ProfileStore } from '../../ports/profile-store.ts';
import { decodeProfile, type ProfileState } from './profile-state.ts';

/** Profiles that are read at once. */
const PAGE = 500;

export interface WalkOptions {
  /** The first profile is the one behind this. */
  readonly after?: ProfileId;
  /** The last one. */
  readonly to?: ProfileId;
  /** Called after each page; may reject, which ends the walk. */
  readonly between?: () => Promise<void>;
}

/** All profiles, or those of a range, in the order of their numbers. Profiles that change meanwhile come as they are then. */
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
