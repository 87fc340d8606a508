import { randomBytes } from 'node:crypto';
import type { Computation } from '../../model/definition.ts';
import type { Position } from '../../model/event.ts';
import { defined, type Json } from '../../model/json.ts';
import type { Duration, Time } from '../../model/time.ts';
import type { Clock } from '../../ports/clock.ts';
import type { LogReader } from '../../ports/event-log.ts';
import type { ProfileId, ProfileStore } from '../../ports/profile-store.ts';
import type { ComputationStatus, Preview, PreviewRequest } from '../../ports/users.ts';
import type { IdentityReader } from '../identity/identity-reader.ts';
import type { ProfileState } from '../identity/profile-state.ts';
import type { LogEvent } from '../log-events.ts';
import type { Slice } from '../slice.ts';
import { type ReadChange, readComputationEvent } from '../sync/computation-event.ts';
import { ComputationForms } from '../sync/computation-forms.ts';
import { ConsentRule } from '../sync/consent-rule.ts';
import { FLOOR_DOCUMENT, HELD_DOCUMENT, MEMBERS_DOCUMENT, MembershipSync } from '../sync/membership-sync.ts';
import type { Listeners } from '../sync/sent.ts';
import { SentBefore } from '../sync/sent-before.ts';
import { slotKeysOf } from './audience-compiler.ts';
import { arrivalIn, StoredEventFinder } from './backfill.ts';
import { ComputationFailures, FAILURES_DOCUMENT } from './computation-failures.ts';
import {
  addsToOthers,
  afterEvents,
  afterWalk,
  awaitingWalk,
  type ComputationJob,
  type ComputationRecord,
  isRecalled,
  isSynced,
  NO_COMPUTATIONS,
  nextPass,
  planComputations,
  progressOf,
  startWalk,
  withHearing,
  withRepeat,
} from './computation-jobs.ts';
import { askingOf } from './connection-news.ts';
import { previewComputation } from './preview.ts';
import type { ComputationSettings, ProfileComputations, RestoreTerms } from './profile-computations.ts';
import { createTraitEngine, type TraitEngine } from './trait-engine.ts';

/** Names of the documents: definitions with their slots, and the work under way. */
const RECORD = 'computations';
const JOBS = 'computation-jobs';
/**
 * A random part of each messageId, drawn for this file of profiles, so that nobody can foretell a messageId
 * and use it first.
 */
const LINEAGE = 'lineage';
const LINEAGE_SHAPE = /^[0-9a-f]{16}$/;

/**
 * Events read from the log at once; events that one slice adds to a new definition; the time it may take, in
 * milliseconds.
 */
const PAGE = 2000;
const MAX_ADDED = 2000;
const BUDGET: Duration = 50;

/**
 * Profiles that one slice walks over: few, because calls on the same disk wait for the sync of its commit.
 * The walk pauses while the outbox has `MAX_UNSENT` entries that are not in the log yet.
 */
const WALK = 250;
const MAX_UNSENT = 5000;

export interface ComputationsDependencies {
  readonly reader: LogReader;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

/**
 * The computations as the users thread has them: the engine, what destinations are told, and the work that
 * new definitions wait for. Everything is stored in the commit of the slice that changes it, so a restart
 * goes on where the last process was.
 */
export class Computations implements ProfileComputations {
  readonly #dependencies: ComputationsDependencies;
  #store: ProfileStore | undefined;
  #record: ComputationRecord = NO_COMPUTATIONS;
  /** The documents as they are in the store, or will be after the slice under way. */
  #stored: ComputationRecord = NO_COMPUTATIONS;
  #isLineageStored = false;
  #certainTo = 0;
  /** Listeners of each computation, for profiles that all walks have passed. Cleared with the settings. */
  #listeners = new Map<Computation, Listeners>();
  /** Present while all profiles are made anew. */
  #sentBefore: SentBefore | undefined;
  #lastProfile: ProfileId = 0;
  #engine: TraitEngine = createTraitEngine([], () => 0);
  #sync = new MembershipSync({
    lineage: '',
    isSynced: () => false,
    listenersOf: () => ({ connected: [], hearing: [] }),
  });

  constructor(dependencies: ComputationsDependencies) {
    this.#dependencies = dependencies;
  }

  get engine(): TraitEngine {
    return this.#engine;
  }

  get sync(): MembershipSync {
    return this.#sync;
  }

  /** Computations in force: profiles have values of them. */
  get active(): readonly Computation[] {
    return this.#record.active;
  }

  get activeIds(): readonly number[] {
    return this.#record.active.map(({ id }) => id);
  }

  slotsAt(position: Position): ReadonlySet<number> | undefined {
    const { jobs, slots } = this.#record;
    const later = jobs.filter(({ next, born }) => position >= next && position < born);
    if (later.length === 0) return undefined;
    const uncounted = new Set(later.flatMap((job) => job.slots));
    return new Set(Object.values(slots).filter((slot) => !uncounted.has(slot)));
  }

  /** Reads what is stored, and plans the work that these definitions ask for. */
  async restore(
    { computations: definitions, hearing, destinations, consent, forms }: ComputationSettings,
    { store, position, bounds, certainTo, switched, moved }: RestoreTerms,
  ): Promise<void> {
    this.#store = store;
    this.#certainTo = certainTo;
    const record = (await store.document(RECORD)) as unknown as Omit<ComputationRecord, 'jobs'> | undefined;
    const jobs = (await store.document(JOBS)) as unknown as readonly ComputationJob[] | undefined;
    const members = (await store.document(MEMBERS_DOCUMENT)) as Record<string, number> | undefined;
    const held = (await store.document(HELD_DOCUMENT)) as readonly ProfileId[] | undefined;
    const floor = (await store.document(FLOOR_DOCUMENT)) as number | undefined;
    const stored = await store.document(LINEAGE);
    // Earlier programs stored a number that could be guessed: such a file gets a new one with its next
    // change.
    const lineage = typeof stored === 'string' && LINEAGE_SHAPE.test(stored) ? stored : undefined;
    const { nextProfile } = await store.cursor();
    this.#isLineageStored = lineage !== undefined;
    this.#lastProfile = nextProfile - 1;
    this.#stored =
      record === undefined ? NO_COMPUTATIONS : withHearing({ ...record, jobs: jobs ?? [] }, hearing);
    this.#sync = new MembershipSync({
      lineage: lineage ?? randomBytes(8).toString('hex'),
      isSynced: (id, profile) => isSynced(this.#record, id, profile),
      listenersOf: (computation, profile) => this.#listenersOf(computation, profile),
      consent: new ConsentRule(consent),
      forms: new ComputationForms(forms),
      recall: (profile) => this.#recall(profile),
      ...defined({ members, held, floor }),
      previous: this.#sync,
    });
    const oldestAt = await this.#arrivalOfOldest(bounds.first);
    this.#sentBefore = await SentBefore.read(store);
    const rebuilt = this.#sentBefore?.computations ?? new Map();
    const failures = new ComputationFailures(await store.document(FAILURES_DOCUMENT));
    const isBroken = (slot: number) => failures.hasSlot(slot);
    const terms = {
      position,
      bounds,
      hearing,
      asking: askingOf(consent),
      destinations,
      switched,
      moved,
      rebuilt,
      ...defined({ oldestAt }),
      slotKeysOf,
      isBroken,
    };
    this.#record = planComputations(this.#stored, definitions, terms);
    this.#listeners = new Map();
    this.#compile(failures);
  }

  get isRebuilding(): boolean {
    return this.#sentBefore !== undefined;
  }

  async step(
    slice: Slice,
    position: Position,
    isPast: (profile: ProfileState) => boolean,
  ): Promise<WorkDone> {
    await this.noteSettings(slice);
    const pass = nextPass(this.#record, position);
    const work =
      pass === 'events'
        ? await this.#addEvents(slice)
        : pass === 'walk'
          ? await this.#walk(slice, isPast)
          : await this.#tellMissing(slice);
    this.#document(slice);
    return work;
  }

  async noteSettings(slice: Slice): Promise<void> {
    const { switched, moved } = this.#record;
    if (switched.length + Object.keys(moved).length > 0) await this.#noteUncertain(slice);
    this.#document(slice);
  }

  async forRebuild(store: ProfileStore, definitions: readonly Computation[]): Promise<Record<string, Json>> {
    const record = this.#record;
    // The rebuild drops the walk, so what it still owes to profiles is noted here.
    const documents = await SentBefore.collect(store, definitions, (id, profile) => {
      const { fresh, back, repeat } = awaitingWalk(record, id, profile);
      return { fresh: [...fresh, ...record.unknown], repeated: [...back, ...repeat] };
    });
    const floor = await store.document(FLOOR_DOCUMENT);
    const { jobs: _, ...none } = NO_COMPUTATIONS;
    const { hearing, asking, switched, former, moved, nextSlot } = record;
    return {
      ...documents,
      // Entries of the outbox were made for the destinations that heard then.
      [RECORD]: { ...none, hearing, asking, switched, former, moved, nextSlot } as unknown as Json,
      ...defined({ [FLOOR_DOCUMENT]: floor }),
    };
  }

  repeat(computation: number, destination: string, bounds: RestoreTerms['bounds']): boolean {
    if (!this.#record.active.some(({ id }) => id === computation)) return false;
    this.#record = withRepeat(this.#record, { id: computation, destination }, bounds);
    return true;
  }

  documents(): Record<string, Json> {
    return this.#sentBefore?.documents() ?? {};
  }

  statuses(): ComputationStatus[] {
    const members = this.#sync.members();
    const { eventsSince } = this.#record;
    return this.#everyDefinition().map((computation) => {
      const { id, enabled } = computation;
      const underWay = progressOf(this.#record, id, this.#lastProfile);
      const since = eventsSince[id];
      const isCircular = this.#engine.circular.includes(id);
      const reason = isCircular ? CIRCULAR : this.#engine.failures.reasonOf(computation);
      return {
        id,
        state: reason !== undefined ? 'failed' : enabled ? (underWay?.state ?? 'live') : 'disabled',
        ...defined({ reason }),
        members: members[id] ?? 0,
        progress: underWay?.progress ?? 1,
        ...defined({ eventsSince: since }),
      };
    });
  }

  failed(): readonly string[] {
    const { circular, failures } = this.#engine;
    const isFailed = (one: Computation) => circular.includes(one.id) || failures.has(one);
    return this.#everyDefinition().flatMap((one) => (isFailed(one) ? [one.name] : []));
  }

  async preview(
    request: PreviewRequest,
    identityReader: IdentityReader,
    check: () => void,
  ): Promise<Omit<Preview, 'eventsBehind'>> {
    const { reader, clock } = this.#dependencies;
    const { active, slots, jobs } = this.#record;
    const unfinished = new Set(jobs.flatMap((job) => job.slots));
    const store = this.#store!;
    const { position } = await store.cursor();
    const whole = Object.entries(slots).filter(([, slot]) => !unfinished.has(slot));
    return previewComputation(request, {
      ...{ store, reader, identityReader, active, position, check },
      slots: Object.fromEntries(whole),
      now: clock.now(),
    });
  }

  /** Definitions in force and definitions in preparation; of a changed one the version in force. */
  #everyDefinition(): Computation[] {
    const { active, jobs } = this.#record;
    const prepared = jobs.flatMap(({ preparing }) => preparing);
    return [...new Map([...prepared, ...active].map((one) => [one.id, one])).values()];
  }

  /** Time at which the oldest stored event arrived; undefined when there is none. */
  async #arrivalOfOldest(first: Position): Promise<Time | undefined> {
    return arrivalIn(await this.#dependencies.reader.page(first, 1));
  }

  #compile(failures: ComputationFailures): void {
    const { active, jobs, slots } = this.#record;
    const preparing = jobs.flatMap((job) => job.preparing);
    failures.keep([...active, ...preparing]);
    this.#engine = createTraitEngine(active, (key) => slots[key]!, preparing, failures);
    this.#sync.configure(active);
  }

  /** Adds stored events to the slots of the job at the front. */
  async #addEvents(slice: Slice): Promise<WorkDone> {
    const { reader, clock } = this.#dependencies;
    const { slots, born, next: from } = this.#record.jobs[0]!;
    const only = new Set(slots);
    const aggregates = this.#everyAggregate().filter(({ slot }) => only.has(slot));
    const finder = new StoredEventFinder(aggregates, slice.identityReader);
    const events: LogEvent[] = [];
    const until = clock.monotonic() + BUDGET;
    let next = from;
    do {
      const page = await reader.page(next, PAGE);
      events.push(...finder.find(page, born));
      next = page.next > next ? Math.min(page.next, born) : born;
    } while (next < born && events.length < MAX_ADDED && clock.monotonic() < until);
    await slice.loadOwners(events.map(({ ids }) => ids));
    for (const event of events) {
      const profile = slice.ownerOf(event.ids);
      if (profile === undefined) continue;
      slice.change(profile);
      this.#engine.apply(profile, event, only);
    }
    this.#record = afterEvents(this.#record, next);
    return { done: next - from, hasMore: true };
  }

  #everyAggregate() {
    const { active, jobs } = this.#record;
    const ids = [...active, ...jobs.flatMap(({ preparing }) => preparing)].map(({ id }) => id);
    return [...new Set(ids)].flatMap((id) => this.#engine.aggregatesOf(id));
  }

  /** Lets the slice evaluate the next profiles and tell destinations of them. */
  async #walk(slice: Slice, isPast: (profile: ProfileState) => boolean): Promise<WorkDone> {
    const store = this.#store!;
    const job = this.#record.jobs[0]!;
    if (job.walkedTo < 0) {
      this.#startWalk(job);
      return { done: 1, hasMore: true };
    }
    const [oldest] = await store.outbox(0, 1);
    if (oldest !== undefined && slice.cursor.nextOutbox - oldest.sequence > MAX_UNSENT) return IDLE;
    const profiles = await store.scan(job.walkedTo, WALK);
    await slice.load(profiles.map(({ id }) => id));
    for (const { id } of profiles) {
      const profile = slice.state(id);
      if (profile === undefined) continue;
      if (isPast(profile)) {
        // What was sent before a rebuild decides whether somebody hears of it.
        this.#sentBefore?.recall(profile, this.active);
        if (slice.letGo(profile)) continue;
      }
      slice.change(profile);
      this.#sync.visit(profile.id, job.targets);
    }
    const last: ProfileId | undefined = profiles.length < WALK ? undefined : profiles.at(-1)!.id;
    this.#record = afterWalk(this.#record, last);
    return { done: profiles.length + 1, hasMore: true };
  }

  #listenersOf(computation: Computation, profile: ProfileId): Listeners {
    const { fresh, back } = awaitingWalk(this.#record, computation.id, profile);
    if (fresh.length + back.length > 0) return this.#listenersWithout(computation, { fresh, back });
    const listeners = this.#listeners.get(computation) ?? this.#listenersWithout(computation, NOBODY_WAITS);
    this.#listeners.set(computation, listeners);
    return listeners;
  }

  #listenersWithout(
    computation: Computation,
    { fresh, back }: { readonly fresh: readonly string[]; readonly back: readonly string[] },
  ): Listeners {
    const { hearing } = this.#record;
    const waiting = [...fresh, ...back];
    return {
      connected: this.#everyListener(computation).filter((name) => !fresh.includes(name)),
      hearing: computation.destinations.filter((name) => hearing.includes(name) && !waiting.includes(name)),
      waiting,
      ready: waiting.filter((name) => hearing.includes(name)),
    };
  }

  /** The destinations that a computation names, and those that it named before. */
  #everyListener({ id, destinations }: Computation): readonly string[] {
    return [...destinations, ...(this.#record.former[id] ?? [])];
  }

  /**
   * Notes destinations that have just begun or ceased to hear, of all computations or of one. Whether they
   * get an entry of the outbox depends on when the log takes it, so they are told the current values as soon
   * as they hear.
   */
  async #noteUncertain(slice: Slice): Promise<void> {
    const { switched, moved } = this.#record;
    // Also those that are prepared: while all profiles are made anew, none is in force.
    const definitions = new Map(this.#everyDefinition().map((one) => [one.id, one]));
    for (let after = this.#certainTo; ; ) {
      const entries = await this.#store!.outbox(after, PAGE);
      const told = entries.map(({ json }) => readComputationEvent(json, slice.identityReader));
      await slice.loadOwners(told.map(({ ids }) => ids));
      for (const change of told) {
        const { ids, key, to } = change;
        const computation = definitions.get(change.computation);
        if (computation === undefined) continue;
        const names = new Set([...switched, ...(moved[computation.id] ?? [])]);
        const unsure = this.#everyListener(computation).filter(
          (name) => names.has(name) && (to?.includes(name) ?? true),
        );
        const isBefore = this.#sentBefore?.uncertain(key, computation.id, unsure) ?? false;
        const known = slice.ownerOf(ids);
        if (isBefore && known !== undefined) continue;
        const owner = known ?? remnantOf(slice, change);
        if (owner === undefined) continue;
        this.#sync.uncertain(owner, computation, { key, to: unsure });
        slice.change(owner);
      }
      if (entries.length < PAGE) break;
      after = entries.at(-1)!.sequence;
    }
    this.#record = { ...this.#record, switched: [], moved: {} };
  }

  #recall(profile: ProfileState): void {
    if (this.#sentBefore === undefined) return;
    const walked = this.#record.active.filter(({ id }) => isRecalled(this.#record, id, profile.id));
    this.#sentBefore.recall(profile, walked);
  }

  /** Ends a rebuild: tells destinations `false` for members who have no profile any more. */
  async #tellMissing(slice: Slice): Promise<WorkDone> {
    const isWalked = !this.#record.jobs.some(({ targets }) => targets.some(({ kind }) => kind === 'rebuilt'));
    if (this.#sentBefore === undefined || !isWalked) return IDLE;
    const hasMore = await this.#sentBefore.tellMissing(slice, {
      sync: this.#sync,
      computations: this.#record.active,
    });
    if (!hasMore) this.#sentBefore = undefined;
    return { done: 1, hasMore };
  }

  /** Puts definitions into force with the next slice; their members are counted anew. */
  #startWalk({ targets }: ComputationJob): void {
    this.#record = startWalk(this.#record);
    this.#compile(this.#engine.failures);
    for (const target of targets) if (!addsToOthers(target)) this.#sync.recount(target.id);
  }

  /** Adds changed documents to the slice. */
  #document(slice: Slice): void {
    const { jobs, ...record } = this.#record;
    const { jobs: _, ...stored } = this.#stored;
    if (!isShallowEqual(record, stored)) slice.document(RECORD, record as unknown as Json);
    if (this.#stored.jobs !== jobs) slice.document(JOBS, jobs as unknown as Json);
    this.#stored = this.#record;
    if (!this.#isLineageStored && record.active.length > 0) {
      slice.document(LINEAGE, this.#sync.lineage);
      this.#isLineageStored = true;
    }
  }
}

/**
 * Makes a profile without events for a member who was let go, until all destinations have heard that it is no
 * member.
 */
function remnantOf(
  slice: Slice,
  { ids, computation, isLeave, at, sequence }: ReadChange,
): ProfileState | undefined {
  if (ids.user === undefined || !isLeave) return undefined;
  const remnant = slice.remnantOf(ids.user);
  remnant.computed.set(computation, { value: false, since: at, sent: { value: false, at, sequence } });
  return remnant;
}

interface WorkDone {
  readonly done: number;
  readonly hasMore: boolean;
}

function isShallowEqual(a: object, b: Readonly<Record<string, unknown>>): boolean {
  return Object.entries(a).every(([name, value]) => b[name] === value);
}

const IDLE: WorkDone = { done: 0, hasMore: false };

const NOBODY_WAITS = { fresh: [], back: [] };

const CIRCULAR =
  'its definition mentions itself through others: change one of the definitions that mention each other';
