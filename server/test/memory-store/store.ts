import { DAY, type Duration } from '../../src/model/time.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import { emptyContents, type MemoryContents, NO_OPENING } from './contents.ts';
import { openDeliveryQueue } from './delivery-queue.ts';
import { openEventLog } from './event-log.ts';
import { openDeadLetters, openHistory } from './history.ts';
import { openRegulations } from './regulations.ts';
import { openSessions } from './sessions.ts';
import { openEndpointHealths, openSettings } from './settings.ts';

export { emptyContents, type MemoryContents } from './contents.ts';

export interface MemoryStoreOptions {
  /**
   * A repeated (source, messageId) is a duplicate for this long after the stored event arrived. Default 24
   * hours (spec/specification.md, "Duplicates").
   */
  readonly dedupeWindow?: Duration;
  /** Contents in place of a disk; empty by default. */
  readonly contents?: MemoryContents;
}

/**
 * The ports of the store as plain maps: their executable description. It keeps every promise except that
 * nothing survives the process, and it is not fast: most operations walk over everything stored.
 *
 * A second store opened on the same contents stands for a restart after a crash. The first store then stands
 * for a dead process: its results are ignored, and everything else it tries to write rejects with a
 * `StorageError`.
 */
export function openMemoryStore(options: MemoryStoreOptions = {}): Store {
  const contents = options.contents ?? emptyContents();
  const holder = ++contents.lastHolder;
  contents.holder = holder;
  return {
    log: openEventLog(contents, holder, options.dedupeWindow ?? DAY),
    queue: openDeliveryQueue(contents, holder),
    settings: openSettings(contents, holder),
    sessions: openSessions(contents, holder),
    history: openHistory(contents),
    deadLetters: openDeadLetters(contents, holder),
    endpointHealth: openEndpointHealths(contents, holder),
    regulations: openRegulations(contents, holder),
    isBounded: true,
    ...(contents.clocks === undefined ? {} : { lastClockMark: contents.clocks }),

    async backup() {
      throw new StorageError(
        'the store is in memory and has no files to copy: start Millrace with a data folder',
      );
    },

    /** Its sets stay held, like those of a crashed process, until the next store recovers them. */
    async stop() {
      if (contents.holder === holder) contents.holder = NO_OPENING;
    },
  };
}
