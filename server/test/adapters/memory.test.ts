import { expect, it } from 'vitest';
import { SECOND } from '../../src/model/time.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import { batch, duplicatesOf, event, events } from '../conformance/batches.ts';
import { logReaderConformance } from '../conformance/log-reader.ts';
import { START, storeConformance } from '../conformance/store.ts';
import { openMemoryLogReader } from '../memory-store/log-reader.ts';
import { emptyContents, openMemoryStore } from '../memory-store/store.ts';

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
