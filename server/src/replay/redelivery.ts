import { type Destination, everyLaneIdOf } from '../model/destination.ts';
import type { Replay, ReplayPreview, ReplayRequest } from '../model/replay.ts';
import { type Duration, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeadLetterPage, DeadLetterQuery, DeadLetterQueue } from '../ports/delivery-queue.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { ReplayFilter } from './cursor.ts';
import type { ReplayFilterFor } from './selection.ts';

/** Dead letters whose events are read at once. */
const LETTERS_AT_ONCE = 500;

/** Somebody waits for the preview: what was not looked at by then is estimated. */
const PREVIEW_TIME_LIMIT: Duration = SECOND;

export interface RedeliveryDependencies {
  readonly log: Pick<EventLog, 'read'>;
  readonly deadLetters: Pick<DeadLetterQueue, 'list' | 'count' | 'redeliver'>;
  readonly settings: { now(): SettingsSnapshot };
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly wantedBy: ReplayFilterFor;
}

/**
 * Dead letters of one destination, slice by slice. What was revived is no longer dead, and what dies again has died since the
 * redelivery was made: so after a crash it begins anew and finds what is left, each letter once.
 */
export class DeadLetterRedelivery {
  readonly #replay: Replay;
  readonly #tools: RedeliveryDependencies;
  #from: string | undefined;

  constructor(replay: Replay, tools: RedeliveryDependencies) {
    this.#replay = replay;
    this.#tools = tools;
  }

  async next(destination: Destination): Promise<{ readonly count: number; readonly isLast: boolean }> {
    const { deadLetters, clock } = this.#tools;
    const query = deadLetterQuery(this.#replay, destination);
    const now = clock.monotonic();
    const slice = { now, before: this.#replay.redelivers?.before ?? now, origin: this.#replay.id };
    if (isAnyEvent(this.#replay)) {
      const { count, next } = await deadLetters.redeliver({ ...slice, query, ...fromOf(this.#from) });
      this.#from = next;
      return { count, isLast: next === undefined };
    }
    const page = await deadLetters.list(query, LETTERS_AT_ONCE, this.#from);
    const only = await selectLetters(page, this.#replay, this.#tools);
    let count = 0;
    for (let from = this.#from; only.length > 0; ) {
      const revived = await deadLetters.redeliver({ ...slice, query: { ...query, only }, ...fromOf(from) });
      count += revived.count;
      from = revived.next;
      if (from === undefined || count >= only.length) break;
    }
    this.#from = page.next;
    return { count, isLast: page.next === undefined };
  }
}

/** How many there are, in the time that somebody waits; where their events must be read, a part and an estimate of the rest. */
export async function redeliveryPreview(
  wish: ReplayRequest,
  destination: Destination,
  tools: RedeliveryDependencies,
): Promise<ReplayPreview> {
  const { clock, deadLetters } = tools;
  const query = deadLetterQuery(wish, destination);
  const whole = await countDeadLetters(query, deadLetters);
  if (isAnyEvent(wish)) return { count: whole, bytes: 0, isExact: true };
  const end = clock.monotonic() + PREVIEW_TIME_LIMIT;
  let [looked, count] = [0, 0];
  let from: string | undefined;
  do {
    const page = await deadLetters.list(query, LETTERS_AT_ONCE, from);
    looked += page.letters.length;
    count += (await selectLetters(page, wish, tools)).length;
    from = page.next;
    if (from !== undefined && clock.monotonic() >= end) {
      const rest = Math.round((Math.max(0, whole - looked) * count) / Math.max(1, looked));
      return { count: count + rest, bytes: 0, isExact: false };
    }
  } while (from !== undefined);
  return { count, bytes: 0, isExact: true };
}

function deadLetterQuery({ redelivers, from, to }: ReplayRequest, destination: Destination): DeadLetterQuery {
  const reason = redelivers?.reason;
  return { destinations: everyLaneIdOf(destination), from, to, ...(reason === undefined ? {} : { reason }) };
}

function isAnyEvent({ source, types }: ReplayRequest): boolean {
  return source === undefined && types === undefined;
}

function fromOf(from: string | undefined): { readonly from?: string } {
  return from === undefined ? {} : { from };
}

/** Those whose events are wanted. Of an event that is gone nothing can be said, so it is not. */
async function selectLetters(
  { letters }: DeadLetterPage,
  wish: ReplayRequest,
  { log, settings, wantedBy }: RedeliveryDependencies,
) {
  const isWanted: ReplayFilter = wantedBy(wish, settings.now());
  const events = await log.read(letters.map(({ position }) => position));
  return letters.filter((_, nth) => events[nth] !== undefined && isWanted(events[nth]));
}

async function countDeadLetters(
  query: DeadLetterQuery,
  deadLetters: Pick<DeadLetterQueue, 'count'>,
): Promise<number> {
  let count = 0;
  let from: string | undefined;
  do {
    const slice = await deadLetters.count(query, from);
    count += slice.count;
    from = slice.next;
  } while (from !== undefined);
  return count;
}
