import type { Json } from '../model/json.ts';
import { MINUTE, type Time } from '../model/time.ts';
import type {
  ForgottenProfile,
  IdentityKey,
  MergeRecord,
  OutboxEntry,
  ProfileChanges,
  ProfileId,
  ProfileStore,
  Timer,
  UsersCursor,
} from '../ports/profile-store.ts';
import type { TouchedComputations, TraitEngine } from './computation/trait-engine.ts';
import type { IdentityHash, IdentitySettings } from './contract.ts';
import { type ApartIds, type IdentityCounts, IdentityGraph } from './identity/identity-graph.ts';
import { type EventIdentities, IdentityReader, type KeyedIdentity } from './identity/identity-reader.ts';
import { consentOf, newerConsent } from './identity/profile-consent.ts';
import { decodeProfile, encodeProfile, type ProfileState } from './identity/profile-state.ts';
import { addLeftOut, type LeftOutTraits, NONE_LEFT_OUT, noteTraits } from './identity/traits.ts';
import type { LogEvent } from './log-events.ts';
import type { MembershipSync, Notification, ProfileBefore } from './sync/membership-sync.ts';

export interface SliceOptions {
  readonly store: ProfileStore;
  readonly hash: IdentityHash;
  readonly identities: IdentitySettings;
  readonly apart?: ApartIds | undefined;
  readonly engine: TraitEngine;
  readonly sync: MembershipSync;
  readonly cursor: UsersCursor;
  readonly now: Time;
  /**
   * Owners of ids that are known from earlier slices; the slice adds to them. They are void when its commit
   * fails.
   */
  readonly owners: Map<IdentityKey, ProfileId>;
}

/** A profile whose values may change at a time within the next minute. */
export interface SoonChange {
  readonly at: Time;
  readonly profile: ProfileId;
}

/** The result of a slice. */
export interface SliceResult {
  readonly changes: ProfileChanges;
  readonly soon: readonly SoonChange[];
  readonly counts: IdentityCounts;
  readonly leftOut: LeftOutTraits;
  /** Profiles that were evaluated. */
  readonly evaluated: number;
  /** Profiles whose stored bytes cannot be decoded. */
  readonly unreadable: readonly ProfileId[];
}

/**
 * A stretch of work on profiles that becomes one commit. Profiles are loaded from the store in bulk, changed
 * in memory, evaluated once at the end, and stored together with everything that follows from them.
 *
 * Use: `load…`, then what changes profiles, as often as wanted; then `finish` once.
 */
export class Slice {
  readonly now: Time;
  /** Number of bytes of the states that were loaded. */
  loadedBytes = 0;
  readonly #options: SliceOptions;
  readonly #graph: IdentityGraph;
  /** Bytes of loaded profiles until they are decoded; undefined for a profile that is gone. */
  readonly #stored = new Map<ProfileId, Uint8Array | undefined>();
  /** Keys without an owner. */
  readonly #free = new Set<IdentityKey>();
  /** Every profile as it was found, by its present number, together with those that were merged into it. */
  readonly #before = new Map<ProfileId, readonly ProfileBefore[]>();
  readonly #changed = new Map<ProfileId, ProfileState>();
  /**
   * Computations that events may have changed, for profiles that only events changed. For every other changed
   * profile all computations are evaluated.
   */
  readonly #touched = new Map<ProfileId, TouchedComputations>();
  readonly #notifications: Notification[] = [];
  readonly #firedTimers: Timer[] = [];
  readonly #documents: Record<string, Json> = {};
  readonly #unreadable: ProfileId[] = [];
  readonly #forgotten = new Map<ProfileId, ForgottenProfile>();
  readonly #dissolved: ProfileId[] = [];
  #leftOut: LeftOutTraits = NONE_LEFT_OUT;

  constructor(options: SliceOptions) {
    const { hash, identities, apart, cursor, now, owners } = options;
    this.#options = options;
    this.now = now;
    const load = (id: ProfileId) => this.#decode(id);
    const { nextProfile } = cursor;
    this.#graph = new IdentityGraph(hash, identities, { owners, load, nextProfile, apart });
  }

  /** The cursor of the store when the slice began. */
  get cursor(): UsersCursor {
    return this.#options.cursor;
  }

  /** Reads ids as the slice does. */
  get identityReader(): IdentityReader {
    const { hash, identities } = this.#options;
    return new IdentityReader(hash, identities);
  }

  /** Number of events for the outbox so far. */
  get told(): number {
    return this.#notifications.length;
  }

  /** Number of profiles that changed. */
  get changed(): number {
    return this.#changed.size;
  }

  /** Loads the profiles of all these ids. */
  async loadOwners(ids: Iterable<EventIdentities>): Promise<void> {
    const { owners, store } = this.#options;
    const unknown = new Set<IdentityKey>();
    const profiles = new Set<ProfileId>();
    const want = (id: KeyedIdentity | undefined) => {
      if (id === undefined) return;
      const owner = owners.get(id.key);
      if (owner !== undefined) profiles.add(owner);
      // Keys that the slice has unbound have no owner, whatever the store still says.
      else if (!this.#free.has(id.key) && !this.#graph.unbound.has(id.key)) unknown.add(id.key);
    };
    for (const { user, anonymous, previous, external } of ids) {
      want(user);
      want(anonymous);
      want(previous?.user);
      want(previous?.anonymous);
      for (const id of external) want(id);
    }
    const keys = [...unknown];
    const found = keys.length === 0 ? [] : await store.resolve(keys);
    for (const [nth, key] of keys.entries()) {
      const owner = found[nth];
      if (owner === undefined) this.#free.add(key);
      else {
        owners.set(key, owner);
        profiles.add(owner);
      }
    }
    await this.load(profiles);
  }

  /** Loads profiles by their numbers. */
  async load(profiles: Iterable<ProfileId>): Promise<void> {
    const missing: ProfileId[] = [];
    for (const id of profiles) if (!this.#stored.has(id) && !this.#isNew(id)) missing.push(id);
    if (missing.length === 0) return;
    const states = await this.#options.store.get(missing);
    for (const [nth, id] of missing.entries()) {
      const state = states[nth];
      this.#stored.set(id, state);
      this.loadedBytes += state?.length ?? 0;
    }
  }

  /** Applies an event whose ids' owners are loaded. */
  apply(event: LogEvent): void {
    this.#apply(event, undefined);
  }

  /** @param slots slots that count the event; all when absent */
  #apply(event: LogEvent, slots: ReadonlySet<number> | undefined): void {
    const { merges } = this.#graph;
    const known = merges.length;
    const profile = this.#graph.attribute(event.ids, event);
    for (let nth = known; nth < merges.length; nth++) this.#noteMerge(merges[nth]!);
    if (profile === undefined) return;
    this.#touch(profile, event);
    const { at, position, source } = event;
    if (profile.firstSeenAt === Number.POSITIVE_INFINITY) profile.firstPosition = position;
    if (at < profile.firstSeenAt) profile.firstSeenAt = at;
    if (at > profile.lastSeenAt) profile.lastSeenAt = at;
    profile.sources.add(source);
    this.#leftOut = addLeftOut(this.#leftOut, noteTraits(profile, event));
    if (event.consented !== undefined) this.#noteConsent(profile, event, event.consented);
    if (this.#options.engine.mentions(event.type, event.name))
      this.#options.engine.apply(profile, event, slots);
  }

  #noteConsent(profile: ProfileState, { at, messageId }: LogEvent, consented: readonly string[]): void {
    const { consent, leftOut } = consentOf({ consented, at, messageId });
    profile.consent = newerConsent(profile.consent, consent)!;
    if (leftOut === 0) return;
    profile.leftOut += leftOut;
    this.#leftOut = addLeftOut(this.#leftOut, { ...NONE_LEFT_OUT, values: leftOut });
  }

  /** The profile to which an event belongs now; joins nothing. Its ids' owners must be loaded. */
  ownerOf({ user, anonymous }: EventIdentities): ProfileState | undefined {
    return this.#graph.ownerOf(user) ?? this.#graph.ownerOf(anonymous);
  }

  /**
   * Makes a profile for an id that no profile has any more, because destinations have still to hear of it.
   * The id's owner must be loaded.
   */
  remnantOf(id: KeyedIdentity): ProfileState {
    return this.#graph.remnant(id);
  }

  /** A loaded profile as the slice has left it; undefined when it is gone. */
  state(id: ProfileId): ProfileState | undefined {
    return this.#forgotten.has(id) ? undefined : this.#graph.state(id);
  }

  /** Marks a profile as changed, so that it is evaluated and stored. */
  change(profile: ProfileState): void {
    this.#touched.delete(profile.id);
    this.#changed.set(profile.id, profile);
  }

  /** Like `change`, for a change made by an event: evaluates only what reads that event. */
  #touch(profile: ProfileState, event: LogEvent): void {
    let touched = this.#touched.get(profile.id);
    if (touched === undefined) {
      const isWhole = this.#changed.has(profile.id) || this.#isNew(profile.id);
      this.#changed.set(profile.id, profile);
      if (isWhole) return;
      touched = new Set();
      this.#touched.set(profile.id, touched);
    }
    this.#options.engine.touch(touched, event);
  }

  /** Notes that two profiles have become one. */
  #noteMerge({ winner, loser }: MergeRecord): void {
    this.#before.set(winner, [...(this.#before.get(winner) ?? []), ...(this.#before.get(loser) ?? [])]);
    this.#before.delete(loser);
    this.#options.sync.forget(loser);
    this.#changed.delete(loser);
    this.#touched.delete(loser);
    const merged = this.state(winner);
    // The same event may have merged it once more.
    if (merged !== undefined) this.change(merged);
  }

  /**
   * Takes a loaded profile apart: it is gone, and `applyAgain` has to be called with every stored event of
   * its ids. Returns the profile as it was; undefined when it was gone already.
   */
  dissolve(
    id: ProfileId,
  ): { readonly state: ProfileState; readonly before: readonly ProfileBefore[] } | undefined {
    const state = this.state(id);
    if (state === undefined) return undefined;
    const before = this.#before.get(id) ?? [];
    this.#before.delete(id);
    this.#changed.delete(id);
    this.#touched.delete(id);
    this.#options.sync.forget(id);
    this.#graph.dissolve(state);
    this.#dissolved.push(id);
    return { state, before };
  }

  /** Applies a stored event of a profile that was taken apart. `slots`: those that have counted it. */
  applyAgain(event: LogEvent, slots: ReadonlySet<number> | undefined): void {
    this.#apply(event, slots);
  }

  /**
   * Applies a stored event of another profile that names an id of one that was taken apart: the id may belong
   * to the other now.
   */
  joinAgain(event: LogEvent): void {
    const known = this.ownerOf(event.ids);
    if (known === undefined) return;
    const { merges } = this.#graph;
    const before = { merges: merges.length, ids: known.identities.length };
    const profile = this.#graph.attribute(event.ids, event);
    for (let nth = before.merges; nth < merges.length; nth++) this.#noteMerge(merges[nth]!);
    if (profile !== undefined && profile.identities.length !== before.ids) this.change(profile);
  }

  /**
   * Makes a profile for a userId that no stored event names any more; undefined when a profile has the id.
   */
  revive(id: KeyedIdentity, at: Time): ProfileState | undefined {
    if (this.#graph.ownerOf(id) !== undefined) return undefined;
    const profile = this.#graph.revive(id, at);
    this.change(profile);
    return profile;
  }

  /** Makes a profile the successor of another one, which was found as `before`. */
  succeed(profile: ProfileState, before: readonly ProfileBefore[]): void {
    this.#before.set(profile.id, [...(this.#before.get(profile.id) ?? []), ...before]);
    this.change(profile);
  }

  /** Tells destinations at once the values of a changed profile. */
  tellAtOnce(profile: ProfileId, computations: readonly number[]): void {
    this.#options.sync.visit(
      profile,
      computations.map((id) => ({ id, kind: 'edited' as const })),
    );
  }

  /** Removes erased profiles from all memberships, and tells nobody. */
  leave(profiles: readonly ProfileId[]): void {
    for (const id of profiles) {
      if (this.state(id) === undefined) continue;
      for (const before of this.#before.get(id) ?? []) this.#options.sync.erased(id, before);
    }
  }

  /**
   * Removes a loaded profile that no event of this slice has changed, and tells destinations that it is no
   * member. Returns false, and keeps it, when one of them cannot hear that now. Do not use the profile
   * afterwards.
   */
  letGo(profile: ProfileState): boolean {
    const { sync, hash, owners } = this.#options;
    const { id } = profile;
    if (this.#changed.has(id) || this.#isNew(id) || this.#forgotten.has(id)) return false;
    const notifications = sync.leave(profile, this.#before.get(id) ?? [], this.now);
    if (notifications === undefined) return false;
    this.#notifications.push(...notifications);
    if (profile.timer !== 0) this.#firedTimers.push({ minute: profile.timer, profile: id });
    const keys = profile.identities.map(({ kind, value }) => hash(kind, value));
    for (const key of keys) if (owners.get(key) === id) owners.delete(key);
    this.#forgotten.set(id, { profile: id, keys });
    return true;
  }

  /** Evaluates a loaded profile because its timer is due, and removes the timer. */
  fire(timer: Timer): void {
    this.#firedTimers.push(timer);
    const profile = this.state(timer.profile);
    if (profile === undefined) return;
    this.change(profile);
    timerFired(profile, timer);
  }

  /** Looks at a loaded profile because something may have changed by now. */
  revisit(id: ProfileId): void {
    const profile = this.state(id);
    if (profile === undefined) return;
    this.change(profile);
    if (profile.timer === 0) return;
    this.#firedTimers.push({ minute: profile.timer, profile: id });
    profile.timer = 0;
  }

  /** Adds events to the outbox beside those that follow from changes. */
  notify(notifications: readonly Notification[]): void {
    this.#notifications.push(...notifications);
  }

  /** Stores a small document with the slice; null removes it. */
  document(name: string, value: Json): void {
    this.#documents[name] = value;
  }

  /**
   * Evaluates every changed profile and says what has to be stored. `position` is the next one to be applied.
   */
  finish(position: number, sentTo: number | undefined): SliceResult {
    const { engine, sync, cursor } = this.#options;
    const put: { id: ProfileId; state: Uint8Array }[] = [];
    const timers: Timer[] = [];
    const soon: SoonChange[] = [];
    for (const profile of this.#changed.values()) {
      // The wall clock may have been set back since the newest event arrived.
      const now = Math.max(this.now, profile.lastSeenAt);
      const before = this.#before.get(profile.id) ?? [];
      // Some values depend on whether a profile has a userId.
      const isSameUser = before[0]?.userId === profile.userId;
      engine.evaluate(profile, now, isSameUser ? this.#touched.get(profile.id) : undefined);
      this.#notifications.push(...sync.finish(profile, before, this.now));
      const next = engine.nextChange(profile, now);
      const timer = setTimer(profile, earlier(next, sync.heldUntil(profile.id)));
      if (timer !== undefined) timers.push(timer);
      if (next !== undefined && next <= this.now + MINUTE) soon.push({ at: next, profile: profile.id });
      put.push({ id: profile.id, state: encodeProfile(profile) });
    }
    const outbox = this.#notifications.map<OutboxEntry>(({ profile, json }, nth) => ({
      sequence: cursor.nextOutbox + nth,
      profile,
      json,
    }));
    const { bound, unbound, removed, merges, counts, traitsGone, nextProfile } = this.#graph;
    const nextOutbox = cursor.nextOutbox + outbox.length;
    return {
      changes: {
        cursor: { position, clock: this.now, nextProfile, nextOutbox },
        put,
        removed: [...removed],
        dissolved: this.#dissolved,
        bind: Array.from(bound, ([key, profile]) => ({ key, profile })),
        unbind: [...unbound],
        forgotten: [...this.#forgotten.values()],
        timers,
        firedTimers: this.#firedTimers,
        outbox,
        sentTo,
        merges,
        documents: { ...this.#documents, ...sync.documents(), ...engine.failures.documents() },
      },
      soon,
      counts,
      leftOut: addLeftOut(this.#leftOut, { ...NONE_LEFT_OUT, gone: traitsGone }),
      evaluated: put.length,
      unreadable: this.#unreadable,
    };
  }

  /** True for a profile that this slice has made. */
  #isNew(id: ProfileId): boolean {
    return id >= this.#options.cursor.nextProfile;
  }

  #decode(id: ProfileId): ProfileState | undefined {
    if (this.#isNew(id)) return undefined;
    if (!this.#stored.has(id)) throw new Error(`profile ${id} was not loaded`);
    const bytes = this.#stored.get(id);
    if (bytes === undefined) return undefined;
    this.#stored.set(id, undefined);
    try {
      const profile = decodeProfile(id, bytes);
      this.#before.set(id, [this.#options.sync.before(profile)]);
      return profile;
    } catch {
      this.#unreadable.push(id);
      return undefined;
    }
  }
}

function earlier(a: Time | undefined, b: Time | undefined): Time | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return Math.min(a, b);
}

/**
 * Timers of profiles. A profile has a timer for the first minute in which passing time may change one of its
 * values. Events move that moment all the time, so a timer is set only if it is earlier than the one in the
 * store. A timer may therefore be due too early, and then the next one is set. After a downtime all missed
 * timers are due at once.
 *
 * 0 stands for no timer.
 */

/** The minute of the timer to set now; 0 when the timer of `current` is early enough. */
function timerToSet(current: number, nextChange: Time | undefined): number {
  if (nextChange === undefined) return 0;
  const minute = Math.ceil(nextChange / MINUTE);
  return current === 0 || minute < current ? minute : 0;
}

/**
 * Sets the timer of a profile, and notes it in the profile. Returns it for the store; undefined when none has
 * to be set.
 */
export function setTimer(
  profile: { readonly id: ProfileId; timer: number },
  nextChange: Time | undefined,
): Timer | undefined {
  const minute = timerToSet(profile.timer, nextChange);
  if (minute === 0) return undefined;
  profile.timer = minute;
  return { minute, profile: profile.id };
}

/** Notes that a timer of a profile is due and removed. Ignores a timer that was replaced. */
export function timerFired(profile: { timer: number }, { minute }: Timer): void {
  if (profile.timer === minute) profile.timer = 0;
}
