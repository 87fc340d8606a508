import { RecentPairs } from '../../model/containers.ts';
import { type Duration, MINUTE, SECOND, type Time } from '../../model/time.ts';
import type { ProfileId } from '../../ports/profile-store.ts';

/**
 * A change waits this long for other changes of the same user and computation: at most one event a second.
 */
const SHORTEST: Duration = SECOND;

/**
 * A value that keeps changing is sent less and less often: from the fourth event within a minute each waits
 * twice as long as the one before, up to a minute, until nothing was sent for five minutes. Otherwise a
 * handful of calls could cause thousands of requests.
 */
const FREE_EVENTS = 3;
const WINDOW: Duration = MINUTE;
const LONGEST: Duration = MINUTE;
const QUIET: Duration = 5 * MINUTE;

/** Most values that are watched for that. Beyond it those are dropped that were sent longest ago. */
const WATCHED = 100_000;

/** Most profiles with a change that waits. Further changes are sent at once. */
export const MAX_WAITING = 100_000;

/** Recent events of a value. */
interface Watched {
  /** Times of its last events, the newest last; at most three. */
  readonly at: Time[];
  /** Time that its next change waits. */
  wait: Duration;
}

/**
 * Keeps the changes that wait, by profile and computation. In memory only: after a crash a change waits once
 * more, and counting of events begins anew.
 */
export class Throttle {
  readonly #waiting = new Map<ProfileId, Map<number, Time>>();
  /** Waits by their length: within each queue they end in the order of their beginning. */
  readonly #queues = new Map<Duration, EndQueue>();
  /** By computation and profile. */
  readonly #watched = new RecentPairs<number, ProfileId, Watched>(WATCHED);

  /** Profiles with a change that waits, the longest first. */
  get profiles(): Iterable<ProfileId> {
    return this.#waiting.keys();
  }

  has(profile: ProfileId): boolean {
    return this.#waiting.has(profile);
  }

  /** True when a change has to wait. It begins to wait when it is new. */
  isWaiting(profile: ProfileId, computation: number, now: Time): boolean {
    const waiting = this.#waiting.get(profile);
    const due = waiting?.get(computation);
    // A wall clock that was set back would hold it for as long.
    if (due !== undefined && (due <= now || due > now + LONGEST)) return false;
    if (due !== undefined) return true;
    if (waiting === undefined && this.#waiting.size >= MAX_WAITING) return false;
    const wait = waitAfter(this.#watched.get(computation, profile), now);
    if (waiting === undefined) this.#waiting.set(profile, new Map([[computation, now + wait]]));
    else waiting.set(computation, now + wait);
    this.#queueOf(wait).push(profile, now + wait);
    return true;
  }

  /** Notes that a change was sent. */
  told(profile: ProfileId, computation: number, now: Time): void {
    const known = this.#watched.get(computation, profile);
    const watched = known ?? { at: [], wait: SHORTEST };
    const { at } = watched;
    const wait = waitAfter(known, now);
    at.push(now);
    if (at.length > FREE_EVENTS) at.shift();
    const isOften = at.length === FREE_EVENTS && now - at[0]! < WINDOW;
    watched.wait = isOften || wait > SHORTEST ? Math.min(LONGEST, wait * 2) : SHORTEST;
    this.#watched.set(computation, profile, watched);
  }

  /** Ends the wait of the changes of a profile for which `isOpen` is false. */
  keepOnly(profile: ProfileId, isOpen: (computation: number) => boolean): void {
    const waiting = this.#waiting.get(profile);
    if (waiting === undefined) return;
    for (const computation of waiting.keys()) if (!isOpen(computation)) waiting.delete(computation);
    if (waiting.size === 0) this.#waiting.delete(profile);
  }

  /** Profiles with a change that is due now. Each is named once. */
  due(now: Time): ProfileId[] {
    const profiles = new Set<ProfileId>();
    for (const queue of this.#queues.values())
      for (const profile of queue.takeDue(now)) if (this.#waiting.has(profile)) profiles.add(profile);
    return [...profiles];
  }

  /** Time at which `due` will name a profile; undefined when no change waits. */
  nextDue(): Time | undefined {
    let next: Time | undefined;
    for (const { due } of this.#queues.values())
      if (due !== undefined && (next === undefined || due < next)) next = due;
    return next;
  }

  /** Time at which the last waiting change of a profile is sent; undefined when none waits. */
  waitsUntil(profile: ProfileId): Time | undefined {
    const waiting = this.#waiting.get(profile);
    return waiting === undefined || waiting.size === 0 ? undefined : Math.max(...waiting.values());
  }

  /** Makes `due` name a profile at once. */
  lookAt(profile: ProfileId): void {
    if (this.#waiting.has(profile)) return;
    this.#waiting.set(profile, new Map());
    this.#queueOf(0).push(profile, Number.NEGATIVE_INFINITY);
  }

  forget(profile: ProfileId): void {
    this.#waiting.delete(profile);
  }

  #queueOf(wait: Duration): EndQueue {
    const queue = this.#queues.get(wait) ?? new EndQueue();
    this.#queues.set(wait, queue);
    return queue;
  }
}

/** Time that the next change of a value waits. */
function waitAfter(watched: Watched | undefined, now: Time): Duration {
  if (watched === undefined) return SHORTEST;
  return now - watched.at.at(-1)! < QUIET ? watched.wait : SHORTEST;
}

/** Profiles in the order in which a change of theirs is due. */
class EndQueue {
  #entries: { readonly profile: ProfileId; readonly due: Time }[] = [];
  #head = 0;

  /** Time at which the first one is due; undefined when there is none. */
  get due(): Time | undefined {
    return this.#entries[this.#head]?.due;
  }

  push(profile: ProfileId, due: Time): void {
    this.#entries.push({ profile, due });
  }

  takeDue(now: Time): ProfileId[] {
    const first = this.#head;
    while (this.#head < this.#entries.length && this.#entries[this.#head]!.due <= now) this.#head++;
    const taken = this.#entries.slice(first, this.#head).map(({ profile }) => profile);
    if (this.#head > 1024 && this.#head * 2 > this.#entries.length) {
      this.#entries = this.#entries.slice(this.#head);
      this.#head = 0;
    }
    return taken;
  }
}
