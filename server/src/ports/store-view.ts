import type { Position } from '../model/event.ts';
import type { OnWallClock, Time } from '../model/time.ts';
import type {
  DeadLetterCount,
  DeadLetterPage,
  DeadLetterQuery,
  DeliveryHistories,
  DeliveryQueue,
  EventHistory,
  QueueStats,
  RedeliverySlice,
} from './delivery-queue.ts';
import type { EventLog, LogQuery, LogSize, PositionPage, RangeSize } from './event-log.ts';
import type { Store } from './store.ts';

/**
 * A store as people ask it. Stores keep and compare times of the monotonic clock, so that setting the wall
 * clock ends no window and deletes nothing. People ask in times of the wall clock and are shown such times.
 */
export interface StoreView extends Pick<Store, 'backup'> {
  readonly log: LogView;
  readonly queue: QueueView;
  readonly history: HistoryView;
  readonly deadLetters: DeadLetterView;
}

/** From `from` (inclusive) to `to` (exclusive). */
export interface WallRange {
  readonly from: Time;
  readonly to: Time;
}

export interface LogView extends Pick<EventLog, 'read' | 'damaged'> {
  find(query: OnWallClock<LogQuery>, below?: Position): Promise<OnWallClock<PositionPage>>;
  size(): Promise<OnWallClock<LogSize>>;
  rangeSize(range: WallRange, from: Position): Promise<RangeSize>;
}

export interface QueueView extends Pick<DeliveryQueue, 'ledger'> {
  stats(): Promise<readonly OnWallClock<QueueStats>[]>;
}

export interface HistoryView extends Pick<DeliveryHistories, 'findPending' | 'progress' | 'pendingOf'> {
  read(positions: readonly Position[]): Promise<(OnWallClock<EventHistory> | undefined)[]>;
}

/**
 * Dead letters by the time at which they were given up. Where the wall clock was set back, the result may
 * include some that show a time outside the range: they died between others inside it.
 */
export interface DeadLetterView {
  list(
    query: OnWallClock<DeadLetterQuery>,
    limit: number,
    from?: string,
  ): Promise<OnWallClock<DeadLetterPage>>;
  count(query: OnWallClock<DeadLetterQuery>, from?: string): Promise<DeadLetterCount>;
  /** The times of the slice itself are those of the store. */
  redeliver(slice: ViewedSlice): Promise<DeadLetterCount>;
}

export interface ViewedSlice extends Omit<RedeliverySlice, 'query'> {
  readonly query: OnWallClock<DeadLetterQuery>;
}
