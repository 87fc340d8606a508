import type { Position } from '../../../model/event.ts';
import type { Duration } from '../../../model/time.ts';
import type { Batch } from '../../../ports/event-log.ts';
import { messageIdOf, storedLine } from '../../encoding/chunk-lines.ts';
import type { Transaction } from '../database.ts';
import type { ChunkTable, StoredChunk } from './chunk-table.ts';

export interface PlacedBatch {
  readonly batch: Batch;
  /** The first events, which are not looked at. */
  readonly known: number;
  readonly hashes: BigInt64Array;
  /** For events that bring no window of their own. */
  readonly window: Duration;
  /** Stored positions that may be those of the same event, by its index. */
  readonly matches: ReadonlyMap<number, readonly Position[]>;
  /** The place of each event, were it new; −1 for the known ones. */
  readonly places: Float64Array;
}

/**
 * Takes the places of duplicates away. The test is exact: two ids may share a hash, so each match is compared
 * with the stored event. One that cannot be read counts as a different event: an event too many is better
 * than one too few.
 */
export async function findDuplicates(
  transaction: Transaction,
  chunks: ChunkTable,
  placed: PlacedBatch,
): Promise<void> {
  const { batch, known, hashes, matches, places } = placed;
  const stored = await chunks.holding(transaction, new Set([...matches.values()].flat()));
  const earlier = new Map<bigint, number[]>();
  for (let index = known; index < places.length; index++) {
    const event = batch.events[index]!;
    const same = earlier.get(hashes[index]!);
    const isRepeated = same?.some((one) => {
      const other = batch.events[one]!;
      return other.source === event.source && other.messageId === event.messageId;
    });
    if (isRepeated || isStored(placed, index, stored)) places[index] = -1;
    else if (same === undefined) earlier.set(hashes[index]!, [index]);
    else same.push(index);
  }
}

/** Whether an event is the same as one in the log within its window. */
function isStored(
  { batch, window, matches }: PlacedBatch,
  index: number,
  chunks: readonly StoredChunk[],
): boolean {
  const event = batch.events[index]!;
  const oldest = batch.receivedAt - (event.dedupeWindow ?? window);
  return (matches.get(index) ?? []).some((position) => {
    const chunk = chunks.find((one) => position >= one.first && position < one.first + one.n);
    if (chunk === undefined) return false;
    const at = position - chunk.first;
    if (chunk.times[at]! <= oldest || chunk.sources[at] !== event.source) return false;
    const line = storedLine(chunk, position);
    return line.length > 0 && messageIdOf(line) === event.messageId;
  });
}
