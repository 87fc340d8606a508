import type { Position } from '../../../model/event.ts';
import type { Duration } from '../../../model/time.ts';
import type { Batch } from '../../../ports/event-log.ts';
import { messageIdOf, storedLine } from '../../encoding/chunk-lines.ts';
import type { Statement, Transaction } from '../database.ts';
import type { ChunkTable, StoredChunk } from './chunk-table.ts';

const MATCHES: Statement = {
  name: 'dedupe.matches',
  text: 'select hash::text as hash, position from key where slot >= $1 and hash = any($2::bigint[])',
};

/** No duplicate: another event with the same hash, or one past its window. No row: somebody else was quicker, look again. */
export const AGAIN: Statement = {
  name: 'dedupe.again',
  text: `insert into key(slot, hash, nth, position)
    select $1::int, $2::bigint, coalesce(max(nth) + 1, 0), $3::bigint from key where slot = $1::int and hash = $2::bigint
    on conflict do nothing returning nth`,
};

/** A batch with the keys of its events. */
export interface BatchKeys {
  readonly batch: Batch;
  /** The first events, which are not looked at. */
  readonly known: number;
  readonly hashes: BigInt64Array;
  /** For events that bring no window of their own. */
  readonly window: Duration;
}

export interface PlacedBatch extends BatchKeys {
  readonly slot: number;
  /** The oldest slot with keys within the longest window of the batch. */
  readonly oldest: number;
  /** The position of the first event, were it new. */
  readonly first: Position;
  /** −1 where the key is not new. */
  readonly places: Float64Array;
}

/**
 * Looks at each event whose key is not new, and gives those that are no duplicates their places. The test is exact: two ids may share
 * a hash, so each match is compared with the stored event. One that cannot be read counts as a different event: an event too many
 * is better than one too few. The matches of other processes are committed, because `store_keys` waited for them.
 */
export async function findDuplicates(
  transaction: Transaction,
  chunks: ChunkTable,
  placed: PlacedBatch,
): Promise<void> {
  const { known, hashes, slot, first, places } = placed;
  const open: number[] = [];
  for (let index = known; index < places.length; index++) if (places[index]! < 0) open.push(index);
  let matches = await matchesOf(transaction, chunks, placed, open);
  for (const index of open) {
    while (!isDuplicate(placed, index, matches)) {
      const [inserted] = await transaction.rows(AGAIN, [slot, hashes[index]!.toString(), first + index]);
      if (inserted !== undefined) {
        places[index] = first + index;
        break;
      }
      matches = await matchesOf(transaction, chunks, placed, open);
    }
  }
}

interface Matches {
  readonly byHash: ReadonlyMap<string, readonly Position[]>;
  readonly chunks: readonly StoredChunk[];
}

async function matchesOf(
  transaction: Transaction,
  chunks: ChunkTable,
  { hashes, oldest, first, batch }: PlacedBatch,
  indexes: readonly number[],
): Promise<Matches> {
  const wanted = [...new Set(indexes.map((index) => hashes[index]!.toString()))];
  const rows = await transaction.rows<{ hash: string; position: Position }>(MATCHES, [
    oldest,
    `{${wanted.join(',')}}`,
  ]);
  const byHash = new Map<string, Position[]>();
  for (const { hash, position } of rows) byHash.set(hash, [...(byHash.get(hash) ?? []), position]);
  const isOwn = (position: Position) => position >= first && position < first + batch.events.length;
  const stored = rows.map(({ position }) => position).filter((position) => !isOwn(position));
  return { byHash, chunks: await chunks.holding(transaction, stored) };
}

/** Whether an event is the same as one in the log within its window, or as an earlier one of the batch. */
function isDuplicate(
  { batch, hashes, first, places, window }: PlacedBatch,
  index: number,
  { byHash, chunks }: Matches,
): boolean {
  const event = batch.events[index]!;
  const hash = hashes[index]!;
  for (let earlier = 0; earlier < index; earlier++) {
    if (hashes[earlier] !== hash || places[earlier]! < 0) continue;
    const other = batch.events[earlier]!;
    if (other.source === event.source && other.messageId === event.messageId) return true;
  }
  const oldest = batch.receivedAt - (event.dedupeWindow ?? window);
  return (byHash.get(hash.toString()) ?? []).some((position) => {
    if (position >= first && position < first + places.length) return false;
    const chunk = chunks.find((one) => position >= one.first && position < one.first + one.n);
    if (chunk === undefined) return false;
    const at = position - chunk.first;
    if (chunk.times[at]! <= oldest || chunk.sources[at] !== event.source) return false;
    const line = storedLine(chunk, position);
    return line.length > 0 && messageIdOf(line) === event.messageId;
  });
}
