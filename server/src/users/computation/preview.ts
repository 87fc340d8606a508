import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Computation, Condition, EventAggregate } from '../../model/definition.ts';
import type { Position } from '../../model/event.ts';
import { defined, type Json } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';
import { type LogReader, StorageError } from '../../ports/event-log.ts';
import type { ProfileId, ProfileStore } from '../../ports/profile-store.ts';
import type { Preview, PreviewRequest } from '../../ports/users.ts';
import type { IdentityReader } from '../identity/identity-reader.ts';
import { newProfile, type ProfileState } from '../identity/profile-state.ts';
import { walkProfiles } from '../identity/walk.ts';
import { readEvents } from '../log-events.ts';
import { recipientOf } from '../sync/recipient.ts';
import { isMember } from '../sync/sent.ts';
import { arrivalIn, StoredEventFinder } from './backfill.ts';
import { TextForNumbers } from './text-for-numbers.ts';
import { createTraitEngine, type TraitEngine } from './trait-engine.ts';
import { UnknownNames } from './unknown-names.ts';

export interface PreviewSources {
  readonly store: ProfileStore;
  readonly reader: LogReader;
  readonly identityReader: IdentityReader;
  /** Computations in force, and numbers of slots that hold all stored events, by key. */
  readonly active: readonly Computation[];
  readonly slots: Readonly<Record<string, number>>;
  /** The next position that live slices apply: later events do not count yet. */
  readonly position: Position;
  readonly now: Time;
  /** Throws when the preview is to end. */
  readonly check: () => void;
}

/** Names in a sample. */
const SAMPLE = 10;

/** Profiles whose slots are in memory at once. With more of them the stored events are read several times. */
const PROFILES = 100_000;

const PAGE = 2000;

/**
 * How many of the newest stored events are searched for a name that may be meant, and how many of them are
 * parsed at once.
 */
const RECENT = 10_000;
const RECENT_PAGE = 500;

/** Slots of a preview are numbered from here: no profile has such a slot. */
const FIRST_FRESH_SLOT = 2 ** 32;

/**
 * Computes a definition over the stored events and profiles, as they are now, and keeps nothing of it.
 * Members are users who have the value, or those of a computed trait that is not absent.
 */
export async function previewComputation(
  request: PreviewRequest,
  dependencies: PreviewSources,
): Promise<Omit<Preview, 'eventsBehind'>> {
  const { store, reader } = dependencies;
  const draft = draftOf(request, dependencies.active);
  const fresh = new Map<string, number>();
  const engine = createTraitEngine(
    [...dependencies.active.filter(({ id }) => id !== draft.id), draft],
    (key) => dependencies.slots[key] ?? freshSlot(fresh, key),
  );
  const counts = new PreviewCounts(draft, request.replaces);
  const texts = new TextForNumbers(request.definition);
  const isFresh = new Set(fresh.values());
  const names = new UnknownNames(
    request.definition,
    engine.aggregatesOf(draft.id).filter(({ slot }) => isFresh.has(slot)),
  );
  const { first } = await reader.bounds();
  const { nextProfile } = await store.cursor();
  for (let from = 0; from < nextProfile; from += PROFILES) {
    const range = { after: from - 1, to: from + PROFILES - 1 };
    const states = await collectSlots(isFresh, {
      ...{ engine, draft, range, texts, names },
      ...dependencies,
    });
    await evaluateAll(range, { ...dependencies, states, engine, counts, texts, names });
  }
  const failure = engine.failures.reasonOf(draft);
  if (failure !== undefined) throw new StorageError(failure);
  const eventsSince = arrivalIn(await reader.page(first, 1));
  const textForNumbers = texts.read();
  if (names.misses) await proposeNames(names, dependencies);
  // Without a profile nothing was looked at.
  const unknownNames = nextProfile === 0 ? [] : names.read();
  return {
    ...counts.result(),
    textForNumbers,
    unknownNames,
    ...defined({ eventsSince }),
  };
}

/** Shows the names of the newest stored events. */
async function proposeNames(
  names: UnknownNames,
  { reader, identityReader, position, check }: PreviewSources,
): Promise<void> {
  const { first } = await reader.bounds();
  for (let next = Math.max(first, position - RECENT); next < position; ) {
    const page = await reader.page(next, RECENT_PAGE);
    for (const event of readEvents(page, identityReader, { serverSources: [] }).events) names.propose(event);
    if (page.next <= next) break;
    next = page.next;
    await nextTurn();
    check();
  }
}

function freshSlot(fresh: Map<string, number>, key: string): number {
  const number = fresh.get(key) ?? FIRST_FRESH_SLOT + fresh.size;
  fresh.set(key, number);
  return number;
}

/** The definition as a computation: the one that it would replace, or a new one that nobody mentions. */
function draftOf(
  { definition, includeAnonymous, replaces }: PreviewRequest,
  active: readonly Computation[],
): Computation {
  const id = replaces?.id ?? Math.max(0, ...active.map((one) => one.id)) + 1;
  const base = {
    id,
    version: 0,
    name: replaces?.name ?? '',
    key: '',
    text: '',
    destinations: [],
    enabled: true,
  };
  return isAggregate(definition)
    ? { ...base, kind: 'trait', definition }
    : { ...base, kind: 'audience', definition, includeAnonymous };
}

function isAggregate(definition: Condition | EventAggregate): definition is EventAggregate {
  return definition.op === 'event';
}

/** Profiles behind `after`, up to `to`. */
interface ProfileRange {
  readonly after: ProfileId;
  readonly to: ProfileId;
}

interface Collection extends PreviewSources {
  readonly engine: TraitEngine;
  readonly draft: Computation;
  readonly range: ProfileRange;
  readonly texts: TextForNumbers;
  readonly names: UnknownNames;
}

/** The slots of the definition, from the stored events, of the profiles of a range. */
async function collectSlots(
  only: ReadonlySet<number>,
  { engine, draft, range, texts, names, reader, identityReader, store, position, check }: Collection,
): Promise<Map<ProfileId, ProfileState>> {
  const states = new Map<ProfileId, ProfileState>();
  if (only.size === 0) return states;
  const aggregates = engine.aggregatesOf(draft.id).filter(({ slot }) => only.has(slot));
  const finder = new StoredEventFinder(aggregates, identityReader);
  let { first: next } = await reader.bounds();
  while (next < position) {
    const page = await reader.page(next, PAGE);
    const events = finder.find(page, position);
    const owners = await store.resolve(events.map(({ ids }) => (ids.user ?? ids.anonymous)?.key ?? -1));
    for (const event of events) names.ofEvent(event);
    events.forEach((event, nth) => {
      const id = owners[nth];
      if (id === undefined || id <= range.after || id > range.to) return;
      const state = states.get(id) ?? newProfile(id);
      states.set(id, state);
      engine.apply(state, event, only);
      texts.ofEvent(event);
    });
    if (page.next <= next) break;
    next = page.next;
    await nextTurn();
    check();
  }
  return states;
}

interface Evaluation extends PreviewSources {
  readonly engine: TraitEngine;
  readonly states: ReadonlyMap<ProfileId, ProfileState>;
  readonly counts: PreviewCounts;
  readonly texts: TextForNumbers;
  readonly names: UnknownNames;
}

async function evaluateAll(
  { after, to }: ProfileRange,
  { store, states, engine, counts, texts, names, now, check }: Evaluation,
): Promise<void> {
  const between = async () => {
    await nextTurn();
    check();
  };
  for await (const state of walkProfiles(store, { after, to, between })) {
    const before = counts.valueBefore(state);
    for (const [slot, collected] of states.get(state.id)?.slots ?? []) state.slots.set(slot, collected);
    engine.evaluate(state, Math.max(now, state.lastSeenAt));
    counts.add(state, before);
    texts.ofProfile(state);
    names.ofProfile(state);
  }
}

/** Counts members with a definition and without it. */
class PreviewCounts {
  readonly #draft: Computation;
  readonly #replaces: Computation | undefined;
  readonly #sample: string[] = [];
  #members = 0;
  #enters = 0;
  #leaves = 0;

  constructor(draft: Computation, replaces: Computation | undefined) {
    this.#draft = draft;
    this.#replaces = replaces;
  }

  /** Value of the replaced computation, before the evaluation. */
  valueBefore(state: ProfileState): Json {
    return state.computed.get(this.#draft.id)?.value ?? null;
  }

  add(state: ProfileState, before: Json): void {
    const value = state.computed.get(this.#draft.id)?.value ?? null;
    const was = this.#replaces !== undefined && isCounted(state, this.#replaces, before);
    const is = isCounted(state, this.#draft, value);
    if (is) this.#members++;
    if (is && !was) this.#enters++;
    if (was && !is) this.#leaves++;
    if (is && state.userId !== undefined && this.#sample.length < SAMPLE) this.#sample.push(state.userId);
  }

  result(): Pick<Preview, 'members' | 'sample' | 'enters' | 'leaves'> {
    return {
      members: this.#members,
      sample: this.#sample,
      enters: this.#enters,
      leaves: this.#leaves,
    };
  }
}

function isCounted(state: ProfileState, computation: Computation, value: Json): boolean {
  return isMember(computation, value) && recipientOf(state, computation) !== undefined;
}
