import { destinationOfLane } from '../model/destination.ts';
import type { DestinationCounts, Ledger } from '../model/ledger.ts';
import type { DeliveryQueue, QueueStats } from '../ports/delivery-queue.ts';
import type { WorkerState } from './contract.ts';

/**
 * The store keeps and counts what is owed by lane; people and programs ask by destination. Every sum stays a sum: with
 * `success: each` the counts of a destination are those of its endpoints together (spec/contract.md, "Ledger").
 */
export function byDestination(backlog: DeliveryQueue): Pick<DeliveryQueue, 'ledger' | 'stats'> {
  return {
    ledger: async () => ledgerByDestination(await backlog.ledger()),
    stats: async () => foldByDestination(await backlog.stats(), mergeStats),
  };
}

/** How the lanes of a destination do, as one: as bad as the worst of them, with the newest error. */
export function statesByDestination(states: readonly WorkerState[]): readonly WorkerState[] {
  return foldByDestination(states, (one, other) => {
    const lastError = newest(one.lastError, other.lastError);
    const nextProbeAt = earliest(one.nextProbeAt, other.nextProbeAt);
    const failingSince = earliest(one.failingSince, other.failingSince);
    return {
      destination: one.destination,
      state: worse(STATES, one.state, other.state),
      held: one.held + other.held,
      inFlight: one.inFlight + other.inFlight,
      limit: one.limit + other.limit,
      breaker: worse(BREAKERS, one.breaker, other.breaker),
      ...(nextProbeAt === undefined ? {} : { nextProbeAt }),
      ...(failingSince === undefined ? {} : { failingSince }),
      ...(lastError === undefined ? {} : { lastError }),
    };
  });
}

/** From good to bad. All lanes of a destination are paused or disabled, or none is. */
const STATES: readonly WorkerState['state'][] = ['healthy', 'failing', 'paused', 'disabled'];
const BREAKERS: readonly WorkerState['breaker'][] = ['closed', 'probing', 'open'];

function worse<Word>(order: readonly Word[], one: Word, other: Word): Word {
  return order.indexOf(one) >= order.indexOf(other) ? one : other;
}

function ledgerByDestination({ sources, destinations }: Ledger): Ledger {
  const sums = new Map<number, DestinationCounts>();
  for (const [lane, counts] of destinations) {
    const id = destinationOfLane(lane);
    const before = sums.get(id);
    sums.set(id, before === undefined ? counts : sumOf(before, counts));
  }
  return { sources, destinations: sums };
}

function sumOf(a: DestinationCounts, b: DestinationCounts): DestinationCounts {
  return {
    owed: a.owed + b.owed,
    delivered: a.delivered + b.delivered,
    pending: a.pending + b.pending,
    dead: addCountsByReason(a.dead, b.dead),
    erased: a.erased + b.erased,
    skipped: addCountsByReason(a.skipped, b.skipped),
  };
}

function addCountsByReason(a: Readonly<Record<string, number>>, b: Readonly<Record<string, number>>) {
  const sum = { ...a };
  for (const [reason, n] of Object.entries(b)) sum[reason] = (sum[reason] ?? 0) + n;
  return sum;
}

function mergeStats(one: QueueStats, other: QueueStats): QueueStats {
  const nextDueAt = earliest(one.nextDueAt, other.nextDueAt);
  const oldestAt = earliest(one.oldestAt, other.oldestAt);
  return {
    destination: one.destination,
    held: one.held + other.held,
    onDisk: one.onDisk + other.onDisk,
    retrying: one.retrying + other.retrying,
    ...(nextDueAt === undefined ? {} : { nextDueAt }),
    ...(oldestAt === undefined ? {} : { oldestAt }),
  };
}

/** In the order in which the destinations first occur, under their own ids. */
function foldByDestination<Of extends { readonly destination: number }>(
  lanes: readonly Of[],
  fold: (one: Of, other: Of) => Of,
): readonly Of[] {
  const byId = new Map<number, Of>();
  for (const lane of lanes) {
    const id = destinationOfLane(lane.destination);
    const before = byId.get(id);
    byId.set(id, { ...(before === undefined ? lane : fold(before, lane)), destination: id });
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
