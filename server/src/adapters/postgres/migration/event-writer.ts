import { randomInt } from 'node:crypto';
import type { Position } from '../../../model/event.ts';
import type { Monotonic } from '../../../model/time.ts';
import type { EventChunk, EventRow } from '../../../ports/installation.ts';
import { REMNANT } from '../../encoding/chunk-lines.ts';
import type { Statement, Transaction } from '../database.ts';
import { arrayOf, hashesOf, KEY_BYTES } from '../log/append.ts';
import { putChunk, putUnreadable } from '../log/chunk-table.ts';
import { convert } from '../log/key-pages.ts';
import { OPEN_SLOT, RUN_KEYS, SLOT_SPAN, storedIn, weigh } from '../log/maintenance.ts';
import { partitionOf } from '../schema.ts';

const OPEN: Statement = {
  name: 'migration.open_slot',
  text: 'insert into slot(id, from_position) values ($1::int, $2::bigint)',
};

const LAST_RUN: Statement = {
  name: 'migration.last_run',
  text: 'select id, from_position as "from" from key_run order by id desc limit 1',
};

const OPEN_RUN: Statement = {
  name: 'migration.open_run',
  text: 'insert into key_run(id, slot, from_position) values ($1::int, $2::int, $3::bigint)',
};

/** `$1` tag, `$2` run, `$3` first position, `$4` hashes. */
const PUT_KEYS: Statement = {
  name: 'migration.put_keys',
  text: `insert into key_log(seq, tag, run, process, first, hashes) values (nextval('key_seq'), $1, $2, 0, $3, $4::bigint[])`,
};

/** Writes chunks with their keys, inside the transaction of a page. Slots and runs are as long as those that appends fill. */
export async function writeEvents(write: Transaction, rows: readonly EventRow[]): Promise<void> {
  const [open] = await write.rows<{ id: number; at: Monotonic | null }>(OPEN_SLOT);
  const [last] = await write.rows<{ id: number; from: Position }>(LAST_RUN);
  let [slot, slotAt] = [open!.id, open!.at];
  let run = last!;
  let [events, bytes] = [0, 0];
  for (const row of rows) {
    const at = row.kind === 'events' ? row.times[0]! : row.at;
    const isOld = slotAt !== null && at > slotAt + SLOT_SPAN;
    if (isOld) {
      await write.text(partitionOf(++slot));
      write.later(OPEN, [slot, row.first]);
      slotAt = at;
    }
    if (isOld || row.first - run.from >= RUN_KEYS) {
      convert(write, run.id);
      run = { id: run.id + 1, from: row.first };
      write.later(OPEN_RUN, [run.id, slot, run.from]);
    }
    slotAt ??= at;
    if (row.kind === 'unreadable') {
      putUnreadable(write, { slot, ...row });
      events += row.n;
      continue;
    }
    const { first, stage, ...chunk } = row;
    bytes += putChunk(write, { slot, first, stage }, chunk) + putKeys(write, run.id, row) * KEY_BYTES;
    if (stage < REMNANT) events += storedIn(row);
  }
  weigh(write, events, bytes);
}

/** Returns the number of keys. Zeros stand for events that are gone. */
function putKeys(write: Transaction, run: number, { first, keys }: EventChunk): number {
  const hashes = hashesOf(keys);
  write.later(PUT_KEYS, [randomInt(2 ** 48 - 1), run, first, arrayOf(hashes)]);
  return hashes.reduce((n, hash) => (hash === 0n ? n : n + 1), 0);
}
