import type { Event } from './event.ts';
import { LINE_FEED } from './json.ts';
import type { Monotonic } from './time.ts';

/**
 * An event with the bytes as which it is stored. Parsing costs more than anything else but sending, so code
 * that can do with the bytes does not read `event`.
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
 * `JSON.stringify(event)` in UTF-8, often in a larger buffer. It is a fixed point: parsing and writing it
 * again, or any value in it, gives the same bytes.
 */
export interface JsonLine {
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}

/** The line of a text without line feeds, such as compact JSON. */
export function lineOf(text: string): JsonLine {
  const bytes = Buffer.from(text);
  return { bytes, from: 0, to: bytes.length };
}

/**
 * The offsets at which the lines of a body begin, and one more: that behind the last line and its line feed.
 */
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
