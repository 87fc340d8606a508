import type { Position } from '../../../model/event.ts';
import { invariant } from '../../../model/invariant.ts';
import {
  type Chunk,
  type ChunkEvents,
  type ChunkRow,
  checkNumbers,
  decodeHead,
  decodeLines,
  decodeUsers,
  encodeChunk,
  type HeadRow,
} from '../../encoding/chunk-codec.ts';
import { COMPACTED, FRESH } from '../../encoding/chunk-lines.ts';
import type { ChunkFacts } from '../../encoding/chunk-merge.ts';
import { hashLines, type KeyHash } from '../../encoding/hashes.ts';
import type { Statement, Transaction } from '../database.ts';

/**
 * The columns of a row, as adapters/encoding/chunk-codec.ts writes them, without the batch and the keys,
 * which have tables of their own.
 */
export type StoredRow = Omit<ChunkRow, 'batch' | 'answer' | 'keys'> & { readonly slot: number };

/** A decoded chunk. Its keys are zeros: they are in tables of their own. */
export type StoredChunk = Chunk & {
  readonly slot: number;
  /** Bytes of its row. */
  readonly bytes: number;
};

/** Facts of a chunk without its events. */
export type StoredFacts = ChunkFacts & { readonly slot: number };

/** Sources and plans of a chunk, without its events. */
export type ChunkHead = Pick<Chunk, 'first' | 'n' | 'sources' | 'plans'>;

const NUMBERS = 'slot, first, n, at, until, codec, json, stage';
const HEAD = `${NUMBERS}, sources, times, plans`;
const COLUMNS = `${HEAD}, users, body`;

/** Every position from here on is in this slot or a later one. */
const SLOT_OF = (position: string) => `(select max(id) from slot where from_position <= ${position})`;

/** Each chunk once that holds a position of one of the ranges. */
const holding = (columns: string) => `
  select distinct on (c.slot, c.first) c.* from unnest($1::bigint[], $2::bigint[]) r(low, below), lateral (
    (select ${columns} from chunk where slot = ${SLOT_OF('r.low')} and first <= r.low order by first desc limit 1)
    union all
    (select ${columns} from chunk where slot >= ${SLOT_OF('r.low')} and first > r.low and first < r.below)) c
  where c.first + c.n > r.low order by c.slot, c.first`;

const HOLDING: Statement = { name: 'chunk.holding', text: holding(COLUMNS) };
const HEADS: Statement = { name: 'chunk.heads', text: holding(HEAD) };

const FROM: Statement = {
  name: 'chunk.from',
  text: `select ${NUMBERS} from chunk where slot >= ${SLOT_OF('$1::bigint')} and first >= $1 order by slot, first limit $2`,
};

const BELOW: Statement = {
  name: 'chunk.below',
  text: `select ${NUMBERS} from chunk where slot <= ${SLOT_OF('$1::bigint')} and first < $1
    order by slot desc, first desc limit $2`,
};

/** `$3`: the bytes of a hash. They may stand across two hashes: a match is compared with the events. */
const OF_USER: Statement = {
  name: 'chunk.of_user',
  text: `select ${NUMBERS}, position($3::bytea in users) > 0 as hit from chunk
    where slot <= ${SLOT_OF('$1::bigint')} and first < $1 order by slot desc, first desc limit $2`,
};

const WHOLE: Statement = {
  name: 'chunk.whole',
  text: `select ${COLUMNS} from chunk where slot >= ${SLOT_OF('$1::bigint')} and first >= $1 and first < $2
    order by slot, first limit $3`,
};

const REMNANTS: Statement = {
  name: 'chunk.remnants',
  text: `select ${COLUMNS} from chunk where stage = $1 and until < $2 order by until limit $3`,
};

const PUT: Statement = {
  name: 'chunk.put',
  text: `insert into chunk(${COLUMNS}) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
    on conflict (slot, first) do update set n = excluded.n, at = excluded.at, until = excluded.until, codec = excluded.codec,
      json = excluded.json, stage = excluded.stage, sources = excluded.sources, times = excluded.times, plans = excluded.plans,
      users = excluded.users, body = excluded.body`,
};

const DELETE: Statement = {
  name: 'chunk.delete',
  text: 'delete from chunk where slot = $1 and first = any($2::bigint[])',
};

/** Bytes of a row beside its columns of bytes, with its index entry. */
const ROW_BYTES = 120;

/**
 * Encodes a chunk and writes it, in place of the one that begins at the same position. Returns how many bytes
 * its row takes.
 */
export function putChunk(
  transaction: Transaction,
  { slot, first, stage }: Pick<StoredRow, 'slot' | 'first' | 'stage'>,
  events: ChunkEvents,
): number {
  if (stage === FRESH) checkNew(events);
  const row = { ...encodeChunk(first, events, stage), slot };
  transaction.later(PUT, [
    slot,
    first,
    row.n,
    row.at,
    row.until,
    row.codec,
    row.json,
    stage,
    row.sources,
    row.times,
    row.plans,
    row.users,
    row.body,
  ]);
  return bytesOf(row);
}

function checkNew({ n, sources, times, plans, keys, users }: ChunkEvents): void {
  invariant(n > 0, 'a new chunk of the database has an event');
  invariant(sources.length === n, 'a new chunk of the database has a source for each event');
  invariant(times.length === n, 'a new chunk of the database has a time for each event');
  invariant(plans.length === n, 'a new chunk of the database has a plan for each event');
  invariant(keys.length === 2 * n, 'a new chunk of the database has a key for each event');
  invariant(users.length === 2 * n, 'a new chunk of the database has a user for each event');
}

/**
 * Writes a row for events that exist and cannot be read: one whose numbers have no checksum counts as
 * damaged.
 */
export function putUnreadable(
  transaction: Transaction,
  { slot, first, n, at, until }: Pick<StoredRow, 'slot' | 'first' | 'n' | 'at' | 'until'>,
): void {
  transaction.later(PUT, [slot, first, n, at, until, 0, 0, COMPACTED, NOTHING, null, null, NOTHING, NOTHING]);
}

const NOTHING = Buffer.alloc(0);

/** Bytes that a row takes, less than a page of which is not exact. */
export function bytesOf({ sources, times, plans, users, body }: Omit<StoredRow, keyof StoredFacts>): number {
  const parts = [sources, times, plans, users, body];
  return ROW_BYTES + parts.reduce((sum, part) => sum + (part?.byteLength ?? 0), 0);
}

export function deleteChunks(transaction: Transaction, slot: number, firsts: readonly Position[]): void {
  transaction.later(DELETE, [slot, firsts]);
}

/**
 * Reads chunks. One whose bytes have changed since they were stored reads as one that does not exist, and is
 * noted.
 */
export class ChunkTable {
  readonly #hash: KeyHash;
  readonly #onDamage: (first: Position, n: number) => void;

  constructor(hash: KeyHash, onDamage: (first: Position, n: number) => void) {
    this.#hash = hash;
    this.#onDamage = onDamage;
  }

  /** The chunks that hold any of these positions, in the order of the log. */
  async holding(read: Transaction, positions: Iterable<Position>): Promise<StoredChunk[]> {
    const [lows, belows] = rangesOf(positions);
    if (lows.length === 0) return [];
    return this.#decodeAll(await read.rows<StoredRow>(HOLDING, [lows, belows]));
  }

  /** Sources and plans of the chunks that hold any of these positions. */
  async columns(
    read: Transaction,
    positions: Iterable<Position>,
  ): Promise<(ChunkHead & { times: Float64Array })[]> {
    const [lows, belows] = rangesOf(positions);
    if (lows.length === 0) return [];
    const rows = await read.rows<HeadRow>(HEADS, [lows, belows]);
    return rows.flatMap((row) => {
      const head = headOf(row);
      return head === undefined ? [] : [{ first: row.first, n: row.n, ...head }];
    });
  }

  /** The positions whose chunk exists and cannot be read. */
  async damaged(read: Transaction, positions: readonly Position[]): Promise<Position[]> {
    const [lows, belows] = rangesOf(positions);
    if (lows.length === 0) return [];
    const rows = await read.rows<StoredRow>(HOLDING, [lows, belows]);
    const broken = rows.filter((row) => this.decode(row) === undefined);
    return positions.filter((position) =>
      broken.some(({ first, n }) => position >= first && position < first + n),
    );
  }

  /** Whole chunks that begin at a position or above and below another, in the order of the log. */
  async whole(read: Transaction, from: Position, below: Position, limit: number): Promise<StoredRow[]> {
    return await read.rows<StoredRow>(WHOLE, [from, below, limit]);
  }

  /** Facts of at most `limit` chunks that begin at a position or above. */
  async factsFrom(read: Transaction, position: Position, limit: number): Promise<StoredFacts[]> {
    return (await read.rows<StoredRow>(FROM, [position, limit])).map(factsOf);
  }

  /** Facts of at most `limit` chunks that begin below a position, the newest first. */
  async factsBelow(read: Transaction, position: Position, limit: number): Promise<StoredFacts[]> {
    return (await read.rows<StoredRow>(BELOW, [position, limit])).map(factsOf);
  }

  /** The same, with `hit`: whether the chunk may hold events with this hash of a user. */
  async factsOfUser(
    read: Transaction,
    hash: Uint32Array,
    { below, limit }: { readonly below: Position; readonly limit: number },
  ): Promise<(StoredFacts & { readonly hit: boolean })[]> {
    const bytes = Buffer.from(hash.buffer, hash.byteOffset, hash.byteLength);
    const rows = await read.rows<StoredRow & { hit: boolean }>(OF_USER, [below, limit, bytes]);
    return rows.map((row) => ({ ...factsOf(row), hit: row.hit }));
  }

  /** Chunks of a stage whose events have all arrived before a time. */
  async remnants(read: Transaction, stage: number, before: number): Promise<StoredRow[]> {
    return await read.rows<StoredRow>(REMNANTS, [stage, before, 8]);
  }

  #decodeAll(rows: readonly StoredRow[]): StoredChunk[] {
    return rows.map((row) => this.decode(row)).filter((chunk) => chunk !== undefined);
  }

  /** Undefined when the row is damaged. */
  decode(row: StoredRow): StoredChunk | undefined {
    const seed = checkNumbers(row, 0);
    const head = headOf(row);
    const lines = seed && decodeLines(row, seed);
    if (seed === undefined || head === undefined || lines === undefined) {
      this.#onDamage(row.first, row.n);
      return undefined;
    }
    const { slot, first, n, stage } = row;
    const users = decodeUsers(row.users, seed) ?? hashLines(this.#hash, { n, ...lines, ...head }).users;
    const keys = new Uint32Array(n * 2);
    return {
      slot,
      first,
      n,
      stage,
      batchAnswer: undefined,
      bytes: bytesOf(row),
      ...lines,
      ...head,
      keys,
      users,
    };
  }
}

/** Source, time and plan of each event; undefined when they are damaged. */
export function headOf(row: Omit<HeadRow, 'batch' | 'answer'>): ReturnType<typeof decodeHead> {
  const seed = checkNumbers(row, 0);
  return seed && decodeHead({ ...row, batch: null, answer: null }, seed);
}

function factsOf(row: Omit<StoredFacts, 'isDamaged'> & { readonly codec: number }): StoredFacts {
  return { ...row, isDamaged: checkNumbers(row, 0) === undefined };
}

/** Positions as ranges: where each begins, and where it ends. */
function rangesOf(positions: Iterable<Position>): [lows: Position[], belows: Position[]] {
  const [lows, belows]: [Position[], Position[]] = [[], []];
  for (const position of Float64Array.from(positions).sort()) {
    if (belows.at(-1) === position) belows[belows.length - 1] = position + 1;
    else if (belows.at(-1) !== position + 1) {
      lows.push(position);
      belows.push(position + 1);
    }
  }
  return [lows, belows];
}
