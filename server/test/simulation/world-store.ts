import type { AudienceDefinition } from '../../src/model/definition.ts';
import type { Delivery } from '../../src/model/delivery.ts';
import type { Destination } from '../../src/model/destination.ts';
import type { Position } from '../../src/model/event.ts';
import type { Ledger } from '../../src/model/ledger.ts';
import type { RegulationSubject } from '../../src/model/regulation.ts';
import type { Replay } from '../../src/model/replay.ts';
import type { Source } from '../../src/model/settings.ts';
import type { Monotonic } from '../../src/model/time.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { PendingSetId } from '../../src/ports/delivery-queue.ts';
import type { LogReader } from '../../src/ports/event-log.ts';
import type { ProfileStore } from '../../src/ports/profile-store.ts';
import type { StoredRegulation } from '../../src/ports/regulations.ts';
import type { ProgramStore } from '../../src/wiring/storage.ts';
import type { StoredRecord } from '../memory-store/contents.ts';
import type { Life } from './kernel.ts';
import type { CutOff, DiskFailing, PowerCut } from './scenario.ts';
import type { Situation } from './situations.ts';

/** How the store is at a moment. */
export interface Weather {
  /** Mean milliseconds of a write. */
  readonly latency: number;
  /** Share of the operations that are refused and do nothing. */
  readonly refuses: number;
  /** Share of the writes that take effect and are answered with an error. */
  readonly doubts: number;
  /** The only operation that is refused; undefined: any. */
  readonly refusesOnly: string | undefined;
  /** The only operation whose outcome is in doubt; undefined: any. */
  readonly doubtsOnly: string | undefined;
  /** Events that no store takes are refused: `isUnstorable`. */
  readonly refusesContents: boolean;
  /** Every operation is refused. */
  readonly isAway: boolean;
  /** Until then nothing is done, and nothing answered. */
  readonly silentUntil: number;
}

export const FAIR: Weather = {
  latency: 0.8,
  refuses: 0,
  doubts: 0,
  refusesOnly: undefined,
  doubtsOnly: undefined,
  refusesContents: false,
  isAway: false,
  silentUntil: 0,
};

/** Whether a store that refuses contents refuses this event. */
export function isUnstorable(messageId: string): boolean {
  return messageId.endsWith('7');
}

/** An operation of the store that has taken effect, whatever its caller will hear. */
export interface Applied {
  /** The name of its method. */
  readonly operation: string;
  readonly args: readonly unknown[];
  readonly answer: unknown;
  readonly life: Life;
  /** Its caller will hear an error all the same. */
  readonly isDoubted: boolean;
}

/** The settings with which a world begins; ids of destinations count from 1. */
export interface Beginning {
  readonly sources: readonly Source[];
  readonly destinations: readonly Destination[];
  readonly audiences: readonly AudienceDefinition[];
}

/** Hears what becomes of operations, before their callers do. */
export interface StoreListener {
  applied(applied: Applied): void;
  /** The thread of profiles of a process has changed something in the store. */
  appliedByThread(operation: string, life: Life): void;
  /** An operation that changes nothing was answered. */
  looked(operation: string, answer: unknown, life: Life): void;
  refused(operation: string): void;
  /** The store itself came into a situation. */
  readonly reached?: (situation: Situation) => void;
  /** The store itself has seen a promise broken. */
  readonly broken?: (promise: string, message: string) => void;
}

/** Deliveries of one lane and one origin that share a due time. */
export interface StoredSet {
  readonly id: PendingSetId;
  /** The lane. */
  readonly destination: number;
  readonly origin: string | undefined;
  readonly dueAt: Monotonic;
  /** The process that delivers it from memory; undefined while it is on disk. */
  readonly holder: number | undefined;
  readonly deliveries: ReadonlyMap<Position, Pick<Delivery, 'rounds'>>;
}

/** The contents of a store at this moment, which promises may look at beside its ports. */
export interface StoreContents {
  /** Events that are neither erased nor expired. */
  readonly events: ReadonlyMap<
    Position,
    Pick<StoredRecord, 'source' | 'messageId' | 'userId' | 'receivedAt' | 'json'>
  >;
  /** How many positions were ever given. */
  readonly lastPosition: number;
  readonly sets: ReadonlyMap<PendingSetId, StoredSet>;
  /** Deliveries that were given up. */
  readonly letters: { readonly length: number };
  /** By id. */
  readonly regulations: ReadonlyMap<string, Pick<StoredRegulation, 'id' | 'number' | 'type' | 'step'>>;
  readonly regulationSubjects: ReadonlyMap<string, readonly RegulationSubject[]>;
  readonly replayRecords: ReadonlyMap<string, Replay>;
}

/** The store of a world: what it has applied stays, whoever dies. */
export interface WorldStore {
  readonly contents: StoreContents;
  weather: Weather;
  /** Several processes have it open at once. */
  readonly isShared: boolean;
  prepare(beginning: Beginning): void;
  ledger(): Ledger;
  /** Events are not applied to profiles yet, or what that has changed is not told. */
  areProfilesBehind(): boolean;
  /** Numbers of members by the id of their audience, as they are stored; absent where nobody can look. */
  membersStored?(): Readonly<Record<string, number>>;
  /** Sets that are new, or may have grown, since the last call. */
  newSets(): Iterable<StoredSet>;
  /**
   * Opens it for a process, which `onLost` tells of the loss of its lease. Rejects with a `StorageError`.
   */
  open(life: Life, name: string, clock: Clock, onLost: () => void): Promise<OpenedStore>;
  /** The process has died: of what was under way some takes effect. */
  cut(life: Life): void;
  /**
   * The next death is one of the machine. `die`: to be called in the middle of a commit. False where nothing
   * records what reaches the disk: then it is one of the process. Absent where a process has no disk of its
   * own.
   */
  failPower?(how: PowerCut, die: () => void): boolean;
  /**
   * Calls of the system fail until `healDisk`. False where nothing stands between the process and its disk.
   */
  failDisk?(how: DiskFailing): boolean;
  healDisk?(): void;
  /** The way of a process to the store is cut; `isSilent`: nobody notices, and nothing comes through. */
  cutOff?(life: Life, how: Omit<CutOff, 'kind' | 'node'>): void;
  /** The leases that are not taken from their processes, by their number. Absent where there are none. */
  readonly leases?: ReadonlyMap<number, unknown>;
}

/** The store as one process has it open. */
export interface OpenedStore {
  readonly store: ProgramStore;
  readonly channel: StoreChannel;
  /** Where several processes share it. */
  readonly nodes: LeaseOfProcess | undefined;
  /** The log and the profiles, as the thread of profiles uses them. */
  readonly reader: () => LogReader;
  readonly openProfiles: () => ProfileStore;
}

/** The lease of a process, over one number after the other. */
export interface LeaseOfProcess {
  readonly opening: number;
  readonly maySend: () => boolean;
}

export interface StoreChannel {
  /** Operations under way, by the name of their method. */
  readonly underWay: ReadonlyMap<string, number>;
}
