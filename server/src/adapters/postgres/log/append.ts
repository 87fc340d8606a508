import { setTimeout as delay } from 'node:timers/promises';
import type { Position } from '../../../model/event.ts';
import { invariant } from '../../../model/invariant.ts';
import { type JsonLine, lineOf } from '../../../model/serialized-event.ts';
import type { Duration } from '../../../model/time.ts';
import type { PendingSetId } from '../../../ports/delivery-queue.ts';
import type { AppendResult, Batch, StorageError } from '../../../ports/event-log.ts';
import type { Logger } from '../../../ports/logger.ts';
import {
  type ChunkEvents,
  decodeAppended,
  encodeAppended,
  joinLines,
  NO_PLAN,
} from '../../encoding/chunk-codec.ts';
import { FRESH, MAX_CHUNK_EVENTS } from '../../encoding/chunk-lines.ts';
import { hashIds, type KeyHash } from '../../encoding/hashes.ts';
import type { LedgerCount } from '../../encoding/ledger.ts';
import { encodePlans, type NumberedPlan, skipCountsOf } from '../../encoding/plans.ts';
import {
  type Database,
  isSameKey,
  type Statement,
  type Transaction,
  UnknownCommitError,
} from '../database.ts';
import { count } from '../queue/ledger.ts';
import type { PendingSets } from '../queue/pending.ts';
import { type ChunkTable, putChunk } from './chunk-table.ts';
import { findDuplicates } from './dedupe.ts';
import { binaryArrayOf } from './key-arrays.ts';
import { findKeys, KeySlots, wordsAt } from './key-slots.ts';
import { KEY_BYTES } from './key-upkeep.ts';
import type { PlanNumbers } from './plans.ts';

const BEGIN: Statement = { name: 'append.begin', text: 'select * from take_batch($1, $2::bigint[], $3)' };

const STORE_MORE: Statement = {
  name: 'append.store_more',
  text: 'select store_more_keys($1, $2::bigint[], $3::bigint[], $4::int[]) as missing',
};

export const ERASE_KEYS: Statement = {
  name: 'append.erase_keys',
  text: 'select erase_keys($1::bigint[], $2::bigint[])',
};

/** The number that the producer had come to, with its row locked. */
const PRODUCED: Statement = {
  name: 'append.produced',
  text: `insert into producer as p (name, sequence) values ($1, 0)
    on conflict (name) do update set sequence = p.sequence returning sequence`,
};

const PRODUCE: Statement = {
  name: 'append.produce',
  text: 'update producer set sequence = greatest(sequence, $2) where name = $1',
};

/**
 * `$1` batch, `$2` process, `$3` number, `$4` whether it stored no event, `$5` answer, `$6` events, `$7`
 * bytes.
 */
const REMEMBER: Statement = {
  name: 'append.remember',
  text: `with old as (delete from batch where process = $2 and is_empty = $4 and number <= $3::bigint - 64),
    volume as (insert into volume as v (process, events, bytes) values ($2, $6, $7)
      on conflict (process) do update set events = v.events + excluded.events, bytes = v.bytes + excluded.bytes)
    insert into batch(id, process, number, is_empty, answer) values ($1, $2, $3, $4, $5)`,
};

interface PlacedRow {
  readonly answer: string | null;
  readonly open_slot: number;
  readonly key_slot: number;
  readonly key_tag: number;
  readonly first_position: Position | null;
  readonly taken: readonly number[] | null;
}

/**
 * How long an append asks what became of a commit in doubt, in milliseconds; and how long it waits between
 * two tries.
 */
const ASK_FOR = 60_000;
const ASK_EVERY = 250;

/** Duplicates mostly come together: so many batches after one that had some are expected to have some too. */
const DUPLICATES_FOR = 8;

export interface AppenderDependencies {
  readonly database: Database;
  readonly chunks: ChunkTable;
  readonly plans: PlanNumbers;
  readonly pending: PendingSets;
  readonly hash: KeyHash;
  readonly dedupeWindow: Duration;
  /** Bytes of memory for filters of keys. */
  readonly filterMemory: number;
  readonly logger?: Pick<Logger, 'warn'> | undefined;
}

/** How far an append has come. */
class Turn {
  readonly keys = Promise.withResolvers<void>();
  readonly tried = Promise.withResolvers<void>();

  end(): void {
    this.keys.resolve();
    this.tried.resolve();
  }
}

/**
 * Stores batches, each in a transaction of its own. A batch without duplicates takes two round trips:
 * positions and keys, and then everything else with the commit.
 *
 * ```
 *   batch 1   positions, keys ──▶ look, encode ──▶ chunks, sets, counts, commit
 *   batch 2            positions, keys ──▶ look, encode ──▶ chunks, sets, counts, commit
 * ```
 *
 * The next batch of the process begins when the one before has its positions and its keys: positions rise in
 * the order of the calls, and a batch that waits for the one before, because both add to a parked row, holds
 * no key that that one waits for. Two batches that share a key, of one node or of two, meet in the unique
 * index of the open slot: the later one waits for the commit of the earlier one.
 */
export class Appender {
  readonly #dependencies: AppenderDependencies;
  readonly #keySlots: KeySlots;
  readonly #appending = new Set<Promise<unknown>>();
  #last = new Turn();
  #numbers = { ofEmpty: 0, ofOthers: 0 };
  /** For how many batches duplicates are expected. */
  #duplicatesFor = 0;
  #isStopped = false;

  constructor(dependencies: AppenderDependencies) {
    this.#dependencies = dependencies;
    const { database, filterMemory: memory, logger } = dependencies;
    this.#keySlots = new KeySlots(database, { memory, logger });
    this.#last.end();
  }

  /** See `EventLog.append`. */
  async append(batch: Batch): Promise<AppendResult> {
    const before = this.#last;
    const turn = new Turn();
    this.#last = turn;
    const appending = this.#appendNow(batch, { turn, before }).finally(() => turn.end());
    this.#appending.add(appending);
    try {
      return await appending;
    } finally {
      this.#appending.delete(appending);
    }
  }

  /** Commits in doubt are not asked for any more. Resolves when all batches have their answers. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.allSettled([...this.#appending, this.#keySlots.stop()]);
  }

  /** Begins to load the filters, before the first batch. */
  prepare(): void {
    this.#keySlots.prepare();
  }

  /**
   * A commit in doubt is asked for by the id of the batch, and a batch that came twice at once gets one
   * answer.
   */
  async #appendNow(batch: Batch, { turn, before }: BatchTurn): Promise<AppendResult> {
    const { database, plans, hash } = this.#dependencies;
    const { events } = batch;
    const lines = events.map((event) => event.line ?? lineOf(event.json));
    const ids = hashIds(hash, events, lines);
    const numbered = await plans.store(encodePlans(batch.plans));
    await before.keys.promise;
    let isRepeated = false;
    const work = (transaction: Transaction) => {
      // It was a deadlock: others go on.
      if (isRepeated) turn.end();
      isRepeated = true;
      return this.#store(transaction, batch, { lines, ids, plans: numbered, turn, before });
    };
    let doubt: StorageError | undefined;
    for (const until = Date.now() + ASK_FOR; ; ) {
      try {
        // A batch with the same key, or one that counts on the same row, must not wait for the disk.
        return await database.write(work, () => true);
      } catch (error) {
        turn.end();
        if (error instanceof UnknownCommitError) doubt = error;
        else if (!isSameKey(error) && doubt === undefined) throw error;
        if (this.#isStopped || Date.now() > until) throw doubt ?? error;
        if (doubt !== undefined) await delay(ASK_EVERY);
      }
    }
  }

  async #store(transaction: Transaction, batch: Batch, prepared: PreparedBatch): Promise<AppendResult> {
    const { events } = batch;
    const { turn, ids } = prepared;
    const known = await knownOf(transaction, batch);
    const hashes = binaryArrayOf(ids.keys.subarray(known * 2));
    const [placed] = await transaction.rows<PlacedRow>(BEGIN, [batch.id, hashes, this.#duplicatesFor > 0]);
    const { answer, open_slot: slot, first_position: firstPosition } = placed!;
    if (answer !== null) return decodeAppended(answer);
    // Positions of the events from `known` on, as if all were new.
    const first = (firstPosition ?? 0) - known;
    const places = Float64Array.from(events, (_, index) => (index < known ? -1 : first + index));
    if (known < events.length)
      await this.#findDuplicates(transaction, placed!, { batch, keys: ids.keys, known, places, turn });
    turn.keys.resolve();
    const written = this.#putChunks(transaction, { slot, first, places }, batch, prepared);
    if (batch.owed.some(({ state }) => state === 'parked')) await prepared.before.tried.promise;
    const held = await this.#owe(transaction, batch, places);
    this.#remember(transaction, batch.id, { answer: encodeAppended(places, held), ...written });
    count(transaction, [
      ...countsOf(batch, places, known),
      ...skipCountsOf(prepared.plans, batch.planIndexes, places),
    ]);
    return { positions: Array.from(places, (place) => (place < 0 ? undefined : place)), held };
  }

  /**
   * Takes the places of duplicates away. `placed.taken` are events whose hash is in the open slot already:
   * when none of those with it turns out to be the same event, the key is stored beside them.
   */
  async #findDuplicates(transaction: Transaction, placed: PlacedRow, looked: LookedAt): Promise<void> {
    const { batch, keys, known, places, turn } = looked;
    const { chunks, dedupeWindow: window } = this.#dependencies;
    const taken = (placed.taken ?? []).map((nr) => known + nr - 1);
    this.#duplicatesFor = taken.length > 0 ? DUPLICATES_FOR : Math.max(0, this.#duplicatesFor - 1);
    // Only a key that is taken may have to wait once more.
    if (taken.length === 0) turn.keys.resolve();
    const longest = batch.events.reduce(
      (most, { dedupeWindow = window }) => Math.max(most, dedupeWindow),
      window,
    );
    const open = { id: placed.key_slot, tag: placed.key_tag };
    const since = batch.receivedAt - longest;
    const asked = await this.#keySlots.mayHold(transaction, open, { keys, first: known, since });
    const matches = new Map<number, Position[]>();
    for (let mine = taken; ; asked.length = 0) {
      asked.push(...mine.map((index) => ({ slot: open.id, index })));
      if (asked.length === 0) break;
      const next = new Map<number, number>();
      for (const { slot, index, position, nth } of await findKeys(transaction, keys, asked)) {
        if (position >= 0) matches.set(index, [...(matches.get(index) ?? []), position]);
        if (slot === open.id) next.set(index, Math.max(next.get(index) ?? 0, nth + 1));
      }
      if (taken.length + matches.size > 0)
        await findDuplicates(transaction, chunks, {
          batch,
          known,
          hashes: hashesOf(keys),
          window,
          matches,
          places,
        });
      mine = mine.filter((index) => places[index]! >= 0);
      if (mine.length === 0) break;
      mine = await storeMoreKeys(transaction, open.id, { keys, indexes: mine, next, places });
    }
    // Their keys were stored although a closed slot has them.
    const gone = [...matches.keys()].filter((index) => places[index]! < 0 && !taken.includes(index));
    if (gone.length === 0) return;
    const positions = arrayOf(gone.map((index) => placed.first_position! + index - known));
    transaction.later(ERASE_KEYS, [binaryArrayOf(wordsAt(keys, gone)), positions]);
  }

  /**
   * Writes the events in as many chunks as they need. The line of a duplicate is empty and its source is 0.
   */
  #putChunks(
    transaction: Transaction,
    {
      slot,
      first,
      places,
    }: { readonly slot: number; readonly first: Position; readonly places: Float64Array },
    batch: Batch,
    { lines, ids, plans: numbered }: PreparedBatch,
  ): { readonly events: number; readonly bytes: number } {
    const numbers = Uint32Array.from(
      batch.events,
      (_, index) => numbered[batch.planIndexes[index]!]?.number ?? NO_PLAN,
    );
    let [events, bytes] = [0, 0];
    for (let from = 0; from < places.length; from += MAX_CHUNK_EVENTS) {
      const to = Math.min(from + MAX_CHUNK_EVENTS, places.length);
      let begin = from;
      let end = to;
      while (begin < end && places[begin]! < 0) begin++;
      while (end > begin && places[end - 1]! < 0) end--;
      if (begin === end) continue;
      const part: ChunkEvents = {
        n: end - begin,
        lines: joinLines(
          lines.slice(begin, end).map((line, nth) => (places[begin + nth]! < 0 ? NOTHING : line)),
        ),
        sources: new Uint32Array(end - begin),
        times: new Float64Array(end - begin).fill(batch.receivedAt),
        plans: numbers.subarray(begin, end),
        keys: ids.keys.subarray(begin * 2, end * 2),
        users: ids.users.slice(begin * 2, end * 2),
      };
      for (let index = begin; index < end; index++) {
        if (places[index]! < 0) part.users.fill(0, (index - begin) * 2, (index - begin) * 2 + 2);
        else {
          part.sources[index - begin] = batch.events[index]!.source;
          events++;
        }
      }
      bytes += putChunk(transaction, { slot, first: first + begin, stage: FRESH }, part);
    }
    return { events, bytes: bytes + events * KEY_BYTES };
  }

  async #owe(
    transaction: Transaction,
    batch: Batch,
    places: Float64Array,
  ): Promise<(PendingSetId | undefined)[]> {
    if (batch.owed.length === 0) return [];
    const sets = batch.owed.map(({ destination, state, indexes, origin }) => ({
      destination,
      state,
      origin,
      positions: positionsAt(indexes, places),
      now: batch.receivedAt,
    }));
    return await this.#dependencies.pending.owe(transaction, sets);
  }

  #remember(
    transaction: Transaction,
    id: string,
    { answer, events, bytes }: { readonly answer: string; readonly events: number; readonly bytes: number },
  ): void {
    const isEmpty = events === 0;
    const number = isEmpty ? ++this.#numbers.ofEmpty : ++this.#numbers.ofOthers;
    transaction.later(REMEMBER, [id, transaction.process, number, isEmpty, answer, events, bytes]);
  }
}

interface MoreKeys {
  /** Of all events, as pairs of words. */
  readonly keys: Uint32Array;
  /** The events whose keys are to be stored. */
  readonly indexes: readonly number[];
  /** How many keys with the same hash the slot has, by the index of the event. */
  readonly next: ReadonlyMap<number, number>;
  /** Where the events are. */
  readonly places: ArrayLike<Position>;
}

/**
 * Stores keys beside others with the same hash. Returns the indexes of those where there are more of these
 * than it was said.
 */
export async function storeMoreKeys(
  write: Transaction,
  slot: number,
  { keys, indexes, next, places }: MoreKeys,
): Promise<number[]> {
  const [row] = await write.rows<{ missing: number[] | null }>(STORE_MORE, [
    slot,
    binaryArrayOf(wordsAt(keys, indexes)),
    arrayOf(indexes.map((index) => places[index]!)),
    indexes.map((index) => next.get(index) ?? 0),
  ]);
  return (row!.missing ?? []).map((nr) => indexes[nr - 1]!);
}

interface BatchTurn {
  readonly turn: Turn;
  /** Of the batch before. */
  readonly before: Turn;
}

interface LookedAt {
  readonly batch: Batch;
  /** Of all events, as pairs of words. */
  readonly keys: Uint32Array;
  readonly known: number;
  readonly places: Float64Array;
  readonly turn: Turn;
}

interface PreparedBatch {
  readonly lines: readonly JsonLine[];
  readonly ids: { readonly keys: Uint32Array; readonly users: Uint32Array };
  readonly plans: readonly NumberedPlan[];
  readonly turn: Turn;
  /** Of the batch before. */
  readonly before: Turn;
}

const NOTHING: JsonLine = { bytes: Buffer.alloc(0), from: 0, to: 0 };

/**
 * How many events at the beginning of the batch its producer had appended before. Moves the number of the
 * producer.
 */
async function knownOf(transaction: Transaction, { producer, events }: Batch): Promise<number> {
  if (producer === undefined) return 0;
  const [row] = await transaction.rows<{ sequence: number }>(PRODUCED, [producer.name]);
  transaction.later(PRODUCE, [producer.name, producer.sequence + events.length - 1]);
  return Math.min(events.length, Math.max(0, row!.sequence - producer.sequence + 1));
}

/** Two words for each event as the signed numbers of 64 bits that a column takes. */
function hashesOf(words: Uint32Array): BigInt64Array {
  const swapped = new Uint32Array(words.length);
  for (let at = 0; at < words.length; at += 2) {
    swapped[at] = words[at + 1]!;
    swapped[at + 1] = words[at]!;
  }
  return new BigInt64Array(swapped.buffer);
}

/** An array as the server reads it. `pg` would quote each number. */
export function arrayOf(numbers: BigInt64Array | readonly (number | bigint)[]): string {
  return `{${numbers.join(',')}}`;
}

export function positionsAt(indexes: readonly number[], places: Float64Array): Position[] {
  const positions: Position[] = [];
  for (const index of indexes) {
    const place = places[index];
    invariant(place !== undefined, 'what a batch owes in the database is an event of it');
    if (place >= 0) positions.push(place);
  }
  return positions;
}

/** The counts of a batch, without its first `known` events. */
function countsOf(batch: Batch, places: Float64Array, known: number): LedgerCount[] {
  const counts: LedgerCount[] = [];
  const ofSource = (id: number, name: string, n: number) => counts.push({ scope: 'source', id, name, n });
  for (let index = known; index < places.length; ) {
    const { source } = batch.events[index]!;
    const isDuplicate = places[index]! < 0;
    const from = index;
    while (
      index < places.length &&
      batch.events[index]!.source === source &&
      places[index]! < 0 === isDuplicate
    )
      index++;
    ofSource(source, isDuplicate ? 'duplicates' : 'accepted', index - from);
    if (batch.producer !== undefined) ofSource(source, 'received', index - from);
  }
  for (const { source, calls, discarded } of batch.received) {
    ofSource(source, 'received', calls);
    for (const [reason, n] of Object.entries(discarded)) ofSource(source, `discarded:${reason}`, n);
  }
  const ofDestination = (id: number, name: string, indexes: readonly number[]) => {
    const n = positionsAt(indexes, places).length;
    if (n > 0) counts.push({ scope: 'destination', id, name, n });
  };
  for (const { destination, indexes } of batch.owed) ofDestination(destination, 'owed', indexes);
  return counts;
}
