import { isDeepStrictEqual } from 'node:util';
import type { Position } from '../model/event.ts';
import type { Json } from '../model/json.ts';
import { type Duration, MINUTE, SECOND, type Time } from '../model/time.ts';
import { type Clock, nextTurn } from '../ports/clock.ts';
import { type LogReader, StorageError } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { IdentityKey, ProfileId, ProfileStore, UsersCursor } from '../ports/profile-store.ts';
import type { PreviewRequest, Profile, RebuildReport, SplitId, UserIdentity } from '../ports/users.ts';
import { checkChanges } from './check-changes.ts';
import { ConnectionNews } from './computation/connection-news.ts';
import type { ProfileComputations } from './computation/profile-computations.ts';
import {
  DEFAULT_IDENTITY_SETTINGS,
  type IdentityHash,
  KEEP_PROFILES,
  NO_COUNTS,
  PRODUCER,
  type ProcessorCounts,
  type SliceOutcome,
  type UsersProcessor,
  type UsersSettings,
} from './contract.ts';
import { apartIds } from './identity/identity-graph.ts';
import { IdentityReader } from './identity/identity-reader.ts';
import type { ProfileState } from './identity/profile-state.ts';
import { addLeftOut } from './identity/traits.ts';
import { type LogEvent, readEvents, UnknownSources } from './log-events.ts';
import { ProfileSweep } from './profile-sweep.ts';
import { ProfileView } from './profile-view.ts';
import { isPast } from './retention.ts';
import { Slice, type SliceResult } from './slice.ts';
import { SoonChanges } from './soon-changes.ts';
import { doubtfulMerges } from './splits/doubtful-merges.ts';
import { LEFT_DOCUMENT } from './splits/remaking.ts';
import { Splitter } from './splits/splitter.ts';
import { SentBefore } from './sync/sent-before.ts';

export interface ProcessorOptions {
  readonly reader: LogReader;
  readonly store: ProfileStore;
  readonly clock: Pick<Clock, 'now' | 'monotonic' | 'steps' | 'turn'>;
  readonly logger: Logger;
  readonly hash: IdentityHash;
  readonly computations: ProfileComputations;
}

/**
 * Most events of one slice, and the time in which it may gather them. A slice is one commit: calls wait for
 * it, and a crash repeats it.
 */
const SLICE_EVENTS = 10_000;
const SLICE_TIME: Duration = SECOND;
/** Events whose ids are looked up together. */
const PAGE_EVENTS = 2000;
/** Bytes of states after which a slice ends, so that memory stays bounded. */
const SLICE_BYTES = 64 * 1024 * 1024;

/** Most profiles that one slice looks at because of timers. */
const SLICE_TIMERS = 2000;

/** Longest wait of a question for the events that came before it. */
const CATCH_UP_TIME: Duration = 2 * SECOND;

/** How long a preview may take: profiles have half of the time meanwhile. */
const PREVIEW_TIME: Duration = 2 * MINUTE;
const PREVIEW_ADVICE =
  'the preview took longer than two minutes and was given up, because it reads all stored events beside the work on profiles: save the ' +
  'definition with enabled: false, which counts beside everything else and sends nothing, and look at its members';

/** An event whose processing throws this many times is left out. */
const TRIES = 3;

/** Owners of ids that are kept between slices. */
const KNOWN_OWNERS = 300_000;

/** Applies the log to the profiles. See `UsersProcessor`; the caller repeats what was rejected. */
export function createProcessor(options: ProcessorOptions): Processor {
  return new Processor(options);
}

/**
 * Applies the log to the profiles, slice by slice, from where the last commit ended. A slice is one commit
 * with its cursor, so each event takes effect exactly once.
 */
export class Processor implements UsersProcessor {
  readonly #options: ProcessorOptions;
  readonly #splitter: Splitter;
  #settings: UsersSettings = {
    computations: [],
    identities: DEFAULT_IDENTITY_SETTINGS,
    serverSources: [],
    hearing: [],
    retention: KEEP_PROFILES,
  };
  readonly #sweep: ProfileSweep;
  /** Undefined until the store was read, and after a slice that was not stored. */
  #cursor: UsersCursor | undefined;
  #owners = new Map<IdentityKey, ProfileId>();
  #soon = new SoonChanges();
  #sentTo: number | undefined;
  /**
   * Entries of the outbox up to this one came into the log under the settings before those with which the
   * next slice begins.
   */
  #certainTo: number | undefined;
  #isConfigured = false;
  /** Newer settings wait for the end of the slice under way. */
  #areSettingsWaiting = false;
  readonly #news = new ConnectionNews();
  #counts: ProcessorCounts = NO_COUNTS;
  /** The event that threw in the last slice, and how often so far. */
  #failing: { readonly position: Position; readonly tries: number } | undefined;
  readonly #unknownSources: UnknownSources;
  #isPreviewCancelled = false;
  #isClosing = false;
  /** Work that was done to bring answers up to date, and that no slice has reported yet. */
  #doneForCalls = 0;
  /** True when no earlier process has left profiles that have to be made anew. */
  #isLeftRemade = false;
  /** True when no profile has ids that the settings keep apart. */
  #isSplit = false;
  /** Events that are left out; the cursor has not come to them yet. */
  readonly #skipped = new Set<Position>();

  constructor(options: ProcessorOptions) {
    this.#options = options;
    this.#sweep = new ProfileSweep(options);
    this.#unknownSources = new UnknownSources(options);
    this.#splitter = new Splitter({
      ...options,
      settings: () => this.#settings,
      newSlice: (apart) => this.#sliceBetween(apart),
      commit: (slice) => this.#commitBetween(slice),
      forget: () => this.#forget(),
    });
  }

  get counts(): ProcessorCounts {
    return this.#counts;
  }

  settingsWait(): void {
    this.#areSettingsWaiting = true;
  }

  async configure(settings: UsersSettings): Promise<void> {
    this.#areSettingsWaiting = false;
    if (this.#isConfigured) this.#news.note(this.#settings, settings);
    if (!isDeepStrictEqual(this.#settings.retention, settings.retention)) this.#sweep.restart();
    this.#isConfigured = true;
    this.#settings = settings;
    this.#isSplit = false;
    this.#certainTo ??= this.#sentTo ?? 0;
    // The next slice begins with what is stored and with these settings.
    this.#forget();
  }

  async slice(): Promise<SliceOutcome> {
    const outcome = await this.#slice();
    const done = outcome.done + this.#doneForCalls;
    this.#doneForCalls = 0;
    return { ...outcome, done };
  }

  async #slice(): Promise<SliceOutcome> {
    try {
      if (!this.#isLeftRemade) await this.#splitter.remakeLeft();
      this.#isLeftRemade = true;
      if (!this.#isSplit) await this.#split();
      const cursor = await this.#current();
      return await this.#applySlice(cursor);
    } catch (error) {
      // Whatever was kept in memory may be ahead of the store now.
      this.#forget();
      this.#sweep.restart();
      if (error instanceof PoisonousEventError) this.#noteFailing(error);
      throw error;
    }
  }

  /** An event that throws every time would stop all profiles. It is named in the log, and left out. */
  #noteFailing({ position, messageId, cause }: PoisonousEventError): void {
    const tries = this.#failing?.position === position ? this.#failing.tries + 1 : 1;
    this.#failing = { position, tries };
    if (tries < TRIES) return;
    this.#skipped.add(position);
    this.#options.logger.error({ position, messageId, tries, error: cause }, 'profiles.event_skipped');
  }

  outbox(after: number, max: number) {
    return this.#options.store.outbox(after, max);
  }

  async sent(to: number): Promise<void> {
    this.#sentTo = Math.max(this.#sentTo ?? 0, to);
  }

  async computations() {
    await this.#current();
    return this.#options.computations.statuses();
  }

  async profile(id: UserIdentity): Promise<Profile | undefined> {
    await this.#catchUp();
    return this.#view().profile(id);
  }

  async joinedIds(userIds: readonly string[]) {
    await this.#catchUp();
    return this.#view().joinedIds(userIds);
  }

  async usersOf(anonymousIds: readonly string[]) {
    await this.#catchUp();
    return this.#view().usersOf(anonymousIds);
  }

  async visitors(anonymousIds: readonly string[]) {
    await this.#catchUp();
    return this.#view().visitors(anonymousIds);
  }

  async members(computation: number, limit: number, from?: string) {
    await this.#catchUp();
    return this.#view().members(computation, limit, from);
  }

  async preview(request: PreviewRequest) {
    const eventsBehind = await this.#catchUp();
    await this.#current();
    const { hash, clock, computations } = this.#options;
    const reader = new IdentityReader(hash, this.#settings.identities);
    const until = clock.monotonic() + PREVIEW_TIME;
    this.#isPreviewCancelled = false;
    const check = () => {
      if (this.#isPreviewCancelled) throw new StorageError('nobody waits for this preview any more');
      if (clock.monotonic() > until) throw new StorageError(PREVIEW_ADVICE);
    };
    const compute = async () => ({ ...(await computations.preview(request, reader, check)), eventsBehind });
    return { result: compute() };
  }

  cancelPreview(): void {
    this.#isPreviewCancelled = true;
  }

  async doubtfulMerges(after?: number) {
    await this.#catchUp();
    const { position } = await this.#current();
    const { store, reader, hash } = this.#options;
    const settings = this.#settings;
    const identityReader = new IdentityReader(hash, settings.identities);
    const check = () => {
      if (this.#isClosing) throw new StorageError('Millrace is being stopped: ask again after its start');
    };
    const terms = { store, reader, hash, identityReader, settings, position, check };
    return { result: doubtfulMerges(terms, after) };
  }

  async foreseeSplit(ids: readonly [SplitId, SplitId]) {
    await this.#catchUp();
    return this.#splitter.foresee(ids);
  }

  async applySplits(): Promise<void> {
    await this.#catchUp();
    await this.#split();
  }

  async #split(): Promise<void> {
    await this.#splitter.apply(this.#settings.apart ?? []);
    this.#isSplit = true;
  }

  cancelAll(): void {
    this.cancelPreview();
    this.#isClosing = true;
  }

  async erase(userIds: readonly string[], anonymousIds: readonly string[]): Promise<number> {
    const { store } = this.#options;
    // Rests that a process left when it died are made profiles first, so that they are found.
    await this.#splitter.remakeLeft();
    const view = this.#view();
    const { profiles, texts, keys, left } = await view.everythingOf(userIds, anonymousIds);
    const owners = [...profiles, ...(await view.ownersInOutbox(keys))];
    const documents: Record<string, Json> = { ...(await SentBefore.read(store))?.without(keys) };
    // They are made anew after the erasure, by the next process if this one dies.
    if (left.length > 0) documents[LEFT_DOCUMENT] = left as unknown as Json;
    try {
      // Also without profiles: a rebuild, or a process that died during an erasure, may have left their bytes
      // in the file.
      if (owners.length > 0) Object.assign(documents, await this.#leave(profiles));
      await store.erase(owners, texts, documents);
    } finally {
      this.#forget();
    }
    await this.#splitter.remakeLeft();
    return profiles.length;
  }

  /** Documents to store with the erasure of these profiles, which are members no more. */
  async #leave(profiles: readonly ProfileId[]): Promise<Readonly<Record<string, Json>>> {
    const cursor = await this.#current();
    const slice = this.#newSlice(cursor);
    await slice.load(profiles);
    slice.leave(profiles);
    return slice.finish(cursor.position, undefined).changes.documents ?? {};
  }

  async rebuild({ dryRun }: { readonly dryRun: boolean }): Promise<RebuildReport> {
    const report = await this.#view().rebuildReport();
    if (!dryRun) {
      const { store, computations } = this.#options;
      // Settings that have just changed are noted first.
      await this.#slice().catch(() => {});
      // If that failed, memory may be ahead of the store.
      await this.#current();
      await store.clear(await computations.forRebuild(store, this.#settings.computations));
      this.#forget();
    }
    return report;
  }

  async repeat(computation: number, destination: string): Promise<boolean> {
    const { reader, computations } = this.#options;
    await this.#current();
    const isBegun = computations.repeat(computation, destination, await reader.bounds());
    // This slice stores it, so it outlives the process.
    if (isBegun) this.#doneForCalls += (await this.#slice()).done;
    return isBegun;
  }

  /**
   * Applies what is in the log, so that a question finds the calls that were answered before it was asked.
   * When profiles are far behind, or something fails, the answer is that of the last commit. Resolves to the
   * number of events that are not applied.
   */
  async #catchUp(): Promise<number> {
    const { reader, clock } = this.#options;
    let behind = 0;
    try {
      const { end } = await reader.bounds();
      const until = clock.monotonic() + CATCH_UP_TIME;
      for (;;) {
        behind = Math.max(0, end - (await this.#current()).position);
        if (behind === 0 || clock.monotonic() >= until) break;
        const { done, hasMore } = await this.#slice();
        this.#doneForCalls += done;
        // The rest of the slice waits for newer settings.
        if (done === 0 && !hasMore) break;
      }
    } catch {
      // The next slice of the loop meets the same error, and tells of it.
    }
    return behind;
  }

  #view(): ProfileView {
    const { store, hash, reader } = this.#options;
    const { computations, identities } = this.#settings;
    const identityReader = new IdentityReader(hash, identities);
    return new ProfileView({ store, hash, reader, computations, identityReader });
  }

  /** Clears what is kept in memory; the next slice reads it again. */
  #forget(): void {
    this.#cursor = undefined;
    this.#owners = new Map();
    this.#soon = new SoonChanges();
  }

  async #current(): Promise<UsersCursor> {
    if (this.#cursor === undefined) {
      const { store, reader, computations } = this.#options;
      const cursor = await store.cursor();
      // A new file of profiles, or an older copy, must not use numbers that the log knows already.
      const nextOutbox = Math.max(cursor.nextOutbox, (await reader.producedTo(PRODUCER)) + 1);
      await computations.restore(this.#settings, {
        store,
        position: cursor.position,
        bounds: await reader.bounds(),
        certainTo: this.#certainTo ?? 0,
        ...this.#news.terms,
      });
      this.#cursor = { ...cursor, nextOutbox };
    }
    return this.#cursor;
  }

  async #applySlice(cursor: UsersCursor): Promise<SliceOutcome> {
    const { store, computations } = this.#options;
    const slice = this.#newSlice(cursor);
    const gathered = await this.#gather(slice, cursor.position);
    const fired = await this.#fireTimers(slice);
    const { retention } = this.#settings;
    const isCaughtUp = !gathered.hasMore;
    const past = (profile: ProfileState) => isCaughtUp && isPast(profile, retention, this.#options.clock);
    const work = await computations.step(slice, gathered.position, past);
    const { isRebuilding } = computations;
    const swept = await this.#sweep.step(slice, { retention, isCaughtUp, isRebuilding });
    const sentTo = this.#sentTo;
    const finished = slice.finish(gathered.position, sentTo);
    const documents = { ...finished.changes.documents, ...computations.documents() };
    const result = { ...finished, changes: { ...finished.changes, documents } };
    checkChanges(result.changes, cursor);
    if (!isEmpty(result, cursor)) await store.commit(result.changes);
    this.#cursor = result.changes.cursor;
    this.#noteStored();
    if (this.#sentTo === sentTo) this.#sentTo = undefined;
    this.#count(result, gathered);
    this.#soon.expect(result.soon);
    if (this.#owners.size > KNOWN_OWNERS) this.#owners = new Map();
    return {
      done: gathered.events + fired.done + work.done + swept.done,
      hasMore: gathered.hasMore || fired.hasMore || work.hasMore || swept.hasMore,
      nextAt: this.#nextAt(slice.now),
      lastOutbox: this.#cursor.nextOutbox - 1,
      counts: this.#counts,
      failed: computations.failed(),
    };
  }

  /**
   * Makes a slice that applies no events. It notes settings that have just changed, because it may tell
   * destinations something by them.
   */
  async #sliceBetween(apart?: UsersSettings['apart']): Promise<Slice> {
    const slice = this.#newSlice(await this.#current(), apart);
    await this.#options.computations.noteSettings(slice);
    return slice;
  }

  async #commitBetween(slice: Slice): Promise<void> {
    const { store, computations } = this.#options;
    const { changes } = slice.finish(slice.cursor.position, undefined);
    await store.commit({ ...changes, documents: { ...changes.documents, ...computations.documents() } });
    this.#noteStored();
  }

  /** Call when a commit has stored the present settings. */
  #noteStored(): void {
    this.#certainTo = undefined;
    this.#news.clear();
  }

  /** `apart`: ids that are kept apart beside those of the settings. */
  #newSlice(cursor: UsersCursor, apart: UsersSettings['apart'] & object = []): Slice {
    const { store, hash, clock, computations } = this.#options;
    return new Slice({
      store,
      hash,
      identities: this.#settings.identities,
      apart: apartIds([...(this.#settings.apart ?? []), ...apart]),
      engine: computations.engine,
      sync: computations.sync,
      cursor,
      now: clock.now(),
      owners: this.#owners,
    });
  }

  /** Applies events until the slice is full or the log ends. */
  async #gather(slice: Slice, from: number) {
    const { reader, clock, hash } = this.#options;
    const { identities } = this.#settings;
    const identityReader = new IdentityReader(hash, identities);
    const until = clock.monotonic() + SLICE_TIME;
    let position = from;
    let events = 0;
    let unreadable = 0;
    let skipped = 0;
    for (;;) {
      const page = this.#unknownSources.before(await reader.page(position, PAGE_EVENTS), this.#settings);
      // Settings are posted before the first event that was taken with them: those of this page have come by
      // now.
      await nextTurn(clock);
      if (this.#areSettingsWaiting) return { position, events, unreadable, skipped, hasMore: true };
      if (page.next === position) return { position, events, unreadable, skipped, hasMore: false };
      const read = readEvents(page, identityReader, this.#settings);
      await slice.loadOwners(read.events.map(({ ids }) => ids));
      skipped += this.#apply(slice, read.events);
      position = page.next;
      events += page.sources.length;
      unreadable += read.unreadable;
      if (events >= SLICE_EVENTS || slice.loadedBytes >= SLICE_BYTES || clock.monotonic() >= until)
        return { position, events, unreadable, skipped, hasMore: true };
    }
  }

  /** Returns the number of events that are left out. */
  #apply(slice: Slice, events: readonly LogEvent[]): number {
    let skipped = 0;
    for (const event of events) {
      if (this.#skipped.has(event.position)) {
        skipped++;
        continue;
      }
      try {
        slice.apply(event);
      } catch (cause) {
        throw new PoisonousEventError(event, cause);
      }
    }
    return skipped;
  }

  /** Evaluates the profiles that have a timer due, or a change to tell. */
  async #fireTimers(slice: Slice): Promise<{ done: number; hasMore: boolean }> {
    const { store, computations } = this.#options;
    const { now } = slice;
    await this.#soon.lookAhead(slice, { store, engine: computations.engine });
    const soon = [...this.#soon.take(now, SLICE_TIMERS), ...computations.sync.due(now)];
    const due = await store.due(now, SLICE_TIMERS);
    await slice.load([...soon, ...due.map(({ profile }) => profile)]);
    for (const timer of due) slice.fire(timer);
    for (const profile of soon) slice.revisit(profile);
    return { done: soon.length + due.length, hasMore: due.length === SLICE_TIMERS || this.#soon.next <= now };
  }

  /** Time of the next look at timers: the beginning of a minute, when the timers of the next one are read. */
  #nextAt(now: Time): Time {
    const nextMinute = (Math.floor(now / MINUTE) + 1) * MINUTE;
    const held = this.#options.computations.sync.nextDue() ?? nextMinute;
    return Math.min(nextMinute, held, this.#soon.next);
  }

  #count({ counts, changes, leftOut, unreadable: states }: SliceResult, gathered: Gathered): void {
    const all = this.#counts;
    const forgotten = this.#sweep.takeCounts();
    const unreadable = gathered.unreadable + states.length;
    this.#counts = {
      events: all.events + gathered.events,
      unreadable: all.unreadable + unreadable,
      skipped: all.skipped + gathered.skipped,
      unattributed: all.unattributed + counts.unattributed,
      overLimit: all.overLimit + counts.overLimit,
      conflicts: all.conflicts + counts.conflicts,
      unproven: all.unproven + counts.unproven,
      apart: all.apart + counts.apart,
      collisions: all.collisions + counts.collisions,
      invalid: all.invalid + counts.invalid,
      merges: all.merges + changes.merges.length,
      forgotten: {
        retention: all.forgotten.retention + forgotten.retention,
        space: all.forgotten.space + forgotten.space,
      },
      leftOut: addLeftOut(all.leftOut, leftOut),
    };
    for (const position of this.#skipped) if (position < gathered.position) this.#skipped.delete(position);
    if (unreadable > 0)
      this.#options.logger.warn(
        { events: gathered.unreadable, profiles: states.length },
        'profiles.unreadable',
      );
  }
}

/** The events that a slice has applied. */
interface Gathered {
  /** The next position. */
  readonly position: Position;
  readonly events: number;
  readonly unreadable: number;
  readonly skipped: number;
}

/** Thrown when an event could not be applied because of a fault in Millrace. */
class PoisonousEventError extends Error {
  readonly position: Position;
  readonly messageId: string;

  constructor({ position, messageId }: LogEvent, cause: unknown) {
    super(`the event ${messageId} cannot be applied: ${cause}`, { cause });
    this.position = position;
    this.messageId = messageId;
  }
}

/** True when a slice has nothing to store, so that an idle program does not write. */
function isEmpty({ changes }: SliceResult, before: UsersCursor): boolean {
  const { cursor, put, firedTimers, forgotten = [], outbox, sentTo, documents } = changes;
  return (
    cursor.position === before.position &&
    put.length + firedTimers.length + forgotten.length + outbox.length === 0 &&
    sentTo === undefined &&
    Object.keys(documents ?? {}).length === 0
  );
}
