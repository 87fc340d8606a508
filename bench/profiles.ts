import type { openProfileStore } from '../server/src/adapters/sqlite/users/profile-store.ts';
import type { Computation } from '../server/src/model/definition.ts';
import { DAY } from '../server/src/model/time.ts';
import type { IdentityHash } from '../server/src/users/contract.ts';
import { encodeProfile, newIdentity, newProfile } from '../server/src/users/identity/profile-state.ts';
import { setTrait } from '../server/src/users/identity/traits.ts';

/** Different names of tracked events; the first ones are far more frequent. */
const NAMES = 30;

/** The users that have the trait `cohort`, for an audience with this many members. */
export interface ProfileTerms {
  readonly users: number;
  readonly cohort: number;
}

/** A profile for each of these users, as one that has been seen for a month. */
export async function fillProfiles(
  store: ReturnType<typeof openProfileStore>,
  hash: IdentityHash,
  { users, cohort }: ProfileTerms,
): Promise<void> {
  const at = Date.now() - 30 * DAY;
  for (let first = 0; first < users; first += 20_000) {
    const count = Math.min(20_000, users - first);
    const numbers = Array.from({ length: count }, (_, nth) => first + nth);
    await store.commit({
      cursor: { position: 0, clock: at, nextProfile: first + count + 1, nextOutbox: 1 },
      put: numbers.map((user) => ({ id: user + 1, state: stateOf(user, { at, isInCohort: user < cohort }) })),
      bind: numbers.map((user) => ({ key: hash('user', `user-${user}`), profile: user + 1 })),
      ...{ removed: [], unbind: [], timers: [], firedTimers: [], outbox: [], merges: [] },
    });
  }
}

function stateOf(user: number, { at, isInCohort }: { at: number; isInCohort: boolean }): Uint8Array {
  const state = newProfile(user + 1);
  state.userId = `user-${user}`;
  state.identities.push(newIdentity('user', state.userId, at));
  const traits = {
    ...{ email: `u${user}@example.com`, plan: 'free', name: `Name Surname ${user}`, logins: 7 },
    ...(isInCohort ? { cohort: 'synced' } : {}),
  };
  const messageId = `m-${user}-5f0c2a9e-41d2`;
  for (const [name, value] of Object.entries(traits))
    setTrait(state, name, { value, at, messageId, isPublic: false });
  state.sources.add(1);
  state.firstSeenAt = at;
  state.lastSeenAt = at;
  return encodeProfile(state);
}

/**
 * As many definitions as wanted, two of three audiences and the first quarter of these with a window, the
 * rest computed traits. `names` is how many event names they are spread over.
 */
export function definitions(count = 30, names = 10): Computation[] {
  const audiences = Math.round((count * 2) / 3);
  return Array.from({ length: count }, (_, nth): Computation => {
    const base = {
      ...{ id: nth + 1, version: 1, name: `d${nth}`, key: `d${nth}`, text: '' },
      ...{ destinations: ['crm'], enabled: true },
    };
    const counted = { op: 'event', type: 'track', name: `Event Number ${1 + (nth % names)}` } as const;
    if (nth >= audiences) {
      const reduce = [
        { op: 'count' } as const,
        { op: 'sum', property: 'total' } as const,
        { op: 'last', property: 'sku' } as const,
      ][nth % 3]!;
      return { ...base, kind: 'trait', definition: { ...counted, reduce } };
    }
    const within = nth < audiences / 4 ? { within: 7 * DAY } : {};
    const value = { ...counted, ...within, reduce: { op: 'count' } as const };
    return { ...base, kind: 'audience', includeAnonymous: false, definition: { op: '>=', value, to: 3 } };
  });
}

/** The name of an event, the first ones far more often than the last. */
export function eventName(random: () => number): string {
  return `Event Number ${Math.floor(Math.exp(random() * Math.log(NAMES)))}`;
}

/** The rank of a user by the continuous approximation of Zipf's law, scattered over all users. */
export function zipf(users: number, random: () => number): number {
  return (Math.imul(Math.floor(Math.exp(random() * Math.log(users))), 2_654_435_761) >>> 0) % users;
}

export function randomText(random: () => number): string {
  return Math.floor(random() * 2 ** 48).toString(36);
}

/** Mulberry32. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
