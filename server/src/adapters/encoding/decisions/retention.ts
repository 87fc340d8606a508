import type { Position } from '../../../model/event.ts';
import type { Monotonic } from '../../../model/time.ts';
import type { Chunk, ChunkEvents } from '../chunk-codec.ts';
import { IDS_ONLY, REMNANT, reduceToIds } from '../chunk-lines.ts';

/** The part of a chunk that is kept past its retention, and its stage. */
export interface Remnant {
  readonly events: ChunkEvents;
  readonly stage: number;
}

/**
 * Events that are past their retention go, but not those of dead letters, which can be redelivered, and not
 * the messageIds that arrived after `idsSince`, which are still recognised. Undefined when nothing is left.
 */
export function remnantOf(
  chunk: Chunk,
  { dead, idsSince }: { readonly dead: ReadonlySet<Position>; readonly idsSince: Monotonic },
): Remnant | undefined {
  const keepsId = (time: Monotonic) => time > idsSince;
  if (dead.size === 0 && !chunk.times.some(keepsId)) return undefined;
  const events = reduceToIds(chunk, { keepsEvent: (position) => dead.has(position), keepsId });
  return { events, stage: dead.size > 0 ? REMNANT : IDS_ONLY };
}
