import { destinationOfLane } from '../model/lane.ts';
import type { DestinationCounts, Ledger } from '../model/ledger.ts';
import type { OnWallClock } from '../model/time.ts';
import type { DeliveryQueue, QueueStats } from '../ports/delivery-queue.ts';
import type { WorkerState } from './contract.ts';

type AnyStats = QueueStats | OnWallClock<QueueStats>;

interface QueueReader<Stats> extends Pick<DeliveryQueue, 'ledger'> {
  stats(): Promise<readonly Stats[]>;
}

/**
 * The queue with its counts by destination. The store counts each endpoint by itself where each is a delivery
 * of its own (`success: each`); the counts of a destination are their sums (spec/contract.md, "Ledger").
 */
export function byDestination<Stats extends AnyStats>(deliveryQueue: QueueReader<Stats>): QueueReader<Stats> {
  return {
    ledger: async () => ledgerByDestination(await deliveryQueue.ledger()),
    stats: async () => foldByDestination(await deliveryQueue.stats(), mergeStats),
  };
}

/** The workers of each destination as one: with the worst breaker among them and the newest error. */
export function statesByDestination(states: readonly WorkerState[]): readonly WorkerState[] {
  return foldByDestination(states, (one, other) => {
    return {
      destination: one.destination,
      held: one.held + other.held,
      inFlight: one.inFlight + other.inFlight,
      limit: one.limit + other.limit,
      breaker: worse(BREAKERS, one.breaker, other.breaker),
      nextProbeAt: earliest(one.nextProbeAt, other.nextProbeAt),
      failingSince: earliest(one.failingSince, other.failingSince),
      refusingSince: earliest(one.refusingSince, other.refusingSince),
      lastError: newest(one.lastError, other.lastError),
      failure: one.failure ?? other.failure,
    };
  });
}

/** From good to bad. */
const BREAKERS: readonly WorkerState['breaker'][] = ['closed', 'probing', 'open'];

function worse<Word>(order: readonly Word[], one: Word, other: Word): Word {
  return order.indexOf(one) >= order.indexOf(other) ? one : other;
}

function ledgerByDestination({ sources, destinations }: Ledger): Ledger {
  const totals = new Map<number, DestinationCounts>();
  for (const [worker, counts] of destinations) {
    const id = destinationOfLane(worker);
    const before = totals.get(id);
    totals.set(id, before === undefined ? counts : addCounts(before, counts));
  }
  return { sources, destinations: totals };
}

function addCounts(a: DestinationCounts, b: DestinationCounts): DestinationCounts {
  return {
    owed: a.owed + b.owed,
    delivered: a.delivered + b.delivered,
    pending: a.pending + b.pending,
    dead: addCountsByReason(a.dead, b.dead),
    dropped: addCountsByReason(a.dropped, b.dropped),
    erased: a.erased + b.erased,
    skipped: addCountsByReason(a.skipped, b.skipped),
  };
}

function addCountsByReason(a: Readonly<Record<string, number>>, b: Readonly<Record<string, number>>) {
  const total = { ...a };
  for (const [reason, n] of Object.entries(b)) total[reason] = (total[reason] ?? 0) + n;
  return total;
}

function mergeStats<Stats extends AnyStats>(one: Stats, other: Stats): Stats {
  return {
    ...one,
    held: one.held + other.held,
    onDisk: one.onDisk + other.onDisk,
    retrying: one.retrying + other.retrying,
    nextDueAt: earliest(one.nextDueAt, other.nextDueAt),
    oldestAt: earliest(one.oldestAt, other.oldestAt),
  };
}

/**
 * Joins the items of each destination, under its id and in the order in which the destinations first occur.
 */
function foldByDestination<Item extends { readonly destination: number }>(
  items: readonly Item[],
  fold: (one: Item, other: Item) => Item,
): readonly Item[] {
  const byId = new Map<number, Item>();
  for (const item of items) {
    const id = destinationOfLane(item.destination);
    const before = byId.get(id);
    byId.set(id, { ...(before === undefined ? item : fold(before, item)), destination: id });
  }
  return [...byId.values()];
}

function earliest(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);
}

function newest(one: WorkerState['lastError'], other: WorkerState['lastError']): WorkerState['lastError'] {
  if (one === undefined || other === undefined) return one ?? other;
  return one.at >= other.at ? one : other;
}
