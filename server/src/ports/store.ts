import type { ClockMark } from './clock.ts';
import type {
  DeadLetterQueue,
  DeliveryHistories,
  DeliveryQueue,
  EndpointHealthStore,
} from './delivery-queue.ts';
import type { Damage, EventLog } from './event-log.ts';
import type { SettingsStore } from './settings-store.ts';

/** The ports that share one commit, opened together: the same adapter is behind all of them. */
export interface Store {
  readonly log: EventLog;
  readonly queue: DeliveryQueue;
  readonly settings: SettingsStore;
  readonly history: DeliveryHistories;
  readonly deadLetters: DeadLetterQueue;
  readonly endpointHealth: EndpointHealthStore;

  /** How the clocks stood when this was written the last time; absent where it never was. */
  readonly lastClockMark?: ClockMark;

  /**
   * Writes a copy of everything, as it is at one moment after the call, to a folder that does not exist yet or is empty.
   * Everything goes on meanwhile. Resolves when the copy is whole and on stable storage; until then nothing in that
   * folder can be taken for a backup. One at a time.
   *
   * Rejects with a `StorageError` whose reason says what to do: the folder cannot be used, its disk has no room, or the
   * adapter has nothing to copy. What was written is then taken away.
   */
  backup(folder: string, progress?: BackupProgress): Promise<Backup>;

  /** Waits for what was asked before, then gives up what it holds; a backup is broken off. Idempotent. */
  stop(): Promise<void>;
}

/** Told of every piece that is written, in bytes; the first time when the folder has been found usable. */
export type BackupProgress = (written: number, of: number) => void;

export interface Backup {
  readonly bytes: number;
  /** Positions held, gaps included, as `LogSize.events` has them. */
  readonly events: number;
  /** What of it cannot be read, in the store as in the copy; absent when everything can. */
  readonly damage?: Damage;
}
