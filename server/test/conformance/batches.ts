import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import type { Event, Position } from '../../src/model/event.ts';
import type { JsonObject } from '../../src/model/json.ts';
import { destinationOfLane } from '../../src/model/lane.ts';
import { type EventPlan, groupByPlan } from '../../src/model/plan.ts';
import type { AppendResult, Batch, CallCounts, NewEvent, OwedEvents } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import { START } from './harness.ts';

/** The source of events when a test does not care. */
export const SITE = 1;
/** Destinations when a test does not care which. */
export const CRM = 1;
export const WAREHOUSE = 2;

/** A canonical event with this messageId, by default of the user `u1`; `fields` are added to it. */
export function event(messageId: string, source = SITE, fields: JsonObject = {}): NewEvent {
  const receivedAt = new Date(START).toISOString();
  // In the order of every event: an adapter may look for the ids where they stand.
  const canonical: Event = {
    messageId,
    type: 'track',
    channel: 'server',
    ...pick({ userId: 'u1', ...fields }, ['userId', 'anonymousId', 'previousId']),
    event: 'Order Placed',
    properties: { total: 9.5 },
    context: {},
    integrations: {},
    timestamp: receivedAt,
    receivedAt,
    ...fields,
  };
  const { userId } = canonical;
  return { source, messageId, ...(userId === undefined ? {} : { userId }), json: JSON.stringify(canonical) };
}

function pick(fields: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(names.filter((name) => name in fields).map((name) => [name, fields[name]!]));
}

/** Events `<prefix>0`, `<prefix>1`, … */
export function events(count: number, prefix = 'm', source = SITE): NewEvent[] {
  return Array.from({ length: count }, (_, index) => event(`${prefix}${index}`, source));
}

/** A batch of these events, received at `START` and owed to no destination unless `parts` says otherwise. */
export function batch(of: readonly NewEvent[], { skipped: skips = [], ...parts }: BatchParts = {}): Batch {
  return {
    id: randomUUID(),
    receivedAt: START,
    events: of,
    owed: [],
    ...plansOf(of.length, parts.owed ?? [], skips),
    received: callsOf(of),
    ...parts,
  };
}

/** Parts of a batch. Its plans follow from what is owed and skipped unless they are given. */
type BatchParts = Partial<Omit<Batch, 'events'>> & { readonly skipped?: readonly SkippedEvents[] };

/** Events of a batch that a destination of their source does not get, with the reason. */
interface SkippedEvents {
  readonly destination: number;
  readonly reason: string;
  readonly indexes: readonly number[];
}

/**
 * A plan for each event. The same skips are told in three ways by turns: alone, by a set, and by a set and
 * exceptions to it.
 */
function plansOf(
  count: number,
  owing: readonly OwedEvents[],
  skipping: readonly SkippedEvents[],
): Pick<Batch, 'plans' | 'planIndexes'> {
  const isOf = (index: number) => (one: OwedEvents | SkippedEvents) => one.indexes.includes(index);
  const eventPlans = firstIndexes(count).map((index): EventPlan => {
    const owes = owing.filter(isOf(index)).map(({ destination }) => ({ id: destination }));
    const skips = skipping.filter(isOf(index)).map(({ destination, reason }) => ({ destination, reason }));
    if (index % 3 === 0) return { owed: owes, skipped: skips };
    const skipSet = new Map(owes.map(({ id }) => [destinationOfLane(id), 'filtered']));
    for (const { destination, reason } of skips)
      skipSet.set(destination, index % 3 === 1 ? reason : `not_${reason}`);
    return { owed: owes, skipped: index % 3 === 1 ? [] : skips, skipSet };
  });
  const { plans, planIndexes } = groupByPlan(eventPlans);
  return { plans, planIndexes };
}

/** A batch that is owed whole to one destination. */
export function owedBatch(
  of: readonly NewEvent[],
  state: OwedEvents['state'],
  parts: BatchParts = {},
): Batch {
  return batch(of, { owed: [owed(CRM, state, of.length)], ...parts });
}

/** The events at these indexes, or the first so many of the batch. */
export function owed(
  destination: number,
  state: OwedEvents['state'],
  which: number | readonly number[],
): OwedEvents {
  return { destination, state, indexes: typeof which === 'number' ? firstIndexes(which) : which };
}

export function skipped(
  destination: number,
  reason: string,
  which: number | readonly number[],
): SkippedEvents {
  return { destination, reason, indexes: typeof which === 'number' ? firstIndexes(which) : which };
}

function firstIndexes(count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => index);
}

/** The parser's counts when every call becomes an event of the batch. */
function callsOf(of: readonly NewEvent[]): readonly CallCounts[] {
  const calls = new Map<number, number>();
  for (const { source } of of) calls.set(source, (calls.get(source) ?? 0) + 1);
  return [...calls].map(([source, count]) => ({ source, calls: count, discarded: {} }));
}

/** The positions of a batch none of whose events is a duplicate. */
export function positionsOf(answer: AppendResult): Position[] {
  return answer.positions.map((position) => {
    expect(position, 'position of an event that is no duplicate').toBeDefined();
    return position!;
  });
}

/** The same events with their lines, which stand in one buffer, one behind the other. */
export function written(of: readonly NewEvent[]): { readonly events: NewEvent[]; readonly bytes: Buffer } {
  const bytes = Buffer.from(of.map(({ json }) => `${json}\n`).join(''));
  let at = 0;
  const lined = of.map((one) => {
    const line = { bytes, from: at, to: at + Buffer.byteLength(one.json) };
    at = line.to + 1;
    return { ...one, line };
  });
  return { events: lined, bytes };
}

/** Indexes of the events of a batch that are duplicates. */
export function duplicatesOf(answer: AppendResult): number[] {
  return answer.positions.flatMap((position, index) => (position === undefined ? [index] : []));
}

/** The messageIds at these positions, in that order. */
export async function idsAt(store: Store, positions: readonly Position[]): Promise<(string | undefined)[]> {
  return (await store.log.read(positions)).map((stored) => stored?.event.messageId);
}

/** The counts of one source; zeros when the ledger does not know it. */
export async function countsOfSource(store: Store, source: number) {
  const { sources } = await store.queue.ledger();
  return sources.get(source) ?? { received: 0, accepted: 0, duplicates: 0, discarded: {} };
}

/** The counts of one destination; zeros when the ledger does not know it. */
export async function countsOfDestination(store: Store, destination: number) {
  const { destinations } = await store.queue.ledger();
  const none = { owed: 0, delivered: 0, pending: 0, dead: {}, dropped: {}, erased: 0, skipped: {} };
  return destinations.get(destination) ?? none;
}
