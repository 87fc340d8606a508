import { MINUTE, type Time } from '../model/time.ts';
import type { ProfileId, ProfileStore } from '../ports/profile-store.ts';
import type { TraitEngine } from './computation/trait-engine.ts';
import type { Slice, SoonChange } from './slice.ts';

/** Most timers of the next minute that are read ahead. */
const LOOK_AHEAD = 10_000;

/**
 * Most changes of the next minute that are known by the millisecond. Further ones are noticed up to a minute
 * late.
 */
const SOON = 100_000;

/**
 * Finds changes of the next minute to the millisecond. The store keeps timers by the minute, the profiles
 * know the exact times.
 */
export class SoonChanges {
  readonly #changes = new Map<ProfileId, Time>();
  #next = Number.POSITIVE_INFINITY;
  /** Timers of the store up to this minute were read. */
  #readTo = 0;

  /** The earliest of them; +Infinity when there is none. */
  get next(): Time {
    return this.#next;
  }

  expect(changes: readonly SoonChange[]): void {
    for (const { at, profile } of changes) {
      if (this.#changes.size >= SOON && !this.#changes.has(profile)) continue;
      this.#changes.set(profile, at);
      if (at < this.#next) this.#next = at;
    }
  }

  /** Takes profiles whose values may have changed by now, at most `max`. */
  take(now: Time, max: number): ProfileId[] {
    if (this.#next > now) return [];
    const due: ProfileId[] = [];
    this.#next = Number.POSITIVE_INFINITY;
    for (const [profile, at] of this.#changes) {
      if (at <= now && due.length < max) due.push(profile);
      else if (at < this.#next) this.#next = at;
    }
    for (const profile of due) this.#changes.delete(profile);
    return due;
  }

  /** Once a minute, reads the timers of the next one. */
  async lookAhead(
    slice: Slice,
    { store, engine }: { readonly store: ProfileStore; readonly engine: TraitEngine },
  ): Promise<void> {
    const minute = Math.floor(slice.now / MINUTE) + 1;
    if (this.#readTo === minute) return;
    const timers = await store.due(minute * MINUTE, LOOK_AHEAD);
    const coming = timers.filter((timer) => timer.minute * MINUTE > slice.now);
    await slice.load(coming.map(({ profile }) => profile));
    // The minute may be under way, and something may have changed since it began.
    const before = (minute - 1) * MINUTE - 1;
    const changes: SoonChange[] = [];
    for (const { profile } of coming) {
      const state = slice.state(profile);
      const at = state && engine.nextChange(state, before);
      if (at !== undefined && at <= minute * MINUTE) changes.push({ at, profile });
    }
    this.expect(changes);
    this.#readTo = minute;
  }
}
