import type { Event } from './event.ts';
import { LINE_FEED } from './json.ts';
import type { Monotonic } from './time.ts';

/**
 * An event with the bytes as which it is stored. Parsing costs more than anything else but sending, so code that can do with the
 * bytes does not read `event`.
 */
export interface SerializedEvent {
  /** Parsed when first read. */
  readonly event: Event;
  /** Absent when only the object is known. */
  readonly line?: JsonLine | undefined;
  /** When the event arrived. */
  readonly arrivedAt: Monotonic;
}

/**
 * `JSON.stringify(event)` in UTF-8, often in a larger buffer. It is a fixed point: parsing and writing it again, or any value in
 * it, gives the same bytes.
 */
export interface JsonLine {
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}

/** Lines that stand one behind the other in one buffer, with a line feed between them. */
export interface LineSpan extends JsonLine {
  readonly lines: number;
}

/** The line of a text without line feeds, such as compact JSON. */
export function lineOf(text: string): JsonLine {
  const bytes = Buffer.from(text);
  return { bytes, from: 0, to: bytes.length };
}

/** The lines in their order, in as few spans as possible without copying. The lines of one request are mostly one span. */
export function spansOf(lines: readonly JsonLine[]): LineSpan[] {
  const spans: LineSpan[] = [];
  for (let first = 0; first < lines.length; ) {
    const { bytes, from } = lines[first]!;
    let { to } = lines[first]!;
    let next = first + 1;
    for (; next < lines.length; next++) {
      const line = lines[next]!;
      if (line.bytes !== bytes || line.from !== to + 1 || bytes[to] !== LINE_FEED) break;
      to = line.to;
    }
    spans.push({ bytes, from, to, lines: next - first });
    first = next;
  }
  return spans;
}

/** All lines in one new buffer that can be transferred to another thread, with a line feed between them. */
export function joinLines(lines: readonly JsonLine[]): Uint8Array<ArrayBuffer> {
  let room = lines.length - 1;
  for (const { from, to } of lines) room += to - from;
  const joined = Buffer.allocUnsafeSlow(Math.max(room, 0));
  let end = 0;
  for (const { bytes, from, to } of spansOf(lines)) {
    end += bytes.copy(joined, end, from, to);
    if (end < room) joined[end++] = LINE_FEED;
  }
  return joined;
}

/** The offsets that the lines will have when joined, as `findLineOffsets` would find them. */
export function offsetsOf(lines: readonly JsonLine[]): Uint32Array {
  const starts = new Uint32Array(lines.length + 1);
  for (let line = 0; line < lines.length; line++) {
    const { from, to } = lines[line]!;
    starts[line + 1] = starts[line]! + to - from + 1;
  }
  return starts;
}

/** The offsets at which the lines of a body begin, and one more: that behind the last line and its line feed. */
export function findLineOffsets(body: Uint8Array, lines: number): Uint32Array {
  const starts = new Uint32Array(lines + 1);
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  let at = 0;
  for (let line = 1; line < lines; line++) {
    at = bytes.indexOf(LINE_FEED, at) + 1;
    starts[line] = at;
  }
  starts[lines] = body.byteLength + 1;
  return starts;
}
