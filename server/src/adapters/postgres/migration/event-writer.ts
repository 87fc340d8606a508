import type { EventChunk, EventRow } from '../../../ports/installation.ts';
import { REMNANT } from '../../encoding/chunk-lines.ts';
import type { Statement, Transaction } from '../database.ts';
import { keyTableOf, partitionOf } from '../formats.ts';
import { storeMoreKeys } from '../log/append.ts';
import { putChunk, putUnreadable } from '../log/chunk-table.ts';
import { findKeys } from '../log/key-slots.ts';
import { KEY_BYTES } from '../log/key-upkeep.ts';
import { OPEN_SLOT, type OpenSlotRow, SLOT_SPAN, storedIn, weigh } from '../log/maintenance.ts';

const OPEN: Statement = {
  name: 'migration.open_slot',
  text: 'insert into slot(id, from_position) values ($1::int, $2::bigint)',
};

const LAST_KEYS: Statement = { name: 'migration.last_keys', text: 'select max(id) as id from key_slot' };

const OPEN_KEYS: Statement = {
  name: 'migration.open_keys',
  text: 'insert into key_slot(id, from_position, tag) values ($1::int, $2::bigint, (random() * 2 ^ 48)::bigint)',
};

/**
 * Writes chunks with their keys, inside the transaction of a page. Slots are as long as those that appends
 * fill, also for keys.
 */
export async function writeEvents(write: Transaction, rows: readonly EventRow[]): Promise<void> {
  const [open] = await write.rows<OpenSlotRow>(OPEN_SLOT);
  const [last] = await write.rows<{ id: number }>(LAST_KEYS);
  let [slot, slotAt] = [open!.id, open!.at];
  let keySlot = last!.id;
  let [events, bytes] = [0, 0];
  for (const row of rows) {
    const at = row.kind === 'events' ? row.times[0]! : row.at;
    if (slotAt !== null && at > slotAt + SLOT_SPAN) {
      await write.text(`${partitionOf(++slot)}; ${keyTableOf(++keySlot)}`);
      write.later(OPEN, [slot, row.first]);
      write.later(OPEN_KEYS, [keySlot, row.first]);
      slotAt = at;
    }
    slotAt ??= at;
    if (row.kind === 'unreadable') {
      putUnreadable(write, { slot, ...row });
      events += row.n;
      continue;
    }
    const { first, stage, ...chunk } = row;
    bytes +=
      putChunk(write, { slot, first, stage }, chunk) + (await putKeys(write, keySlot, row)) * KEY_BYTES;
    if (stage < REMNANT) events += storedIn(row);
  }
  weigh(write, events, bytes);
}

/** Returns the number of keys. Zeros stand for events that are gone. */
async function putKeys(write: Transaction, slot: number, { first, keys }: EventChunk): Promise<number> {
  const there = Array.from({ length: keys.length / 2 }, (_, index) => index).filter(
    (index) => (keys[index * 2]! | keys[index * 2 + 1]!) !== 0,
  );
  const places = Float64Array.from({ length: keys.length / 2 }, (_, index) => first + index);
  const next = new Map<number, number>();
  for (let indexes = there; ; ) {
    indexes = await storeMoreKeys(write, slot, { keys, indexes, next, places });
    if (indexes.length === 0) return there.length;
    const asked = indexes.map((index) => ({ slot, index }));
    for (const { index, nth } of await findKeys(write, keys, asked))
      next.set(index, Math.max(next.get(index) ?? 0, nth + 1));
  }
}
