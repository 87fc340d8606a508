import type { ReplayPreview, ReplayWish } from '../model/replay.ts';
import { type Duration, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { EventLog } from '../ports/event-log.ts';
import { END, Walk, type Walked, type Wanted } from './walk.ts';

/** Somebody waits for the preview: what was not looked at by then is estimated. */
const PATIENCE: Duration = SECOND;

export interface PreviewTools {
  readonly log: Pick<EventLog, 'find' | 'read' | 'size'>;
  readonly clock: Clock;
}

/** Looks through the range as the replay itself will: how many events there are, and how large. */
export async function previewOf(
  wish: ReplayWish,
  wanted: Wanted,
  { log, clock }: PreviewTools,
): Promise<ReplayPreview> {
  const walk = new Walk(log, wish);
  const end = clock.monotonic() + PATIENCE;
  const seen = { count: 0, bytes: 0 };
  let reachedAt: Time | undefined;
  for (let cursor = 0; cursor !== END; ) {
    const walked = await walk.next(cursor, Number.POSITIVE_INFINITY, wanted);
    cursor = walked.to;
    reachedAt = walked.reachedAt ?? reachedAt;
    seen.count += walked.events.length;
    seen.bytes += bytesOf(walked);
    if (cursor !== END && clock.monotonic() >= end) {
      const { oldestAt = wish.from } = await log.size();
      return estimate(seen, { from: Math.max(wish.from, oldestAt), reachedAt, to: wish.to });
    }
  }
  return { ...seen, isExact: true };
}

/** As if events had come as often in the rest of the time as in the part that was looked at. */
export function estimate(
  seen: { readonly count: number; readonly bytes: number },
  { from, reachedAt, to }: { readonly from: Time; readonly reachedAt: Time | undefined; readonly to: Time },
): ReplayPreview {
  const part = reachedAt === undefined ? 1 : Math.max(1, reachedAt - from);
  const whole = Math.max(part, to - from);
  const scaled = (n: number) => Math.round((n * whole) / part);
  return { count: scaled(seen.count), bytes: scaled(seen.bytes), isExact: false };
}

function bytesOf({ events }: Walked): number {
  return events.reduce((sum, { stored }) => sum + Buffer.byteLength(JSON.stringify(stored.event)), 0);
}
