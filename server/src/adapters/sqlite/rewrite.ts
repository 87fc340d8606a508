import type { Position } from '../../model/event.ts';
import { type Chunk, type ChunkEvents, lineOf } from './chunks.ts';

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
      lines.push(lineOf(chunk, chunk.first + index));
      continue;
    }
    keys.fill(0, index * 2, index * 2 + 2);
    users.fill(0, index * 2, index * 2 + 2);
  }
  const { n, sources, times, plans } = chunk;
  return { n, lines: Buffer.concat(lines), sources, times, plans, keys, users };
}

const LINE_FEED = Uint8Array.of(10);
