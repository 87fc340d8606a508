import type { Position } from '../../../model/event.ts';
import { eventLine, redactEvents } from '../../encoding/chunk-lines.ts';
import { type EraseAnswer, type EraseMessage, isDeleteNotification } from '../../encoding/erasure-slices.ts';
import { hashLines, type KeyHash } from '../../encoding/hashes.ts';
import type { LedgerCount } from '../../encoding/ledger.ts';
import { LOCKS, type Statement, type Transaction } from '../database.ts';
import { eraseAttempts } from '../queue/attempts.ts';
import { eraseDeadLetters } from '../queue/dead-letters.ts';
import { count } from '../queue/ledger.ts';
import { erasePending } from '../queue/pending.ts';
import { countErased } from '../regulations/regulation-store.ts';
import { arrayOf, ERASE_KEYS } from './append.ts';
import { type ChunkTable, putChunk, type StoredChunk } from './chunk-table.ts';

/** Positions looked at in one transaction, and chunks rewritten in it. */
const SLICE_POSITIONS = 5000;
const SLICE_CHUNKS = 32;

/** Upkeep rewrites chunks too: the two never run side by side. */
const ALONE: Statement = { name: 'erase.alone', text: `select pg_advisory_xact_lock(${LOCKS.upkeep})` };

/**
 * Other processes may hold the events in memory: they ask every second. `ALONE` lets the numbers rise in the
 * order of the commits.
 */
const TELL_OTHERS: Statement = {
  name: 'erase.tell_others',
  text: `with old as (delete from erasure where at < clock_timestamp() - interval '1 hour')
    insert into erasure(process, positions) values ($1, $2::bigint[])`,
};

/** The old row stays in the file until `scrubLog`. */
const NOTE_SLOTS: Statement = {
  name: 'erase.note_slots',
  text: `insert into erased_slot as e (slot) select unnest($1::int[])
    on conflict (slot) do update set erasures = e.erasures + 1`,
};

/** Erases events with everything that is owed of them: one slice inside the caller's transaction. */
export async function eraseSlice(
  transaction: Transaction,
  { chunks, hash }: { readonly chunks: ChunkTable; readonly hash: KeyHash },
  { positions, keepsNotifications, regulation }: EraseMessage,
): Promise<EraseAnswer> {
  await transaction.rows(ALONE);
  const { taken, gone, byChunk } = await sliceOf(transaction, chunks, { positions, keepsNotifications });
  let events = 0;
  for (const [chunk, those] of byChunk) {
    redact(transaction, hash, { chunk, those });
    events += those.size;
  }
  transaction.later(NOTE_SLOTS, [[...new Set([...byChunk.keys()].map(({ slot }) => slot))]]);
  const { deliveries, deadLetters, counts } = await eraseOwed(transaction, gone);
  eraseAttempts(transaction, gone);
  transaction.later(TELL_OTHERS, [transaction.process, arrayOf([...gone])]);
  if (regulation !== undefined)
    await countErased(transaction, regulation, { events, deliveries, deadLetters });
  count(transaction, counts);
  return { taken, gone: [...gone], events, deliveries, deadLetters };
}

/**
 * Takes all that is owed of these events, and their dead letters, out of their rows. A claim, a settle or a
 * redelivery under way may move a part of a row into a new one while this waits for its lock, and a statement
 * does not see rows that are committed after it began. So nothing is left only when it has looked twice and
 * found nothing.
 */
export async function eraseOwed(transaction: Transaction, gone: ReadonlySet<Position>) {
  const counts: LedgerCount[] = [];
  let [deliveries, deadLetters] = [0, 0];
  for (let quiet = 0; quiet < 2; ) {
    const pending = await erasePending(transaction, gone);
    const dead = await eraseDeadLetters(transaction, gone);
    for (const [id, n] of pending) {
      counts.push({ scope: 'destination', id, name: 'erased', n });
      deliveries += n;
    }
    deadLetters += dead.count;
    counts.push(...dead.counts);
    quiet = pending.size + dead.count === 0 ? quiet + 1 : 0;
  }
  return { deliveries, deadLetters, counts };
}

/** The first positions, of a few chunks: all that are to go, and those with an event by chunk. */
async function sliceOf(
  transaction: Transaction,
  chunks: ChunkTable,
  { positions, keepsNotifications }: Pick<EraseMessage, 'positions' | 'keepsNotifications'>,
) {
  const slice = positions.subarray(0, SLICE_POSITIONS);
  const heads = await chunks.columns(transaction, slice);
  const taken = takenOf(slice, heads);
  const gone = new Set<Position>();
  const byChunk = new Map<StoredChunk, Set<Position>>();
  const stored = await chunks.holding(transaction, slice.subarray(0, taken));
  for (const position of slice.subarray(0, taken)) {
    const chunk = stored.find(({ first, n }) => position >= first && position < first + n);
    const line = chunk === undefined ? undefined : eventLine(chunk, position);
    if (keepsNotifications && line !== undefined && isDeleteNotification(line)) continue;
    gone.add(position);
    if (chunk === undefined || line === undefined || line.length === 0) continue;
    const those = byChunk.get(chunk) ?? new Set();
    byChunk.set(chunk, those.add(position));
  }
  return { taken, gone, byChunk };
}

/** How many of the first positions are in few enough chunks. */
function takenOf(
  positions: Float64Array,
  heads: readonly { readonly first: Position; readonly n: number }[],
): number {
  const met = new Set<Position>();
  for (const [taken, position] of positions.entries()) {
    const head = heads.find(({ first, n }) => position >= first && position < first + n);
    if (head !== undefined) met.add(head.first);
    if (met.size > SLICE_CHUNKS) return taken;
  }
  return positions.length;
}

/** Rewrites a chunk without these events, and drops their keys. */
function redact(
  transaction: Transaction,
  hash: KeyHash,
  { chunk, those }: { readonly chunk: StoredChunk; readonly those: ReadonlySet<Position> },
): void {
  const { slot, first, stage } = chunk;
  const { keys } = hashLines(hash, chunk);
  const positions = [...those];
  const hashes = positions.map((position) => {
    const at = (position - first) * 2;
    return BigInt.asIntN(64, (BigInt(keys[at]!) << 32n) | BigInt(keys[at + 1]!));
  });
  putChunk(
    transaction,
    { slot, first, stage },
    redactEvents(chunk, (position) => those.has(position)),
  );
  transaction.later(ERASE_KEYS, [arrayOf(hashes), arrayOf(positions)]);
}
