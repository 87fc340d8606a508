import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { SECOND } from '../../src/model/time.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import { batch, CRM, duplicatesOf, event, events, owedBatch } from '../conformance/batches.ts';
import { logReaderConformance } from '../conformance/log-reader.ts';
import { START, storeConformance } from '../conformance/store.ts';
import { openMemoryLogReader } from '../memory-store/log-reader.ts';
import { emptyContents, openMemoryStore, openSharedMemoryStore } from '../memory-store/store.ts';
import { handClock } from '../support/clock.ts';

/** Each store's contents "on disk", on which another one can be opened. */
const contentsOf = new WeakMap<Store, ReturnType<typeof emptyContents>>();

function open(contents = emptyContents()): Store {
  const store = openMemoryStore({ contents });
  contentsOf.set(store, contents);
  return store;
}

const harness = {
  open: async () => open(),
  reopen: async (store: Store) => open(contentsOf.get(store)),
  close: (store: Store) => store.stop(),
};

storeConformance('the memory store', harness);
logReaderConformance('the memory store', {
  ...harness,
  reader: (store) => openMemoryLogReader(contentsOf.get(store)!),
});

async function openShared(contents = emptyContents()): Promise<Store> {
  const store = await openSharedMemoryStore({ contents, name: 'node', clock: systemClock });
  contentsOf.set(store, contents);
  return store;
}

storeConformance('the memory store, of several processes', {
  open: () => openShared(),
  reopen: (store) => openShared(contentsOf.get(store)),
  close: (store) => store.stop(),
});

describe('the memory store of two processes', () => {
  /** Two processes under a clock that the test moves. */
  async function twoProcesses() {
    const contents = emptyContents();
    const clock = handClock(START);
    const [first, second] = await Promise.all(
      ['a', 'b'].map((name) => openSharedMemoryStore({ contents, name, clock })),
    );
    return { contents, clock, first: first!, second: second! };
  }

  it('lets both write, and each settles only what it holds', async () => {
    const { first, second } = await twoProcesses();
    await first.log.append(owedBatch(events(2), 'held'));
    expect((await second.queue.claim(CRM, 10, START)).deliveries).toEqual([]);
    await second.queue.recoverOrphans();
    expect(await second.queue.nextDue()).toEqual([]);
    await first.nodes.stop();
    expect(await second.queue.recoverOrphans()).toBe(2);
    expect((await second.queue.claim(CRM, 10, START)).deliveries).toHaveLength(2);
  });

  it('gives the sets of a process whose lease is over to the others, and refuses its writes', async () => {
    const { contents, clock, first, second } = await twoProcesses();
    await first.log.append(owedBatch(events(1), 'held'));
    const lost = first.nodes.opening;
    // As a process that stands still: its lease is not renewed.
    contents.shared.members.get(lost)!.expires = clock.monotonic();
    expect(await second.queue.recoverOrphans()).toBe(1);
    await expect(first.log.append(batch(events(1, 'late')))).rejects.toThrow(StorageError);
    const heard: string[] = [];
    const caughtUp = Promise.withResolvers<void>();
    first.nodes.follow({
      lost: async () => void heard.push('lost'),
      catchUp: async () => {
        heard.push(first.nodes.maySend() ? 'sends' : 'catches up');
        await caughtUp.promise;
      },
      joined: () => heard.push('joined'),
      awaited: () => heard.push('awaited'),
    });
    await clock.pass(2 * SECOND);
    expect(heard).toEqual(['lost', 'catches up']);
    expect(first.nodes.problems()).toHaveLength(1);
    caughtUp.resolve();
    await clock.settle();
    expect(heard).toEqual(['lost', 'catches up', 'joined']);
    expect(first.nodes.problems()).toEqual([]);
    expect(first.nodes.opening).toBeGreaterThan(lost);
    await first.log.append(batch(events(1, 'again')));
  });

  it('has one process do a job, until it gives it back or is gone', async () => {
    const { first, second } = await twoProcesses();
    expect(await first.nodes.take('users')).toBe(true);
    expect(await first.nodes.take('users')).toBe(true);
    expect(await second.nodes.take('users')).toBe(false);
    await first.nodes.giveBack('users');
    expect(await second.nodes.take('users')).toBe(true);
    expect(await first.nodes.take('users')).toBe(false);
    await second.nodes.stop();
    expect(await first.nodes.take('users')).toBe(true);
  });

  it('names who has not acknowledged a change, also when that one has lost its lease', async () => {
    const { contents, clock, first, second } = await twoProcesses();
    await first.nodes.acknowledge({ suppressions: 1 });
    expect(await first.nodes.toWaitFor({ suppressions: 1 })).toEqual([{ state: 'behind', name: 'b' }]);
    contents.shared.members.get(second.nodes.opening)!.expires = clock.monotonic();
    await first.queue.recoverOrphans();
    expect(await first.nodes.toWaitFor({ suppressions: 1 })).toEqual([{ state: 'gone', goneFor: 0 }]);
    await first.nodes.acknowledge({ suppressions: 0 });
    expect((await first.nodes.changes()).acknowledged).toEqual({ suppressions: 1, erasures: 0 });
  });

  it('gives one process the turn to probe a lane, and nobody while it rests', async () => {
    const { clock, first, second } = await twoProcesses();
    expect(await first.nodes.takeProbe(7)).toBe(0);
    expect(await second.nodes.takeProbe(7)).toBe(2 * SECOND);
    await first.nodes.giveBackProbe(7, SECOND);
    expect(await second.nodes.takeProbe(7)).toBe(SECOND);
    expect(await first.nodes.takeProbe(7)).toBe(SECOND);
    await clock.pass(SECOND);
    expect(await second.nodes.takeProbe(7)).toBe(0);
  });
});

it.each([0, 10 * SECOND])('keeps a dedupe window of %d ms if told so', async (dedupeWindow) => {
  const { log } = openMemoryStore({ dedupeWindow });
  // An event is stored once within one batch, however short the window.
  expect(duplicatesOf(await log.append(batch([event('a'), event('a')])))).toEqual([1]);
  const receivedAt = START + dedupeWindow;
  expect(duplicatesOf(await log.append(batch([event('a')], { receivedAt })))).toEqual([]);
});

it('refuses to store anything through a store that was stopped or opened again', async () => {
  const contents = emptyContents();
  const first = openMemoryStore({ contents });
  const second = openMemoryStore({ contents });
  await expect(first.log.append(batch(events(1)))).rejects.toThrow(StorageError);
  await first.stop();
  expect((await second.log.append(batch(events(1)))).positions).toHaveLength(1);
  await second.stop();
  await expect(second.log.append(batch(events(1, 'late')))).rejects.toThrow(StorageError);
  expect(contents.events.size).toBe(1);
});
