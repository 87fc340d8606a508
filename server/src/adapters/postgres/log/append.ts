import { endianness } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Position } from '../../../model/event.ts';
import { type JsonLine, lineOf } from '../../../model/serialized-event.ts';
import type { Duration } from '../../../model/time.ts';
import type { PendingSetId } from '../../../ports/delivery-queue.ts';
import type { AppendResult, Batch, StorageError } from '../../../ports/event-log.ts';
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
import { type BatchKeys, findDuplicates } from './dedupe.ts';
import type { PlanNumbers } from './plans.ts';

const PLACE: Statement = {
  name: 'append.place',
  text: 'select * from place_batch($1, $2, $3)',
};

const STORE_KEYS: Statement = {
  name: 'append.store_keys',
  text: 'select store_keys($1::bigint[], $2) as fresh',
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

/** `$1` batch, `$2` process, `$3` number, `$4` whether it stored no event, `$5` answer, `$6` events, `$7` bytes. */
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
  readonly oldest_slot: number;
  readonly first_position: Position | null;
}

/** Bytes of a key with its index entry. */
export const KEY_BYTES = 90;

/** After a duplicate, so many batches are expected to have some: a client that sends again sends more than once. */
const DUPLICATES_EXPECTED_FOR = 8;

/** How long an append asks what became of a commit in doubt, in milliseconds; and how long it waits between two tries. */
const ASK_FOR = 60_000;
const ASK_EVERY = 250;

export interface AppenderDependencies {
  readonly database: Database;
  readonly chunks: ChunkTable;
  readonly plans: PlanNumbers;
  readonly pending: PendingSets;
  readonly hash: KeyHash;
  readonly dedupeWindow: Duration;
}

/** How far an append has come. The one after it waits for parts of that. */
class Turn {
  readonly #positions = Promise.withResolvers<void>();
  readonly #keys = Promise.withResolvers<void>();
  readonly #try = Promise.withResolvers<void>();
  /** Resolves when it and all before it need no more keys in their first try. */
  readonly hasKeys: Promise<void>;
  /** As `hasKeys`, of the one before. */
  readonly #hadKeys: Promise<void>;
  /** Half of each key while they are being stored: two batches that share none of them share no key. */
  #halves = new Set<number>();

  constructor(before?: Turn) {
    this.#hadKeys = before?.hasKeys ?? Promise.resolve();
    this.hasKeys = this.#hadKeys.then(() => this.#keys.promise);
  }

  /** Resolves when its first try has its positions, or has failed. */
  get hasPositions(): Promise<void> {
    return this.#positions.promise;
  }

  /** Resolves when its first try has ended. */
  get isTried(): Promise<void> {
    return this.#try.promise;
  }

  /** Resolves when a batch with these keys may begin. `isAlone`: not while one before it stores its keys. */
  async begin(before: Turn, keys: Uint32Array, isAlone: boolean): Promise<void> {
    this.#halves = new Set(keys.filter((_, index) => index % 2 === 0));
    await before.hasPositions;
    await before.#hadKeys;
    if (isAlone || shareOne(before.#halves, this.#halves)) await before.hasKeys;
  }

  positionsAreTaken(): void {
    this.#positions.resolve();
  }

  keysAreStored(): void {
    this.#positions.resolve();
    this.#keys.resolve();
    this.#halves.clear();
  }

  end(): void {
    this.keysAreStored();
    this.#try.resolve();
  }
}

/**
 * Stores batches, each in a transaction of its own. A batch without duplicates takes two round trips: positions and keys, which the
 * server answers one after the other, and everything else with the commit.
 *
 * ```
 *   batch 1   positions, keys ──────▶ encode ──▶ chunks, sets, counts, commit
 *   batch 2            positions, keys ──────▶ encode ──▶ chunks, sets, counts, commit
 * ```
 *
 * The next batch begins when the one before has its positions, so that they rise in the order of the calls. Keys cost the server more
 * than all the rest, so two batches store theirs side by side, on a processor each. They must not wait for each other in a circle. The
 * later one therefore begins only when the earlier one has its keys: when they share a key; when it adds to a parked row of the one
 * before, for which it waits here, unseen by the server; and while duplicates are expected. Both wait in the server for the rows with
 * the counts of this process, and a batch that has those waits for nobody. A batch that is tried again has lost its turn, and
 * nothing waits for it any more.
 */
export class Appender {
  readonly #dependencies: AppenderDependencies;
  readonly #appending = new Set<Promise<unknown>>();
  #last = new Turn();
  #numbers = { ofEmpty: 0, ofOthers: 0 };
  #sinceDuplicate = DUPLICATES_EXPECTED_FOR;
  #isStopped = false;

  constructor(dependencies: AppenderDependencies) {
    this.#dependencies = dependencies;
    this.#last.end();
  }

  /** See `EventLog.append`. */
  async append(batch: Batch): Promise<AppendResult> {
    const before = this.#last;
    const turn = new Turn(before);
    this.#last = turn;
    const appending = this.#appendNow(batch, turn, before).finally(() => turn.end());
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
    await Promise.allSettled(this.#appending);
  }

  /** A commit in doubt is asked for by the id of the batch, and a batch that came twice at once gets one answer. */
  async #appendNow(batch: Batch, turn: Turn, before: Turn): Promise<AppendResult> {
    const { database, plans, hash } = this.#dependencies;
    const { events } = batch;
    const lines = events.map((event) => event.line ?? lineOf(event.json));
    const ids = hashIds(hash, events, lines);
    const prepared = { lines, ids, plans: await plans.store(encodePlans(batch.plans)) };
    await turn.begin(before, ids.keys, this.#expectsDuplicates || waitsForOthers(batch));
    let tries = 0;
    const work = (transaction: Transaction) => {
      // Tried again, it may wait for keys of the batch behind it, which must then not wait for it.
      if (tries++ > 0) turn.end();
      return this.#store(transaction, batch, { ...prepared, turn, before });
    };
    let doubt: StorageError | undefined;
    for (const until = Date.now() + ASK_FOR; ; ) {
      try {
        // Under load one comes behind this one before it is synced, and would wait for the rows with the counts.
        return await database.write(work, () => this.#appending.size > 1);
      } catch (error) {
        if (error instanceof UnknownCommitError) doubt = error;
        else if (!isSameKey(error) && doubt === undefined) throw error;
        if (this.#isStopped || Date.now() > until) throw doubt ?? error;
        turn.end();
        if (doubt !== undefined) await delay(ASK_EVERY);
      }
    }
  }

  get #expectsDuplicates(): boolean {
    return this.#sinceDuplicate < DUPLICATES_EXPECTED_FOR;
  }

  async #store(transaction: Transaction, batch: Batch, prepared: PreparedBatch): Promise<AppendResult> {
    const { events, receivedAt } = batch;
    const known = await knownOf(transaction, batch);
    const keys: BatchKeys = {
      batch,
      known,
      hashes: hashesOf(prepared.ids.keys),
      window: this.#dependencies.dedupeWindow,
    };
    const windows = events.map((event) => event.dedupeWindow ?? keys.window);
    const since = receivedAt - Math.max(keys.window, ...windows);
    const placing = transaction.rows<PlacedRow>(PLACE, [batch.id, events.length - known, since]);
    const storing = transaction.rows<{ fresh: number[] | null }>(STORE_KEYS, [
      binaryArrayOf(prepared.ids.keys.subarray(known * 2)),
      this.#expectsDuplicates,
    ]);
    // When the first statement fails, nobody waits for the second.
    storing.catch(() => undefined);
    const [placed] = await placing;
    prepared.turn.positionsAreTaken();
    const { answer, open_slot: slot, oldest_slot: oldest, first_position: firstPosition } = placed!;
    const [stored] = await storing;
    const { fresh } = stored!;
    if (answer !== null) return decodeAppended(answer);
    // Positions of the events from `known` on, as if all were new.
    const first = (firstPosition ?? 0) - known;
    const places = placesOf(events.length, { known, first, fresh });
    if (fresh === null) this.#sinceDuplicate++;
    else {
      this.#sinceDuplicate = 0;
      await findDuplicates(transaction, this.#dependencies.chunks, { ...keys, slot, oldest, first, places });
    }
    prepared.turn.keysAreStored();
    const written = this.#putChunks(transaction, { slot, first, places }, batch, prepared);
    if (batch.owed.some(({ state }) => state === 'parked')) await prepared.before.isTried;
    const held = await this.#owe(transaction, batch, places);
    this.#remember(transaction, batch.id, { answer: encodeAppended(places, held), ...written });
    count(transaction, [
      ...countsOf(batch, places, known),
      ...skipCountsOf(prepared.plans, batch.planIndexes, places),
    ]);
    return { positions: Array.from(places, (place) => (place < 0 ? undefined : place)), held };
  }

  /** Writes the events in as many chunks as they need. The line of a duplicate is empty and its source is 0. */
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

function shareOne(some: ReadonlySet<number>, others: ReadonlySet<number>): boolean {
  for (const one of some) if (others.has(one)) return true;
  return false;
}

/** Whether a batch waits in its transaction for one before it, so that none of those may wait for its keys. */
function waitsForOthers({ owed, producer }: Batch): boolean {
  return producer !== undefined || owed.some(({ state }) => state === 'parked');
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

/** How many events at the beginning of the batch its producer had appended before. Moves the number of the producer. */
async function knownOf(transaction: Transaction, { producer, events }: Batch): Promise<number> {
  if (producer === undefined) return 0;
  const [row] = await transaction.rows<{ sequence: number }>(PRODUCED, [producer.name]);
  transaction.later(PRODUCE, [producer.name, producer.sequence + events.length - 1]);
  return Math.min(events.length, Math.max(0, row!.sequence - producer.sequence + 1));
}

/** The position of each event; −1 for those known and, so far, for those whose key is not new. */
function placesOf(
  events: number,
  {
    known,
    first,
    fresh,
  }: { readonly known: number; readonly first: Position; readonly fresh: readonly number[] | null },
): Float64Array {
  const places = new Float64Array(events).fill(-1);
  if (fresh === null) for (let index = known; index < events; index++) places[index] = first + index;
  else for (const index of fresh) places[known + index] = first + known + index;
  return places;
}

/** Two words for each event as the signed numbers of 64 bits that a column takes. */
export function hashesOf(words: Uint32Array): BigInt64Array {
  const swapped = new Uint32Array(words.length);
  for (let at = 0; at < words.length; at += 2) {
    swapped[at] = words[at + 1]!;
    swapped[at + 1] = words[at]!;
  }
  return new BigInt64Array(swapped.buffer);
}

/** The number of the type bigint in the server's catalogue, and words before the first element of an array. */
const BIGINT = 20;
const HEAD_WORDS = 5;

/**
 * Two words for each number as an array of the server's binary form: how many dimensions, no nulls, the type, the length, the first index;
 * then each number behind its length in bytes. `pg` sends bytes as they are. As text they would be written and read digit by digit.
 */
function binaryArrayOf(words: Uint32Array): Buffer {
  const n = words.length / 2;
  const form = new Uint32Array(HEAD_WORDS + n * 3);
  form.set([1, 0, BIGINT, n, 1]);
  for (let from = 0, to = HEAD_WORDS; from < words.length; from += 2, to += 3) {
    form[to] = 8;
    form[to + 1] = words[from]!;
    form[to + 2] = words[from + 1]!;
  }
  const bytes = Buffer.from(form.buffer);
  return endianness() === 'LE' ? bytes.swap32() : bytes;
}

/** An array as the server reads it. `pg` would quote each number. */
export function arrayOf(numbers: BigInt64Array | readonly (number | bigint)[]): string {
  return `{${numbers.join(',')}}`;
}

function positionsAt(indexes: readonly number[], places: Float64Array): Position[] {
  const positions: Position[] = [];
  for (const index of indexes) if (places[index]! >= 0) positions.push(places[index]!);
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
