import type { Position } from '../../../model/event.ts';
import type { SkipSet } from '../../../model/plan.ts';
import type { Duration, Monotonic } from '../../../model/time.ts';
import type { ClockMark } from '../../../ports/clock.ts';
import type {
  Batch,
  Damage,
  Erasure,
  EventLog,
  LogQuery,
  LogSize,
  Retention,
  SharedIdsQuery,
  StoredEvent,
} from '../../../ports/event-log.ts';
import type { Logger } from '../../../ports/logger.ts';
import { eventLine, StoredLine } from '../../encoding/chunk-lines.ts';
import { type EraseMessage, ErasureCounts, eraseSlices, eraseUsers } from '../../encoding/erasure-slices.ts';
import type { KeyHash } from '../../encoding/hashes.ts';
import type { StoredPlan } from '../../encoding/plans.ts';
import type { Database, Transaction } from '../database.ts';
import type { PendingSets } from '../queue/pending.ts';
import { Appender } from './append.ts';
import { ChunkTable, type StoredChunk } from './chunk-table.ts';
import { eraseSlice } from './eraser.ts';
import { Horizon } from './horizon.ts';
import { producedTo, retainedFrom } from './log-reader.ts';
import { LogMaintenance, volumeOf } from './maintenance.ts';
import { PlanNumbers } from './plans.ts';
import { EventSearch } from './search.ts';

export interface EventLogDependencies {
  readonly database: Database;
  readonly pending: PendingSets;
  readonly hash: KeyHash;
  readonly dedupeWindow: Duration;
  /** These as in `AppenderDependencies`. */
  readonly filterMemory: number;
  readonly logger?: Pick<Logger, 'warn'> | undefined;
}

/** The event log in the tables `chunk`, `slot` and `batch`, and those of its keys. */
export class PostgresEventLog implements EventLog {
  readonly #database: Database;
  readonly #chunks: ChunkTable;
  readonly #plans: PlanNumbers;
  readonly #hash: KeyHash;
  readonly #appender: Appender;
  readonly #search: EventSearch;
  readonly #maintenance: LogMaintenance;
  readonly #horizon = new Horizon();
  /** Chunks that were found damaged since the store was opened: how many events, by the first position. */
  readonly #damaged = new Map<Position, number>();
  /** Damaged parts without events. */
  readonly #otherDamage = new Set<string>();
  #damageFoundAt: Monotonic | undefined;

  constructor({ database, pending, hash, dedupeWindow, ...keys }: EventLogDependencies) {
    this.#database = database;
    this.#hash = hash;
    this.#chunks = new ChunkTable(hash, (first, n) => this.#damaged.set(first, n));
    this.#plans = new PlanNumbers(database);
    const shared = { database, chunks: this.#chunks, dedupeWindow };
    this.#appender = new Appender({ ...shared, plans: this.#plans, pending, hash, ...keys });
    this.#search = new EventSearch(this.#chunks, hash);
    this.#maintenance = new LogMaintenance(shared);
  }

  append(batch: Batch) {
    return this.#appender.append(batch);
  }

  /** See `Appender`. */
  prepare(): void {
    this.#appender.prepare();
  }

  producedTo(producer: string): Promise<number> {
    return this.#database.read((read) => producedTo(read, producer));
  }

  async read(positions: readonly Position[]): Promise<(StoredEvent | undefined)[]> {
    if (positions.length === 0) return [];
    const find = finderIn(await this.#database.read((read) => this.#chunks.holding(read, positions)));
    return positions.map((position) => {
      const chunk = find(position);
      const line = chunk && eventLine(chunk, position);
      if (chunk === undefined || line === undefined || line.length === 0) return undefined;
      const at = position - chunk.first;
      // A copy, so that an event waiting for a slow endpoint does not keep the bytes of hundreds of others in
      // memory.
      return new StoredLine(chunk.sources[at]!, chunk.times[at]!, Buffer.from(line));
    });
  }

  damaged(positions: readonly Position[]): Promise<readonly Position[]> {
    return this.#database.read((read) => this.#chunks.damaged(read, positions));
  }

  find(query: LogQuery, below?: Position) {
    return this.#database.read((read) => this.#search.find(read, query, below));
  }

  erase(erasure: Erasure) {
    return eraseUsers(erasure, {
      find: (query, below) => this.find(query, below),
      eraseAt: (message) => this.#eraseSlice(message),
    });
  }

  async eraseAt(positions: readonly Position[]) {
    const counts = new ErasureCounts();
    await eraseSlices({ positions }, counts, (message) => this.#eraseSlice(message));
    return counts;
  }

  sharedIds(query: SharedIdsQuery, from: Position) {
    return this.#database.read((read) => this.#search.sharedIds(read, query, from));
  }

  async maintain(
    now: Monotonic,
    retention: Retention,
    _budget: Duration,
    mark?: ClockMark,
  ): Promise<boolean> {
    if (this.#damaged.size + this.#otherDamage.size > 0) this.#damageFoundAt ??= now;
    return await this.#maintenance.maintain(now, retention, mark);
  }

  size(): Promise<LogSize> {
    return this.#database.read(async (read) => {
      const [{ events, bytes }, { end }, from] = await Promise.all([
        volumeOf(read),
        this.#horizon.settled(read),
        retainedFrom(read),
      ]);
      const [oldest] = await this.#chunks.factsFrom(read, from, 1);
      return { events, end, bytes, oldestAt: oldest?.at, damage: this.#damageFrom(from) };
    });
  }

  rangeSize(range: { readonly from: Monotonic; readonly to: Monotonic }, from: Position) {
    return this.#database.read((read) => this.#search.rangeSize(read, range, from));
  }

  /** The plans of events, in the order of their positions; undefined for an event that is gone. */
  async plansAt(read: Transaction, positions: readonly Position[]): Promise<(StoredPlan | undefined)[]> {
    const find = finderIn(await this.#chunks.holding(read, positions));
    const damaged = new Set(
      await this.#chunks.damaged(
        read,
        positions.filter((one) => find(one) === undefined),
      ),
    );
    const numbers = positions.map((position) => {
      const chunk = find(position);
      if (chunk === undefined) return damaged.has(position) ? 0 : undefined;
      return eventLine(chunk, position).length === 0 ? undefined : chunk.plans[position - chunk.first];
    });
    const plans = await this.#plans.get(
      read,
      numbers.filter((number) => number !== undefined),
    );
    return numbers.map((number) => (number === undefined ? undefined : plans.get(number)));
  }

  /** Adds a damaged part to what `size` names, such as "the record of regulation 2". */
  noteDamage(part: string): void {
    this.#otherDamage.add(part);
  }

  /** The skip sets with these numbers. */
  skipSets(read: Transaction, numbers: Iterable<number>): Promise<ReadonlyMap<number, SkipSet>> {
    return this.#plans.skipSets(read, numbers);
  }

  /** When events arrived, in the order of their positions; undefined for one that is gone. */
  async arrivalsAt(read: Transaction, positions: readonly Position[]): Promise<(Monotonic | undefined)[]> {
    const heads = await this.#chunks.columns(read, positions);
    return positions.map((position) => {
      const head = heads.find(({ first, n }) => position >= first && position < first + n);
      return head?.times[position - head.first];
    });
  }

  /** Commits in doubt are not asked for any more. Resolves when all batches have their answers. */
  stop(): Promise<void> {
    return this.#appender.stop();
  }

  #eraseSlice(message: EraseMessage) {
    return this.#database.write((write) =>
      eraseSlice(write, { chunks: this.#chunks, hash: this.#hash }, message),
    );
  }

  #damageFrom(retained: Position): Damage | undefined {
    const events = [...this.#damaged].reduce((sum, [first, n]) => (first < retained ? sum : sum + n), 0);
    const others = [...this.#otherDamage];
    if (events + others.length === 0) return undefined;
    return {
      ...{ events, deliveries: 0, foundAt: this.#damageFoundAt },
      others: others.length === 0 ? undefined : others,
    };
  }
}

/** A function that finds the chunk of a position. Positions mostly follow each other. */
function finderIn(chunks: readonly StoredChunk[]): (position: Position) => StoredChunk | undefined {
  let last: StoredChunk | undefined;
  const isIn = ({ first, n }: StoredChunk, position: Position) => position >= first && position < first + n;
  return (position) => {
    if (last === undefined || !isIn(last, position)) last = chunks.find((chunk) => isIn(chunk, position));
    return last;
  };
}
