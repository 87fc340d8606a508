import type { Position } from '../../model/event.ts';
import type { Json } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';
import type { ProfileId } from '../../ports/profile-store.ts';
import { mergeSlot, readSlot, type SlotState, writeSlot } from '../computation/slots.ts';
import { behind, NOTHING_SENT, type Sent } from '../sync/sent.ts';
import { ByteReader, ByteWriter } from './byte-codec.ts';
import { newerConsent, type ProfileConsent, readConsent, writeConsent } from './profile-consent.ts';
import { joinRefusals, type Refusals, readRefusals, writeRefusals } from './refusals.ts';
import {
  type Attributes,
  addGroup,
  ENTRY_SIZE,
  excessOf,
  makeRoom,
  setTrait,
  type TraitValue,
} from './traits.ts';

/** Kinds of identities. Any other kind is the name of a trait that was configured as an external id. */
export const USER = 'user';
export const ANONYMOUS = 'anonymous';

/**
 * One user as the stage works with it. It changes in place; `encodeProfile` makes the bytes that are stored.
 */
export interface ProfileState extends Attributes {
  readonly id: ProfileId;
  /** Absent while only anonymous and external ids are known. */
  userId: string | undefined;
  /** UserIds that were joined to `userId` by an alias, in ascending order. */
  formerUserIds: string[];
  /** All ids, those above included. */
  identities: ProfileIdentity[];
  /** Ids of the sources that saw this user. */
  sources: Set<number>;
  /** Times of the earliest and the latest event; +Infinity and −Infinity before the first one. */
  firstSeenAt: Time;
  lastSeenAt: Time;
  /** Position of its first event in the log; +Infinity before it, and in states of earlier programs. */
  firstPosition: Position;
  /** Slots with counts of its events, by number. */
  slots: Map<number, SlotState>;
  /** Values of audiences and computed traits, by id of the computation. */
  computed: Map<number, ComputedValue>;
  /** The minute of the timer that the store keeps for this profile; 0 when there is none. */
  timer: number;
  /** Absent where no event has said anything of consent. */
  consent?: ProfileConsent;
  /** Merges that were refused; absent where none was. */
  refusals?: Refusals;
}

export interface ProfileIdentity {
  readonly kind: string;
  readonly value: string;
  /** Time of the first event that named it for this profile. */
  at: Time;
  /** Only events of client sources have named it, whose write keys are public. */
  isPublic: boolean;
  /** More than one event has named it. */
  isUsed: boolean;
}

/** An id that a trusted source has named once. */
export function newIdentity(kind: string, value: string, at: Time): ProfileIdentity {
  return { kind, value, at, isPublic: false, isUsed: false };
}

/** The value of a computation for a profile, and what was sent of it. */
export interface ComputedValue {
  /** True or false for an audience; the value of a trait, null when there is none. */
  value: Json;
  since: Time;
  sent: Sent;
}

/**
 * Deleted states leave bytes in pages of 1 KB unless their length is a multiple of this: docs/decisions on
 * users.db.
 */
const PADDING = 128;

/** How kinds of identities are stored; `OTHER_KIND` stands before a text. */
const USER_KIND = 0;
const ANONYMOUS_KIND = 1;
const OTHER_KIND = 2;
/** Added to the kind. States of the first format have neither: every source was trusted. */
const KIND_BITS = 3;
const PUBLIC = 4;
const USED = 8;

/**
 * Stored before each trait: it is from the same call as the one before, or from a source of this kind, and
 * its time and messageId follow.
 */
const SAME_CALL = 0;
const SERVER_CALL = 1;
const PUBLIC_CALL = 2;

/** Bits that say which parts of a state follow. */
const SEEN = 1;
const PUBLIC_GROUPS = 2;
const LEFT_OUT = 4;
const PLACED = 8;
const REFUSED = 16;
const CONSENT = 32;

/** Bits that say which fields follow of what was sent. */
const SENT = 1;
const DATED = 2;
const LISTS = 4;

export function newProfile(id: ProfileId): ProfileState {
  return {
    id,
    userId: undefined,
    formerUserIds: [],
    identities: [],
    traits: new Map(),
    groups: new Map(),
    size: 0,
    leftOut: 0,
    sources: new Set(),
    firstSeenAt: Number.POSITIVE_INFINITY,
    lastSeenAt: Number.NEGATIVE_INFINITY,
    firstPosition: Number.POSITIVE_INFINITY,
    slots: new Map(),
    computed: new Map(),
    timer: 0,
  };
}

/**
 * Merges two profiles. Ids, traits, groups, sources, times and slots are the same whichever profile wins and
 * in whatever order several are merged. The userId is the winner's, if it has one; what destinations were
 * told is the winner's alone.
 *
 * The result has the number of the profile with more ids, because the ids of the other have to be bound anew.
 * Do not use either argument afterwards.
 */
export function mergeProfiles(winner: ProfileState, loser: ProfileState): ProfileState {
  const id = loser.identities.length > winner.identities.length ? loser.id : winner.id;
  const merged = { ...winner, id };
  merged.userId = winner.userId ?? loser.userId;
  const former = new Set([...winner.formerUserIds, ...loser.formerUserIds]);
  if (loser.userId !== undefined) former.add(loser.userId);
  if (merged.userId !== undefined) former.delete(merged.userId);
  merged.formerUserIds = [...former].sort();
  merged.identities = joinIdentities(winner.identities, loser.identities);
  for (const [name, value] of loser.traits) setTrait(merged, name, value);
  for (const [group, entry] of loser.groups) addGroup(merged, group, entry);
  merged.leftOut += loser.leftOut;
  makeRoom(merged);
  for (const source of loser.sources) merged.sources.add(source);
  merged.firstSeenAt = Math.min(winner.firstSeenAt, loser.firstSeenAt);
  merged.lastSeenAt = Math.max(winner.lastSeenAt, loser.lastSeenAt);
  merged.firstPosition = firstOf(winner, loser);
  for (const [slot, state] of loser.slots) {
    const known = merged.slots.get(slot);
    merged.slots.set(slot, known === undefined ? state : mergeSlot(known, state));
  }
  // The next event comes behind those of both.
  for (const [computation, { sent }] of loser.computed) {
    const known = merged.computed.get(computation);
    if (known !== undefined) known.sent = behind(known.sent, sent);
    else merged.computed.set(computation, { value: null, since: 0, sent: behind(NOTHING_SENT, sent) });
  }
  const consent = newerConsent(winner.consent, loser.consent);
  if (consent !== undefined) merged.consent = consent;
  const refusals = joinRefusals(winner.refusals, loser.refusals);
  if (refusals !== undefined) merged.refusals = refusals;
  // The store keeps timers by the number of a profile, so the timer of the number that is given up does not
  // count.
  merged.timer = id === winner.id ? winner.timer : loser.timer;
  return merged;
}

/** Position of the first event of both; unknown if it is unknown for either profile that has events. */
function firstOf(a: ProfileState, b: ProfileState): Position {
  const isUnknown = ({ firstSeenAt, firstPosition }: ProfileState) =>
    firstSeenAt < Number.POSITIVE_INFINITY && firstPosition === Number.POSITIVE_INFINITY;
  return isUnknown(a) || isUnknown(b) ? Number.POSITIVE_INFINITY : Math.min(a.firstPosition, b.firstPosition);
}

function joinIdentities(a: readonly ProfileIdentity[], b: readonly ProfileIdentity[]): ProfileIdentity[] {
  const joined = [...a];
  const known = new Map(a.map((identity) => [`${identity.kind}\0${identity.value}`, identity]));
  for (const identity of b) {
    const same = known.get(`${identity.kind}\0${identity.value}`);
    if (same === undefined) joined.push(identity);
    else {
      same.at = Math.min(same.at, identity.at);
      same.isPublic &&= identity.isPublic;
      same.isUsed = true;
    }
  }
  return joined;
}

/** The anonymous id that a profile had first; it stands for a profile without a userId. */
export function firstAnonymousId({
  identities,
}: Pick<ProfileState, 'identities'>): ProfileIdentity | undefined {
  let first: ProfileIdentity | undefined;
  for (const identity of identities)
    if (identity.kind === ANONYMOUS && (first === undefined || isBefore(identity, first))) first = identity;
  return first;
}

/** Tells which of two anonymous ids a profile had first. */
function isBefore(a: Pick<ProfileIdentity, 'value' | 'at'>, b: ProfileIdentity): boolean {
  return a.at < b.at || (a.at === b.at && a.value < b.value);
}

const writer = new ByteWriter();

/** The bytes of a profile, padded to a multiple of 128. */
export function encodeProfile(state: ProfileState): Uint8Array {
  writeIdentities(state);
  writeTraits(state.traits);
  writer.varint(state.groups.size);
  for (const [group, { at }] of state.groups) {
    writer.text(group);
    writer.time(at);
  }
  writer.varint(state.sources.size);
  for (const source of state.sources) writer.varint(source);
  writeMarks(state);
  writer.varint(state.timer);
  writer.varint(state.slots.size);
  for (const [slot, slotState] of state.slots) {
    writer.varint(slot);
    writeSlot(writer, slotState);
  }
  writer.varint(state.computed.size);
  for (const [computation, { value, since, sent }] of state.computed) {
    writer.varint(computation);
    writer.json(value);
    writer.time(since);
    writeSent(sent);
  }
  return writer.finish(PADDING);
}

/** Reads what `encodeProfile` made. Throws a `RangeError` or a `SyntaxError` for other bytes. */
export function decodeProfile(id: ProfileId, bytes: Uint8Array): ProfileState {
  const reader = new ByteReader(bytes);
  const state = newProfile(id);
  readIdentities(reader, state);
  readTraits(reader, state);
  readGroups(reader, state);
  for (let left = reader.varint(); left > 0; left--) state.sources.add(reader.varint());
  readMarks(reader, state);
  state.timer = reader.varint();
  for (let left = reader.varint(); left > 0; left--) state.slots.set(reader.varint(), readSlot(reader));
  for (let left = reader.varint(); left > 0; left--) {
    const computation = reader.varint();
    const value = reader.json();
    const since = reader.time();
    state.computed.set(computation, { value, since, sent: readSent(reader) });
  }
  return state;
}

/**
 * The userId and the former ones are told apart by marks on the identities, so that each text stands once.
 */
function writeIdentities({ identities, userId, formerUserIds }: ProfileState): void {
  writer.varint(identities.length);
  for (const { kind, value, at, isPublic, isUsed } of identities) {
    const isUser = kind === USER;
    const code = isUser ? USER_KIND : kind === ANONYMOUS ? ANONYMOUS_KIND : OTHER_KIND;
    writer.varint(code + (isPublic ? PUBLIC : 0) + (isUsed ? USED : 0));
    if (isUser) writer.varint(value === userId ? 1 : 0);
    else if (kind !== ANONYMOUS) writer.text(kind);
    writer.text(value);
    writer.time(at);
  }
  writer.varint(formerUserIds.length);
}

function readIdentities(reader: ByteReader, state: ProfileState): void {
  const former: string[] = [];
  for (let left = reader.varint(); left > 0; left--) {
    const code = reader.varint();
    const stored = code & KIND_BITS;
    const isCurrent = stored === USER_KIND && reader.varint() === 1;
    const kind = stored === USER_KIND ? USER : stored === ANONYMOUS_KIND ? ANONYMOUS : reader.text();
    const value = reader.text();
    if (isCurrent) state.userId = value;
    else if (kind === USER) former.push(value);
    const at = reader.time();
    const isPublic = (code & PUBLIC) !== 0;
    state.identities.push({ kind, value, at, isPublic, isUsed: (code & USED) !== 0 });
  }
  if (reader.varint() !== former.length) throw new RangeError('a former userId of a profile is no identity');
  if (former.length > 0) state.formerUserIds = former.sort();
}

/** Traits of one call stand together mostly, so time and messageId are written once for each run of them. */
function writeTraits(traits: ReadonlyMap<string, TraitValue>): void {
  writer.varint(traits.size);
  let last: TraitValue | undefined;
  for (const [name, trait] of traits) {
    const isSame =
      last?.at === trait.at && last.messageId === trait.messageId && last.isPublic === trait.isPublic;
    writer.varint(isSame ? SAME_CALL : trait.isPublic ? PUBLIC_CALL : SERVER_CALL);
    if (!isSame) {
      writer.time(trait.at);
      writer.text(trait.messageId);
    }
    writer.text(name);
    writer.json(trait.value);
    last = trait;
  }
}

function readTraits(reader: ByteReader, state: ProfileState): void {
  let [at, messageId, isPublic] = [0, '', false];
  for (let left = reader.varint(); left > 0; left--) {
    const code = reader.varint();
    if (code !== SAME_CALL) {
      at = reader.time();
      messageId = reader.text();
      isPublic = code === PUBLIC_CALL;
    }
    const before = reader.textsRead;
    const name = reader.text();
    state.traits.set(name, { value: reader.json(), at, messageId, isPublic });
    state.size += reader.textsRead - before + excessOf(messageId) + ENTRY_SIZE;
  }
}

function readGroups(reader: ByteReader, state: ProfileState): void {
  for (let left = reader.varint(); left > 0; left--) {
    const group = reader.text();
    state.groups.set(group, { at: reader.time(), isPublic: false });
    state.size += group.length + ENTRY_SIZE;
  }
}

/** Writes the parts that not every profile has. States of the first format have the times alone. */
function writeMarks(state: ProfileState): void {
  const { firstSeenAt, lastSeenAt, firstPosition, groups, leftOut, refusals, consent } = state;
  const wasSeen = firstSeenAt <= lastSeenAt;
  const publicGroups: number[] = [];
  let nth = 0;
  for (const { isPublic } of groups.values()) {
    if (isPublic) publicGroups.push(nth);
    nth++;
  }
  writer.varint(
    (wasSeen ? SEEN : 0) +
      (publicGroups.length > 0 ? PUBLIC_GROUPS : 0) +
      (leftOut > 0 ? LEFT_OUT : 0) +
      (Number.isFinite(firstPosition) ? PLACED : 0) +
      (refusals === undefined ? 0 : REFUSED) +
      (consent === undefined ? 0 : CONSENT),
  );
  if (wasSeen) {
    writer.time(firstSeenAt);
    writer.time(lastSeenAt);
  }
  if (publicGroups.length > 0) {
    writer.varint(publicGroups.length);
    for (const nth of publicGroups) writer.varint(nth);
  }
  if (leftOut > 0) writer.varint(leftOut);
  if (Number.isFinite(firstPosition)) writer.varint(firstPosition);
  if (refusals !== undefined) writeRefusals(writer, refusals);
  if (consent !== undefined) writeConsent(writer, consent);
}

function readMarks(reader: ByteReader, state: ProfileState): void {
  const marks = reader.varint();
  if ((marks & SEEN) !== 0) {
    state.firstSeenAt = reader.time();
    state.lastSeenAt = reader.time();
  }
  if ((marks & PUBLIC_GROUPS) !== 0) {
    const groups = [...state.groups];
    for (let left = reader.varint(); left > 0; left--) {
      const [group, { at }] = groups[reader.varint()]!;
      state.groups.set(group, { at, isPublic: true });
    }
  }
  if ((marks & LEFT_OUT) !== 0) state.leftOut = reader.varint();
  if ((marks & PLACED) !== 0) state.firstPosition = reader.varint();
  if ((marks & REFUSED) !== 0) state.refusals = readRefusals(reader);
  if ((marks & CONSENT) !== 0) state.consent = readConsent(reader);
}

/** States of the first format have no date, and a number of the last change in the place of its sequence. */
function writeSent({ value, at, sequence, known, owed }: Sent): void {
  const hasLists = known !== undefined || owed !== undefined;
  writer.varint((value === undefined ? 0 : SENT) + (at === 0 ? 0 : DATED) + (hasLists ? LISTS : 0));
  if (value !== undefined) writer.json(value);
  if (at !== 0) writer.time(at);
  if (hasLists) writer.json({ known: known ?? null, owed: owed ?? null } as unknown as Json);
  writer.varint(sequence);
}

function readSent(reader: ByteReader): Sent {
  const marks = reader.varint();
  const value = (marks & SENT) === 0 ? undefined : reader.json();
  const at = (marks & DATED) === 0 ? 0 : reader.time();
  if ((marks & LISTS) === 0) {
    const sequence = reader.varint();
    return marks === 0 && sequence === 0 ? NOTHING_SENT : { value, at, sequence };
  }
  const { known, owed } = reader.json() as unknown as {
    known: Sent['known'] | null;
    owed: Sent['owed'] | null;
  };
  return { value, at, sequence: reader.varint(), known: known ?? undefined, owed: owed ?? undefined };
}
