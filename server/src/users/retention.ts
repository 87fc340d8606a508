import type { Duration, Time } from '../model/time.ts';
import { type Clock, elapsedSince } from '../ports/clock.ts';
import type { ProfileId } from '../ports/profile-store.ts';
import type { ProfileRetention } from './contract.ts';
import type { ProfileState } from './identity/profile-state.ts';

type SeenProfile = Pick<ProfileState, 'id' | 'userId' | 'sources' | 'lastSeenAt'>;

/**
 * Tells whether a profile has been kept long enough since its newest event. It goes by the monotonic clock: a
 * wall clock that is wrong for a while removes no profile.
 */
export function isPast(
  { userId, lastSeenAt }: Pick<SeenProfile, 'userId' | 'lastSeenAt'>,
  { anonymous, known }: { readonly anonymous?: Duration; readonly known?: Duration },
  clock: Pick<Clock, 'monotonic' | 'steps'>,
): boolean {
  const period = userId === undefined ? anonymous : known;
  if (period === undefined) return false;
  // A profile without an event exists only until destinations have heard of it.
  return !Number.isFinite(lastSeenAt) || elapsedSince(lastSeenAt, clock) >= period;
}

/**
 * The order in which profiles are removed to make room: visitors before users, and among equals those that
 * were seen longest ago.
 */
export interface EvictionRank {
  readonly isAnonymous: boolean;
  readonly lastSeenAt: Time;
  readonly id: ProfileId;
}

/**
 * Rank of a profile. Undefined for one that stays however little room there is: a server source, whose key is
 * secret, has sent an event of it.
 */
export function rankOf(
  { id, userId, sources, lastSeenAt }: SeenProfile,
  { protectedSources }: Pick<ProfileRetention, 'protectedSources'>,
): EvictionRank | undefined {
  for (const source of protectedSources) if (sources.has(source)) return undefined;
  return { isAnonymous: userId === undefined, lastSeenAt, id };
}

/** Negative when `a` goes before `b`. */
export function compareRanks(a: EvictionRank, b: EvictionRank): number {
  if (a.isAnonymous !== b.isAnonymous) return a.isAnonymous ? -1 : 1;
  return a.lastSeenAt - b.lastSeenAt || a.id - b.id;
}

/**
 * Ranks that are kept as a sample. With fewer profiles the result is exact, otherwise right to about one in a
 * hundred.
 */
const MAX_SAMPLES = 20_000;

/**
 * Finds the last rank that has to go to free so many bytes, from a sample of all profiles at even distances.
 */
export class RankSampler {
  #samples: { readonly rank: EvictionRank; readonly bytes: number }[] = [];
  /** One of this many ranks is kept. */
  #step = 1;
  #seen = 0;

  add(rank: EvictionRank, bytes: number): void {
    if (this.#seen++ % this.#step !== 0) return;
    this.#samples.push({ rank, bytes });
    if (this.#samples.length < MAX_SAMPLES) return;
    this.#samples = this.#samples.filter((_, nth) => nth % 2 === 0);
    this.#step *= 2;
  }

  /**
   * The last rank to remove. Undefined when no profile may go. When removing all of them is not enough, it is
   * the last of all.
   */
  lastRankFor(bytes: number): EvictionRank | undefined {
    let sum = 0;
    const samples = this.#samples.sort((a, b) => compareRanks(a.rank, b.rank));
    const enough = samples.find((sample) => {
      sum += sample.bytes * this.#step;
      return sum >= bytes;
    });
    return (enough ?? samples.at(-1))?.rank;
  }
}

/** Bytes that a profile takes of the file beside its state: its row, and a row for each of its ids. */
const ROW_BYTES = 24;
const ID_BYTES = 32;

export function bytesOf({ identities }: Pick<ProfileState, 'identities'>, state: Uint8Array): number {
  return state.length + ROW_BYTES + ID_BYTES * identities.length;
}

/**
 * Profiles are removed when they take this share of what they may, and until they take the lower share, so
 * that the next pass is not due at once again.
 */
const FULL = 0.9;
const ROOMY = 0.8;

/** The share of profiles, by their bytes, that has to go; 0 when all have room. */
export function excessShare(used: number, allowed: number): number {
  return used <= FULL * allowed ? 0 : 1 - (ROOMY * allowed) / used;
}

/** Tells whether files of this size are a reason to ask how much of them is used. */
export function mayExceed(bytes: number, allowed: number): boolean {
  return bytes > FULL * allowed;
}
