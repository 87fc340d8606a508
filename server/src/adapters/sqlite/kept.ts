import type { Position } from '../../model/event.ts';
import type { ChunkEvents } from './chunk-codec.ts';
import type { AppendMessage } from './protocol.ts';

const LINE_FEED = Uint8Array.of(10);

/** Where the events of these indexes stand in the log, the duplicates left out. */
export function positionsOf(indexes: Uint32Array, places: Float64Array): Position[] {
  const positions: Position[] = [];
  for (const index of indexes) {
    if (places[index]! >= 0) positions.push(places[index]!);
  }
  return positions;
}

/** The batch without its duplicates; mostly the batch itself. */
export function keep(message: AppendMessage, places: Float64Array, plans: Uint32Array): ChunkEvents {
  const { receivedAt, events: n, lines, starts, sources, keys, users } = message;
  if (!places.includes(-1))
    return { n, lines, starts, sources, times: new Float64Array(n).fill(receivedAt), plans, keys, users };
  const kept = [...places.keys()].filter((index) => places[index]! >= 0);
  const parts = kept.flatMap((index, nth) => {
    const line = lines.subarray(starts[index]!, starts[index + 1]! - 1);
    return nth === 0 ? [line] : [LINE_FEED, line];
  });
  const wordsOf = (words: Uint32Array) =>
    Uint32Array.from(kept.flatMap((at) => [words[at * 2]!, words[at * 2 + 1]!]));
  return {
    n: kept.length,
    lines: Buffer.concat(parts),
    sources: Uint32Array.from(kept, (index) => sources[index]!),
    times: new Float64Array(kept.length).fill(receivedAt),
    plans: Uint32Array.from(kept, (index) => plans[index]!),
    keys: wordsOf(keys),
    users: wordsOf(users),
  };
}
