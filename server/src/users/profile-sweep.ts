import { DAY, type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import type { ProfileId, ProfileStore } from '../ports/profile-store.ts';
import { type ForgottenCounts, NO_COUNTS, type ProfileRetention } from './contract.ts';
import { decodeProfile, type ProfileState } from './identity/profile-state.ts';
import {
  bytesOf,
  compareRanks,
  type EvictionRank,
  excessShare,
  isPast,
  mayExceed,
  RankSampler,
  rankOf,
} from './retention.ts';
import type { Slice } from './slice.ts';

/** Profiles that are read at once. */
const PAGE = 500;

/**
 * Pages that one slice looks at while profiles take too much space; otherwise it looks at one. A slice can
 * create 10,000 profiles of made-up ids, so at least as many must go in one slice. A limit of time instead
 * would remove too few on a busy machine.
 */
const ROOM_PAGES = 80;

/**
 * Most profiles that one slice removes. It ends early at this many events for the outbox or bytes of states.
 */
const MAX_FORGOTTEN = 20_000;
const MAX_TOLD = 1000;
const MAX_LOADED = 64 * 1024 * 1024;

/** No profile is removed while the outbox has more entries than this that are not in the log yet. */
const MAX_UNSENT = 5000;

/** Pause between two passes over all profiles for those whose retention is over. */
const PASS_PAUSE: Duration = DAY;

/**
 * Pause between two checks of the bytes that profiles take, and the same as a multiple of the time of a check
 * that found nothing to remove.
 */
const ROOM_PAUSE: Duration = SECOND;
const PAUSE_PER_LOOK = 50;

export interface SweepDependencies {
  readonly store: ProfileStore;
  readonly clock: Pick<Clock, 'monotonic' | 'steps'>;
  readonly logger: Logger;
}

/**
 * A pass over all profiles. `time` removes those whose retention is over, `measure` finds how long ago the
 * profiles were seen that must go to make room, and `room` removes these.
 */
type Pass =
  | { readonly kind: 'time'; at: ProfileId; advised: number }
  | {
      readonly kind: 'measure';
      at: ProfileId;
      readonly beganAt: Monotonic;
      bytes: number;
      readonly ranks: RankSampler;
    }
  | { readonly kind: 'room'; at: ProfileId; readonly last: EvictionRank };

/** The state of the program for the slice at work. */
export interface SweepTerms {
  readonly retention: ProfileRetention;
  /**
   * True when everything in the log is applied. Otherwise a profile may have been seen again in events that
   * are not applied yet.
   */
  readonly isCaughtUp: boolean;
  /** All profiles are being made anew. */
  readonly isRebuilding: boolean;
}

interface WorkDone {
  readonly done: number;
  readonly hasMore: boolean;
}

const IDLE: WorkDone = { done: 0, hasMore: false };

/**
 * Removes profiles whose retention is over, and profiles beyond the space that they may take. It passes over
 * all profiles, a few pages in each slice: once a day by time, and twice whenever they take too much. A pass
 * is not stored, so a new process begins anew. A profile is removed in one commit together with everything
 * that follows from it.
 *
 * idle ─▶ time ─▶ idle; idle ─▶ measure ─▶ room ─▶ giving free pages back ─▶ idle
 */
export class ProfileSweep {
  readonly #dependencies: SweepDependencies;
  #pass: Pass | undefined;
  #givesBack = false;
  #nextPass: Monotonic = Number.NEGATIVE_INFINITY;
  #nextLook: Monotonic = Number.NEGATIVE_INFINITY;
  #hasAdvised = false;
  /** Profiles that the slice at work removes, and those of the whole pass. */
  #slice: ForgottenCounts = NO_COUNTS.forgotten;
  #passed = 0;

  constructor(dependencies: SweepDependencies) {
    this.#dependencies = dependencies;
  }

  /** Begins anew, because other periods or another limit hold from now on. */
  restart(): void {
    this.#pass = undefined;
    this.#nextPass = Number.NEGATIVE_INFINITY;
    this.#nextLook = Number.NEGATIVE_INFINITY;
  }

  /** Returns the profiles that the slice at work removed, and resets the count. */
  takeCounts(): ForgottenCounts {
    const counts = this.#slice;
    this.#slice = NO_COUNTS.forgotten;
    return counts;
  }

  /**
   * Does a piece of work as the last step of a slice. Resolves to the number of profiles that were removed,
   * and whether there is more to do.
   */
  async step(slice: Slice, terms: SweepTerms): Promise<WorkDone> {
    if (this.#pass === undefined) await this.#begin(terms);
    if (this.#pass !== undefined) return this.#look(slice, this.#pass, terms);
    if (!this.#givesBack) return IDLE;
    this.#givesBack = await this.#dependencies.store.giveBack();
    return { done: 0, hasMore: this.#givesBack };
  }

  async #begin({ retention, isCaughtUp, isRebuilding }: SweepTerms): Promise<void> {
    const { anonymous, known, advised, bytes } = retention;
    const now = this.#dependencies.clock.monotonic();
    if (bytes !== undefined && now >= this.#nextLook && (await this.#isTooMuch(bytes))) {
      this.#pass = { kind: 'measure', at: 0, beganAt: now, bytes: 0, ranks: new RankSampler() };
      return;
    }
    const isWanted = anonymous !== undefined || known !== undefined || advised?.anonymous !== undefined;
    if (!isWanted || !isCaughtUp || isRebuilding || now < this.#nextPass) return;
    this.#nextPass = now + PASS_PAUSE;
    this.#pass = { kind: 'time', at: 0, advised: 0 };
  }

  /**
   * Tells whether profiles take too much. Where their files are large and rows do not fill them, it gives the
   * excess back first.
   */
  async #isTooMuch(allowed: number): Promise<boolean> {
    const { store, clock } = this.#dependencies;
    const began = clock.monotonic();
    this.#nextLook = began + ROOM_PAUSE;
    if (!mayExceed((await store.size()).bytes, allowed)) return false;
    if (excessShare(await store.usedBytes(), allowed) > 0) return true;
    this.#givesBack = true;
    this.#pauseAfter(began);
    return false;
  }

  /** Pauses after a check of all rows that found nothing to remove. */
  #pauseAfter(began: Monotonic): void {
    const now = this.#dependencies.clock.monotonic();
    this.#nextLook = now + Math.max(ROOM_PAUSE, PAUSE_PER_LOOK * (now - began));
  }

  async #look(slice: Slice, pass: Pass, terms: SweepTerms): Promise<WorkDone> {
    const mayGo = pass.kind !== 'time' || (terms.isCaughtUp && !terms.isRebuilding);
    if (!mayGo || (pass.kind !== 'measure' && (await this.#isOutboxFull(slice)))) return IDLE;
    let done = 0;
    for (let pages = pass.kind === 'time' ? 1 : ROOM_PAGES; pages > 0; pages--) {
      const page = await this.#dependencies.store.scan(pass.at, PAGE);
      done += await this.#lookAt(slice, pass, { page, terms });
      if (page.length === 0 || (page.length < PAGE && pass.at === page.at(-1)!.id)) {
        this.#count(pass, done);
        await this.#end(pass, terms.retention);
        const isMeasured = pass.kind === 'measure' && this.#pass !== undefined;
        return isMeasured ? this.#look(slice, this.#pass!, terms) : { done, hasMore: true };
      }
      if (done >= MAX_FORGOTTEN || slice.told >= MAX_TOLD || slice.loadedBytes >= MAX_LOADED) break;
    }
    this.#count(pass, done);
    return { done, hasMore: true };
  }

  /** Looks at a page. Resolves to the number of profiles that were removed. */
  async #lookAt(
    slice: Slice,
    pass: Pass,
    {
      page,
      terms,
    }: {
      readonly page: readonly { readonly id: ProfileId; readonly state: Uint8Array }[];
      readonly terms: SweepTerms;
    },
  ): Promise<number> {
    const going: ProfileId[] = [];
    for (const { id, state } of page) {
      const profile = decoded(id, state);
      if (profile !== undefined && this.#goes(pass, profile, terms)) going.push(id);
      if (profile !== undefined) this.#note(pass, profile, { state, terms });
    }
    await slice.load(going);
    let gone = 0;
    for (const id of going) {
      if (slice.told >= MAX_TOLD) {
        // The next slice goes on here.
        pass.at = id - 1;
        return gone;
      }
      // An event of this slice may have changed it.
      const profile = slice.state(id);
      if (profile !== undefined && this.#goes(pass, profile, terms) && slice.letGo(profile)) gone++;
    }
    pass.at = page.at(-1)?.id ?? pass.at;
    return gone;
  }

  #goes(pass: Pass, profile: ProfileState, { retention }: SweepTerms): boolean {
    if (pass.kind === 'time') return isPast(profile, retention, this.#dependencies.clock);
    if (pass.kind === 'measure') return false;
    const rank = rankOf(profile, retention);
    return rank !== undefined && compareRanks(rank, pass.last) <= 0;
  }

  #note(
    pass: Pass,
    profile: ProfileState,
    { state, terms }: { readonly state: Uint8Array; readonly terms: SweepTerms },
  ): void {
    const { retention } = terms;
    const { advised } = retention;
    if (pass.kind === 'time' && advised !== undefined && isPast(profile, advised, this.#dependencies.clock))
      pass.advised++;
    if (pass.kind !== 'measure') return;
    const bytes = bytesOf(profile, state);
    pass.bytes += bytes;
    const rank = rankOf(profile, retention);
    if (rank !== undefined) pass.ranks.add(rank, bytes);
  }

  async #end(pass: Pass, retention: ProfileRetention): Promise<void> {
    const { store, logger } = this.#dependencies;
    this.#pass = undefined;
    if (pass.kind === 'measure') {
      // More may have come meanwhile.
      const share = excessShare(await store.usedBytes(), retention.bytes ?? Number.POSITIVE_INFINITY);
      const last = pass.ranks.lastRankFor(pass.bytes * share);
      if (share > 0 && last !== undefined) this.#pass = { kind: 'room', at: 0, last };
      else this.#pauseAfter(pass.beganAt);
      if (share > 0 && last === undefined)
        logger.warn({ allowedBytes: retention.bytes, hint: NO_ROOM_HINT }, 'profiles.no_room');
      return;
    }
    if (this.#passed > 0) {
      const reason = pass.kind === 'time' ? 'retention' : 'space';
      logger.info({ profiles: this.#passed, reason }, 'profiles.forgotten');
      this.#passed = 0;
      this.#givesBack = true;
    }
    if (pass.kind !== 'time' || pass.advised === 0 || this.#hasAdvised) return;
    this.#hasAdvised = true;
    logger.warn(
      { profiles: pass.advised, setting: 'retention.profiles', hint: ADVICE },
      'profiles.unbounded',
    );
  }

  async #isOutboxFull(slice: Slice): Promise<boolean> {
    const [oldest] = await this.#dependencies.store.outbox(0, 1);
    return oldest !== undefined && slice.cursor.nextOutbox - oldest.sequence > MAX_UNSENT;
  }

  #count({ kind }: Pass, n: number): void {
    const reason = kind === 'time' ? 'retention' : 'space';
    this.#slice = { ...this.#slice, [reason]: this.#slice[reason] + n };
    this.#passed += n;
  }
}

const NO_ROOM_HINT =
  'profiles take more than half of limits.disk, and server sources have sent events of all that are left: raise it, or set ' +
  'retention.profiles.known';
const ADVICE =
  'these profiles without a userId had no event for 90 days, and a new installation would let them go: set ' +
  'retention.profiles.anonymous to 90d, or to off to keep them';

/** Decodes a state. Undefined when it cannot be read: a slice that needs it reports that. */
function decoded(id: ProfileId, state: Uint8Array): ProfileState | undefined {
  try {
    return decodeProfile(id, state);
  } catch {
    return undefined;
  }
}
