import type { AlertChange, AlertMemory, AlertRecord, TroubleKey } from '../model/alert.ts';
import { defined } from '../model/json.ts';
import { type Duration, MINUTE, type Monotonic, type Time } from '../model/time.ts';

/**
 * The pause between two messages of one alert. What changes meanwhile comes in one message, or in none if it
 * changes back.
 */
const MESSAGE_PAUSE: Duration = MINUTE;

/** Something that is not as it should be. */
export interface Trouble extends TroubleKey {
  readonly since: Time;
  /** One sentence without its full stop. */
  readonly text: string;
  /** Advice, without its full stop. */
  readonly hint?: string;
}

/** Dead letters of a destination. */
export interface Deaths {
  readonly destination: string;
  readonly count: number;
  /** Advice about them, without a full stop. */
  readonly hint: string;
}

/** The state of the server at one moment. */
export interface Look {
  readonly at: Time;
  readonly now: Monotonic;
  readonly troubles: readonly Trouble[];
  readonly deaths: readonly Deaths[];
  /** The text about a trouble that is over, without a full stop. */
  readonly ending: (trouble: TroubleKey) => string;
}

/**
 * Since when each trouble has been there, or not been there any more. Kept in memory: after a restart it
 * begins anew.
 */
export class Steadiness {
  readonly #since = new Map<string, { readonly isThere: boolean; readonly since: Monotonic }>();

  /** `watched`: those that were told; the others are forgotten as soon as they are over. */
  note(troubles: readonly TroubleKey[], watched: readonly TroubleKey[], now: Monotonic): void {
    const there = new Set(troubles.map(keyOf));
    const all = new Set([...there, ...watched.map(keyOf)]);
    for (const key of this.#since.keys()) if (!all.has(key)) this.#since.delete(key);
    for (const key of all) {
      const isThere = there.has(key);
      if (this.#since.get(key)?.isThere !== isThere) this.#since.set(key, { isThere, since: now });
    }
  }

  /** How long it has been as it is now. */
  length(trouble: TroubleKey, now: Monotonic): Duration {
    return now - (this.#since.get(keyOf(trouble))?.since ?? now);
  }
}

/**
 * The changes that an alert tells after a look, and its memory then. The same memory comes back when nothing
 * is to be kept.
 */
export interface AlertDecision {
  readonly changes: readonly AlertChange[];
  readonly memory: AlertMemory;
}

/**
 * Decides what an alert has to say.
 *
 * ```
 *            lasts `after`: started                 is over for `after`: ended
 *   (none) ─────────────────────────▶ told ─────────────────────────────────────▶ (none)
 *                                     │  ▲
 *                                     └──┘ every `remindEvery`: continues
 * ```
 *
 * Dead letters are told at once, and those that follow once every `remindEvery` with their number.
 */
export function decideAlert(alert: AlertRecord, look: Look, steadiness: Steadiness): AlertDecision {
  const { memory } = alert;
  const deaths = look.deaths.filter(({ destination }) => isWanted(alert, 'deliveries_dying', destination));
  // Dead letters from before the first look are no news.
  if (memory === undefined) {
    const dead = look.deaths.map(({ destination, count }) => ({ destination, count }));
    return { changes: [], memory: { told: [], dead, deathsToldAt: [] } };
  }
  const wanted = look.troubles.filter(({ condition, destination }) =>
    isWanted(alert, condition, destination),
  );
  const steady = { ...look, troubles: wanted, deaths };
  const current = { ...memory, dead: lowered(memory.dead, look.deaths) };
  const isPausing = memory.lastMessageAt !== undefined && look.now - memory.lastMessageAt < MESSAGE_PAUSE;
  if (isPausing || memory.outgoing !== undefined) return { changes: [], memory: sameOr(memory, current) };
  const troubles = troubleChanges(alert, current, steady, steadiness);
  const died = deathChanges(alert, current, steady);
  const changes = [...troubles.changes, ...died.changes];
  if (changes.length > 0)
    return { changes, memory: { ...current, ...troubles.memory, ...died.memory, lastMessageAt: look.now } };
  return { changes, memory: sameOr(memory, { ...current, ...troubles.memory }) };
}

/** A redelivery makes the number of dead letters smaller; later ones count from there. */
function lowered(dead: AlertMemory['dead'], deaths: readonly Deaths[]): AlertMemory['dead'] {
  const counts = new Map(deaths.map(({ destination, count }) => [destination, count]));
  return dead.flatMap(({ destination, count }) => {
    const now = counts.get(destination);
    return now === undefined ? [] : [{ destination, count: Math.min(count, now) }];
  });
}

function sameOr(before: AlertMemory, after: AlertMemory): AlertMemory {
  return JSON.stringify(before) === JSON.stringify(after) ? before : after;
}

type PartDecision<Key extends keyof AlertMemory> = {
  readonly changes: readonly AlertChange[];
  readonly memory: Pick<AlertMemory, Key>;
};

function troubleChanges(
  alert: AlertRecord,
  memory: AlertMemory,
  { now, at, troubles, ending }: Look,
  steadiness: Steadiness,
): PartDecision<'told'> {
  const isSteady = (trouble: TroubleKey) => steadiness.length(trouble, now) >= alert.after;
  const there = new Map(troubles.map((trouble) => [keyOf(trouble), trouble]));
  const known = new Set(memory.told.map(keyOf));
  const changes: AlertChange[] = [];
  const told: AlertMemory['told'][number][] = [];
  for (const before of memory.told) {
    const { condition, destination, since } = before;
    // An operator no longer wants to hear of it, and has not to be told that it is over.
    if (!isWanted(alert, condition, destination)) continue;
    const trouble = there.get(keyOf(before));
    const key = { condition, ...defined({ destination }) };
    if (trouble === undefined && isSteady(before)) {
      changes.push({ ...key, change: 'ended', since, text: ending(before) });
    } else if (trouble !== undefined && now - before.toldAt >= alert.remindEvery) {
      changes.push({ ...trouble, since, change: 'continues' });
      told.push({ ...before, toldAt: now });
    } else told.push(before);
  }
  for (const trouble of troubles) {
    if (known.has(keyOf(trouble)) || !isSteady(trouble)) continue;
    const { condition, destination, since } = trouble;
    changes.push({ ...trouble, change: 'started' });
    told.push({
      condition,
      ...defined({ destination }),
      since: Math.min(since, at),
      toldAt: now,
    });
  }
  return { changes, memory: { told } };
}

function deathChanges(
  alert: AlertRecord,
  memory: AlertMemory,
  { now, at, deaths }: Look,
): PartDecision<'dead' | 'deathsToldAt'> {
  const known = new Map(memory.dead.map(({ destination, count }) => [destination, count]));
  const toldAt = new Map(memory.deathsToldAt.map((one) => [one.destination, one.at]));
  const changes: AlertChange[] = [];
  for (const { destination, count, hint } of deaths) {
    const more = count - (known.get(destination) ?? 0);
    const last = toldAt.get(destination);
    if (more <= 0 || (last !== undefined && now - last < alert.remindEvery)) continue;
    const text = `${more} ${more === 1 ? 'delivery' : 'deliveries'} to ${destination} died: ${count} dead now`;
    changes.push({
      condition: 'deliveries_dying',
      destination,
      change: 'happened',
      since: at,
      count: more,
      text,
      hint,
    });
    known.set(destination, count);
    toldAt.set(destination, now);
  }
  return {
    changes,
    memory: {
      dead: Array.from(known, ([destination, count]) => ({ destination, count })),
      deathsToldAt: Array.from(toldAt, ([destination, at]) => ({ destination, at })).filter(
        (one) => now - one.at < alert.remindEvery,
      ),
    },
  };
}

function isWanted(
  { on, destinations }: AlertRecord,
  condition: TroubleKey['condition'],
  destination: string | undefined,
): boolean {
  if (!on.includes(condition)) return false;
  return destination === undefined || destinations === undefined || destinations.includes(destination);
}

function keyOf({ condition, destination }: TroubleKey): string {
  return JSON.stringify([condition, destination]);
}
