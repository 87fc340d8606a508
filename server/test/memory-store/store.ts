import type { Duration } from '../../src/model/time.ts';
import { DAY } from '../../src/model/time.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import { openBacklog } from './backlog.ts';
import type { MemoryContents } from './contents.ts';
import { emptyContents, NO_OPENING } from './contents.ts';
import { openEventLog } from './event-log.ts';
import { openDeadLetters, openHistory } from './history.ts';
import { openEndpointHealths, openSettings } from './settings.ts';

export type { MemoryContents } from './contents.ts';
export { emptyContents } from './contents.ts';

export interface MemoryStoreOptions {
  /**
   * A repeated (source, messageId) is a duplicate while `Batch.receivedAt` is less than this after the stored one's.
   * Default 24 hours (spec/specification.md, "Duplicates").
   */
  readonly dedupeWindow?: Duration;
  /** What is "on disk". Default: nothing. */
  readonly contents?: MemoryContents;
}

/**
 * The store without a disk: the executable description of the ports, and what the receiving path is measured with when
 * the disk is not the question. It keeps every promise but one: nothing survives the process.
 *
 * Opening a second store on the same contents is a restart after a crash. The earlier store is then a process that is
 * gone: its results are ignored, and everything else it tries to write rejects with a `StorageError`.
 */
export function openMemoryStore(options: MemoryStoreOptions = {}): Store {
  const contents = options.contents ?? emptyContents();
  const holder = ++contents.lastHolder;
  contents.holder = holder;
  return {
    log: openEventLog(contents, holder, options.dedupeWindow ?? DAY),
    queue: openBacklog(contents, holder),
    settings: openSettings(contents, holder),
    history: openHistory(contents),
    deadLetters: openDeadLetters(contents, holder),
    endpointHealth: openEndpointHealths(contents, holder),
    ...(contents.clocks === undefined ? {} : { lastClockMark: contents.clocks }),

    async backup() {
      throw new StorageError(
        'the store is in memory and has no files to copy: start Millrace with a data folder',
      );
    },

    /** What it holds stays as it is, like the sets of a crashed process, and is adopted by the next one. */
    async stop() {
      if (contents.holder === holder) contents.holder = NO_OPENING;
    },
  };
}
