import type { Destination } from '../model/destination.ts';
import type { ReplayPreview, ReplayRequest } from '../model/replay.ts';
import { type Duration, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { RangeSize } from '../ports/event-log.ts';
import type { LogView } from '../ports/store-view.ts';
import {
  countDeadLetters,
  deadLetterQuery,
  LETTERS_AT_ONCE,
  type RedeliveryDependencies,
  selectLetters,
  takesEveryEvent,
} from './redelivery.ts';
import { CURSOR_END, type CursorRange, type EventSlice } from './selection.ts';

/** An operator waits for the preview. The part that was not read within this time is estimated. */
const PREVIEW_TIME_LIMIT: Duration = SECOND;

export interface PreviewDependencies {
  readonly log: Pick<LogView, 'rangeSize'>;
  readonly clock: Pick<Clock, 'monotonic'>;
  /** Reads the slice at a cursor, as the replay itself will, and counts the deliveries that it makes. */
  readonly readSlice: (cursor: number) => Promise<EventSlice & { readonly deliveries: number }>;
}

/** Counts the wanted events of a range, their deliveries and their bytes. */
export async function previewReplay(
  range: CursorRange,
  { log, clock, readSlice }: PreviewDependencies,
): Promise<ReplayPreview> {
  const end = clock.monotonic() + PREVIEW_TIME_LIMIT;
  const seen = { count: 0, deliveries: 0, bytes: 0 };
  for (let cursor = 0; cursor !== CURSOR_END; ) {
    const slice = await readSlice(cursor);
    cursor = slice.to;
    seen.count += slice.events.length;
    seen.deliveries += slice.deliveries;
    seen.bytes += bytesOf(slice);
    if (cursor !== CURSOR_END && clock.monotonic() >= end) {
      const [whole, left] = [await storedFrom(log, range, 0), await storedFrom(log, range, cursor)];
      return estimate(seen, { scanned: whole.events - left.events, left });
    }
  }
  return { ...seen, isExact: true };
}

/**
 * Counts the deliveries that a redelivery revives. Where it names a source or types, their events must be
 * read: then a part of them may be estimated.
 */
export async function previewRedelivery(
  request: ReplayRequest,
  destination: Destination,
  dependencies: RedeliveryDependencies,
): Promise<ReplayPreview> {
  const { clock, deadLetters } = dependencies;
  const query = deadLetterQuery(request, destination);
  const whole = await countDeadLetters(query, deadLetters);
  if (takesEveryEvent(request, destination, dependencies))
    return { count: whole, deliveries: whole, bytes: 0, isExact: true };
  const end = clock.monotonic() + PREVIEW_TIME_LIMIT;
  let [scanned, count] = [0, 0];
  let from: string | undefined;
  do {
    const page = await deadLetters.list(query, LETTERS_AT_ONCE, from);
    scanned += page.letters.length;
    count += (await selectLetters(page, request, dependencies)).length;
    from = page.next;
    if (from !== undefined && clock.monotonic() >= end) {
      const rest = Math.round((Math.max(0, whole - scanned) * count) / Math.max(1, scanned));
      return { count: count + rest, deliveries: count + rest, bytes: 0, isExact: false };
    }
  } while (from !== undefined);
  return { count, deliveries: count, bytes: 0, isExact: true };
}

/** Assumes that the share of wanted events stays the same. Never more than is stored. */
export function estimate(
  seen: Required<Pick<ReplayPreview, 'count' | 'deliveries' | 'bytes'>>,
  { scanned, left }: { readonly scanned: number; readonly left: Pick<RangeSize, 'events' | 'bytes'> },
): ReplayPreview {
  const share = Math.min(1, seen.count / Math.max(1, scanned));
  const count = Math.round(left.events * share);
  const [deliveries, bytes] = [seen.deliveries, seen.bytes].map((sum) =>
    seen.count === 0 ? 0 : Math.round((sum / seen.count) * count),
  ) as [number, number];
  return {
    count: seen.count + count,
    deliveries: seen.deliveries + deliveries,
    bytes: seen.bytes + Math.min(bytes, left.bytes),
    isExact: false,
  };
}

/** How much is stored of a range, from a cursor on. */
export async function storedFrom(
  log: Pick<LogView, 'rangeSize'>,
  { from, to }: CursorRange,
  cursor: number,
): Promise<Pick<RangeSize, 'events' | 'bytes'>> {
  let [events, bytes] = [0, 0];
  for (let at: number | undefined = cursor; at !== undefined && at !== CURSOR_END; ) {
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
