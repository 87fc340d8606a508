import type { Json } from '../../src/model/json.ts';
import { MINUTE } from '../../src/model/time.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type {
  IdentityKey,
  MergeRecord,
  OutboxEntry,
  ProfileId,
  ProfileStore,
  Timer,
  UsersCursor,
} from '../../src/ports/profile-store.ts';

/**
 * Everything that another adapter has on disk. A second store opened on it stands for a restart after a
 * crash.
 */
export interface MemoryProfiles {
  cursor: UsersCursor;
  readonly states: Map<ProfileId, Uint8Array>;
  readonly identities: Map<IdentityKey, ProfileId>;
  /** By `minute/profile`. */
  readonly timers: Map<string, Timer>;
  readonly outbox: Map<number, OutboxEntry>;
  merges: MergeRecord[];
  readonly documents: Map<string, string>;
}

export function emptyProfiles(): MemoryProfiles {
  return {
    cursor: { position: 0, clock: 0, nextProfile: 1, nextOutbox: 1 },
    states: new Map(),
    identities: new Map(),
    timers: new Map(),
    outbox: new Map(),
    merges: [],
    documents: new Map(),
  };
}

/** The port of profiles as plain maps. */
export function openMemoryProfiles(all: MemoryProfiles = emptyProfiles()): ProfileStore {
  let isStopped = false;
  const check = () => {
    if (isStopped) throw new StorageError('the store of profiles is stopped');
  };
  return {
    async cursor() {
      check();
      return all.cursor;
    },
    async resolve(keys) {
      check();
      return keys.map((key) => all.identities.get(key));
    },
    async get(profiles) {
      check();
      return profiles.map((id) => all.states.get(id)?.slice());
    },
    async commit(changes) {
      check();
      for (const { id, state } of changes.put) all.states.set(id, state.slice());
      for (const id of changes.removed) all.states.delete(id);
      for (const key of changes.unbind) all.identities.delete(key);
      for (const { key, profile } of changes.bind) all.identities.set(key, profile);
      for (const { profile, keys } of changes.forgotten ?? []) {
        all.states.delete(profile);
        for (const key of keys) if (all.identities.get(key) === profile) all.identities.delete(key);
        all.merges = all.merges.filter(({ winner }) => winner !== profile);
      }
      for (const timer of changes.firedTimers) all.timers.delete(nameOf(timer));
      for (const timer of changes.timers) all.timers.set(nameOf(timer), timer);
      for (const entry of changes.outbox) all.outbox.set(entry.sequence, entry);
      if (changes.sentTo !== undefined) {
        for (const sequence of all.outbox.keys()) if (sequence <= changes.sentTo) all.outbox.delete(sequence);
      }
      const { dissolved = [] } = changes;
      if (dissolved.length > 0) all.merges = all.merges.filter(({ winner }) => !dissolved.includes(winner));
      for (const record of changes.merges) {
        const { winner, loser } = record;
        all.merges = all.merges.map((one) => (one.winner === loser ? { ...one, winner } : one));
        all.merges.push(record);
      }
      putDocuments(all, changes.documents);
      all.cursor = changes.cursor;
    },
    async due(now, max) {
      check();
      return [...all.timers.values()]
        .filter(({ minute }) => minute <= Math.floor(now / MINUTE))
        .sort((a, b) => a.minute - b.minute || a.profile - b.profile)
        .slice(0, max);
    },
    async scan(after, max) {
      check();
      const ids = [...all.states.keys()].filter((id) => id > after).sort((a, b) => a - b);
      return ids.slice(0, max).map((id) => ({ id, state: all.states.get(id)!.slice() }));
    },
    async outbox(after, max) {
      check();
      const entries = [...all.outbox.values()].filter(({ sequence }) => sequence > after);
      return entries.sort((a, b) => a.sequence - b.sequence).slice(0, max);
    },
    async merges(profile, max) {
      check();
      const found = all.merges.filter(({ winner }) => winner === profile);
      return found.sort((a, b) => b.position - a.position || b.loser - a.loser).slice(0, max);
    },
    async document(name) {
      check();
      const text = all.documents.get(name);
      return text === undefined ? undefined : (JSON.parse(text) as Json);
    },
    async erase(profiles, _texts, documents) {
      check();
      eraseFrom(all, new Set(profiles));
      putDocuments(all, documents);
    },
    async clear(documents) {
      check();
      const { nextProfile, nextOutbox } = all.cursor;
      Object.assign(all, { ...emptyProfiles(), outbox: all.outbox });
      putDocuments(all, documents);
      all.cursor = { ...all.cursor, nextProfile, nextOutbox };
    },
    async size() {
      check();
      return { profiles: all.states.size, bytes: bytesOf(all), damaged: 0 };
    },
    async usedBytes() {
      check();
      return bytesOf(all);
    },
    async giveBack() {
      check();
      return false;
    },
    async stop() {
      isStopped = true;
    },
  };
}

function bytesOf({ states }: MemoryProfiles): number {
  return [...states.values()].reduce((sum, state) => sum + state.byteLength, 0);
}

function putDocuments(all: MemoryProfiles, documents: Readonly<Record<string, Json>> = {}): void {
  for (const [name, value] of Object.entries(documents)) {
    if (value === null) all.documents.delete(name);
    else all.documents.set(name, JSON.stringify(value));
  }
}

function nameOf({ minute, profile }: Timer): string {
  return `${minute}/${profile}`;
}

function eraseFrom(all: MemoryProfiles, gone: Set<ProfileId>): void {
  const merged = all.merges.filter(({ winner }) => gone.has(winner));
  const whole = new Set([...gone, ...merged.map(({ loser }) => loser)]);
  all.merges = all.merges.filter(({ winner }) => !gone.has(winner));
  for (const id of gone) all.states.delete(id);
  for (const [key, profile] of all.identities) if (gone.has(profile)) all.identities.delete(key);
  for (const [name, { profile }] of all.timers) if (gone.has(profile)) all.timers.delete(name);
  for (const [sequence, { profile }] of all.outbox) if (whole.has(profile)) all.outbox.delete(sequence);
}
