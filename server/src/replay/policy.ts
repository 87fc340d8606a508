import type { Destination } from '../model/destination.ts';
import type { Replay, ReplayStatus } from '../model/replay.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { ReplayProgress } from '../ports/delivery-queue.ts';
import { CURSOR_END } from './selection.ts';

/** The next action of a replay. */
export type ReplayStep =
  /** Enqueues at most `max` events. */
  | { readonly kind: 'enqueue'; readonly max: number }
  | { readonly kind: 'wait'; readonly reason: NonNullable<ReplayStatus['waiting']> }
  | { readonly kind: 'end'; readonly state: 'done' | 'failed'; readonly reason?: string };

/**
 * Pending deliveries at which a replay waits for its destination. The rest stays in the replay: in the
 * backlog it would go before new events, and a cancel could not take it back.
 */
export const MAX_AHEAD = 2000;

/** Slices a second: few enough that each is worth a commit, many enough for a steady stream. */
const SLICES_A_SECOND = 5;
const MAX_SLICE = 500;

/**
 * @param destination with its current settings; absent when it was removed
 * @param lanes ids of its lanes
 */
export function nextStep(
  replay: Replay,
  destination: Destination | undefined,
  progress: ReplayProgress,
  lanes: readonly number[],
): ReplayStep {
  if (progress.cursor === CURSOR_END) return { kind: 'end', state: 'done' };
  if (destination === undefined) return { kind: 'end', state: 'failed', reason: 'destination_removed' };
  if (!destination.enabled) return { kind: 'wait', reason: 'destination_disabled' };
  if (destination.paused === true) return { kind: 'wait', reason: 'destination_paused' };
  // With `success: each` the fastest endpoint counts: a dead one must not keep the others from their events.
  const ahead = Math.min(...lanes.map((id) => progress.pending.get(id) ?? 0));
  if (ahead >= MAX_AHEAD) return { kind: 'wait', reason: 'destination_behind' };
  return { kind: 'enqueue', max: Math.min(MAX_SLICE, Math.ceil(replay.rate / SLICES_A_SECOND)) };
}

/**
 * Pause after each slice: the time the rate limit requires, and at least the time the slice took, so that a
 * replay uses at most half of the store's time.
 */
export function pauseAfter(events: number, rate: number, took: Duration): Duration {
  return Math.max(Math.ceil((events * SECOND) / rate) - took, took);
}

/** Length of the moving average. */
const THROUGHPUT_WINDOW: Duration = 30 * SECOND;
/** A shorter measurement gives no answer. */
const MIN_THROUGHPUT_WINDOW: Duration = 2 * SECOND;

/** Measures the recent throughput of a growing total. */
export class ThroughputMeter {
  #samples: { readonly at: Monotonic; readonly total: number }[] = [];

  record(total: number, at: Monotonic): void {
    this.#samples.push({ at, total });
    while (this.#samples.length > 2 && this.#samples[1]!.at <= at - THROUGHPUT_WINDOW) this.#samples.shift();
  }

  /** Growth a second; `undefined` when nothing has grown, or the measurement is too short. */
  perSecond(now: Monotonic): number | undefined {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)];
    if (
      first === undefined ||
      last === undefined ||
      now - first.at < MIN_THROUGHPUT_WINDOW ||
      last.total === first.total
    )
      return undefined;
    return ((last.total - first.total) * SECOND) / (now - first.at);
  }
}
