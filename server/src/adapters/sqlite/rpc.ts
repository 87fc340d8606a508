import type { Position } from '../../model/event.ts';
import type { Monotonic } from '../../model/time.ts';
import type { ClockMark } from '../../ports/clock.ts';
import type {
  DeadLetterCount,
  DeadLetterPage,
  DeadLetterQuery,
  DeliveryResult,
  DestinationHealth,
  EventHistory,
  HeldDelivery,
  PendingPage,
  PendingQuery,
  PendingSetId,
  QueueStats,
  RedeliverySlice,
  ReplayProgress,
  ReplaySlice,
  SettleResult,
} from '../../ports/delivery-queue.ts';
import type {
  CallCounts,
  LogQuery,
  LogSize,
  PositionPage,
  RangeSize,
  Retention,
} from '../../ports/event-log.ts';
import type { AuditPage, AuditQuery, SettingsChanges, SettingsSnapshot } from '../../ports/settings-store.ts';

/**
 * What the two halves of the adapter say to each other: the store on the main thread, the writer on its own.
 * Events cross as bytes in transferred buffers, never as objects: moving objects costs more than parsing them
 * (2.3 µs an event against 0.06).
 */
export type RpcRequest = { readonly id: number } & RpcMessage;

export type RpcMessage =
  | { readonly kind: 'append'; readonly append: AppendMessage }
  | { readonly kind: 'settle'; readonly settle: SettleMessage }
  | { readonly kind: 'claim'; readonly destination: number; readonly max: number; readonly now: Monotonic }
  | { readonly kind: 'release'; readonly destination: number; readonly now: Monotonic }
  | {
      readonly kind: 'expire';
      readonly destination: number;
      readonly before: Monotonic;
      readonly reason: string;
    }
  | { readonly kind: 'adopt' }
  | { readonly kind: 'maintain'; readonly maintain: MaintainMessage }
  | { readonly kind: 'erase'; readonly positions: Float64Array }
  /** Answered when no byte of what was erased before is left in the files. */
  | { readonly kind: 'scrub' }
  | { readonly kind: 'find'; readonly find: FindMessage }
  | { readonly kind: 'size' }
  | {
      readonly kind: 'extent';
      readonly range: { readonly from: Monotonic; readonly to: Monotonic };
      readonly from: Position;
    }
  | { readonly kind: 'apply'; readonly changes: SettingsChanges }
  | { readonly kind: 'read'; readonly positions: Float64Array }
  | { readonly kind: 'damaged'; readonly positions: readonly Position[] }
  | { readonly kind: 'history'; readonly positions: Float64Array }
  | { readonly kind: 'pending'; readonly pending: PendingMessage }
  | { readonly kind: 'deadLetters'; readonly deadLetters: DeadLetterListMessage }
  | { readonly kind: 'countDead'; readonly deadLetters: DeadLetterCountMessage }
  | { readonly kind: 'revive'; readonly slice: RedeliverySlice }
  | { readonly kind: 'owe'; readonly slice: ReplaySlice }
  | { readonly kind: 'owing'; readonly origin: string }
  | { readonly kind: 'lanes' }
  | { readonly kind: 'ledger' }
  | { readonly kind: 'load' }
  | { readonly kind: 'audit'; readonly audit: AuditMessage }
  | { readonly kind: 'loadHealth' }
  | { readonly kind: 'keepHealth'; readonly healths: readonly DestinationHealth[] }
  | { readonly kind: 'stop' };

export type RpcKind = RpcMessage['kind'];

/** The answer to each kind of operation. */
export interface RpcAnswers {
  /** As `appended.ts` writes it. */
  append: string;
  settle: SettleResult;
  claim: ClaimAnswer;
  release: number;
  expire: number;
  adopt: number;
  maintain: boolean;
  erase: number;
  scrub: undefined;
  find: PositionPage;
  size: LogSize;
  extent: RangeSize;
  apply: SettingsSnapshot;
  read: ReadAnswer;
  damaged: readonly Position[];
  history: (EventHistory | undefined)[];
  pending: PendingPage;
  deadLetters: DeadLetterPage;
  countDead: DeadLetterCount;
  revive: DeadLetterCount;
  owe: ReplayProgress;
  owing: ReplayProgress;
  lanes: readonly QueueStats[];
  ledger: LedgerAnswer;
  load: SettingsSnapshot;
  audit: AuditPage;
  loadHealth: readonly DestinationHealth[];
  keepHealth: undefined;
  stop: undefined;
}

export type WriterReply =
  | {
      readonly kind: 'ready';
      readonly keySecret: Uint8Array;
      readonly lastMark: ClockMark | undefined;
      /** The high-water mark was damaged and has been made anew. */
      readonly isMarkDamaged: boolean;
    }
  /** The open files are no longer those of the folder, or are again. */
  | { readonly kind: 'amiss'; readonly reason: string }
  | { readonly kind: 'intact' }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'done'; readonly id: number; readonly answer: RpcAnswers[RpcKind] }
  | { readonly kind: 'failed'; readonly id: number; readonly reason: string };

export interface AppendMessage {
  readonly batch: string;
  readonly receivedAt: Monotonic;
  readonly events: number;
  /** The events as compact JSON, one a line. */
  readonly lines: Uint8Array;
  /** Where each line begins, and one more: see `findLineOffsets`. */
  readonly starts: Uint32Array;
  /** Source id of each event. */
  readonly sources: Uint32Array;
  /** Key hash of each event: high word, low word. */
  readonly keys: Uint32Array;
  /** Dedupe window of each event in milliseconds; absent when all have the store's own. */
  readonly windows?: Float64Array;
  /** Hash of the userId of each event in the same form; two zeros where it has none. */
  readonly users: Uint32Array;
  readonly owed: readonly { destination: number; held: boolean; indexes: Uint32Array }[];
  readonly skipped: readonly { destination: number; reason: string; indexes: Uint32Array }[];
  readonly received: readonly CallCounts[];
}

/** Numbers for each entry of `SettleMessage.delivered`. */
export const DELIVERED_FIELDS = 7;

export interface SettleMessage {
  /**
   * Deliveries that one accepted request ended: seven numbers each (set, position, destination, place of the URL in
   * `endpoints`, when it was begun, latency in milliseconds, status).
   */
  readonly delivered: Float64Array;
  readonly endpoints: readonly string[];
  /** The others, and those that have a failed attempt to keep. */
  readonly others: readonly DeliveryResult[];
}

export interface MaintainMessage {
  readonly now: Monotonic;
  readonly retention: Retention;
  /** Milliseconds. */
  readonly budget: number;
  readonly mark?: ClockMark;
}

export interface DeadLetterListMessage {
  readonly query: DeadLetterQuery;
  readonly limit: number;
  readonly from?: string;
}

export interface DeadLetterCountMessage {
  readonly query: DeadLetterQuery;
  readonly from?: string;
}

export interface PendingMessage {
  readonly query: PendingQuery;
  readonly max: number;
  /** Only positions below this one. */
  readonly below?: Position;
}

export interface AuditMessage {
  readonly query: AuditQuery;
  readonly limit: number;
  readonly from?: number;
}

export interface FindMessage {
  readonly query: LogQuery;
  /** Only positions below this one. */
  readonly below?: Position;
}

/** A claim as bytes; objects only for deliveries that were tried before, which are few. */
export interface ClaimAnswer {
  /** Never tried: two numbers each (set, position). */
  readonly fresh: Float64Array;
  readonly tried: readonly HeldDelivery[];
  /** Of the sets that are owed once more: on whose behalf. */
  readonly origins: readonly (readonly [set: PendingSetId, origin: string])[];
  readonly nextDueAt?: Monotonic;
}

export interface ReadAnswer {
  /** The events asked for as compact JSON, one a line; an empty line where there is none. */
  readonly lines: Uint8Array;
  readonly sources: Uint32Array;
  /** When each arrived. */
  readonly times: Float64Array;
}

/** Rows of (scope, id, name, value) and of (destination, pending). */
export interface LedgerAnswer {
  readonly counters: readonly { scope: string; id: number; name: string; value: number }[];
  readonly pending: readonly { destination: number; n: number }[];
}
