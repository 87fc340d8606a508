import { type Destination, lanesOf } from '../model/destination.ts';
import type { Replay, ReplayStanding } from '../model/replay.ts';
import { type Duration, SECOND } from '../model/time.ts';
import type { Owing } from '../ports/backlog.ts';
import { END } from './walk.ts';

/** What a replay does next. */
export type Step =
  /** Owes so many events at most. */
  | { readonly kind: 'owe'; readonly most: number }
  | { readonly kind: 'wait'; readonly reason: NonNullable<ReplayStanding['waiting']> }
  | { readonly kind: 'end'; readonly state: 'done' | 'failed'; readonly reason?: string };

/**
 * Deliveries that a replay may be ahead of its destination. What is owed more than that waits in the replay and not in the
 * backlog, where new events would have to wait behind it; and there is little left to be delivered after a cancel.
 */
export const AHEAD = 2000;

/** Slices a second, so that a replay comes in a steady stream and each slice costs a commit that is worth it. */
const SLICES = 5;
const SLICE_MOST = 500;

/** `destination` as it is now; absent when it was removed. */
export function decide(replay: Replay, destination: Destination | undefined, owing: Owing): Step {
  if (owing.cursor === END) return { kind: 'end', state: 'done' };
  if (destination === undefined) return { kind: 'end', state: 'failed', reason: 'destination_removed' };
  if (!destination.enabled) return { kind: 'wait', reason: 'destination_disabled' };
  if (destination.paused === true) return { kind: 'wait', reason: 'destination_paused' };
  // With `success: each` the quickest endpoint leads: one that is dead must not keep the others from their events.
  const ahead = Math.min(...lanesOf(destination).map(({ id }) => owing.pending.get(id) ?? 0));
  if (ahead >= AHEAD) return { kind: 'wait', reason: 'destination_behind' };
  return { kind: 'owe', most: Math.min(SLICE_MOST, Math.ceil(replay.rate / SLICES)) };
}

/**
 * How long to wait after a slice: as long as so many events may take, and at least as long as the slice took, so that
 * looking through what is not wanted leaves half of the time to everybody else.
 */
export function pauseAfter(events: number, rate: number, took: Duration): Duration {
  return Math.max(Math.ceil((events * SECOND) / rate) - took, took);
}
