import type { Destination } from '../model/destination.ts';
import type { Position } from '../model/event.ts';
import { defined } from '../model/json.ts';
import { destinationOfLane, everyLaneIdOf } from '../model/lane.ts';
import type { Replay, ReplayRequest } from '../model/replay.ts';
import type { Source } from '../model/settings.ts';
import type { Monotonic, OnWallClock } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import {
  type DeadLetterPage,
  type DeadLetterQuery,
  type DeliveryQueue,
  type EventHistory,
  isOwed,
} from '../ports/delivery-queue.ts';
import type { StoredEvent } from '../ports/event-log.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { DeadLetterView, HistoryView, LogView, ViewedSlice } from '../ports/store-view.ts';
import type { NamedDelivery, NamedRedelivery, NamedRedeliveryResult } from './contract.ts';
import type { ReplayFilterFactory, WithholdingFactory } from './selection.ts';
import { CURSOR_END } from './selection.ts';

/** Dead letters whose events are read at once. */
export const LETTERS_AT_ONCE = 500;

export interface RedeliveryDependencies {
  readonly log: Pick<LogView, 'read'>;
  readonly deadLetters: Pick<DeadLetterView, 'list' | 'count' | 'redeliver'>;
  readonly settings: { now(): SettingsSnapshot };
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly filterFor: ReplayFilterFactory;
  readonly withholding: WithholdingFactory;
}

/**
 * Redelivers the dead letters of one destination, or what it dropped, slice by slice. After a crash it begins
 * again and finds each letter once: a redelivered letter is pending, and one that was given up again was so
 * after the redelivery was made.
 */
export class DeadLetterRedelivery {
  readonly #replay: Replay;
  readonly #dependencies: RedeliveryDependencies;
  #from: string | undefined;

  constructor(replay: Replay, dependencies: RedeliveryDependencies) {
    this.#replay = replay;
    this.#dependencies = dependencies;
  }

  /** Redelivers the next slice. `count` may be 0 before the last one. */
  async next(destination: Destination): Promise<{ readonly count: number; readonly isLast: boolean }> {
    const { deadLetters, clock } = this.#dependencies;
    const query = deadLetterQuery(this.#replay, destination);
    const now = clock.monotonic();
    const slice = { now, before: this.#replay.redelivers?.before ?? now, origin: this.#replay.id };
    if (takesEveryEvent(this.#replay, destination, this.#dependencies)) {
      const { count, next } = await deadLetters.redeliver({ ...slice, query, ...fromOf(this.#from) });
      this.#from = next;
      return { count, isLast: next === undefined };
    }
    const page = await deadLetters.list(query, LETTERS_AT_ONCE, this.#from);
    const only = await selectLetters(page, this.#replay, this.#dependencies);
    let count = 0;
    for (let from = this.#from; only.length > 0; ) {
      const { count: redelivered, next } = await deadLetters.redeliver({
        ...slice,
        query: { ...query, only },
        ...fromOf(from),
      });
      count += redelivered;
      from = next;
      if (from === undefined || count >= only.length) break;
    }
    this.#from = page.next;
    return { count, isLast: page.next === undefined };
  }
}

export function deadLetterQuery(
  { redelivers, from, to }: ReplayRequest,
  destination: Destination,
): OnWallClock<DeadLetterQuery> {
  const { state, reason } = redelivers ?? {};
  return {
    ...{ destinations: everyLaneIdOf(destination), from, to },
    ...defined({ state: state === 'delivered' ? undefined : state, reason }),
  };
}

/** Whether the letters alone tell which of them are wanted, without their events. */
export function takesEveryEvent(
  { source, types }: ReplayRequest,
  destination: Destination,
  { withholding }: Pick<RedeliveryDependencies, 'withholding'>,
): boolean {
  return source === undefined && types === undefined && withholding(destination) === undefined;
}

function fromOf(from: string | undefined): { readonly from?: string } {
  return from === undefined ? {} : { from };
}

/** The letters whose events are wanted. A letter whose event is gone is not. */
export async function selectLetters(
  { letters }: OnWallClock<DeadLetterPage>,
  request: ReplayRequest,
  { log, settings, filterFor }: RedeliveryDependencies,
) {
  const isWanted = filterFor(request, settings.now());
  const events = await log.read(letters.map(({ position }) => position));
  return letters.filter((_, index) => events[index] !== undefined && isWanted(events[index]));
}

export async function countDeadLetters(
  query: OnWallClock<DeadLetterQuery>,
  deadLetters: Pick<DeadLetterView, 'count'>,
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

export interface NamedRedeliveryDependencies {
  readonly log: Pick<LogView, 'find' | 'read'>;
  readonly history: Pick<HistoryView, 'read'>;
  readonly deliveryQueue: Pick<DeliveryQueue, 'enqueue'>;
  readonly deadLetters: Pick<DeadLetterView, 'count' | 'redeliver'>;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly newId: () => string;
  /** Ids of the lanes of a destination as its settings are now (`laneIdsOf`). */
  readonly lanesOf: (destination: Destination) => readonly number[];
  readonly withholding: WithholdingFactory;
  /** A source by its id, also one that was removed. */
  readonly sourceOf: (id: number) => Source | undefined;
  /** Deliveries of a destination, or of one of its endpoints, are due on disk. */
  readonly parked: (destination: number, at: Monotonic) => void;
}

/**
 * Makes the few deliveries again that an operator has named. Dead and dropped ones are revived, delivered
 * events and events that were never owed to the destination are enqueued, pending deliveries are left alone.
 */
export async function redeliverNamed(
  request: NamedRedelivery,
  dependencies: NamedRedeliveryDependencies,
): Promise<NamedRedeliveryResult> {
  const { deliveryQueue, clock, deadLetters, newId, parked } = dependencies;
  const { givenUp, settled, pending, withheld, missing } = await classifyAll(request, dependencies);
  const now = clock.monotonic();
  const query = namedDeadLetters(request, givenUp);
  const letters = givenUp.length === 0 ? 0 : await countDeadLetters(query, deadLetters);
  const found = letters + settled.length;
  if (request.dryRun || found === 0) return { count: found, pending, withheld, missing };
  const id = newId();
  const redelivered = letters === 0 ? 0 : await redeliverAll({ query, now, origin: id }, deadLetters);
  if (settled.length > 0) {
    await deliveryQueue.enqueue({
      origin: id,
      ...positionsByDestination(settled),
      from: 0,
      to: CURSOR_END,
      now,
    });
  }
  for (const endpoint of everyLaneIdOf(request.destination)) parked(endpoint, now);
  return { id, count: redelivered + settled.length, pending, withheld, missing };
}

/** The named deliveries by their state. */
interface ClassifiedDeliveries {
  readonly givenUp: DeliveryKey[];
  /** Delivered, or never owed to the destination. */
  readonly settled: DeliveryKey[];
  pending: number;
  withheld: number;
  readonly missing: string[];
}

type DeliveryKey = Omit<NamedDelivery, 'id'>;

async function classifyAll(
  request: NamedRedelivery,
  {
    log,
    history,
    lanesOf,
    withholding,
    sourceOf,
  }: Omit<NamedRedeliveryDependencies, 'deliveryQueue' | 'deadLetters' | 'clock' | 'newId' | 'parked'>,
): Promise<ClassifiedDeliveries> {
  const classified: ClassifiedDeliveries = { givenUp: [], settled: [], pending: 0, withheld: 0, missing: [] };
  const isWithheld = withholding(request.destination);
  const byPosition = await namesByPosition(request, log, classified.missing);
  const positions = [...byPosition.keys()];
  const [events, histories] = await Promise.all([log.read(positions), history.read(positions)]);
  for (const [index, position] of positions.entries()) {
    const [stored, eventHistory] = [events[index], histories[index]];
    const { destinations, names } = byPosition.get(position)!;
    if (stored === undefined || eventHistory === undefined) classified.missing.push(...names);
    else if (isOfSourceAndType(stored, request)) {
      const all =
        destinations.size > 0
          ? destinations
          : new Set(owedTo(eventHistory, request.destination.id, () => lanesOf(request.destination)));
      if (isWithheld?.(stored.event, sourceOf(stored.source)) === true) classified.withheld += all.size;
      else
        for (const destination of all)
          classify({ destination, position }, { request, stored, eventHistory }, classified);
    }
  }
  return classified;
}

/**
 * The positions that a request names, each with the ids that named it. No destination stands for all
 * endpoints.
 */
async function namesByPosition(
  { ids, messageIds }: NamedRedelivery,
  log: Pick<LogView, 'find'>,
  missing: string[],
) {
  const byPosition = new Map<Position, { destinations: Set<number>; names: string[] }>();
  const at = (position: Position) => {
    const entry = byPosition.get(position) ?? { destinations: new Set<number>(), names: [] };
    byPosition.set(position, entry);
    return entry;
  };
  for (const { id, destination, position } of ids) {
    at(position).destinations.add(destination);
    at(position).names.push(id);
  }
  for (const messageId of new Set(messageIds)) {
    const { positions } = await log.find({ messageId });
    if (positions.length === 0) missing.push(messageId);
    for (const position of positions) at(position).names.push(messageId);
  }
  return byPosition;
}

function isOfSourceAndType({ source, event }: StoredEvent, { sourceId, type }: NamedRedelivery): boolean {
  return (sourceId ?? source) === source && (type ?? event.type) === event.type;
}

/** The endpoints that an event was owed to, or those of the settings where it was owed to none. */
function owedTo(
  { deliveries }: OnWallClock<EventHistory>,
  destination: number,
  lanes: () => readonly number[],
): readonly number[] {
  const owed = deliveries.map((one) => one.destination).filter((id) => destinationOfLane(id) === destination);
  return owed.length > 0 ? owed : lanes();
}

function classify(
  delivery: DeliveryKey,
  {
    request,
    stored,
    eventHistory,
  }: {
    readonly request: NamedRedelivery;
    readonly stored: StoredEvent;
    readonly eventHistory: OnWallClock<EventHistory>;
  },
  classified: ClassifiedDeliveries,
): void {
  const { state, reason, from = 0, to = CURSOR_END } = request;
  const arrivedAt = Date.parse(stored.event.receivedAt);
  const found = eventHistory.deliveries.find(({ destination }) => destination === delivery.destination);
  if (found !== undefined && isOwed(found.state)) classified.pending++;
  else if (found?.state === 'dead' || found?.state === 'dropped') {
    if (state !== 'delivered') classified.givenUp.push(delivery);
  } else if (
    reason === undefined &&
    (state ?? 'delivered') === 'delivered' &&
    arrivedAt >= from &&
    arrivedAt < to
  ) {
    // An event that was never owed to the destination is not delivered either.
    if (found !== undefined || state === undefined) classified.settled.push(delivery);
  }
}

function namedDeadLetters(
  { destination, state, reason, from, to }: NamedRedelivery,
  only: readonly DeliveryKey[],
): OnWallClock<DeadLetterQuery> {
  return {
    destinations: everyLaneIdOf(destination),
    only,
    ...defined({ state: state === 'delivered' ? undefined : state, reason, from, to }),
  };
}

async function redeliverAll(
  slice: Omit<ViewedSlice, 'from'>,
  deadLetters: Pick<DeadLetterView, 'redeliver'>,
): Promise<number> {
  let count = 0;
  let from: string | undefined;
  do {
    const { count: redelivered, next } = await deadLetters.redeliver({ ...slice, ...fromOf(from) });
    count += redelivered;
    from = next;
  } while (from !== undefined);
  return count;
}

function positionsByDestination(deliveries: readonly DeliveryKey[]) {
  const byDestination = Map.groupBy(deliveries, ({ destination }) => destination);
  const ascending = (some: readonly DeliveryKey[]) =>
    [...new Set(some.map(({ position }) => position))].sort((a, b) => a - b);
  const only = new Map([...byDestination].map(([destination, some]) => [destination, ascending(some)]));
  return { destinations: [...only.keys()], positions: ascending(deliveries), only };
}
