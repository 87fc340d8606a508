import { type Destination, everyLaneOf } from '../model/destination.ts';
import type { Replay, ReplayPreview, ReplayWish } from '../model/replay.ts';
import { type Duration, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeadLetters, DeadPage, DeadQuery } from '../ports/dead-letters.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import type { Wanted } from './walk.ts';
import type { WantedBy } from './wanted.ts';

/** Dead letters whose events are read at once. */
const READ = 500;

/** Somebody waits for the preview: what was not looked at by then is estimated. */
const PATIENCE: Duration = SECOND;

export interface RevivalTools {
  readonly log: Pick<EventLog, 'read'>;
  readonly deadLetters: Pick<DeadLetters, 'list' | 'count' | 'revive'>;
  readonly settings: { now(): SettingsSnapshot };
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly wantedBy: WantedBy;
}

/**
 * Dead letters of one destination, slice by slice. What was revived is no longer dead, and what dies again has died since the
 * redelivery was made: so after a crash it begins anew and finds what is left, each letter once.
 */
export class Revival {
  readonly #replay: Replay;
  readonly #tools: RevivalTools;
  #from: string | undefined;

  constructor(replay: Replay, tools: RevivalTools) {
    this.#replay = replay;
    this.#tools = tools;
  }

  async next(destination: Destination): Promise<{ readonly count: number; readonly isLast: boolean }> {
    const { deadLetters, clock } = this.#tools;
    const query = queryOf(this.#replay, destination);
    const now = clock.monotonic();
    const slice = { now, before: this.#replay.redelivers?.before ?? now, origin: this.#replay.id };
    if (isAnyEvent(this.#replay)) {
      const { count, next } = await deadLetters.revive({ ...slice, query, ...fromOf(this.#from) });
      this.#from = next;
      return { count, isLast: next === undefined };
    }
    const page = await deadLetters.list(query, READ, this.#from);
    const only = await lettersOf(page, this.#replay, this.#tools);
    let count = 0;
    for (let from = this.#from; only.length > 0; ) {
      const revived = await deadLetters.revive({ ...slice, query: { ...query, only }, ...fromOf(from) });
      count += revived.count;
      from = revived.next;
      if (from === undefined || count >= only.length) break;
    }
    this.#from = page.next;
    return { count, isLast: page.next === undefined };
  }
}

/** How many there are, in the time that somebody waits; where their events must be read, a part and an estimate of the rest. */
export async function revivalPreview(
  wish: ReplayWish,
  destination: Destination,
  tools: RevivalTools,
): Promise<ReplayPreview> {
  const { clock, deadLetters } = tools;
  const query = queryOf(wish, destination);
  const whole = await countOf(query, deadLetters);
  if (isAnyEvent(wish)) return { count: whole, bytes: 0, isExact: true };
  const end = clock.monotonic() + PATIENCE;
  let [looked, count] = [0, 0];
  let from: string | undefined;
  do {
    const page = await deadLetters.list(query, READ, from);
    looked += page.letters.length;
    count += (await lettersOf(page, wish, tools)).length;
    from = page.next;
    if (from !== undefined && clock.monotonic() >= end) {
      const rest = Math.round((Math.max(0, whole - looked) * count) / Math.max(1, looked));
      return { count: count + rest, bytes: 0, isExact: false };
    }
  } while (from !== undefined);
  return { count, bytes: 0, isExact: true };
}

function queryOf({ redelivers, from, to }: ReplayWish, destination: Destination): DeadQuery {
  const reason = redelivers?.reason;
  return { destinations: everyLaneOf(destination), from, to, ...(reason === undefined ? {} : { reason }) };
}

function isAnyEvent({ source, types }: ReplayWish): boolean {
  return source === undefined && types === undefined;
}

function fromOf(from: string | undefined): { readonly from?: string } {
  return from === undefined ? {} : { from };
}

/** Those whose events are wanted. Of an event that is gone nothing can be said, so it is not. */
async function lettersOf({ letters }: DeadPage, wish: ReplayWish, { log, settings, wantedBy }: RevivalTools) {
  const isWanted: Wanted = wantedBy(wish, settings.now());
  const events = await log.read(letters.map(({ position }) => position));
  return letters.filter((_, nth) => events[nth] !== undefined && isWanted(events[nth]));
}

async function countOf(query: DeadQuery, deadLetters: Pick<DeadLetters, 'count'>): Promise<number> {
  let count = 0;
  let from: string | undefined;
  do {
    const slice = await deadLetters.count(query, from);
    count += slice.count;
    from = slice.next;
  } while (from !== undefined);
  return count;
}
