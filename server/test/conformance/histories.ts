import fc from 'fast-check';
import type { Monotonic } from '../../src/model/time.ts';
import { HOUR } from '../../src/model/time.ts';
import type { Batch } from '../../src/ports/event-log.ts';
import { batch, event, owed, skipped } from './batches.ts';
import { START } from './harness.ts';

/**
 * Every step of a history happens at the start of a slot, and retries are due a millisecond after one. A
 * sixteenth of a history is shorter than a slot: an adapter that rounds due times up, by any clock, still
 * hands out deliveries in the same slots as one that does not.
 */
export const SLOT = 3 * HOUR;
const LAST_SLOT = 12;
/** Later than anything in a history is due. */
export const END: Monotonic = START + 16 * SLOT;

export const DESTINATIONS = [1, 2, 3] as const;

/** The part that a destination has in an event. */
type Fate = 'held' | 'parked' | 'skipped' | 'unplanned';

export type Way =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'dead'; readonly reason: string }
  | { readonly kind: 'dropped'; readonly note: string }
  | { readonly kind: 'retry'; readonly slots: number; readonly endpoints: number }
  | { readonly kind: 'hand back'; readonly slots: number };

export type Step =
  | {
      readonly kind: 'append';
      readonly events: readonly {
        readonly source: number;
        readonly n: number;
        readonly fates: readonly Fate[];
      }[];
      readonly discarded: number;
    }
  | { readonly kind: 'append again' }
  | { readonly kind: 'claim'; readonly destination: number }
  /** `nth`: index into the held deliveries, modulo their number; `twice` sends the same results once more. */
  | {
      readonly kind: 'settle';
      readonly results: readonly { readonly nth: number; readonly way: Way }[];
      readonly twice: boolean;
    }
  | { readonly kind: 'find'; readonly what: 'user' | 'messageId' | 'slot'; readonly nth: number }
  | { readonly kind: 'revive'; readonly destination: number; readonly reason: string | undefined }
  /** Replays the events that arrived in a slot to a destination. */
  | { readonly kind: 'owe'; readonly destination: number; readonly nth: number }
  | { readonly kind: 'erase'; readonly user: string }
  /** Upkeep that deletes nothing and must have no visible effect. */
  | { readonly kind: 'upkeep' }
  | { readonly kind: 'pass'; readonly slots: number }
  | { readonly kind: 'restart' };

/** A step at its time, with all it needs spelled out. */
export interface Moment {
  readonly now: Monotonic;
  readonly step: Step;
  /** The batch that is appended, or appended again. */
  readonly batch?: Batch;
}

const fate = fc.constantFrom<Fate>('held', 'parked', 'skipped', 'unplanned');

const append: fc.Arbitrary<Step> = fc.record({
  kind: fc.constant('append' as const),
  events: fc.array(
    // Few names, so that duplicates are common.
    fc.record({
      source: fc.constantFrom(1, 2),
      n: fc.nat(11),
      fates: fc.tuple(fate, fate, fate),
    }),
    { maxLength: 8, size: 'max' },
  ),
  discarded: fc.nat(2),
});

/** Retries lead, so that some deliveries see several rounds. */
const way: fc.Arbitrary<Way> = fc.oneof(
  { weight: 1, arbitrary: fc.constant({ kind: 'delivered' as const }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('dead' as const),
      reason: fc.constantFrom('status_400', 'retry_window_over'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('dropped' as const),
      note: fc.constantFrom('no form for it', 'a \0 note'),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('retry' as const),
      slots: fc.constantFrom(0, 0, 0, 1, 2),
      endpoints: fc.nat(31),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('hand back' as const), slots: fc.constantFrom(0, 0, 1) }),
  },
);

const settle: fc.Arbitrary<Step> = fc.record({
  kind: fc.constant('settle' as const),
  results: fc.array(fc.record({ nth: fc.nat(40), way }), { maxLength: 12, size: 'max' }),
  twice: fc.boolean(),
});

/** Names and users by number: four names belong to each user. */
export const nameOf = (n: number) => `m${n % 12}`;
export const userOf = (n: number) => `u${n % 3}`;

const search: fc.Arbitrary<Step> = fc.record({
  kind: fc.constant('find' as const),
  what: fc.constantFrom('user' as const, 'messageId' as const, 'slot' as const),
  nth: fc.nat(11),
});

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: append },
  { weight: 1, arbitrary: fc.constant<Step>({ kind: 'append again' }) },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('claim' as const),
      destination: fc.constantFrom(...DESTINATIONS),
    }),
  },
  { weight: 6, arbitrary: settle },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('pass' as const), slots: fc.constantFrom(1, 1, 1, 1, 1, 8) }),
  },
  { weight: 2, arbitrary: search },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('revive' as const),
      destination: fc.constantFrom(...DESTINATIONS),
      reason: fc.constantFrom(undefined, undefined, 'status_400'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('owe' as const),
      destination: fc.constantFrom(...DESTINATIONS),
      nth: fc.nat(3),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('erase' as const), user: fc.nat(2).map(userOf) }) },
  { weight: 1, arbitrary: fc.constant<Step>({ kind: 'upkeep' }) },
  { weight: 2, arbitrary: fc.constant<Step>({ kind: 'restart' }) },
);

export const histories: fc.Arbitrary<Step[]> = fc.array(step, { minLength: 1, maxLength: 50, size: 'max' });

/** The steps as they happen, one after the other. */
export function momentsOf(steps: readonly Step[]): Moment[] {
  let slot = 0;
  let last: Batch | undefined;
  return steps.map((each, n) => {
    if (each.kind === 'pass') slot = Math.min(slot + each.slots, LAST_SLOT);
    const now = START + slot * SLOT;
    if (each.kind === 'append') last = batchOf(each, `batch ${n}`, now);
    const isAppend = each.kind === 'append' || each.kind === 'append again';
    return { now, step: each, ...(isAppend && last !== undefined ? { batch: last } : {}) };
  });
}

function batchOf(step: Extract<Step, { kind: 'append' }>, id: string, receivedAt: Monotonic): Batch {
  const arrival = { receivedAt: new Date(receivedAt).toISOString() };
  const of = step.events.map(({ n, source }) => event(nameOf(n), source, { ...arrival, userId: userOf(n) }));
  const withFate = (place: number, wanted: Fate) =>
    step.events.flatMap(({ fates }, index) => (fates[place] === wanted ? [index] : []));
  const { received, ...rest } = batch(of, {
    id,
    receivedAt,
    owed: DESTINATIONS.flatMap((destination, place) => [
      owed(destination, 'held', withFate(place, 'held')),
      owed(destination, 'parked', withFate(place, 'parked')),
    ]),
    skipped: DESTINATIONS.map((destination, place) =>
      skipped(destination, 'filtered', withFate(place, 'skipped')),
    ),
  });
  const refused = { source: 1, calls: step.discarded, discarded: { invalid_event: step.discarded } };
  return { ...rest, received: [...received, refused] };
}
