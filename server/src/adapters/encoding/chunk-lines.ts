import type { Event, Position } from '../../model/event.ts';
import type { JsonLine } from '../../model/serialized-event.ts';
import type { Monotonic } from '../../model/time.ts';
import type { StoredEvent } from '../../ports/event-log.ts';
import { type Chunk, type ChunkEvents, concatLines } from './chunk-codec.ts';
import { idsOf } from './hashes.ts';

/** The most events of a chunk: enough to compress well, few enough to read one event quickly. */
export const MAX_CHUNK_EVENTS = 500;

/**
 * Stages of a chunk, as stored in column "stage". Erasure keeps the stage.
 *
 *               append
 *                 │
 *                 ▼
 *               FRESH ──compaction──▶ COMPACTED
 *                 │                       │
 *                 └───────────┬───────────┘
 *                             │ the retention of its events ends, or space is short
 *          ┌──────────────────┼───────────────────────┐
 *          │ it has           │ it has only           │ it has neither
 *          │ dead letters     │ recent messageIds     │
 *          ▼                  ▼                       ▼
 *       REMNANT ─────────▶ IDS_ONLY ────────────▶ row deleted
 *          │    dead letters          messageIds      ▲
 *          │    expire                expire          │
 *          └──────────────────────────────────────────┘
 */
export const FRESH = 0;
export const COMPACTED = 1;
/** Only events of dead letters are left, and recent messageIds. */
export const REMNANT = 2;
/** Only recent messageIds are left. */
export const IDS_ONLY = 3;

/** The compact JSON of one event; empty when the event was erased or only its messageId is left. */
export function eventLine(chunk: Chunk, position: Position): Buffer {
  const line = storedLine(chunk, position);
  return line[0] === QUOTE ? line.subarray(0, 0) : line;
}

const QUOTE = 0x22;

/** The stored line of one event: its JSON, its messageId as a JSON string, or nothing. */
export function storedLine(chunk: Chunk, position: Position): Buffer {
  const line = position - chunk.first;
  return chunk.body.subarray(chunk.starts[line]!, chunk.starts[line + 1]! - 1);
}

/**
 * The stored lines of `n` events from a position on, with line feeds between them. See `eventLine` for a
 * remnant.
 */
export function eventLines(chunk: Chunk, position: Position, n: number): Buffer {
  const line = position - chunk.first;
  return chunk.body.subarray(chunk.starts[line]!, chunk.starts[line + n]! - 1);
}

export function messageIdOf(line: Buffer): string {
  return idsOf(line).messageId;
}

/**
 * A chunk without some of its events. Their lines are empty and their hashes zero; the others keep their
 * positions. Sources, times and plans stay, because they tell nothing about a person.
 */
export function redactEvents(chunk: Chunk, isRedacted: (position: Position) => boolean): ChunkEvents {
  const keys = chunk.keys.slice();
  const users = chunk.users.slice();
  const lines: Uint8Array[] = [];
  for (let index = 0; index < chunk.n; index++) {
    if (!isRedacted(chunk.first + index)) {
      lines.push(storedLine(chunk, chunk.first + index));
      continue;
    }
    lines.push(EMPTY);
    keys.fill(0, index * 2, index * 2 + 2);
    users.fill(0, index * 2, index * 2 + 2);
  }
  const { n, sources, times, plans } = chunk;
  return { n, lines: concatLines(lines), sources, times, plans, keys, users };
}

/** A chunk that keeps some events whole and only the messageId of some others, for dedupe. */
export function reduceToIds(
  chunk: Chunk,
  {
    keepsEvent,
    keepsId,
  }: { keepsEvent: (position: Position) => boolean; keepsId: (time: Monotonic) => boolean },
): ChunkEvents {
  const left = redactEvents(chunk, (position) => {
    return !keepsEvent(position) && !keepsId(chunk.times[position - chunk.first]!);
  });
  const lines = Array.from({ length: chunk.n }, (_, index) => {
    const position = chunk.first + index;
    const line = storedLine(chunk, position);
    if (line.length === 0 || keepsEvent(position)) return line;
    return keepsId(chunk.times[index]!) ? Buffer.from(JSON.stringify(idsOf(line).messageId)) : EMPTY;
  });
  const users = left.users.slice();
  lines.forEach((_, index) => {
    if (!keepsEvent(chunk.first + index)) users.fill(0, index * 2, index * 2 + 2);
  });
  return { ...left, users, lines: concatLines(lines) };
}

const EMPTY = Buffer.alloc(0);

/**
 * An event that is parsed at the first look: parsing is most of the cost of a read, and not every reader
 * needs it.
 */
export class StoredLine implements StoredEvent, JsonLine {
  readonly source: number;
  readonly arrivedAt: Monotonic;
  readonly bytes: Buffer;
  readonly from = 0;
  #event: Event | undefined;

  constructor(source: number, arrivedAt: Monotonic, bytes: Buffer) {
    this.source = source;
    this.arrivedAt = arrivedAt;
    this.bytes = bytes;
  }

  get to(): number {
    return this.bytes.length;
  }

  /**
   * The object itself: thousands of events wait in memory, and each further object costs the garbage
   * collector.
   */
  get line(): JsonLine {
    return this;
  }

  get event(): Event {
    this.#event ??= JSON.parse(this.bytes.toString()) as Event;
    return this.#event;
  }
}
