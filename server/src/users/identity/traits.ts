import type { Json, JsonObject } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';

export interface TraitValue {
  /** Null stands for a trait that a call has taken away. */
  readonly value: Json;
  readonly at: Time;
  /** The messageId decides between values of the same time. */
  readonly messageId: string;
  /** True when a client source said it: its write key is public. */
  readonly isPublic: boolean;
}

/** A group as a profile knows it. */
export interface GroupEntry {
  /** Time of the newest call that named it. */
  readonly at: Time;
  /** Only client sources have named it. */
  readonly isPublic: boolean;
}

/** Traits and groups that calls have set for a user. */
export interface Attributes {
  /** By name. */
  readonly traits: Map<string, TraitValue>;
  /** By id. */
  readonly groups: Map<string, GroupEntry>;
  /** Size of traits and groups together, as `sizeOf` counts it. */
  size: number;
  /**
   * Number of traits and groups that calls named and the profile does not keep, or that were removed to make
   * room.
   */
  leftOut: number;
}

/** Traits and groups that one event sets. */
export interface SaidOfUser {
  readonly traits: JsonObject;
  readonly groupId: string | undefined;
  readonly at: Time;
  readonly messageId: string;
  readonly isPublic: boolean;
}

/** Numbers of traits that profiles do not keep, by reason. */
export interface LeftOutTraits {
  /** The name is longer than 200 characters, or has half of a surrogate pair. */
  readonly names: number;
  /** The value is longer than 8,192 characters of JSON. */
  readonly values: number;
  /** Traits and groups that were removed to make room for others. */
  readonly gone: number;
}

export const NONE_LEFT_OUT: LeftOutTraits = { names: 0, values: 0, gone: 0 };

export function addLeftOut(a: LeftOutTraits, b: LeftOutTraits): LeftOutTraits {
  if (b === NONE_LEFT_OUT) return a;
  return { names: a.names + b.names, values: a.values + b.values, gone: a.gone + b.gone };
}

export const MAX_TRAITS = 1000;
export const MAX_GROUPS = 1000;
const MAX_NAME_LENGTH = 200;
/** Longest value, in characters of JSON. */
const MAX_VALUE_LENGTH = 8192;

/**
 * Largest size of all traits and groups of a profile, as `sizeOf` counts it. A larger profile takes too long
 * to read and write for each of its events.
 */
export const MAX_SIZE = 64 * 1024;
/** Size of an entry beside its texts. */
export const ENTRY_SIZE = 16;
/** Longest messageId that counts nothing; a longer one counts with its excess. */
const USUAL_MESSAGE_ID = 64;

/**
 * Adds what an event says, and removes what is too much then: first what client sources said, so that they
 * push out nothing that a server said, and of that the oldest. The order of the events alone decides what
 * stays.
 */
export function noteTraits(profile: Attributes, said: SaidOfUser): LeftOutTraits {
  let [names, values] = [0, 0];
  const { traits, groupId, at, messageId, isPublic } = said;
  for (const name in traits) {
    const value = traits[name]!;
    if (name.length > MAX_NAME_LENGTH || !name.isWellFormed()) names++;
    else if (lengthOf(value) > MAX_VALUE_LENGTH) values++;
    else setTrait(profile, name, { value, at, messageId, isPublic });
  }
  if (groupId !== undefined) addGroup(profile, groupId, { at, isPublic });
  profile.leftOut += names + values;
  const gone = makeRoom(profile);
  return names + values + gone === 0 ? NONE_LEFT_OUT : { names, values, gone };
}

/** Sets a trait unless a later value is there. */
export function setTrait(profile: Attributes, name: string, value: TraitValue): void {
  const known = profile.traits.get(name);
  if (known !== undefined && !isLater(value, known)) return;
  profile.traits.set(name, value);
  profile.size += sizeOf(name, value) - (known === undefined ? 0 : sizeOf(name, known));
}

export function addGroup(profile: Attributes, group: string, { at, isPublic }: GroupEntry): void {
  const known = profile.groups.get(group);
  if (known === undefined) profile.size += group.length + ENTRY_SIZE;
  profile.groups.set(group, {
    at: Math.max(at, known?.at ?? at),
    isPublic: isPublic && known?.isPublic !== false,
  });
}

/**
 * Lets traits and groups go until a profile is within its bounds, and returns how many. They are counted in
 * the profile too.
 */
export function makeRoom(profile: Attributes): number {
  const { traits, groups } = profile;
  if (profile.size <= MAX_SIZE && traits.size <= MAX_TRAITS && groups.size <= MAX_GROUPS) return 0;
  const entries = [
    ...Array.from(traits, ([name, { at, messageId, isPublic }]) => ({
      ...{ of: traits, max: MAX_TRAITS, name, at, messageId, isPublic },
      size: sizeOf(name, traits.get(name)!),
    })),
    ...Array.from(groups, ([name, { at, isPublic }]) => ({
      ...{ of: groups, max: MAX_GROUPS, name, at, messageId: '', isPublic },
      size: name.length + ENTRY_SIZE,
    })),
  ].sort(byWorth);
  let gone = 0;
  for (const { of, max, name, size } of entries) {
    if (profile.size <= MAX_SIZE && of.size <= max) continue;
    of.delete(name);
    profile.size -= size;
    gone++;
  }
  profile.leftOut += gone;
  return gone;
}

/** Size of an entry in characters: the name, and the value as text or as JSON. */
function sizeOf(name: string, { value, messageId }: TraitValue): number {
  const text =
    typeof value === 'string' || (typeof value === 'object' && value !== null) ? lengthOf(value) : 0;
  return name.length + text + excessOf(messageId) + ENTRY_SIZE;
}

/** Size that a messageId adds to each trait that it brought. */
export function excessOf(messageId: string): number {
  return Math.max(0, messageId.length - USUAL_MESSAGE_ID);
}

/** Characters of a value, as the profile stores it. */
function lengthOf(value: Json): number {
  if (typeof value === 'string' && value.isWellFormed()) return value.length;
  return value === null ? 0 : JSON.stringify(value).length;
}

/** Tells whether a new value replaces the present one. An equal one does not. */
function isLater(a: TraitValue, b: TraitValue): boolean {
  if (a.at !== b.at) return a.at > b.at;
  if (a.messageId !== b.messageId) return a.messageId > b.messageId;
  // Two sources may use the same messageId, and one may use it again after the dedupe window.
  const [one, other] = [JSON.stringify(a.value), JSON.stringify(b.value)];
  return one === other ? !a.isPublic && b.isPublic : one > other;
}

interface Worth {
  readonly name: string;
  readonly at: Time;
  readonly messageId: string;
  readonly isPublic: boolean;
}

/** Orders entries for removal: those to remove first come first. */
function byWorth(a: Worth, b: Worth): number {
  if (a.isPublic !== b.isPublic) return a.isPublic ? -1 : 1;
  if (a.at !== b.at) return a.at - b.at;
  if (a.messageId !== b.messageId) return a.messageId < b.messageId ? -1 : 1;
  return a.name < b.name ? -1 : 1;
}
