import { afterEach, beforeEach, expect } from 'vitest';
import type { Ledger } from '../../src/model/ledger.ts';
import { balanceOf } from '../../src/model/ledger.ts';
import type { QueueStats } from '../../src/ports/delivery-queue.ts';
import type { Store } from '../../src/ports/store.ts';

/** The suite's access to the adapter under test. The dedupe window must be its default, 24 hours. */
export interface StoreHarness {
  /** An empty store. Several may be open at the same time. */
  open(): Promise<Store>;

  /**
   * As after a SIGKILL and a new start: a new store on what the old one had stored. The old object may still
   * exist; calls on it, also those under way, must end (a rejection will do). A stopped store can be reopened
   * too.
   */
  reopen(store: Store): Promise<Store>;

  /** Stops the store and removes what it stored. */
  close(store: Store): Promise<void>;
}

/**
 * When the tests begin. An adapter that reads a clock must be handed one that shows this time or a later one;
 * results are settled at this time unless a test says otherwise.
 */
export const START = Date.UTC(2026, 0, 1, 12);

/** The store of the test that runs now. */
export interface Subject {
  readonly store: Store;
  /**
   * Simulates a crash and a new start, without adopting the held deliveries. Resolves to the previous store.
   */
  crash(): Promise<Store>;
  /** The same, and then adopts the backlog. Resolves to the number of deliveries parked by that. */
  restart(): Promise<number>;
}

/** Gives every test of the suite a store of its own, and checks its books when the test is over. */
export function openForEach(harness: StoreHarness): Subject {
  let current: Store | undefined;
  const open = (): Store => {
    if (current === undefined) throw new Error('The store is open only while a test runs.');
    return current;
  };
  const crash = async (): Promise<Store> => {
    const before = open();
    current = await harness.reopen(before);
    return before;
  };

  beforeEach(async () => {
    current = await harness.open();
  });
  afterEach(async () => {
    const store = open();
    current = undefined;
    try {
      await expectBalanced(store);
    } finally {
      await harness.close(store);
    }
  });

  return {
    get store() {
      return open();
    },
    crash,
    async restart() {
      await crash();
      return await open().queue.recoverOrphans();
    },
  };
}

/** Nothing lost, nothing counted twice: model/ledger.ts, and `pending` equals the queue's statistics. */
export async function expectBalanced(store: Store): Promise<void> {
  const ledger = await store.queue.ledger();
  for (const [id, counts] of ledger.sources) {
    const known = counts.accepted + counts.duplicates + sumOf(counts.discarded);
    expect(known, `source ${id}: received = accepted + duplicates + discarded`).toBe(counts.received);
  }
  for (const [id, counts] of ledger.destinations) {
    expect(balanceOf(counts), `balance of destination ${id}`).toBe(0);
  }
  expect(pendingOfLanes(await store.queue.stats()), 'pending by the lanes').toEqual(pendingOfLedger(ledger));
}

function sumOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

function pendingOfLanes(lanes: readonly QueueStats[]): Record<number, number> {
  return onlyPositive(lanes.map((lane) => [lane.destination, lane.held + lane.onDisk]));
}

function pendingOfLedger(ledger: Ledger): Record<number, number> {
  return onlyPositive([...ledger.destinations].map(([id, counts]) => [id, counts.pending]));
}

function onlyPositive(counts: readonly (readonly [number, number])[]): Record<number, number> {
  return Object.fromEntries(counts.filter(([, count]) => count !== 0));
}
