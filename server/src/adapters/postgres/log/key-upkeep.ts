import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Position } from '../../../model/event.ts';
import type { Monotonic } from '../../../model/time.ts';
import type { Database, Statement, Transaction } from '../database.ts';
import { keyTableOf } from '../formats.ts';
import { formOf, wordsOf } from './key-arrays.ts';
import { SplitBlockFilter } from './split-block-filter.ts';

/** Bytes of a key as a row, with its entry of the index, and in a page. */
export const KEY_BYTES = 90;
const PAGED_KEY_BYTES = 14;

/**
 * A slot of keys is open for an hour: its index stays in the memory of the server, and a checkpoint costs it
 * a few hundred bytes an event, whatever the rate. Or until it has so many keys: one statement makes pages of
 * them.
 */
const SLOT_KEYS = 10_000_000;
const FULL: Statement = {
  name: 'key_slot.full',
  text: `select k.id, to_regclass('key_' || k.id + 1) is not null as "hasNext" from key_slot k, position p where k.id = (select max(id) from key_slot)
    and (p.last_value >= k.from_position + ${SLOT_KEYS}
      or p.last_value >= k.from_position and p.is_called and k.opened < clock_timestamp() - interval '1 hour')`,
};

export const CLOSE: Statement = { name: 'key_slot.close', text: 'select close_slots() as "isClosed"' };

const OPEN: Statement = { name: 'key_slot.open', text: 'select open_key_slot($1::int)' };

/**
 * The time of the newest event of the oldest slot that is closed since. A chunk that begins below the slot
 * may have events of it.
 */
const SEAL: Statement = {
  name: 'key_slot.seal',
  text: `update key_slot k set youngest = coalesce((select max(c.until) from chunk c
      where c.slot >= (select max(id) from slot where from_position <= k.from_position)
        and c.slot <= (select max(id) from slot where from_position <= n.from_position) and c.first < n.from_position
        and c.first >= coalesce((select b.first from chunk b where b.first <= k.from_position
          and b.slot = (select max(id) from slot where from_position <= k.from_position) order by b.first desc limit 1), 0)), 0)
    from key_slot n where n.id = (select min(id) from key_slot where id > k.id)
      and k.id = (select min(id) from key_slot where youngest is null and id < (select max(id) from key_slot)) returning k.id`,
};

/** `$1`: everything up to then is past every window, `$2`: every event below is gone. */
const PAST: Statement = {
  name: 'key_slot.past',
  text: `select k.id, k.is_paged as "isPaged", k.has_table as "hasTable", k.keys, n.from_position <= $2 as "isGone"
    from key_slot k join key_slot n on n.id = (select min(id) from key_slot where id > k.id)
    where k.youngest <= $1 and (k.has_table or k.filter_bytes is not null or n.from_position <= $2) order by k.id limit 1`,
};

const PAGE: Statement = { name: 'key_slot.page', text: 'select page_keys($1::int) as keys' };

const DROP_TABLE: Statement = {
  name: 'key_slot.drop_table',
  text: 'select drop_key_table($1::int) as "isDropped"',
};

const DROP_PAGES: Statement = {
  name: 'key_slot.drop_pages',
  text: `with pages as (delete from key_page where slot = $1), filters as (delete from key_filter where slot = $1)
    delete from key_slot where id = $1`,
};

const DROP_FILTER: Statement = {
  name: 'key_filter.drop',
  text: 'with gone as (delete from key_filter where slot = $1) update key_slot set filter_bytes = null where id = $1',
};

/** The newest slot of the window without a filter, and the tag of the one behind it. */
const UNFILTERED: Statement = {
  name: 'key_slot.unfiltered',
  text: `select k.id, k.is_paged as "isPaged", k.keys, n.tag as next from key_slot k join key_slot n on n.id = (select min(id) from key_slot where id > k.id)
    where k.youngest > $1 and k.filter_bytes is null order by k.id desc limit 1`,
};

/** Changes no row where a failover has undone the keys that the filter was made of. */
const PUT_FILTER: Statement = {
  name: 'key_filter.put',
  text: `update key_slot k set filter_bytes = $3 where k.id = $1 and k.filter_bytes is null
    and (select n.tag from key_slot n where n.id > k.id order by n.id limit 1) = $2 returning k.id`,
};

const PUT_PART: Statement = {
  name: 'key_filter.put_part',
  text: `insert into key_filter(slot, part, words) values ($1, $2, $3)
    on conflict (slot, part) do update set words = excluded.words`,
};

const PART_BYTES = 256 * 1024;

/**
 * Blocks of a table of keys that are read at once, and rows in a full one; pages that are read at once. Some
 * 30,000 keys each.
 */
const SLICE_BLOCKS = 200;
const BLOCK_ROWS = 157;
const SLICE_PAGES = 256;

/**
 * Opens a new slot of keys when the open one is old or full. False when an append takes long, undefined when
 * there is nothing to do.
 */
export async function rotateKeys(write: Transaction): Promise<boolean | undefined> {
  const [full] = await write.rows<{ id: number; hasNext: boolean }>(FULL);
  if (full === undefined) return undefined;
  if (!full.hasNext) await write.text(keyTableOf(full.id + 1));
  const [closed] = await write.rows<{ isClosed: boolean }>(CLOSE);
  if (!closed!.isClosed) return false;
  write.later(OPEN, [full.id + 1]);
  return true;
}

/** Notes when the newest event of a closed slot arrived. */
export async function sealKeys(write: Transaction): Promise<boolean> {
  return (await write.rows(SEAL)).length > 0;
}

/**
 * Takes the keys of a slot past every window out of their table, a step at a time, and drops them with the
 * last of their events. `bytes`: by how many the log grew. `hasTable`: the table has to wait. Undefined when
 * there is nothing to do.
 */
export async function passKeys(
  write: Transaction,
  { idsSince, from }: { readonly idsSince: Monotonic; readonly from: Position },
): Promise<{ readonly bytes: number; readonly hasTable: boolean } | undefined> {
  const [past] = await write.rows<PastRow>(PAST, [idsSince, from]);
  if (past === undefined) return undefined;
  const { id, isPaged, hasTable, keys, isGone } = past;
  if (!isPaged) {
    const [paged] = await write.rows<{ keys: number }>(PAGE, [id]);
    return { bytes: paged!.keys * (PAGED_KEY_BYTES - KEY_BYTES), hasTable: false };
  }
  if (hasTable) {
    const [dropped] = await write.rows<{ isDropped: boolean }>(DROP_TABLE, [id]);
    return { bytes: 0, hasTable: !dropped!.isDropped };
  }
  write.later(isGone ? DROP_PAGES : DROP_FILTER, [id]);
  return { bytes: isGone ? -(keys ?? 0) * PAGED_KEY_BYTES : 0, hasTable: false };
}

interface PastRow {
  readonly id: number;
  readonly isPaged: boolean;
  readonly hasTable: boolean;
  readonly keys: number | null;
  readonly isGone: boolean;
}

interface UnfilteredRow {
  readonly id: number;
  readonly isPaged: boolean;
  readonly keys: number | null;
  readonly next: number;
}

/**
 * Makes the filter of a closed slot, outside of any transaction: it gets no keys any more. False when all
 * slots since a time have theirs.
 */
export async function makeFilter(database: Database, idsSince: Monotonic): Promise<boolean> {
  const [slot] = await database.read((read) => read.rows<UnfilteredRow>(UNFILTERED, [idsSince]));
  if (slot === undefined) return false;
  const filter = await filterOf(database, slot);
  await database.write(async (write) => {
    const [mine] = await write.rows(PUT_FILTER, [slot.id, slot.next, filter.bytes]);
    if (mine === undefined) return;
    const bytes = filter.toBytes();
    for (let at = 0; at < bytes.length; at += PART_BYTES)
      write.later(PUT_PART, [slot.id, at / PART_BYTES, bytes.subarray(at, at + PART_BYTES)]);
  });
  return true;
}

async function filterOf(database: Database, slot: UnfilteredRow): Promise<SplitBlockFilter> {
  const ask = <Row>(text: string) => database.session(({ query }) => query<Row>(text));
  return slot.isPaged ? await filterOfPages(ask, slot) : await filterOfTable(ask, slot.id);
}

type Ask = <Row>(text: string) => Promise<Row[]>;

async function filterOfTable(ask: Ask, id: number): Promise<SplitBlockFilter> {
  const [size] = await ask<{ blocks: number }>(
    `select pg_relation_size('key_${id}') / current_setting('block_size')::int as blocks`,
  );
  const filter = new SplitBlockFilter(size!.blocks * BLOCK_ROWS);
  for (let block = 0; block < size!.blocks; block += SLICE_BLOCKS) {
    const [rows] = await ask<{
      hashes: string | null;
    }>(`select ${formOf('array_agg(hash)')} as hashes from key_${id}
      where ctid >= '(${block},0)' and ctid < '(${block + SLICE_BLOCKS},0)'`);
    if (rows!.hashes !== null) filter.addAll(wordsOf(rows!.hashes));
    await nextTurn();
  }
  return filter;
}

async function filterOfPages(ask: Ask, { id, keys }: UnfilteredRow): Promise<SplitBlockFilter> {
  const filter = new SplitBlockFilter(keys ?? 0);
  for (let after: PageRow | undefined; ; await nextTurn()) {
    const behind = after === undefined ? '' : `and (p.low, p.page) > (${after.low}, ${after.page})`;
    // By the column: "low" alone would be the text.
    const pages =
      await ask<PageRow>(`select p.low::text as low, p.page, ${formOf('p.hashes')} as hashes from key_page p
      where p.slot = ${id} ${behind} order by p.low, p.page limit ${SLICE_PAGES}`);
    for (const { hashes } of pages) filter.addAll(wordsOf(hashes));
    if (pages.length < SLICE_PAGES) return filter;
    after = pages.at(-1);
  }
}

interface PageRow {
  readonly low: string;
  readonly page: number;
  readonly hashes: string;
}
