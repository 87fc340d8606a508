import type { ClockMark } from './clock.ts';
import type {
  DeadLetterQueue,
  DeliveryHistories,
  DeliveryQueue,
  EndpointHealthStore,
} from './delivery-queue.ts';
import type { Damage, EventLog } from './event-log.ts';
import type { IdempotencyStore } from './idempotency-store.ts';
import type { Nodes } from './nodes.ts';
import type { Regulations } from './regulations.ts';
import type { SessionStore } from './session-store.ts';
import type { SettingsStore } from './settings-store.ts';

/** The ports that share one commit. One adapter opens and implements all of them. */
export interface Store {
  readonly log: EventLog;
  readonly queue: DeliveryQueue;
  readonly settings: SettingsStore;
  readonly sessions: SessionStore;
  /** Present where several processes may share the store. */
  readonly idempotency?: IdempotencyStore;
  readonly history: DeliveryHistories;
  readonly deadLetters: DeadLetterQueue;
  readonly endpointHealth: EndpointHealthStore;
  readonly regulations: Regulations;
  /** Present where several processes may share the store. */
  readonly nodes?: Nodes;
  /**
   * Resolves to why the process has to end, which most never do. Absent where nothing of the kind can happen.
   */
  readonly failed?: Promise<string>;

  /** Present where the store has memory of its own that only load needs. */
  readonly memory?: StoreMemory;

  /**
   * The store was made by a version with defaults for how long profiles, the audit trail and receipts stay.
   * In one of before nothing of that goes unless the configuration says so.
   */
  readonly isBounded: boolean;

  /** The clocks when the store was last written; absent when it never was. */
  readonly lastClockMark?: ClockMark | undefined;

  /**
   * Writes a copy of the store, as it is at one moment after the call, to a folder that does not exist yet or
   * is empty. Reads and commits go on meanwhile. Resolves when the copy is complete and on stable storage;
   * until then nothing in that folder can be mistaken for a backup. One backup at a time.
   *
   * Rejects with a `StorageError` whose reason says what to do: the folder cannot be used, its disk has no
   * room, or the adapter has nothing to copy. The files written until then are removed.
   */
  backup(folder: string, progress?: BackupProgress): Promise<Backup>;

  /** Waits for earlier operations, then closes everything. Aborts a running backup. Idempotent. */
  stop(): Promise<void>;
}

/**
 * Gives the memory of a store back when a busy time is over. Nothing is lost, and the next calls need not
 * wait for what was given back.
 */
export interface StoreMemory {
  /**
   * Makes tables in memory smaller. What goes to disk instead is written with the next slices of maintenance.
   */
  shrink(): Promise<void>;

  /** Gives back caches and garbage: some seconds after `shrink`, also what went to disk. */
  release(): Promise<void>;
}

/**
 * Called after each piece, with bytes written and total bytes; the first time when the folder has proved
 * usable.
 */
export type BackupProgress = (written: number, of: number) => void;

export interface Backup {
  readonly bytes: number;
  /** Positions in the log, gaps included, as in `LogSize.events`. */
  readonly events: number;
  /** Parts that cannot be read, in the store as in the copy; absent when there are none. */
  readonly damage?: Damage;
}
