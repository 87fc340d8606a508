import { beforeEach, describe, expect, it } from 'vitest';
import { openMemoryStore } from '../../test/memory-store/store.ts';
import { type HandClock, handClock } from '../../test/support/clock.ts';
import { MINUTE, SECOND } from '../model/time.ts';
import { type Batch, StorageError } from '../ports/event-log.ts';
import type { Store } from '../ports/store.ts';
import { LedgerCounter } from './service.ts';

const DISCARDED = [{ source: 1, calls: 1, discarded: { invalid_json: 1 } }];

describe('counts of calls that left no event', () => {
  let store: Store;
  let clock: HandClock;
  let counts: LedgerCounter;
  /** The fault of an append. */
  let trouble: 'none' | 'stores nothing' | 'stores, and says it did not';
  let appended: Batch[];
  let warned: string[];

  beforeEach(() => {
    store = openMemoryStore();
    clock = handClock(1_700_000_000_000);
    trouble = 'none';
    appended = [];
    warned = [];
    let ids = 0;
    const append = async (batch: Batch) => {
      appended.push(batch);
      if (trouble === 'stores nothing') throw new StorageError('the disk is full');
      const answer = await store.log.append(batch);
      if (trouble === 'stores, and says it did not') throw new StorageError('the disk fell silent');
      return answer;
    };
    const warn = (_facts: object, name: string) => void warned.push(name);
    counts = new LedgerCounter({ log: { append }, newBatchId: () => `b${ids++}`, clock, logger: { warn } });
  });

  const received = async () => (await store.queue.ledger()).sources.get(1)?.received ?? 0;

  it('are in the ledger a second later, all in one write', async () => {
    for (let n = 0; n < 1000; n++) counts.add(DISCARDED);
    await clock.pass(SECOND - 1);
    expect(appended).toEqual([]);
    await clock.pass(1);
    expect([await received(), appended.length]).toEqual([1000, 1]);
    await clock.pass(MINUTE);
    expect(appended).toHaveLength(1);
  });

  it('are written at once beside a commit of events, and then not again', async () => {
    counts.write();
    counts.add(DISCARDED);
    counts.add(DISCARDED);
    counts.write();
    counts.write();
    await clock.settle();
    expect([await received(), appended.length]).toEqual([2, 1]);
    await clock.pass(MINUTE);
    expect(appended).toHaveLength(1);
  });

  it('that could not be written beside a commit are written a second later', async () => {
    trouble = 'stores, and says it did not';
    counts.add(DISCARDED);
    counts.write();
    await clock.settle();
    expect(warned).toEqual([]);
    trouble = 'none';
    await clock.pass(SECOND);
    expect([await received(), appended.length]).toEqual([1, 2]);
  });

  it('are kept while they cannot be written, and written when they can', async () => {
    trouble = 'stores nothing';
    counts.add(DISCARDED);
    await clock.pass(3 * SECOND);
    counts.add(DISCARDED);
    await clock.pass(3 * SECOND);
    expect(await received()).toBe(0);
    expect(warned).toEqual(Array.from({ length: 6 }, () => 'ledger.counts_not_written'));
    trouble = 'none';
    await clock.pass(2 * SECOND);
    expect(await received()).toBe(2);
  });

  it('are one write a second however many come', async () => {
    for (let n = 0; n < 100; n++) {
      counts.add(DISCARDED);
      await clock.pass(SECOND / 10);
    }
    expect(appended.length).toBeLessThanOrEqual(10);
  });

  it('are counted once when they were stored although the log said otherwise', async () => {
    trouble = 'stores, and says it did not';
    counts.add(DISCARDED);
    await clock.pass(SECOND);
    counts.add(DISCARDED);
    await clock.pass(5 * SECOND);
    trouble = 'none';
    await clock.pass(2 * SECOND);
    expect(await received()).toBe(2);
  });

  it('are written before it stops, those of a write under way once', async () => {
    counts.add(DISCARDED);
    await clock.pass(SECOND);
    counts.add(DISCARDED);
    await counts.stop();
    expect(await received()).toBe(2);
    await clock.pass(MINUTE);
    expect(appended).toHaveLength(2);
  });

  it('that cannot be written before it stops are said to be lost', async () => {
    trouble = 'stores nothing';
    counts.add(DISCARDED);
    await clock.pass(SECOND);
    await expect(counts.stop()).rejects.toThrow('the disk is full');
    await clock.pass(MINUTE);
    expect(appended).toHaveLength(2);
  });
});
