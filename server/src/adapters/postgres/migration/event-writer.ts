import type { Monotonic } from '../../../model/time.ts';
import type { EventChunk, EventRow } from '../../../ports/installation.ts';
import { REMNANT } from '../../encoding/chunk-lines.ts';
import type { Statement, Transaction } from '../database.ts';
import { arrayOf, hashesOf, KEY_BYTES } from '../log/append.ts';
import { putChunk, putUnreadable } from '../log/chunk-table.ts';
import { AGAIN } from '../log/dedupe.ts';
import { OPEN_SLOT, SLOT_SPAN, storedIn, weigh } from '../log/maintenance.ts';
import { partitionsOf } from '../schema.ts';

const OPEN: Statement = {
  name: 'migration.open_slot',
  text: 'insert into slot(id, from_position) values ($1::int, $2::bigint)',
};

/** `$1` slot, `$2` hashes, `$3` positions: those whose hash the slot did not have. */
const PUT_KEYS: Statement = {
  name: 'migration.put_keys',
  text: `with new as (insert into key(hash, nth, slot, position)
      select hash, 0, $1::int, position from unnest($2::bigint[], $3::bigint[]) u(hash, position) order by hash, position
      on conflict do nothing returning position)
    select coalesce(array_agg(position), '{}') as positions from new`,
};

/** Keys of events of one slot. */
interface SlotKeys {
  readonly slot: number;
  readonly hashes: bigint[];
  readonly positions: number[];
}

/** Writes chunks with their keys, inside the transaction of a page. Slots are as long as those that appends fill. */
export async function writeEvents(write: Transaction, rows: readonly EventRow[]): Promise<void> {
  const [open] = await write.rows<{ id: number; at: Monotonic | null }>(OPEN_SLOT);
  let [slot, slotAt] = [open!.id, open!.at];
  let [events, bytes] = [0, 0];
  let keys: SlotKeys = { slot, hashes: [], positions: [] };
  for (const row of rows) {
    const at = row.kind === 'events' ? row.times[0]! : row.at;
    if (slotAt !== null && at > slotAt + SLOT_SPAN) {
      await putKeys(write, keys);
      slot++;
      await write.text(partitionsOf(slot));
      write.later(OPEN, [slot, row.first]);
      slotAt = at;
      keys = { slot, hashes: [], positions: [] };
    }
    slotAt ??= at;
    if (row.kind === 'unreadable') {
      putUnreadable(write, { slot, ...row });
      events += row.n;
      continue;
    }
    const { first, stage, ...chunk } = row;
    bytes += putChunk(write, { slot, first, stage }, chunk) + addKeys(keys, row) * KEY_BYTES;
    if (stage < REMNANT) events += storedIn(row);
  }
  await putKeys(write, keys);
  weigh(write, events, bytes);
}

/** Returns the number of keys. */
function addKeys({ hashes, positions }: SlotKeys, { first, n, keys }: EventChunk): number {
  const before = hashes.length;
  const all = hashesOf(keys);
  for (let index = 0; index < n; index++) {
    // Zeros stand for an event that is gone.
    if (all[index] === 0n) continue;
    hashes.push(all[index]!);
    positions.push(first + index);
  }
  return hashes.length - before;
}

/** Two ids may share a hash, and an id may have come again behind its window: such keys are told apart by a number. */
async function putKeys(write: Transaction, { slot, hashes, positions }: SlotKeys): Promise<void> {
  if (hashes.length === 0) return;
  const values = [slot, arrayOf(hashes), arrayOf(positions)];
  const [put] = await write.rows<{ positions: number[] }>(PUT_KEYS, values);
  if (put!.positions.length === hashes.length) return;
  const written = new Set(put!.positions);
  for (const [index, position] of positions.entries())
    if (!written.has(position)) await write.rows(AGAIN, [slot, hashes[index]!.toString(), position]);
}
