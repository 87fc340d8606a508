import { type Destination, lanesOf } from '../model/destination.ts';
import type { Replay, ReplayStatus } from '../model/replay.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { ReplayProgress } from '../ports/delivery-queue.ts';
import { CURSOR_END } from './cursor.ts';

/** What a replay does next. */
export type ReplayStep =
  /** Owes so many events at most. */
  | { readonly kind: 'owe'; readonly most: number }
  | { readonly kind: 'wait'; readonly reason: NonNullable<ReplayStatus['waiting']> }
  | { readonly kind: 'end'; readonly state: 'done' | 'failed'; readonly reason?: string };

/**
 * Deliveries that a replay may be ahead of its destination. What is owed more than that waits in the replay and not in the
 * backlog, where new events would have to wait behind it; and there is little left to be delivered after a cancel.
 */
export const MAX_AHEAD = 2000;

/** Slices a second, so that a replay comes in a steady stream and each slice costs a commit that is worth it. */
const SLICES_A_SECOND = 5;
const MAX_SLICE = 500;

/** `destination` as it is now; absent when it was removed. */
export function nextStep(
  replay: Replay,
  destination: Destination | undefined,
  owing: ReplayProgress,
): ReplayStep {
  if (owing.cursor === CURSOR_END) return { kind: 'end', state: 'done' };
  if (destination === undefined) return { kind: 'end', state: 'failed', reason: 'destination_removed' };
  if (!destination.enabled) return { kind: 'wait', reason: 'destination_disabled' };
  if (destination.paused === true) return { kind: 'wait', reason: 'destination_paused' };
  // With `success: each` the quickest endpoint leads: one that is dead must not keep the others from their events.
  const ahead = Math.min(...lanesOf(destination).map(({ id }) => owing.pending.get(id) ?? 0));
  if (ahead >= MAX_AHEAD) return { kind: 'wait', reason: 'destination_behind' };
  return { kind: 'owe', most: Math.min(MAX_SLICE, Math.ceil(replay.rate / SLICES_A_SECOND)) };
}

/**
 * How long to wait after a slice: as long as so many events may take, and at least as long as the slice took, so that
 * looking through what is not wanted leaves half of the time to everybody else.
 */
export function pauseAfter(events: number, rate: number, took: Duration): Duration {
  return Math.max(Math.ceil((events * SECOND) / rate) - took, took);
}

/** It is that of so long a time before. */
const THROUGHPUT_WINDOW: Duration = 30 * SECOND;
/** Less says nothing yet. */
const MIN_THROUGHPUT_WINDOW: Duration = 2 * SECOND;

/** How quickly something has come forward of late. */
export class ThroughputMeter {
  #samples: { readonly at: Monotonic; readonly done: number }[] = [];

  record(done: number, at: Monotonic): void {
    this.#samples.push({ at, done });
    while (this.#samples.length > 2 && this.#samples[1]!.at <= at - THROUGHPUT_WINDOW) this.#samples.shift();
  }

  /** Done a second; `undefined` when that is not known yet, or nothing was done. */
  perSecond(now: Monotonic): number | undefined {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)];
    if (
      first === undefined ||
      last === undefined ||
      now - first.at < MIN_THROUGHPUT_WINDOW ||
      last.done === first.done
    )
      return undefined;
    return ((last.done - first.done) * SECOND) / (now - first.at);
  }
}
