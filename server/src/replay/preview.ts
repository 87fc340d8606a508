import type { ReplayPreview, ReplayRequest } from '../model/replay.ts';
import { type Duration, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { EventLog, RangeSize } from '../ports/event-log.ts';
import { CURSOR_END, type CursorRange, type EventSlice } from './cursor.ts';

/** Somebody waits for the preview: what was not looked at by then is estimated. */
const PREVIEW_TIME_LIMIT: Duration = SECOND;

export interface PreviewDependencies {
  readonly log: Pick<EventLog, 'rangeSize'>;
  readonly clock: Pick<Clock, 'monotonic'>;
  /** Looks at the next part of the range, as the replay itself will. */
  readonly look: (cursor: number) => Promise<EventSlice>;
}

/** Looks through the range: how many events there are, and how large. */
export async function previewOf(
  wish: ReplayRequest,
  { log, clock, look }: PreviewDependencies,
): Promise<ReplayPreview> {
  const end = clock.monotonic() + PREVIEW_TIME_LIMIT;
  const seen = { count: 0, bytes: 0 };
  for (let cursor = 0; cursor !== CURSOR_END; ) {
    const walked = await look(cursor);
    cursor = walked.to;
    seen.count += walked.events.length;
    seen.bytes += bytesOf(walked);
    if (cursor !== CURSOR_END && clock.monotonic() >= end) {
      const [whole, left] = [await extentOf(log, wish, 0), await extentOf(log, wish, cursor)];
      return estimate(seen, { looked: whole.events - left.events, left });
    }
  }
  return { ...seen, isExact: true };
}

/** As if as many of the events that are still to be looked at were wanted as of those before; never more than there are. */
export function estimate(
  seen: { readonly count: number; readonly bytes: number },
  { looked, left }: { readonly looked: number; readonly left: Pick<RangeSize, 'events' | 'bytes'> },
): ReplayPreview {
  const share = Math.min(1, seen.count / Math.max(1, looked));
  const count = Math.round(left.events * share);
  const bytes = seen.count === 0 ? 0 : Math.round((seen.bytes / seen.count) * count);
  return {
    count: seen.count + count,
    bytes: seen.bytes + Math.min(bytes, left.bytes),
    isExact: false,
  };
}

/** How much is stored of a range from a position on. */
export async function extentOf(
  log: Pick<EventLog, 'rangeSize'>,
  { from, to }: CursorRange,
  start: number,
): Promise<Pick<RangeSize, 'events' | 'bytes'>> {
  let [events, bytes] = [0, 0];
  for (let at: number | undefined = start; at !== undefined && at !== CURSOR_END; ) {
    const part: RangeSize = await log.rangeSize({ from, to }, at);
    events += part.events;
    bytes += part.bytes;
    at = part.next;
  }
  return { events, bytes };
}

function bytesOf({ events }: EventSlice): number {
  return events.reduce((sum, { stored }) => sum + Buffer.byteLength(JSON.stringify(stored.event)), 0);
}
