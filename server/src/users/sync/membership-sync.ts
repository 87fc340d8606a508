import type { Computation } from '../../model/definition.ts';
import type { Json } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';
import type { ProfileId } from '../../ports/profile-store.ts';
import type { SyncTarget } from '../computation/computation-jobs.ts';
import { type ComputedValue, firstAnonymousId, type ProfileState } from '../identity/profile-state.ts';
import { computationEvent, type ToldChange } from './computation-event.ts';
import { ComputationForms } from './computation-forms.ts';
import { ConsentRule } from './consent-rule.ts';
import { everyRecipientOf, idOf, keyOf, type Recipient, recipientIn, recipientOf } from './recipient.ts';
import {
  behind,
  differs,
  isMember,
  isNothing,
  isSame,
  type Listeners,
  NOTHING_SENT,
  type Owed,
  type Sent,
  whoNeeds,
  withNew,
  withOwed,
  withoutOwed,
  withRepeated,
  withSent,
  withUnsure,
  withUnsureListeners,
} from './sent.ts';
import { Throttle } from './throttle.ts';

/**
 * Names of the documents that keep the numbers of members, the profiles with changes that wait, and the
 * highest sequence that was sent to a recipient who has no profile any more.
 */
export const MEMBERS_DOCUMENT = 'members';
export const HELD_DOCUMENT = 'held';
export const FLOOR_DOCUMENT = 'sequence-floor';

/**
 * Most profiles with waiting changes that are stored, so that their changes wait no longer after a crash.
 * Others wait for their timer, a minute or two.
 */
const STORED_HOLDS = 1000;

/** An event for the outbox; the caller gives it its sequence number. */
export interface Notification {
  readonly profile: ProfileId;
  /** The canonical event as compact JSON. */
  readonly json: string;
}

/** A profile as a slice has found it, as far as it decides what destinations hear afterwards. */
export interface ProfileBefore {
  readonly userId: string | undefined;
  /**
   * The anonymous id that stood for the profile while it had no userId; undefined when it had only external
   * ids.
   */
  readonly anonymousId: string | undefined;
  /** Values that were sent of the profile. The slice replaces these objects and never changes them. */
  readonly computed: ReadonlyMap<number, Pick<ComputedValue, 'sent'>>;
  /** Ids of the computations that count the profile as a member. */
  readonly counted: readonly number[];
}

export interface MembershipSyncOptions {
  /**
   * Tells the numbers of this file of profiles from those of an earlier one, so that no messageId comes
   * twice.
   */
  readonly lineage: string;
  /**
   * Tells whether destinations may hear the value of a computation for a profile: false before the first sync
   * has come to the profile, and while the computation is computed from stored events.
   */
  readonly isSynced: (computation: number, profile: ProfileId) => boolean;
  /** Destinations of a computation for a profile, without new ones until the walk has come to the profile. */
  readonly listenersOf: (computation: Computation, profile: ProfileId) => Listeners;
  /** Absent: no destination asks for consent. */
  readonly consent?: ConsentRule;
  /** Absent: all destinations hear of computations in the usual form. */
  readonly forms?: ComputationForms;
  /**
   * Adds to a profile what destinations were told of it before all profiles were made anew. Called before
   * they are told more.
   */
  readonly recall?: (state: ProfileState) => void;
  /** Members by computation, as the last commit left them. */
  readonly members?: Readonly<Record<string, number>>;
  /** Profiles with changes that waited at the last commit. */
  readonly held?: readonly ProfileId[];
  /** The highest sequence that was sent to somebody without a profile, at the last commit. */
  readonly floor?: number;
  /** Waiting changes of this sync go on waiting in the new one. */
  readonly previous?: MembershipSync;
}

/**
 * Decides what destinations are told of audiences and computed traits. It compares what a computation says of
 * a profile with what was sent (users/sync/sent.ts), and both are stored in one commit with the event: no
 * change is told twice or forgotten, whatever crashes. spec/specification.md, "Computation events".
 *
 * For every profile that a slice has loaded, `before` is called when it was read, and for every one that it
 * has changed, `finish` when it was evaluated.
 */
export class MembershipSync {
  readonly #options: MembershipSyncOptions;
  readonly #throttle: Throttle;
  readonly #consent: ConsentRule;
  readonly #forms: ComputationForms;
  #computations: ReadonlyMap<number, Computation> = new Map();
  readonly #members = new Map<number, number>();
  /**
   * Computations whose members this slice counts anew: what it read before says nothing of the new number.
   */
  readonly #recounted = new Set<number>();
  /** Tasks of the walk for profiles of this slice. */
  readonly #visits = new Map<ProfileId, readonly SyncTarget[]>();
  /** Sequences of profiles that come back begin above this, also where the clock was set back. */
  #floor: number;
  /** The documents as they are stored, or will be with the slice at work. */
  readonly #stored: Record<string, string>;

  constructor(options: MembershipSyncOptions) {
    this.#options = options;
    this.#consent = options.consent ?? new ConsentRule();
    this.#forms = options.forms ?? new ComputationForms();
    for (const [id, n] of Object.entries(options.members ?? {})) this.#members.set(Number(id), n);
    const { previous, held = [], floor = 0 } = options;
    this.#floor = floor;
    this.#stored = {
      [FLOOR_DOCUMENT]: JSON.stringify(floor),
      [MEMBERS_DOCUMENT]: JSON.stringify(this.members()),
      [HELD_DOCUMENT]: JSON.stringify(held),
    };
    this.#throttle = previous === undefined ? new Throttle() : previous.#throttle;
    for (const profile of held) this.#throttle.lookAt(profile);
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

  /** Documents that the slice at work has to store, when all its profiles were passed to `finish`. */
  documents(): Record<string, Json> {
    const held = [...this.#throttle.profiles].slice(0, STORED_HOLDS);
    const documents: Record<string, Json> = {};
    for (const [name, document] of [
      [MEMBERS_DOCUMENT, this.members()],
      [HELD_DOCUMENT, held],
      [FLOOR_DOCUMENT, this.#floor],
    ] as const) {
      const text = JSON.stringify(document);
      if (text !== this.#stored[name]) documents[name] = document;
      this.#stored[name] = text;
    }
    this.#recounted.clear();
    return documents;
  }

  /** Forgets the number of members of a computation, because its first sync begins and counts anew. */
  recount(computation: number): void {
    this.#members.delete(computation);
    this.#recounted.add(computation);
  }

  /** To be called when a profile was read, before anything of it changes. */
  before(state: ProfileState): ProfileBefore {
    return {
      userId: state.userId,
      anonymousId: state.userId === undefined ? firstAnonymousId(state)?.value : undefined,
      computed: state.computed,
      counted: this.#countedIn(state),
    };
  }

  /** Call when a walk has come to a profile: `finish` then tells the values of these targets at once. */
  visit(profile: ProfileId, targets: readonly SyncTarget[]): void {
    this.#visits.set(profile, targets);
  }

  /**
   * Returns the events that are due after an evaluation. `befores`: the profile as it was found, and those
   * that were merged into it. A change waits for a second or more; `due` names the profile then. The store's
   * timer has to look at the profile too, by `heldUntil`, in case of a crash.
   */
  finish(state: ProfileState, befores: readonly ProfileBefore[], now: Time): Notification[] {
    const notifications = this.#handOver(state, befores, now);
    this.#options.recall?.(state);
    const targets = this.#visits.get(state.id);
    if (targets !== undefined) {
      for (const target of targets) notifications.push(...this.#visitFor(state, target, now));
      this.#visits.delete(state.id);
    }
    const counted: number[] = [];
    for (const [id, computed] of state.computed) {
      const computation = this.#computations.get(id);
      if (computation === undefined) continue;
      if (this.#isCounted(state, computation, computed.value)) counted.push(id);
      if (!this.#isTellable(state, computation, computed)) continue;
      const recipient = this.#recipientOf(state, computation, computed.sent);
      if (recipient === undefined || this.#throttle.isWaiting(state.id, id, now)) continue;
      this.#throttle.told(state.id, id, now);
      notifications.push(...this.#tellChange(state, computation, { recipient, computed, now }));
    }
    this.#count(befores, counted);
    if (this.#throttle.has(state.id)) this.#throttle.keepOnly(state.id, (id) => this.#isOpen(state, id));
    return notifications;
  }

  /**
   * Tells destinations that know a profile as a member that it is none, because the profile is removed.
   * Returns undefined, and tells nobody, when a destination cannot hear that now or has still to hear it of a
   * former id: the profile has to stay then.
   */
  leave(state: ProfileState, befores: readonly ProfileBefore[], now: Time): Notification[] | undefined {
    const told = [...state.computed].flatMap(([id, { sent }]) => {
      const computation = this.#computations.get(id);
      return computation?.kind === 'audience' ? [{ id, computation, sent }] : [];
    });
    if (told.some(({ computation, sent }) => this.#isAwaited(state, computation, sent))) return undefined;
    const to = idOf(state);
    const notifications =
      to === undefined
        ? []
        : told.flatMap(({ id, sent }) => this.takeBack(state, id, { to, sent, now }).notifications);
    for (const before of befores) this.erased(state.id, before);
    this.#visits.delete(state.id);
    return notifications;
  }

  /** Tells whether a destination must hear that a profile is no member, and cannot now. */
  #isAwaited(state: ProfileState, computation: Computation, sent: Sent): boolean {
    const listeners = withUnsureListeners(sent, this.#options.listenersOf(computation, state.id));
    // Nobody stays because of one that may never be connected again.
    const isNamed = (name: string) => computation.destinations.includes(name);
    const isConnected = (name: string) => listeners.connected.includes(name) && isNamed(name);
    if (sent.owed?.some(({ destinations }) => destinations.some(isConnected))) return true;
    const { connected, hearing } = whoNeeds(sent, false, { computation, listeners });
    const named = connected.filter(isNamed);
    return computation.enabled ? named.length > hearing.length : named.length > 0;
  }

  /** Counts out a profile that was erased, without telling anybody. */
  erased(profile: ProfileId, before: ProfileBefore): void {
    this.#leaveNumbers(before);
    this.forget(profile);
  }

  /** Drops the waiting changes of a profile that was removed. */
  forget(profile: ProfileId): void {
    this.#throttle.forget(profile);
  }

  /**
   * Tells `false` to the destinations that know a recipient as a member. `owed`: those that cannot be told
   * now. `state` numbers and dates the event.
   */
  takeBack(
    state: ProfileState,
    id: number,
    { to, sent, now }: { readonly to: Recipient; readonly sent: Sent; readonly now: Time },
  ): { readonly notifications: Notification[]; readonly owed: readonly Owed[] } {
    const computation = this.#computations.get(id);
    if (computation?.kind !== 'audience' || !computation.enabled) return { notifications: [], owed: [] };
    const listeners = withUnsureListeners(sent, this.#options.listenersOf(computation, state.id));
    const { connected, hearing } = whoNeeds(sent, false, { computation, listeners });
    const late = connected.filter((name) => !hearing.includes(name));
    const notifications = this.#send(state, computation, { recipient: to, value: false, now, to: hearing });
    if (notifications.length > 0) this.#floor = Math.max(this.#floor, state.computed.get(id)!.sent.sequence);
    return { notifications, owed: late.length === 0 ? [] : [{ to: keyOf(to), destinations: late }] };
  }

  /** Notes that some destinations may or may not have got an event of a profile. `key`: its recipient. */
  uncertain(
    { computed, ...state }: ProfileState,
    computation: Computation,
    { key, to }: { readonly key: string; readonly to: readonly string[] },
  ): void {
    const value = computation.kind === 'audience' ? false : null;
    const one = computed.get(computation.id) ?? { value, since: 0, sent: NOTHING_SENT };
    computed.set(computation.id, one);
    if (optionalKeyOf(idOf(state)) === key) one.sent = withUnsure(one.sent, to);
    else one.sent = withOwed(one.sent, [{ to: key, destinations: to }]);
  }

  /** Profiles with a change that is due now. Each is named once; `finish` then sends the change. */
  due(now: Time): ProfileId[] {
    return this.#throttle.due(now);
  }

  /** Time at which `due` will name a profile; undefined when no change waits. */
  nextDue(): Time | undefined {
    return this.#throttle.nextDue();
  }

  /** Time at which the last waiting change of a profile is sent; undefined when none waits. */
  heldUntil(profile: ProfileId): Time | undefined {
    return this.#throttle.waitsUntil(profile);
  }

  /**
   * Handles profiles that were merged or got another id as recipient. What was sent to the present recipient
   * stays; every former one is told `false` for what it was told `true`.
   */
  #handOver(state: ProfileState, befores: readonly ProfileBefore[], now: Time): Notification[] {
    if (befores.length === 0 || (befores.length === 1 && isOfSameId(befores[0]!, state))) return [];
    const sides = befores.map((before) => ({ before, sent: sentIn(before) }));
    const current = sides.find(({ before }) => isOfSameId(before, state));
    const former = sides.filter((side) => side !== current);
    for (const [id, computed] of state.computed) {
      computed.sent = current?.sent.get(id) ?? NOTHING_SENT;
      for (const { sent } of former) {
        const one = sent.get(id) ?? NOTHING_SENT;
        computed.sent = withOwed(behind(computed.sent, one), one.owed ?? []);
      }
    }
    const notifications: Notification[] = [];
    for (const { before, sent } of former) {
      const to = recipientOfBefore(before);
      if (to === undefined) continue;
      for (const [id, one] of sent) {
        const computed = state.computed.get(id);
        if (computed === undefined) continue;
        const taken = this.takeBack(state, id, { to, sent: one, now });
        notifications.push(...taken.notifications);
        computed.sent = withOwed(computed.sent, taken.owed);
      }
    }
    return notifications;
  }

  /**
   * Does the step of a walk: sends a change at once, and repeats what was sent before to destinations that
   * need it.
   */
  #visitFor(
    state: ProfileState,
    { id, kind, only = [], back = [], repeat = [] }: SyncTarget,
    now: Time,
  ): Notification[] {
    const computed = state.computed.get(id);
    const computation = this.#computations.get(id);
    if (computed === undefined || computation === undefined) return [];
    // Nobody knows anything of most profiles, and nothing is noted of them.
    if (only.length > 0 && !isNothing(computed.sent)) computed.sent = withNew(computed.sent, only);
    const notifications = this.#tellOwed(state, id, now);
    const recipient = this.#recipientOf(state, computation, computed.sent);
    if (recipient === undefined) return notifications;
    const { value } = computed;
    const terms = { computation, listeners: this.#listenersOf(state, computation, value) };
    const { hearing } = terms.listeners;
    if (isMember(computation, value)) {
      const isRepeatedToAll = kind === 'new' || kind === 'enabled';
      const repeated = hearing.filter((name) => isRepeatedToAll || repeat.includes(name));
      computed.sent = withRepeated(computed.sent, [...repeated, ...back], computation);
    }
    const { sent } = computed;
    if (differs(sent, value, computation))
      return [...notifications, ...this.#tellChange(state, computation, { recipient, computed, now })];
    if (isNothing(sent) && !isMember(computation, value)) return notifications;
    const to = whoNeeds(sent, value, terms).hearing;
    if (sent.value !== undefined || to.length > 0) computed.sent = withSent(sent, value, to, terms);
    return [...notifications, ...this.#send(state, computation, { recipient, value, now, to })];
  }

  /** Tells destinations that hear again what they missed about former ids of a profile. */
  #tellOwed(state: ProfileState, id: number, now: Time): Notification[] {
    const computed = state.computed.get(id)!;
    const computation = this.#computations.get(id)!;
    const { owed = [] } = computed.sent;
    if (owed.length === 0 || !computation.enabled) return [];
    const { hearing, connected } = this.#options.listenersOf(computation, state.id);
    const notifications = owed.flatMap(({ to, destinations }) =>
      this.#send(state, computation, {
        ...{ recipient: recipientIn(to), value: false, now },
        to: hearing.filter((name) => destinations.includes(name)),
      }),
    );
    const others = owed
      .flatMap(({ destinations }) => destinations)
      .filter((name) => !connected.includes(name));
    computed.sent = withoutOwed(computed.sent, [...hearing, ...others]);
    return notifications;
  }

  /** Sends a change to the destinations that need it and can hear it. */
  #tellChange(
    state: ProfileState,
    computation: Computation,
    change: { readonly recipient: Recipient; readonly computed: ComputedValue; readonly now: Time },
  ): Notification[] {
    const { recipient, computed, now } = change;
    const { value, sent } = computed;
    const terms = { computation, listeners: this.#listenersOf(state, computation, value) };
    const { hearing } = whoNeeds(sent, value, terms);
    computed.sent = withSent(sent, value, hearing, terms);
    const { listeners } = terms;
    return this.#send(state, computation, { recipient, value, now, to: hearing, listeners });
  }

  /** Makes an event for these destinations, one for each form of theirs; none when there are none. */
  #send(
    state: ProfileState,
    computation: Computation,
    told: {
      readonly recipient: Recipient;
      readonly value: Json;
      readonly now: Time;
      readonly to: readonly string[];
      /** The listeners of the profile, where the caller has asked for them. */
      readonly listeners?: Listeners;
    },
  ): Notification[] {
    if (told.to.length === 0) return [];
    const computed = state.computed.get(computation.id)!;
    const { value, recipient, now, to } = told;
    const { listeners = this.#listenersOf(state, computation, value) } = told;
    const last = computed.sent.sequence;
    const sequence = Math.max(now, (last === 0 ? this.#floor : last) + 1);
    const isOfPresentId = optionalKeyOf(idOf(state)) === keyOf(recipient);
    const isCurrent = isSame(value, computed.value) && isOfPresentId;
    const at = Math.max(computed.sent.at, Math.min(now, isCurrent ? computed.since : now));
    computed.sent = { ...computed.sent, at, sequence };
    const number = `${this.#options.lineage}.${state.id}.${sequence}`;
    const change: ToldChange = {
      computation,
      recipient,
      value,
      at,
      now,
      sequence,
      number,
      only: isEveryone(to, listeners) ? undefined : to,
      preferences: this.#isConsentAsked(computation, value) ? this.#consent.preferencesOf(state) : undefined,
    };
    // A former id takes nothing else along that is known of the user: that is of the present one.
    const changes = this.#forms.inForms(change, { to, user: isOfPresentId ? state : undefined });
    const profile = Math.max(0, state.id);
    return changes.map((one) => ({ profile, json: JSON.stringify(computationEvent(one)) }));
  }

  /** Tells whether a profile has a change that still has to be sent. */
  #isOpen(state: ProfileState, id: number): boolean {
    const computation = this.#computations.get(id);
    const computed = state.computed.get(id);
    if (computation === undefined || computed === undefined) return false;
    const isTellable = this.#isTellable(state, computation, computed);
    return isTellable && this.#recipientOf(state, computation, computed.sent) !== undefined;
  }

  /**
   * Tells whether a value differs from what was sent last, or a user has consented by now to destinations
   * that do not know it.
   */
  #isTellable(state: ProfileState, computation: Computation, { value, sent }: ComputedValue): boolean {
    if (differs(sent, value, computation)) return true;
    if (sent.known === undefined || !this.#isConsentAsked(computation, value)) return false;
    const listeners = this.#listenersOf(state, computation, value);
    return whoNeeds(sent, value, { computation, listeners }).hearing.some((name) => this.#consent.asks(name));
  }

  /** Tells whether consent decides who hears a value: never where one is taken back. */
  #isConsentAsked(computation: Computation, value: Json): boolean {
    return this.#consent.isAskedBy(computation.destinations) && isMember(computation, value);
  }

  /** The listeners of a profile, of which those hear a value that the user has consented to. */
  #listenersOf(state: ProfileState, computation: Computation, value: Json): Listeners {
    const listeners = this.#options.listenersOf(computation, state.id);
    if (!this.#isConsentAsked(computation, value)) return listeners;
    const hearing = this.#consent.allowed(listeners.hearing, state);
    return hearing.length === listeners.hearing.length ? listeners : { ...listeners, hearing };
  }

  /** Recipient of a profile now; undefined when it has none. */
  #recipientOf(state: ProfileState, computation: Computation, sent: Sent): Recipient | undefined {
    if (!computation.enabled || computation.destinations.length === 0) return undefined;
    if (!this.#options.isSynced(computation.id, state.id)) return undefined;
    // An anonymous member who was told so is told that it is none, also where the audience has no anonymous
    // ones any more.
    const isKnown = sent.value === true || sent.known !== undefined;
    return isKnown ? everyRecipientOf(state, computation) : recipientOf(state, computation);
  }

  #countedIn(state: ProfileState): number[] {
    const counted: number[] = [];
    for (const [id, { value }] of state.computed) {
      const computation = this.#computations.get(id);
      if (computation !== undefined && this.#isCounted(state, computation, value)) counted.push(id);
    }
    return counted;
  }

  #isCounted(state: ProfileState, computation: Computation, value: Json): boolean {
    if (!isMember(computation, value)) return false;
    if (state.userId === undefined && recipientOf(state, computation) === undefined) return false;
    return this.#options.isSynced(computation.id, state.id);
  }

  /** Counts a profile as it is and no longer as it was, which is nearly always the same. */
  #count(befores: readonly ProfileBefore[], counted: readonly number[]): void {
    const [first, ...others] = befores;
    if (first !== undefined && others.length === 0 && this.#recounted.size === 0) {
      const isSameAsBefore =
        first.counted.length === counted.length && counted.every((id, nth) => id === first.counted[nth]);
      if (isSameAsBefore) return;
    }
    for (const before of befores) this.#leaveNumbers(before);
    for (const id of counted) this.#members.set(id, this.#membersOf(id) + 1);
  }

  #leaveNumbers({ counted }: ProfileBefore): void {
    for (const id of counted) if (!this.#recounted.has(id)) this.#members.set(id, this.#membersOf(id) - 1);
  }

  #membersOf(id: number): number {
    return this.#members.get(id) ?? 0;
  }
}

/**
 * Tells whether an event may go to all destinations. Those that hear nothing need not be left out: the log
 * notes why each of them was skipped.
 */
function isEveryone(to: readonly string[], { hearing, waiting = [] }: Listeners): boolean {
  return to.length === hearing.length && waiting.length === 0;
}

/** Tells whether the same id stands for the profile as before. */
function isOfSameId({ userId, anonymousId }: ProfileBefore, state: ProfileState): boolean {
  if (userId !== undefined || state.userId !== undefined) return userId === state.userId;
  return anonymousId === firstAnonymousId(state)?.value;
}

function recipientOfBefore({ userId, anonymousId }: ProfileBefore): Recipient | undefined {
  if (userId !== undefined) return { userId };
  return anonymousId === undefined ? undefined : { anonymousId };
}

function sentIn({ computed }: ProfileBefore): ReadonlyMap<number, Sent> {
  return new Map(Array.from(computed, ([id, { sent }]) => [id, sent]));
}

function optionalKeyOf(recipient: Recipient | undefined): string | undefined {
  return recipient === undefined ? undefined : keyOf(recipient);
}
