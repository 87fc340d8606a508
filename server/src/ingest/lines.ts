import type { AcceptedEvent } from './accepted.ts';

const LINE_FEED = 10;

/**
 * The lines of a batch, in a buffer of its own, so that it can be given away. Lines that stand one behind the other in the
 * buffer of their request, with a line feed between them, are copied together.
 */
export function linesOf(events: readonly AcceptedEvent[]): Uint8Array<ArrayBuffer> {
  let room = events.length - 1;
  for (const { from, to } of events) room += to - from;
  const lines = Buffer.allocUnsafeSlow(room);
  let end = 0;
  for (let first = 0; first < events.length; ) {
    const { bytes, from } = events[first]!;
    let { to } = events[first]!;
    let next = first + 1;
    for (; next < events.length; next++) {
      const event = events[next]!;
      if (event.bytes !== bytes || event.from !== to + 1 || bytes[to] !== LINE_FEED) break;
      to = event.to;
    }
    if (end > 0) lines[end++] = LINE_FEED;
    end += bytes.copy(lines, end, from, to);
    first = next;
  }
  return lines;
}
