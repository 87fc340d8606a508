import { randomInt } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Position } from '../../../model/event.ts';
import { type JsonLine, lineOf } from '../../../model/serialized-event.ts';
import { type Duration, MINUTE } from '../../../model/time.ts';
import type { PendingSetId } from '../../../ports/delivery-queue.ts';
import { type AppendResult, type Batch, StorageError } from '../../../ports/event-log.ts';
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
import { KeyFilters, type RunHints } from './key-filters.ts';
import { KeyMemory, type KeyView } from './key-memory.ts';
import { findInPages } from './key-pages.ts';
import type { PlanNumbers } from './plans.ts';
import { Tries, Turn } from './turn.ts';

const BEGIN: Statement = {
  name: 'append.begin',
  text: 'select * from begin_batch($1, $2, $3)',
};

const ADD_KEYS: Statement = {
  name: 'append.add_keys',
  text: 'select add_keys($1, $2::bigint[], $3, $4, $5, $6, $7::bigint[], $8)',
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
  readonly open_run: number;
  readonly oldest_run: number;
  readonly first_position: Position | null;
}

/** Bytes of a key in a page of its run, with its part of the index. Before that it is smaller. */
export const KEY_BYTES = 14;

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
  /** Bytes of memory for filters of keys. */
  readonly filterMemory: number;
  /** Keys that are not in pages, beyond which batches are refused. Default: 16 million, which take a quarter of a gigabyte of memory. */
  readonly mostKeys?: number | undefined;
  /** After how long without progress of its filters a node that starts counts as ready. Default: a minute. */
  readonly preparedWithin?: Duration | undefined;
  readonly logger?: Pick<Logger, 'warn'> | undefined;
}

const MOST_KEYS = 16_000_000;

/** A batch reads one index for each million of keys without a filter. That costs little up to this many. */
const FEW_KEYS = 4_000_000;
const PREPARED_WITHIN: Duration = MINUTE;

const KEYS_WAIT =
  'the keys of millions of events wait for upkeep, which has not run for some time: see "upkeep.failed" in the logs of the nodes';

/**
 * Stores batches, each in a transaction of its own. A batch without duplicates takes two round trips: positions and what others have
 * committed, and then everything else with the commit.
 *
 * ```
 *   batch 1   positions, tail ──▶ look, encode ──▶ chunks, sets, counts, keys, commit
 *   batch 2            positions, tail ──▶ look, encode ──▶ chunks, sets, counts, keys, commit
 * ```
 *
 * The next batch begins when the one before has its positions, so that they rise in the order of the calls. Keys are looked for in the
 * memory of this process (key-memory.ts), in filters of older runs and, where those are in doubt, in the pages of their keys. Keys
 * that others committed after the look are found by `add_keys`, and the batch is done again. Batches of this process that share a key
 * follow each other: the later one begins when the first try of the earlier one has ended. A batch adds to a parked row of the one before
 * when that one has committed. A batch that is tried again has lost its turn: nothing waits for it any more, and `add_keys` looks at it.
 */
export class Appender {
  readonly #dependencies: AppenderDependencies;
  readonly #keyFilters: KeyFilters;
  readonly #keys: KeyMemory;
  readonly #appending = new Set<Promise<unknown>>();
  /** In the order of the calls. */
  readonly #turns = new Set<Turn>();
  #last = new Turn();
  #loaded: Promise<void> | undefined;
  /** While filters are awaited: how many keys were missing when some were last added, and when that was, by `performance.now`. */
  #progress: { readonly missing: number; readonly at: number } | undefined;
  #numbers = { ofEmpty: 0, ofOthers: 0 };
  #isStopped = false;

  constructor(dependencies: AppenderDependencies) {
    this.#dependencies = dependencies;
    this.#keys = new KeyMemory(() => this.#keyFilters.reset());
    const forget = (to: number) => this.#keys.forget(to);
    const { database, filterMemory: memory, logger } = dependencies;
    this.#keyFilters = new KeyFilters(database, { memory, logger, keys: this.#keys, onLoaded: forget });
    this.#last.end();
  }

  /** See `EventLog.append`. */
  async append(batch: Batch): Promise<AppendResult> {
    const before = this.#last;
    const turn = new Turn();
    const earlier = [...this.#turns];
    this.#last = turn;
    this.#turns.add(turn);
    const appending = this.#appendNow(batch, { turn, before, earlier }).finally(() => {
      turn.end();
      this.#turns.delete(turn);
    });
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
    await Promise.allSettled([...this.#appending, this.#keyFilters.stop()]);
  }

  /** Begins to make the filters, before the first batch. */
  prepare(): void {
    this.#progress = { missing: Number.POSITIVE_INFINITY, at: performance.now() };
    // Tried again with the first batch, and by upkeep.
    this.#load().catch(() => undefined);
  }

  /** Reasons why a node that has just started is slow, so that others had better take the calls; empty when it is ready. */
  preparing(): readonly string[] {
    if (this.#progress === undefined) return [];
    const now = performance.now();
    const { missing = Number.POSITIVE_INFINITY } = this.#keyFilters;
    if (missing < this.#progress.missing) this.#progress = { missing, at: now };
    const within = this.#dependencies.preparedWithin ?? PREPARED_WITHIN;
    if (missing <= FEW_KEYS || now - this.#progress.at > within) {
      this.#progress = undefined;
      return [];
    }
    const left = missing === Number.POSITIVE_INFINITY ? '' : `, ${Math.ceil(missing / 1e6)} million are left`;
    return [`the keys of deduplication are being read${left}: calls would take long until then`];
  }

  /** Learns what others have committed, also when this node stores nothing: what it does not know must not become much. */
  async catchUp(): Promise<void> {
    await this.#dependencies.database.read((read) =>
      this.#keys.catchUp(read, ({ unconverted }) => this.#keyFilters.noteUnconverted(unconverted)),
    );
  }

  /** A commit in doubt is asked for by the id of the batch, and a batch that came twice at once gets one answer. */
  async #appendNow(batch: Batch, { turn, before, earlier }: BatchTurn): Promise<AppendResult> {
    const { database, plans, hash, mostKeys = MOST_KEYS } = this.#dependencies;
    const { events } = batch;
    const lines = events.map((event) => event.line ?? lineOf(event.json));
    const ids = hashIds(hash, events, lines);
    const numbered = await plans.store(encodePlans(batch.plans));
    await this.#load();
    if (this.#keys.size > mostKeys) throw new StorageError(KEYS_WAIT);
    await turn.begin(ids.keys, before, earlier);
    const tries = new Tries(this.#keys, turn);
    let isRepeated = false;
    const work = (transaction: Transaction) => {
      // Nothing of the try before was written: it was a deadlock.
      if (isRepeated) tries.undone();
      isRepeated = true;
      return this.#store(transaction, batch, { lines, ids, plans: numbered, turn, before, tries });
    };
    let doubt: StorageError | undefined;
    for (const until = Date.now() + ASK_FOR; ; ) {
      try {
        // The lock of the keys must not wait for the disk: all nodes wait for it.
        const answer = await database.write(work, () => true);
        tries.done();
        return answer;
      } catch (error) {
        if (error instanceof UnknownCommitError) {
          doubt = error;
          tries.inDoubt();
        } else {
          tries.undone();
          if (!isSameKey(error) && doubt === undefined) throw error;
        }
        if (this.#isStopped || Date.now() > until) throw doubt ?? error;
        if (doubt !== undefined) await delay(ASK_EVERY);
      }
    }
  }

  /** Reads the keys of runs that are not in pages before the first batch: there may be some millions, and a transaction must not take long. */
  #load(): Promise<void> {
    this.#loaded ??= this.catchUp().catch((error: unknown) => {
      this.#loaded = undefined;
      throw error;
    });
    return this.#loaded;
  }

  async #store(transaction: Transaction, batch: Batch, prepared: PreparedBatch): Promise<AppendResult> {
    const { events, receivedAt } = batch;
    const { turn, ids } = prepared;
    const known = await knownOf(transaction, batch);
    const window = this.#dependencies.dedupeWindow;
    const windows = events.map((event) => event.dedupeWindow ?? window);
    const since = receivedAt - Math.max(window, ...windows);
    const isFirstTry = !turn.hasEnded;
    const placing = transaction.rows<PlacedRow>(BEGIN, [batch.id, events.length - known, since]);
    const looking = this.#keys.catchUp(transaction, (view) => this.#look(view, ids.keys, known));
    // When the first statement fails, nobody waits for the second.
    looking.catch(() => undefined);
    const [placed] = await placing;
    turn.positionsAreTaken();
    const look = await looking;
    const {
      answer,
      open_slot: slot,
      open_run: run,
      oldest_run: oldest,
      first_position: firstPosition,
    } = placed!;
    if (answer !== null) return decodeAppended(answer);
    this.#keyFilters.noteUnconverted(look.view.unconverted);
    // Positions of the events from `known` on, as if all were new.
    const first = (firstPosition ?? 0) - known;
    const places = Float64Array.from(events, (_, index) => (index < known ? -1 : first + index));
    const hashes = hashesOf(ids.keys);
    const matches = await matchesOf(transaction, { look, hashes, known, oldest });
    if (matches.size > 0 || hasRepeats(hashes, known))
      await findDuplicates(transaction, this.#dependencies.chunks, {
        ...{ batch, known, hashes, window, matches, places },
      });
    const written = this.#putChunks(transaction, { slot, first, places }, batch, prepared);
    if (batch.owed.some(({ state }) => state === 'parked')) await prepared.before.isTried;
    const held = await this.#owe(transaction, batch, places);
    this.#remember(transaction, batch.id, { answer: encodeAppended(places, held), ...written });
    count(transaction, [
      ...countsOf(batch, places, known),
      ...skipCountsOf(prepared.plans, batch.planIndexes, places),
    ]);
    if (written.events > 0) {
      const keys = ids.keys.slice(known * 2);
      for (let at = 0; at < keys.length; at += 2) if (places[known + at / 2]! < 0) keys.fill(0, at, at + 2);
      const own = { first: first + known, run, keys, isFree: !isFirstTry, isKnown: false };
      const excluded = this.#keys.excluded(look.view, isFirstTry);
      prepared.tries.begin(own);
      // Last: the lock that it takes goes with the commit, which follows at once.
      transaction.later(ADD_KEYS, [
        ...[look.view.since, excluded, randomInt(2 ** 48 - 1), run, transaction.process, own.first],
        ...[binaryArrayOf(keys), marksOf(keys)],
      ]);
    }
    return { positions: Array.from(places, (place) => (place < 0 ? undefined : place)), held };
  }

  /** Looks for the keys of a batch in the memory of this process, in one go. */
  #look(view: KeyView, keys: Uint32Array, known: number): Look {
    const positions = this.#keys.find(keys, known);
    return { view, positions, complete: this.#keys.complete, hints: this.#keyFilters.hintsFor(keys, known) };
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

interface BatchTurn {
  readonly turn: Turn;
  /** Of the batch before. */
  readonly before: Turn;
  /** Those under way when it came. */
  readonly earlier: readonly Turn[];
}

/** What the memory of this process says about the keys of a batch. */
interface Look {
  readonly view: KeyView;
  /** Where a key stands in runs that are not in pages, by the index of its event. */
  readonly positions: ReadonlyMap<number, Position[]>;
  /** Full runs all of whose keys are among those. */
  readonly complete: ReadonlySet<number>;
  readonly hints: readonly RunHints[];
}

interface LookedAt {
  readonly look: Look;
  readonly hashes: BigInt64Array;
  readonly known: number;
  readonly oldest: number;
}

/** Where the keys of a batch stand, by the index of the event. Asks the pages of a run where the memory does not know. */
async function matchesOf(
  transaction: Transaction,
  { look, hashes, known, oldest }: LookedAt,
): Promise<Map<number, Position[]>> {
  const { view, hints, complete } = look;
  const matches = new Map(look.positions);
  const ask = async (runs: readonly number[], indexes: readonly number[]) => {
    if (runs.length === 0 || indexes.length === 0) return;
    const wanted = new Map<string, number[]>();
    for (const index of indexes) {
      const hash = hashes[index]!.toString();
      wanted.set(hash, [...(wanted.get(hash) ?? []), index]);
    }
    for (const { hash, position } of await findInPages(transaction, wanted.keys(), runs))
      for (const index of wanted.get(hash)!) matches.set(index, [...(matches.get(index) ?? []), position]);
  };
  const inPages = Array.from({ length: Math.max(0, view.unconverted - oldest) }, (_, nth) => oldest + nth);
  const isOf = ({ from, to }: RunHints, run: number) => run >= from && run <= to;
  const others = inPages.filter((run) => !complete.has(run) && !hints.some((one) => isOf(one, run)));
  const asking = hints.map((one) =>
    ask(
      inPages.filter((run) => isOf(one, run)),
      one.maybe,
    ),
  );
  const all = Array.from({ length: hashes.length - known }, (_, nth) => known + nth);
  await Promise.all([...asking, ask(others, all)]);
  return matches;
}

function hasRepeats(hashes: BigInt64Array, known: number): boolean {
  return new Set(hashes.subarray(known)).size < hashes.length - known;
}

interface PreparedBatch {
  readonly lines: readonly JsonLine[];
  readonly ids: { readonly keys: Uint32Array; readonly users: Uint32Array };
  readonly plans: readonly NumberedPlan[];
  readonly turn: Turn;
  /** Of the batch before. */
  readonly before: Turn;
  readonly tries: Tries;
}

const NOTHING: JsonLine = { bytes: Buffer.alloc(0), from: 0, to: 0 };

/** How many events at the beginning of the batch its producer had appended before. Moves the number of the producer. */
async function knownOf(transaction: Transaction, { producer, events }: Batch): Promise<number> {
  if (producer === undefined) return 0;
  const [row] = await transaction.rows<{ sequence: number }>(PRODUCED, [producer.name]);
  transaction.later(PRODUCE, [producer.name, producer.sequence + events.length - 1]);
  return Math.min(events.length, Math.max(0, row!.sequence - producer.sequence + 1));
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

/** Bits for each key: of a hundred keys that are not there, one or two meet a bit. */
const MARK_BITS = 64;

/** A bit for each key, at the number that its lowest bits are, in a length that is a power of two: see `add_keys` in schema.ts. */
function marksOf(keys: Uint32Array): Buffer {
  const bits = 2 ** Math.ceil(Math.log2((keys.length / 2) * MARK_BITS));
  const marks = Buffer.alloc(bits / 8);
  for (let at = 1; at < keys.length; at += 2) {
    const bit = keys[at]! & (bits - 1);
    marks[bit >>> 3]! |= 1 << (bit & 7);
  }
  return marks;
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
