import { describe, expect, it } from 'vitest';
import { laneIdsIn, laneIn, lanesIn, targetsIn } from '../../test/support/lanes.ts';
import type { Destination } from '../model/destination.ts';
import { destinationOfLane, endpointIndexOfLane } from '../model/lane.ts';
import { balanceOf, type DestinationCounts } from '../model/ledger.ts';
import type { DeliveryQueue } from '../ports/delivery-queue.ts';
import type { WorkerState } from './contract.ts';
import { byDestination, statesByDestination } from './destination-totals.ts';

const crm: Destination = {
  id: 7,
  name: 'crm',
  type: 'webhooks',
  sources: [],
  enabled: true,
  version: 3,
  settings: {
    endpoints: ['a', 'b', 'c'].map((host) => ({ url: `http://${host}/`, headers: {} })),
    format: 'documented',
  },
  success: 'each',
};
const [first, second, third] = laneIdsIn(crm) as [number, number, number];

describe('the workers of a destination', () => {
  it('have ids that lead to the destination and to the place of the endpoint; the first id is its own', () => {
    expect(first).toBe(7);
    expect([first, second, third].map(destinationOfLane)).toEqual([7, 7, 7]);
    expect([first, second, third].map(endpointIndexOfLane)).toEqual([0, 1, 2]);
    expect(third).toBeLessThan(2 ** 31);
    for (const [place, lane] of lanesIn(crm).entries()) expect(laneIn(crm, place)).toEqual(lane);
  });

  it('are one with success: any', () => {
    const any: Destination = { ...crm, success: 'any' };
    expect(lanesIn(any)).toEqual([{ ...any, targets: targetsIn(any) }]);
    expect(laneIn(any, 0)).toEqual(lanesIn(any)[0]);
    expect(laneIn(any, 1).targets).toEqual(targetsIn(any).slice(1, 2));
  });

  it('have no endpoint at a place that the settings no longer have', () => {
    expect(laneIn(crm, 4).targets).toEqual([]);
  });
});

describe('the totals of a destination', () => {
  const counts = (owed: number, delivered: number, dead: Record<string, number>): DestinationCounts => {
    const gone = Object.values(dead).reduce((sum, n) => sum + n, 0);
    return {
      owed,
      delivered,
      pending: owed - delivered - gone - 1,
      dead,
      dropped: { not_applicable: 1 },
      erased: 0,
      skipped: { integrations: 1 },
    };
  };

  it('are the sums of its workers, and the ledger still adds up', async () => {
    const destinations = new Map([
      [first, counts(10, 10, {})],
      [second, counts(10, 5, { status_410: 2 })],
      [third, counts(10, 0, { status_410: 1, timeout: 1 })],
      [8, counts(1, 1, {})],
    ]);
    const backlog = {
      ledger: async () => ({ sources: new Map(), destinations }),
    } as Partial<DeliveryQueue> as DeliveryQueue;
    const folded = (await byDestination(backlog).ledger()).destinations;
    expect([...folded.keys()]).toEqual([7, 8]);
    expect(folded.get(7)).toEqual({
      owed: 30,
      delivered: 15,
      pending: 8,
      dead: { status_410: 3, timeout: 1 },
      dropped: { not_applicable: 3 },
      erased: 0,
      skipped: { integrations: 3 },
    });
    expect(balanceOf(folded.get(7)!)).toBe(0);
  });

  it('are due when the first of its workers is due', async () => {
    const stats = [
      { destination: first, held: 1, onDisk: 0, retrying: 1 },
      { destination: 8, held: 0, onDisk: 1, retrying: 0, nextDueAt: 5 },
      { destination: second, held: 2, onDisk: 3, retrying: 2, nextDueAt: 90 },
      { destination: third, held: 0, onDisk: 4, retrying: 0, nextDueAt: 80 },
    ];
    const backlog = { stats: async () => stats } as Partial<DeliveryQueue> as DeliveryQueue;
    expect(await byDestination(backlog).stats()).toEqual([
      { destination: 7, held: 3, onDisk: 7, retrying: 3, nextDueAt: 80 },
      { destination: 8, held: 0, onDisk: 1, retrying: 0, nextDueAt: 5 },
    ]);
  });

  it('have the worst breaker of its workers, the first failure, the newest error and the next probe', () => {
    const worker = (destination: number, more: Partial<WorkerState>): WorkerState => ({
      ...{ destination, held: 1, inFlight: 1, limit: 16, breaker: 'closed' },
      ...more,
    });
    const error = (at: number) => ({ reason: 'timeout', endpoint: `http://${at}/`, at });
    expect(
      statesByDestination([
        worker(first, {}),
        worker(second, { failingSince: 3, breaker: 'open', nextProbeAt: 9, lastError: error(3) }),
        worker(third, { refusingSince: 2, breaker: 'probing', nextProbeAt: 8, lastError: error(4) }),
      ]),
    ).toEqual([
      {
        destination: 7,
        failingSince: 3,
        refusingSince: 2,
        held: 3,
        inFlight: 3,
        limit: 48,
        breaker: 'open',
        nextProbeAt: 8,
        lastError: error(4),
      },
    ]);
  });
});
