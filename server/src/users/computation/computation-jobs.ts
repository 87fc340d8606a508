import type { Computation } from '../../model/definition.ts';
import type { Position } from '../../model/event.ts';
import { defined } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';
import type { ProfileId } from '../../ports/profile-store.ts';
import { changedAsking, type NamesById, union } from './connection-news.ts';

/**
 * The computations in force, and the work that new and changed ones wait for. It is stored as a document with
 * every slice that changes it, so a restart goes on where the last process was.
 *
 * A new definition waits for two passes. First the stored events that the live slices have passed are added
 * to its slots: a slot is born at a position, live slices add the events from there on and the job those
 * before. Until then a changed computation goes on as it was. Then the definition comes into force, and a
 * walk over all profiles evaluates it and tells its destinations.
 */
export interface ComputationRecord {
  /** Computations whose values profiles have. */
  readonly active: readonly Computation[];
  /** The first job runs, the others wait for it. */
  readonly jobs: readonly ComputationJob[];
  /** Numbers of slots by key. A number is never used again. */
  readonly slots: Readonly<Record<string, number>>;
  readonly nextSlot: number;
  /** Time at which the oldest event arrived that could count, by id of the computation. */
  readonly eventsSince: Readonly<Record<string, Time>>;
  /** Destinations that hear of computations: enabled, and with a filter that lets the events through. */
  readonly hearing: readonly string[];
  /** Destinations that ask for consent, each with what it asks for, as texts to compare (`askingOf`). */
  readonly asking: readonly string[];
  /** Destinations that have just begun or ceased to hear: the outbox may or may not reach them. */
  readonly switched: readonly string[];
  /**
   * Destinations that heard nothing when this record was first kept: it is unknown what they were sent
   * before.
   */
  readonly unknown: readonly string[];
  /** Destinations that a computation used to name, by its id: they may come back. */
  readonly former: NamesById;
  /**
   * Destinations that were just added to a computation or taken away, by its id, and all destinations of one
   * that was just enabled or disabled: the outbox may or may not reach them.
   */
  readonly moved: NamesById;
}

/**
 * Most former destinations of one computation whose knowledge is kept. Earlier ones count as new when they
 * come back.
 */
const MAX_FORMER = 10;

export interface ComputationJob {
  readonly targets: readonly SyncTarget[];
  /** Definitions that come into force when the stored events are added. Empty from then on. */
  readonly preparing: readonly Computation[];
  /** Slots that get the stored events. */
  readonly slots: readonly number[];
  /** The job adds the stored events from `from` up to `born`, which it leaves out; it has come to `next`. */
  readonly from: Position;
  readonly born: Position;
  readonly next: Position;
  /** The walk waits for live slices to pass this position, so that no destination hears outdated values. */
  readonly liveTo: Position;
  /** Profiles up to this one are walked; −1 before the walk. */
  readonly walkedTo: ProfileId;
}

/** The task of a walk for one computation. */
export interface SyncTarget {
  readonly id: number;
  /**
   * `new`, `enabled`: every member is told, and nobody before the walk has come to them. `edited`: those
   * whose membership differs from what was sent. `destinations`: every member is told to those that are new.
   * `missed`: destinations that hear again, what differs from what each of them was sent. `rebuilt`: as
   * `new`, but only those are told whose membership differs from what was sent before all profiles were made
   * anew.
   */
  readonly kind: 'new' | 'enabled' | 'edited' | 'destinations' | 'missed' | 'rebuilt';
  /** Destinations that are new to the computation: they get nothing before the walk comes to a profile. */
  readonly only?: readonly string[];
  /**
   * Destinations that the computation names again. They get nothing before the walk has come to a profile;
   * then they get every member, and every other value that differs from what they know.
   */
  readonly back?: readonly string[];
  /** Names of destinations that are told every member again, because somebody has asked for it. */
  readonly repeat?: readonly string[];
}

export const NO_COMPUTATIONS: ComputationRecord = {
  active: [],
  jobs: [],
  slots: {},
  nextSlot: 1,
  eventsSince: {},
  hearing: [],
  asking: [],
  switched: [],
  unknown: [],
  former: {},
  moved: {},
};

const NOT_WALKED: ProfileId = -1;

export interface PlanTerms {
  /** The next position that live slices apply. */
  readonly position: Position;
  /** The oldest stored position, and the one behind the newest. */
  readonly bounds: { readonly first: Position; readonly end: Position };
  /** When the event at `first` arrived; absent when there is none. */
  readonly oldestAt?: Time;
  /** Names of the destinations that hear of computations now. */
  readonly hearing: readonly string[];
  /** As in the record. Absent: no destination asks for consent. */
  readonly asking?: readonly string[];
  /** Destinations that began or ceased to hear since the record was stored, also those that did both. */
  readonly switched?: readonly string[];
  /**
   * As in the record, for the time since it was stored; also destinations that were added and taken away
   * again.
   */
  readonly moved?: NamesById;
  /** Names of all destinations. Absent: every destination that was ever named still exists. */
  readonly destinations?: readonly string[] | undefined;
  /** Computations in force before all profiles were made anew, with their destinations where known. */
  readonly rebuilt?: ReadonlyMap<number, readonly string[] | undefined>;
  /** Keys of the slots of a definition. */
  readonly slotKeysOf: (computation: Computation) => readonly string[];
  /** True for a slot that lacks events, so that a new definition must not go on with it. */
  readonly isBroken?: (slot: number) => boolean;
}

/** The record after the definitions were set to these. Pure. */
export function planComputations(
  record: ComputationRecord,
  wanted: readonly Computation[],
  terms: PlanTerms,
): ComputationRecord {
  const byId = new Map(wanted.map((one) => [one.id, one]));
  const news = hearingNews(record, terms);
  const targets: SyncTarget[] = [];
  const preparing: Computation[] = [];
  const connections = new Map(wanted.map((one) => [one.id, connectionsOf(record, one, terms)]));
  const waiting = record.jobs.map((job) => withConnections(withoutChanged(job, byId), connections));
  const active: Computation[] = [];
  for (const old of record.active) {
    const now = byId.get(old.id);
    if (now === undefined) continue;
    active.push(isSameDefinition(old, now) ? now : ({ ...now, ...definitionOf(old) } as Computation));
    const added = addedIn(now, connections.get(now.id)!, news);
    const target = targetOf(old, now, { added, again: news.again });
    if (target === undefined) continue;
    // What the definition means is under way already.
    if (!isPrepared(waiting, now)) targets.push(target);
    else if (Object.keys(added).length > 0) targets.push({ id: now.id, kind: 'destinations', ...added });
    if (!isSameDefinition(old, now) && !isPrepared(waiting, now)) preparing.push(now);
  }
  for (const now of wanted) {
    if (active.some(({ id }) => id === now.id) || isPrepared(waiting, now)) continue;
    const { id } = now;
    const added = addedIn(now, connections.get(id)!, NO_NEWS);
    targets.push(terms.rebuilt?.has(id) ? { id, kind: 'rebuilt', ...added } : { id, kind: 'new' });
    preparing.push(now);
  }
  const slots = collectedSlots(record, terms);
  const { former, moved } = noteConnections(record, connections);
  const now = { ...record, ...noteHearing(record, terms), active, jobs: waiting, slots, former, moved };
  return withSlots(now, { targets, preparing }, terms);
}

/** Changes of the destinations that a computation names. */
interface Connections {
  /** Destinations that were never named before, as far as is known; in a rebuild, since its beginning. */
  readonly fresh: readonly string[];
  /** Destinations that were named before, then not, and now again; in a rebuild, since its beginning. */
  readonly back: readonly string[];
  /** Destinations that were named before and are not now. */
  readonly former: readonly string[];
  /** Destinations that were added or taken away; all of them when the computation was enabled or disabled. */
  readonly moved: readonly string[];
}

function connectionsOf(
  record: ComputationRecord,
  { id, destinations, enabled }: Computation,
  { rebuilt, moved: { [id]: moved = [] } = {}, destinations: all }: PlanTerms,
): Connections {
  const prepared = record.jobs.flatMap((job) => job.preparing).find((one) => one.id === id);
  const isTold = rebuilt?.has(id) || record.active.some((one) => one.id === id);
  // A computation that was never in force has told nobody anything.
  if (!isTold) return { fresh: [], back: [], former: [], moved: [] };
  const last = record.active.find((one) => one.id === id) ?? prepared;
  const before = last?.destinations ?? rebuilt?.get(id) ?? destinations;
  const known = record.former[id] ?? [];
  const wasEnabled = last?.enabled ?? enabled;
  const isBack = (name: string) => enabled && wasEnabled && moved.includes(name);
  const added = destinations.filter((name) => !before.includes(name) || isBack(name));
  const back = added.filter((name) => known.includes(name) || before.includes(name));
  const gone = before.filter((name) => !destinations.includes(name));
  const isFormer = (name: string) => !destinations.includes(name) && (all?.includes(name) ?? true);
  const awaited = record.jobs.flatMap(({ targets }) => targets).filter((one) => one.id === id);
  const rebuilding = awaited.filter(({ kind }) => kind === 'rebuilt' && prepared !== undefined);
  const fresh = added.filter((name) => !back.includes(name));
  return {
    fresh: union(
      rebuilding.flatMap(({ only = [] }) => only),
      fresh,
    ),
    back: union(
      rebuilding.flatMap(({ back: earlier = [] }) => earlier),
      back,
    ),
    former: union(known, gone).filter(isFormer).slice(-MAX_FORMER),
    moved: [...added, ...gone, ...moved, ...(enabled === wasEnabled ? [] : destinations)],
  };
}

type Added = Pick<SyncTarget, 'only' | 'back'>;

const NONE_ADDED = { fresh: [], back: [] };

/** The destinations of a target that have to learn of every member. */
function addedIn(
  { destinations }: Computation,
  { fresh, back }: Pick<Connections, 'fresh' | 'back'>,
  { unknown }: Pick<HearingNews, 'unknown'>,
): Added {
  const isUnknown = (name: string) => unknown.includes(name);
  return addedOf({ fresh: union(fresh, destinations.filter(isUnknown)), back });
}

function addedOf({ fresh, back }: Pick<Connections, 'fresh' | 'back'>): Added {
  const known = back.filter((name) => !fresh.includes(name));
  return defined({
    only: fresh.length === 0 ? undefined : fresh,
    back: known.length === 0 ? undefined : known,
  });
}

/** The job where destinations were added to computations that it makes anew with all profiles. */
function withConnections(job: ComputationJob, all: ReadonlyMap<number, Connections>): ComputationJob {
  const isPreparing = (id: number) => job.preparing.some((one) => one.id === id);
  const targets = job.targets.map((target): SyncTarget => {
    const added = addedOf(all.get(target.id) ?? NONE_ADDED);
    return target.kind === 'rebuilt' && isPreparing(target.id) ? { ...target, ...added } : target;
  });
  return { ...job, targets };
}

function noteConnections(
  record: ComputationRecord,
  all: ReadonlyMap<number, Connections>,
): Pick<ComputationRecord, 'former' | 'moved'> {
  const former: Record<string, readonly string[]> = {};
  const moved: Record<string, readonly string[]> = {};
  for (const [id, one] of all) {
    if (one.former.length > 0) former[id] = one.former;
    const both = union(record.moved[id] ?? [], one.moved);
    if (both.length > 0) moved[id] = both;
  }
  // What is as it was is not stored again.
  return {
    former: isSameNames(former, record.former) ? record.former : former,
    moved: isSameNames(moved, record.moved) ? record.moved : moved,
  };
}

function isSameNames(a: NamesById, b: NamesById): boolean {
  return canonical(a) === canonical(b);
}

/** Changes of the destinations that hear of computations. */
interface HearingNews {
  /** Destinations that hear again. */
  readonly again: readonly string[];
  /** Destinations of which it is unknown what they have heard. */
  readonly unknown: readonly string[];
}

const NO_NEWS: HearingNews = { again: [], unknown: [] };

type HearingTerms = Pick<PlanTerms, 'hearing' | 'asking' | 'switched'>;

function hearingNews(record: ComputationRecord, terms: HearingTerms): HearingNews {
  const again = switchedIn(record, terms).filter((name) => terms.hearing.includes(name));
  return { again, unknown: again.filter((name) => record.unknown.includes(name)) };
}

/** Puts the destinations that hear from now on into the record, and returns what changed. */
function noteHearing(
  record: ComputationRecord,
  terms: HearingTerms,
): Pick<ComputationRecord, 'hearing' | 'asking' | 'switched' | 'unknown'> {
  const { hearing, asking, switched, unknown } = record;
  const changed = switchedIn(record, terms);
  if (changed.length === 0) return { hearing, asking, switched, unknown };
  return {
    hearing: terms.hearing,
    asking: terms.asking ?? [],
    switched: [...new Set([...switched, ...changed])],
    unknown: unknown.filter((name) => !terms.hearing.includes(name)),
  };
}

function switchedIn(
  { hearing: before, asking: askedBefore }: ComputationRecord,
  { hearing, asking = [], switched = [] }: HearingTerms,
): string[] {
  const differ = [...before, ...hearing].filter((name) => !(before.includes(name) && hearing.includes(name)));
  return [...new Set([...differ, ...changedAsking(askedBefore, asking), ...switched])];
}

/**
 * The record as an earlier program has stored it, which did not note who hears of computations: what was told
 * counts as told to every destination that does now.
 */
export function withHearing(
  stored: Omit<ComputationRecord, 'hearing' | 'asking' | 'switched' | 'unknown' | 'former' | 'moved'> &
    Partial<ComputationRecord>,
  now: readonly string[],
): ComputationRecord {
  const connected = new Set(stored.active.flatMap(({ destinations }) => destinations));
  const silent = [...connected].filter((name) => !now.includes(name));
  return { hearing: now, asking: [], switched: [], unknown: silent, former: {}, moved: {}, ...stored };
}

/**
 * Slots that have all events since their birth: those of definitions that were in force or prepared until
 * now.
 */
function collectedSlots(
  { active, jobs, slots }: ComputationRecord,
  { slotKeysOf }: PlanTerms,
): ComputationRecord['slots'] {
  const definitions = [...active, ...jobs.flatMap(({ preparing }) => preparing)];
  const keys = new Set(definitions.flatMap(slotKeysOf));
  return Object.fromEntries(Object.entries(slots).filter(([key]) => keys.has(key)));
}

/** Gives numbers to new slots, forgets those that no definition has, and adds the job. */
function withSlots(
  record: ComputationRecord,
  { targets, preparing }: Pick<ComputationJob, 'targets' | 'preparing'>,
  { position, bounds, oldestAt, slotKeysOf, isBroken = () => false }: PlanTerms,
): ComputationRecord {
  const inUse = [...record.active, ...record.jobs.flatMap((job) => job.preparing), ...preparing];
  const keys = new Set(inUse.flatMap(slotKeysOf));
  const renewed = new Set(preparing.flatMap(slotKeysOf));
  const isKept = ([key, slot]: [string, number]) => keys.has(key) && !(renewed.has(key) && isBroken(slot));
  const slots = Object.fromEntries(Object.entries(record.slots).filter(isKept));
  let { nextSlot } = record;
  const fresh: number[] = [];
  for (const key of keys) {
    if (slots[key] !== undefined) continue;
    fresh.push(nextSlot);
    slots[key] = nextSlot++;
  }
  const used = new Set(Object.values(slots));
  const jobs = record.jobs
    .map((job) => ({ ...job, slots: job.slots.filter((slot) => used.has(slot)) }))
    .filter((job) => job.targets.length > 0 || job.slots.length > 0);
  if (targets.length > 0) {
    const born = fresh.length === 0 ? bounds.first : Math.max(position, bounds.first);
    const passes = { from: bounds.first, born, next: bounds.first, liveTo: bounds.end, walkedTo: NOT_WALKED };
    jobs.push({ targets, preparing, slots: fresh, ...passes });
  }
  const eventsSince: Record<string, Time> = {};
  for (const { id } of inUse) {
    const since = preparing.some((one) => one.id === id) ? oldestAt : record.eventsSince[id];
    if (since !== undefined) eventsSince[id] = since;
  }
  return { ...record, jobs, slots, nextSlot, eventsSince };
}

/** The job without computations that are gone or have another definition now. */
function withoutChanged(job: ComputationJob, wanted: ReadonlyMap<number, Computation>): ComputationJob {
  const preparing = job.preparing.flatMap((one) => {
    const now = wanted.get(one.id);
    return now !== undefined && isSameDefinition(one, now) ? [now] : [];
  });
  const dropped = job.preparing.filter(({ id }) => !preparing.some((one) => one.id === id));
  const targets = job.targets.filter(({ id }) => wanted.has(id) && !dropped.some((one) => one.id === id));
  return { ...job, preparing, targets };
}

/** The task of a walk for a computation that is in force already; undefined when there is nothing to do. */
function targetOf(
  old: Computation,
  now: Computation,
  { added, again }: { readonly added: Added; readonly again: readonly string[] },
): SyncTarget | undefined {
  const { id, destinations } = now;
  if (now.enabled && !old.enabled) return { id, kind: 'enabled', ...added };
  if (!isSameDefinition(old, now)) return { id, kind: 'edited', ...added };
  if (Object.keys(added).length > 0) return { id, kind: 'destinations', ...added };
  return destinations.some((name) => again.includes(name)) ? { id, kind: 'missed' } : undefined;
}

/**
 * The record with a walk that tells a destination every member again, and what differs from what it was sent.
 * Asked for twice before the walk has come to a profile, it is one. Pure.
 */
export function withRepeat(
  record: ComputationRecord,
  { id, destination }: { readonly id: number; readonly destination: string },
  { first, end }: PlanTerms['bounds'],
): ComputationRecord {
  const isSame = ({ id: other, repeat }: SyncTarget) => other === id && repeat?.includes(destination);
  const isWaiting = record.jobs.some(({ targets, walkedTo }) => walkedTo <= 0 && targets.some(isSame));
  if (isWaiting) return record;
  const targets: SyncTarget[] = [{ id, kind: 'missed', repeat: [destination] }];
  const passes = { from: first, born: first, next: first, liveTo: end, walkedTo: NOT_WALKED };
  return { ...record, jobs: [...record.jobs, { targets, preparing: [], slots: [], ...passes }] };
}

/** Destinations that wait for a walk which has not come to a profile yet. */
interface Awaiting {
  /** Destinations that are new to the computation. */
  readonly fresh: readonly string[];
  /** Destinations that the computation names again. */
  readonly back: readonly string[];
  /** Destinations that are told every member again, because somebody asked for it. */
  readonly repeat: readonly string[];
}

export function awaitingWalk({ jobs }: ComputationRecord, id: number, profile: ProfileId): Awaiting {
  let found = NOBODY_AWAITS;
  for (const { targets, walkedTo } of jobs) {
    if (walkedTo !== NOT_WALKED && profile <= walkedTo) continue;
    for (const { id: other, only = [], back = [], repeat = [] } of targets) {
      if (other !== id || only.length + back.length + repeat.length === 0) continue;
      found = {
        fresh: [...found.fresh, ...only],
        back: [...found.back, ...back],
        repeat: [...found.repeat, ...repeat],
      };
    }
  }
  return found;
}

const NOBODY_AWAITS: Awaiting = { fresh: [], back: [], repeat: [] };

function isPrepared(jobs: readonly ComputationJob[], now: Computation): boolean {
  return jobs.some((job) => job.preparing.some(({ id }) => id === now.id));
}

/** The parts of a computation that decide its values. */
function definitionOf(computation: Computation): Partial<Computation> {
  const { definition, text } = computation;
  if (computation.kind === 'trait') return { definition, text } as Partial<Computation>;
  const { includeAnonymous } = computation;
  return { definition, text, includeAnonymous } as Partial<Computation>;
}

/** Tells definitions of a computation apart, however they were written. */
export function definitionKey(computation: Computation): string {
  return `${computation.kind} ${computation.id} ${canonical({ ...definitionOf(computation), text: '' })}`;
}

function isSameDefinition(a: Computation, b: Computation): boolean {
  return definitionKey(a) === definitionKey(b);
}

/** JSON with sorted keys: a definition that was written in another order is the same. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

/**
 * The next pass of the job at the front; undefined when there is no job, or when it has to wait for live
 * slices.
 */
export function nextPass(record: ComputationRecord, live: Position): 'events' | 'walk' | undefined {
  const job = record.jobs[0];
  if (job === undefined) return undefined;
  if (hasEventsLeft(job)) return 'events';
  return job.walkedTo >= 0 || live >= job.liveTo ? 'walk' : undefined;
}

function hasEventsLeft({ slots, next, born }: ComputationJob): boolean {
  return slots.length > 0 && next < born;
}

/** The job at the front has added the stored events below a position. */
export function afterEvents(record: ComputationRecord, next: Position): ComputationRecord {
  const [job, ...others] = record.jobs;
  return { ...record, jobs: [{ ...job!, next }, ...others] };
}

/** The definitions of the job at the front come into force, and its walk begins. */
export function startWalk(record: ComputationRecord): ComputationRecord {
  const [job, ...others] = record.jobs;
  const { preparing } = job!;
  const active = [...record.active.filter(({ id }) => !preparing.some((one) => one.id === id)), ...preparing];
  return { ...record, active, jobs: [{ ...job!, preparing: [], walkedTo: 0 }, ...others] };
}

/** The walk has come to a profile; undefined: to the last one, so the job is done. */
export function afterWalk(record: ComputationRecord, profile: ProfileId | undefined): ComputationRecord {
  const [job, ...others] = record.jobs;
  return { ...record, jobs: profile === undefined ? others : [{ ...job!, walkedTo: profile }, ...others] };
}

/** Tells whether destinations hear what a computation in force says of a profile. */
export function isSynced({ jobs }: ComputationRecord, id: number, profile: ProfileId): boolean {
  for (const job of jobs) {
    const target = job.targets.find((one) => one.id === id);
    if (target === undefined || addsToOthers(target)) continue;
    const isWalking = job.walkedTo !== NOT_WALKED;
    if (isWalking ? profile > job.walkedTo : target.kind !== 'edited') return false;
  }
  return true;
}

/** True for a walk that tells some destinations more, while all hear changes as before. */
export function addsToOthers({ kind }: SyncTarget): boolean {
  return kind === 'destinations' || kind === 'missed';
}

/** Tells whether the walk of a rebuild, if there is one, has come to a profile. */
export function isRecalled({ jobs }: ComputationRecord, id: number, profile: ProfileId): boolean {
  return jobs.every(({ targets, walkedTo }) => {
    const isWaiting = walkedTo === NOT_WALKED || profile > walkedTo;
    return !isWaiting || !targets.some((one) => one.id === id && one.kind === 'rebuilt');
  });
}

/**
 * How far the work for a computation is: a share of the stored events and then of the profiles; undefined
 * when there is none.
 */
export function progressOf(
  { jobs }: ComputationRecord,
  id: number,
  profiles: number,
): { readonly state: 'preparing' | 'computing'; readonly progress: number } | undefined {
  const nth = jobs.findIndex(({ targets }) => targets.some((one) => one.id === id));
  if (nth < 0) return undefined;
  const { from, next, born, slots, walkedTo } = jobs[nth]!;
  if (nth > 0) return { state: 'preparing', progress: 0 };
  const added = slots.length === 0 || born <= from ? 1 : (next - from) / (born - from);
  const walked = walkedTo < 0 ? 0 : Math.min(1, walkedTo / Math.max(1, profiles));
  return { state: 'computing', progress: Math.min(0.99, added / 2 + walked / 2) };
}
