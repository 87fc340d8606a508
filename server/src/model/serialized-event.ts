import type { Event } from './event.ts';
import type { Monotonic } from './time.ts';

/**
 * An event with the bytes it is stored as. Parsing costs more than anything else that is done for an event but sending it:
 * whoever can do with the bytes does not ask for the event.
 */
export interface SerializedEvent {
  /** Made when it is asked for. */
  readonly event: Event;
  /** Absent where nothing is kept but the event. */
  readonly line?: JsonLine | undefined;
  /** When it arrived. */
  readonly arrivedAt: Monotonic;
}

/**
 * `JSON.stringify(event)` in UTF-8, somewhere in a larger buffer. A fixed point: parsing and writing it again, or any value
 * in it, gives the same bytes.
 */
export interface JsonLine {
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}

const LINE_FEED = 10;

/** Lines that stand one behind the other in one buffer, with a line feed between them. */
export interface LineSpan extends JsonLine {
  readonly lines: number;
}

/** A text that holds no line feed, as no compact JSON does. */
export function lineOf(text: string): JsonLine {
  const bytes = Buffer.from(text);
  return { bytes, from: 0, to: bytes.length };
}

/** The lines in their order, in as few pieces as can be had without copying: those of one request are one piece as a rule. */
export function spansOf(lines: readonly JsonLine[]): LineSpan[] {
  const runs: LineSpan[] = [];
  for (let first = 0; first < lines.length; ) {
    const { bytes, from } = lines[first]!;
    let { to } = lines[first]!;
    let next = first + 1;
    for (; next < lines.length; next++) {
      const line = lines[next]!;
      if (line.bytes !== bytes || line.from !== to + 1 || bytes[to] !== LINE_FEED) break;
      to = line.to;
    }
    runs.push({ bytes, from, to, lines: next - first });
    first = next;
  }
  return runs;
}

/** All lines in one buffer of its own, which can be given away, with a line feed between them. */
export function joinLines(lines: readonly JsonLine[]): Uint8Array<ArrayBuffer> {
  let room = lines.length - 1;
  for (const { from, to } of lines) room += to - from;
  const together = Buffer.allocUnsafeSlow(Math.max(room, 0));
  let end = 0;
  for (const { bytes, from, to } of spansOf(lines)) {
    end += bytes.copy(together, end, from, to);
    if (end < room) together[end++] = LINE_FEED;
  }
  return together;
}

/** What `findLineOffsets` will say of them when they are joined. */
export function offsetsOf(lines: readonly JsonLine[]): Uint32Array {
  const starts = new Uint32Array(lines.length + 1);
  for (let line = 0; line < lines.length; line++) {
    const { from, to } = lines[line]!;
    starts[line + 1] = starts[line]! + to - from + 1;
  }
  return starts;
}

/** The offsets at which the lines of a body begin, and one more: the offset after the last line and its line feed. */
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
