import type { Position } from '../../../model/event.ts';
import type { Statement, Transaction } from '../database.ts';
import { PAGE_KEYS } from '../schema.ts';

/** A hash may stand on several pages: on the last one that begins below it, and on all that begin with it. */
const FIND: Statement = {
  name: 'key_page.find',
  text: `select k.hash::text as hash, r.from_position + k.at as position
    from key_run r, unnest($1::bigint[]) w(hash), lateral (
      (select hashes, offsets from key_page where run = r.id and low < w.hash order by low desc, page desc limit 1)
      union all
      (select hashes, offsets from key_page where run = r.id and low = w.hash)) p, unnest(p.hashes, p.offsets) k(hash, at)
    where r.id = any($2::int[]) and r.is_converted and k.hash = w.hash`,
};

const RUNS: Statement = {
  name: 'key_page.runs',
  text: 'select id from key_run where is_converted',
};

/**
 * Full runs. The row with which the next one was opened is some seconds old: nodes look for the last row that they know, and also idle
 * ones know that one by now.
 */
const NEXT: Statement = {
  name: 'key_page.next',
  text: `select r.id from key_run r where not r.is_converted
    and exists (select from key_run n where n.id > r.id and n.opened < clock_timestamp() - interval '3 seconds')
    order by r.id limit 1`,
};

const CONVERT: Statement = {
  name: 'key_page.convert',
  text: `with gone as (delete from key_log where run = $1::int returning first, hashes),
      ranked as (select w.hash, (g.first + w.nr - 1 - (select from_position from key_run where id = $1::int))::int as at,
          (row_number() over (order by w.hash, g.first + w.nr) - 1) / ${PAGE_KEYS} as page
        from gone g, unnest(g.hashes) with ordinality w(hash, nr) where w.hash <> 0),
      pages as (insert into key_page(run, low, page, hashes, offsets)
        select $1::int, min(hash), page::int, array_agg(hash), array_agg(at) from ranked group by page
        returning cardinality(hashes) as keys)
    update key_run set is_converted = true, keys = (select coalesce(sum(keys), 0) from pages) where id = $1::int`,
};

const OF_SLOT = 'select id from key_run where slot = $1';

const COUNT: Statement = {
  name: 'key_page.count',
  text: `select coalesce((select sum(keys) from key_run where slot = $1), 0)
    + (select count(*) from key_log k, unnest(k.hashes) w(hash) where k.run in (${OF_SLOT}) and w.hash <> 0) as n`,
};

const DROP: Statement = {
  name: 'key_page.drop',
  text: `with pages as (delete from key_page where run in (${OF_SLOT})), log as (delete from key_log where run in (${OF_SLOT})),
      runs as (delete from key_run where slot = $1)
    update slot set has_keys = false where id = $1`,
};

export interface StoredKey {
  readonly hash: string;
  readonly position: Position;
}

/** Where these hashes stand in the pages of some runs. */
export async function findInPages(
  read: Transaction,
  hashes: Iterable<string>,
  runs: readonly number[],
): Promise<StoredKey[]> {
  return await read.rows<StoredKey>(FIND, [`{${[...hashes].join(',')}}`, runs]);
}

/** Runs whose keys are in pages. */
export async function convertedRuns(read: Transaction): Promise<number[]> {
  return (await read.rows<{ id: number }>(RUNS)).map(({ id }) => id);
}

/** Writes the keys of the oldest full run as pages. False when there is none. */
export async function convertNext(write: Transaction): Promise<boolean> {
  const [next] = await write.rows<{ id: number }>(NEXT);
  if (next === undefined) return false;
  convert(write, next.id);
  return true;
}

/** Writes the keys of a run as pages. Nobody adds to it any more. */
export function convert(write: Transaction, run: number): void {
  write.later(CONVERT, [run]);
}

/** Drops all keys of a slot. Resolves to how many it had. */
export async function dropKeys(write: Transaction, slot: number): Promise<number> {
  const [keys] = await write.rows<{ n: number }>(COUNT, [slot]);
  write.later(DROP, [slot]);
  return keys!.n;
}
