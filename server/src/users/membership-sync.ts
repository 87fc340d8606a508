import type { Computation } from '../model/definition.ts';
import type { Json } from '../model/json.ts';
import { type Duration, SECOND, type Time } from '../model/time.ts';
import type { ProfileId } from '../ports/profile-store.ts';
import { type Addressee, computationEvent } from './computation-event.ts';
import type { SyncTarget } from './computation-jobs.ts';
import { type ComputedValue, firstAnonymousId, type ProfileState } from './profile-state.ts';

/** A change waits so long for others of the same user and computation: at most one event a second. */
const HOLD: Duration = SECOND;

/** Names of the documents that keep the numbers of members, and the profiles with changes that wait. */
export const MEMBERS_DOCUMENT = 'members';
export const HELD_DOCUMENT = 'held';

/** Profiles whose changes wait no longer after a crash than otherwise. Others wait for their timer, a minute or two. */
const STORED_HOLDS = 1000;

/** An event for the outbox; the caller gives it its sequence number. */
export interface Notification {
  readonly profile: ProfileId;
  /** The canonical event as compact JSON. */
  readonly json: string;
}

export interface MembershipSyncOptions {
  /** Tells the numbers of this file of profiles from those of an earlier one, so that no messageId comes twice. */
  readonly lineage: string;
  /**
   * Whether destinations may be told what a computation says of a profile: false before the first sync has come to the profile,
   * and while the computation is computed from stored events.
   */
  readonly isSynced: (computation: number, profile: ProfileId) => boolean;
  /** Adds to a profile what destinations were told of it before all profiles were made anew. Called before they are told more. */
  readonly recall?: (state: ProfileState) => void;
  /** Members by computation, as the last commit left them. */
  readonly members?: Readonly<Record<string, number>>;
  /** Profiles with changes that waited at the last commit. */
  readonly held?: readonly ProfileId[];
  /** The changes that wait there go on waiting here. */
  readonly previous?: MembershipSync;
}

/**
 * Decides what destinations are told of audiences and computed traits. It compares what a computation says of a profile with what
 * was told last (`ComputedValue.told`), and both are stored in one commit with the event: no change is told twice or forgotten,
 * whatever crashes. spec/specification.md, "Computation events".
 *
 * Every profile that a slice changes is passed to `opened` when it was read, or made, and to `notify` when it was evaluated.
 * Before a merge both sides are passed to `merging`; the result counts as opened. An erased profile is passed to `opened` only.
 */
export class MembershipSync {
  readonly #options: MembershipSyncOptions;
  #computations: ReadonlyMap<number, Computation> = new Map();
  readonly #members = new Map<number, number>();
  /** When a change that waits is told, by profile and computation. After a crash it waits once more. */
  readonly #holds: Map<ProfileId, Map<number, Time>> = new Map();
  /** The holds in the order in which they end. */
  #queue: { readonly profile: ProfileId; readonly due: Time }[] = [];
  #queueHead = 0;
  /** What a walk does with the profiles of this slice. */
  readonly #visits = new Map<ProfileId, readonly SyncTarget[]>();
  /** The documents as they are stored, or will be with the slice at work. */
  readonly #stored: Record<string, string>;

  constructor(options: MembershipSyncOptions) {
    this.#options = options;
    for (const [id, n] of Object.entries(options.members ?? {})) this.#members.set(Number(id), n);
    const { previous, held = [] } = options;
    this.#stored = {
      [MEMBERS_DOCUMENT]: JSON.stringify(this.members()),
      [HELD_DOCUMENT]: JSON.stringify(held),
    };
    if (previous !== undefined) {
      this.#holds = previous.#holds;
      this.#queue = previous.#queue.slice(previous.#queueHead);
    }
    for (const profile of held) this.#lookAt(profile);
  }

  get lineage(): string {
    return this.#options.lineage;
  }

  configure(computations: readonly Computation[]): void {
    this.#computations = new Map(computations.map((computation) => [computation.id, computation]));
    for (const id of this.#members.keys()) if (!this.#computations.has(id)) this.#members.delete(id);
  }

  /** Numbers of members, or of users with a value, by id of the computation. To be stored with the slice. */
  members(): Record<string, number> {
    return Object.fromEntries(this.#members);
  }

  /** Documents that the slice at work has to store, when all its profiles were passed to `notify`. */
  documents(): Record<string, Json> {
    const held = [...this.#holds.keys()].slice(0, STORED_HOLDS);
    const documents: Record<string, Json> = {};
    for (const [name, document] of [
      [MEMBERS_DOCUMENT, this.members()],
      [HELD_DOCUMENT, held],
    ] as const) {
      const text = JSON.stringify(document);
      if (text !== this.#stored[name]) documents[name] = document;
      this.#stored[name] = text;
    }
    return documents;
  }

  /** Forgets the number of members of a computation, because its first sync begins and counts anew. */
  recount(computation: number): void {
    this.#members.delete(computation);
  }

  /** The profile leaves the numbers of members until `notify` puts it back. */
  opened(state: ProfileState): void {
    this.#count(state, -1);
  }

  /** A walk has come to a profile: `notify` tells at once what these targets say of it. */
  visit(profile: ProfileId, targets: readonly SyncTarget[]): void {
    this.#visits.set(profile, targets);
  }

  /**
   * The events that are due, after an evaluation. A change is held for up to a second; `due` names the profile then. The store's
   * timer has to look at the profile too, by `heldUntil`, in case of a crash.
   */
  notify(state: ProfileState, now: Time): Notification[] {
    const notifications: Notification[] = [];
    this.#options.recall?.(state);
    this.#count(state, 1);
    const targets = this.#visits.get(state.id) ?? NO_TARGETS;
    this.#visits.delete(state.id);
    for (const target of targets) notifications.push(...this.#tellTarget(state, target, now));
    for (const [id, computed] of state.computed) {
      if (!this.#differs(id, computed)) continue;
      const addressee = this.#addresseeOf(state, id);
      if (addressee === undefined || this.#isHeld(state.id, id, now)) continue;
      notifications.push(this.#tell(state, id, { addressee, value: computed.value, now }));
    }
    if (this.#holds.has(state.id)) this.#endHolds(state);
    return notifications;
  }

  /**
   * Before the loser becomes a part of the winner: the loser's id hears `false` for each membership that it was told `true`. The
   * same for a winner that is known by anonymous ids alone, because the merge may give it another id.
   */
  merging(winner: ProfileState, loser: ProfileState, now: Time): Notification[] {
    const notifications = this.renaming(loser, now);
    if (winner.userId === undefined) notifications.push(...this.renaming(winner, now));
    return notifications;
  }

  /** Before a profile gets another userId, or its first one: the id that it had hears `false`, and the new one its own changes. */
  renaming(state: ProfileState, now: Time): Notification[] {
    const notifications: Notification[] = [];
    for (const [id, computed] of state.computed) {
      // Takes back what was told, also while a first sync is under way that has not come to the profile yet.
      const addressee = this.#hearerOf(state, id);
      if (computed.told === undefined) continue;
      if (addressee !== undefined && computed.told === true)
        notifications.push(this.#tell(state, id, { addressee, value: false, now }));
      computed.told = undefined;
    }
    return notifications;
  }

  /** Profiles with a change that is to be told by now. Each is named once; `notify` then tells it. */
  due(now: Time): ProfileId[] {
    const profiles = new Set<ProfileId>();
    for (; this.#queueHead < this.#queue.length; this.#queueHead++) {
      const { profile, due } = this.#queue[this.#queueHead]!;
      if (due > now) break;
      if (this.#holds.has(profile)) profiles.add(profile);
    }
    if (this.#queueHead > 1024 && this.#queueHead * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#queueHead);
      this.#queueHead = 0;
    }
    return [...profiles];
  }

  /** When `due` will name a profile; undefined when no change waits. */
  nextDue(): Time | undefined {
    return this.#queue[this.#queueHead]?.due;
  }

  /** When the last change of a profile that waits is told; undefined when none does. */
  heldUntil(profile: ProfileId): Time | undefined {
    const holds = this.#holds.get(profile);
    return holds === undefined || holds.size === 0 ? undefined : Math.max(...holds.values());
  }

  /** A profile is gone: its changes do not wait any more. */
  forget(profile: ProfileId): void {
    this.#holds.delete(profile);
  }

  /** The step of a first sync: a change is told at once, and to whom it matters also what was told before. */
  #tellTarget(state: ProfileState, { id, kind, only }: SyncTarget, now: Time): Notification[] {
    const computed = state.computed.get(id);
    if (computed === undefined) return [];
    const addressee = this.#addresseeOf(state, id);
    if (addressee === undefined) return [];
    const { value } = computed;
    if (this.#differs(id, computed)) return [this.#tell(state, id, { addressee, value, now })];
    if (kind === 'edited' || kind === 'rebuilt' || !isMember(this.#computations.get(id)!, value)) return [];
    return [this.#tell(state, id, { addressee, value, now, ...(only === undefined ? {} : { only }) })];
  }

  /** Makes `due` name a profile at once. */
  #lookAt(profile: ProfileId): void {
    if (this.#holds.has(profile)) return;
    this.#holds.set(profile, new Map());
    this.#queue.unshift({ profile, due: Number.NEGATIVE_INFINITY });
  }

  /** True when the change has to wait. It begins to wait when it is new. */
  #isHeld(profile: ProfileId, computation: number, now: Time): boolean {
    const holds = this.#holds.get(profile);
    const due = holds?.get(computation);
    // A wall clock that was set back would hold it for as long.
    if (due !== undefined && (due <= now || due > now + HOLD)) return false;
    if (due !== undefined) return true;
    if (holds === undefined) this.#holds.set(profile, new Map([[computation, now + HOLD]]));
    else holds.set(computation, now + HOLD);
    this.#queue.push({ profile, due: now + HOLD });
    return true;
  }

  /** Ends the holds of changes that were told, that have gone back to what was told, or that nobody hears any more. */
  #endHolds(state: ProfileState): void {
    const holds = this.#holds.get(state.id)!;
    for (const id of holds.keys()) {
      const computed = state.computed.get(id);
      const isOpen = computed !== undefined && this.#differs(id, computed);
      if (!isOpen || this.#addresseeOf(state, id) === undefined) holds.delete(id);
    }
    if (holds.size === 0) this.#holds.delete(state.id);
  }

  #differs(id: number, { value, told }: ComputedValue): boolean {
    const computation = this.#computations.get(id);
    if (computation === undefined) return false;
    return told === undefined ? isMember(computation, value) : !isSame(value, told);
  }

  /** Who hears of a profile now; undefined when nobody does. */
  #addresseeOf(state: ProfileState, id: number): Addressee | undefined {
    return this.#options.isSynced(id, state.id) ? this.#hearerOf(state, id) : undefined;
  }

  /** Who hears of a profile as soon as the computation is synced; undefined when nobody does. */
  #hearerOf(state: ProfileState, id: number): Addressee | undefined {
    const computation = this.#computations.get(id);
    if (computation === undefined || !computation.enabled || computation.destinations.length === 0)
      return undefined;
    const isTold = state.computed.get(id)?.told === true;
    return isTold ? hearerOf(state, computation) : addresseeOf(state, computation);
  }

  #tell(
    state: ProfileState,
    id: number,
    told: {
      readonly addressee: Addressee;
      readonly value: Json;
      readonly now: Time;
      readonly only?: readonly string[];
    },
  ): Notification {
    const computed = state.computed.get(id)!;
    const { value, now } = told;
    computed.transition++;
    const at = isSame(value, computed.value) ? computed.since : now;
    computed.told = value;
    const number = `${this.#options.lineage}.${state.id}.${computed.transition}`;
    const event = computationEvent({ ...told, computation: this.#computations.get(id)!, at, number });
    return { profile: state.id, json: JSON.stringify(event) };
  }

  #count(state: ProfileState, by: 1 | -1): void {
    for (const [id, { value }] of state.computed) {
      const computation = this.#computations.get(id);
      if (computation === undefined || !isMember(computation, value)) continue;
      if (addresseeOf(state, computation) === undefined || !this.#options.isSynced(id, state.id)) continue;
      this.#members.set(id, (this.#members.get(id) ?? 0) + by);
    }
  }
}

const NO_TARGETS: readonly SyncTarget[] = [];

/** Who hears of a profile: its user, or the anonymous id that it had first where anonymous profiles are members. */
export function addresseeOf(
  profile: Pick<ProfileState, 'userId' | 'identities'>,
  computation: Computation,
): Addressee | undefined {
  if (profile.userId !== undefined) return { userId: profile.userId };
  if (computation.kind !== 'audience' || !computation.includeAnonymous) return undefined;
  const first = firstAnonymousId(profile);
  return first === undefined ? undefined : { anonymousId: first.value };
}

/** The addressee that earlier events of a profile had. Anonymous members had one, also when the audience takes none any more. */
export function hearerOf(
  profile: Pick<ProfileState, 'userId' | 'identities'>,
  computation: Computation,
): Addressee | undefined {
  const isAudience = computation.kind === 'audience';
  return addresseeOf(profile, isAudience ? { ...computation, includeAnonymous: true } : computation);
}

/** Whether a value is worth a first event: a membership, or a computed trait that has a value. */
export function isMember({ kind }: Pick<Computation, 'kind'>, value: Json): boolean {
  return kind === 'audience' ? value === true : value !== null;
}

function isSame(a: Json, b: Json): boolean {
  return (
    a === b || (typeof a === 'object' && typeof b === 'object' && JSON.stringify(a) === JSON.stringify(b))
  );
}
