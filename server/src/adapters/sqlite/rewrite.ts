import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { Chunk, ChunkEvents } from './chunk-codec.ts';
import { storedLineOf } from './chunks.ts';
import { idsOf } from './id-hashes.ts';

/**
 * A chunk without some of its events: their lines are empty and their hashes are zero, and the others keep their
 * positions. Sources, times and plans stay, because they say nothing about anybody.
 */
export function withoutLines(chunk: Chunk, goes: (position: Position) => boolean): ChunkEvents {
  const keys = chunk.keys.slice();
  const users = chunk.users.slice();
  const lines: Uint8Array[] = [];
  for (let index = 0; index < chunk.n; index++) {
    if (index > 0) lines.push(LINE_FEED);
    if (!goes(chunk.first + index)) {
      lines.push(storedLineOf(chunk, chunk.first + index));
      continue;
    }
    keys.fill(0, index * 2, index * 2 + 2);
    users.fill(0, index * 2, index * 2 + 2);
  }
  const { n, sources, times, plans } = chunk;
  return { n, lines: Buffer.concat(lines), sources, times, plans, keys, users };
}

/** A chunk of which some events are kept whole, and of some others the messageId alone: dedupe asks for those. */
export function withIdsOnly(
  chunk: Chunk,
  { keepsEvent, keepsId }: { keepsEvent: (position: Position) => boolean; keepsId: (time: Time) => boolean },
): ChunkEvents {
  const left = withoutLines(chunk, (position) => {
    return !keepsEvent(position) && !keepsId(chunk.times[position - chunk.first]!);
  });
  const lines = Array.from({ length: chunk.n }, (_, index) => {
    const position = chunk.first + index;
    const line = storedLineOf(chunk, position);
    if (line.length === 0 || keepsEvent(position)) return line;
    return keepsId(chunk.times[index]!) ? Buffer.from(JSON.stringify(idsOf(line).messageId)) : EMPTY;
  });
  const users = left.users.slice();
  lines.forEach((_, index) => {
    if (!keepsEvent(chunk.first + index)) users.fill(0, index * 2, index * 2 + 2);
  });
  const joined = lines.flatMap((line, index) => (index === 0 ? [line] : [LINE_FEED, line]));
  return { ...left, users, lines: Buffer.concat(joined) };
}

const EMPTY = Buffer.alloc(0);
const LINE_FEED = Uint8Array.of(10);
