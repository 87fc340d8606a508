import type { DatabaseSync } from 'node:sqlite';
import type { Position } from '../../model/event.ts';
import type { Duration, Time } from '../../model/time.ts';
import type { SetId, Settled } from '../../ports/backlog.ts';
import type { Found, LogSize } from '../../ports/event-log.ts';
import { AcceptedAttempts } from './accepted.ts';
import { encodeAppended } from './appended.ts';
import { Batches } from './batches.ts';
import { Chunks, lineOf } from './chunks.ts';
import { Counters } from './counters.ts';
import { type DamageAvoided, DamageFound } from './damage.ts';
import { DeadLetterRows } from './dead-letters.ts';
import { Dedupe } from './dedupe.ts';
import { EndpointHealthRows } from './endpoint-health.ts';
import { Failures } from './failures.ts';
import { Histories } from './histories.ts';
import { keep, positionsOf } from './kept.ts';
import { keyHash } from './key-hash.ts';
import { Keys } from './keys.ts';
import { Marks } from './marks.ts';
import { Owings } from './owing.ts';
import { Pending } from './pending.ts';
import { PendingFacts } from './pending-facts.ts';
import { Plans } from './plans.ts';
import type {
  AppendMessage,
  FindMessage,
  LedgerMessage,
  MaintainMessage,
  ReadMessage,
  SettleMessage,
} from './protocol.ts';
import { linesAt } from './reading.ts';
import { Records } from './records.ts';
import { Retaining } from './retaining.ts';
import { withoutLines } from './rewrite.ts';
import { Sealing } from './sealing.ts';
import { Search } from './search.ts';
import { Settling } from './settling.ts';
import { Space } from './space.ts';
import { UserBlocks } from './user-blocks.ts';
import { Verifier } from './verify.ts';

/**
 * Everything in one open file, and what each operation does to it inside the caller's transaction. Its memory follows
 * the transaction step by step; when a transaction fails, throw the object away and make a new one from the file.
 */
export class Contents {
  readonly records: Records;
  readonly endpointHealth: EndpointHealthRows;
  readonly pending: Pending;
  /** What is pending, for those who only look. */
  readonly facts: PendingFacts;
  readonly histories: Histories;
  readonly search: Search;
  readonly avoided: DamageAvoided;
  readonly deadLetters: DeadLetterRows;
  readonly owings: Owings;
  readonly #chunks: Chunks;
  readonly #damage: DamageFound;
  readonly #keys: Keys;
  readonly #dedupe: Dedupe;
  readonly #settling: Settling;
  readonly #counters: Counters;
  readonly #plans: Plans;
  readonly #accepted: AcceptedAttempts;
  readonly #failures: Failures;
  readonly #batches: Batches;
  readonly #marks: Marks;
  readonly #space: Space;
  readonly #sealing: Sealing;
  readonly #retaining: Retaining;
  readonly #users: UserBlocks;
  readonly #verifier: Verifier;

  constructor(database: DatabaseSync, options: ContentsOptions) {
    this.avoided = options.avoided;
    this.records = new Records(database);
    this.endpointHealth = new EndpointHealthRows(database);
    this.#damage = new DamageFound(database);
    this.#marks = new Marks(database);
    this.#counters = new Counters(database);
    this.#chunks = this.#openChunks(database, options);
    this.#keys = new Keys(database, this.#chunks, {
      marks: this.#marks,
      memory: options.filterMemory,
      avoided: options.avoided,
    });
    this.#dedupe = new Dedupe(this.#chunks, this.#keys, options.dedupeWindow);
    this.pending = new Pending(database, options.epoch, ({ id, destination, n }) => {
      this.#counters.add('destination', destination, 'dead:event_damaged', n);
      this.#damage.note('pending', id, n);
    });
    this.facts = new PendingFacts(database, this.pending.held, this.#chunks);
    this.#plans = new Plans(database);
    this.#accepted = new AcceptedAttempts(database);
    this.#failures = new Failures(database);
    const parts = {
      plans: this.#plans,
      pending: this.facts,
      accepted: this.#accepted,
      failures: this.#failures,
    };
    this.histories = new Histories(this.#chunks, parts);
    this.owings = new Owings(database, { pending: this.pending, counters: this.#counters });
    this.deadLetters = new DeadLetterRows(database, {
      pending: this.pending,
      counters: this.#counters,
      owings: this.owings,
    });
    this.#settling = new Settling({
      pending: this.pending,
      counters: this.#counters,
      accepted: this.#accepted,
      failures: this.#failures,
      youngest: () => this.#keys.youngest,
    });
    this.#batches = new Batches(database);
    this.#space = new Space(database);
    this.#sealing = new Sealing(this.#chunks, this.#marks);
    this.#users = new UserBlocks(database, this.#chunks, this.#marks);
    this.#verifier = new Verifier({ chunks: this.#chunks, keys: this.#keys, marks: this.#marks });
    this.search = new Search(this.#chunks, this.#keys, {
      users: this.#users,
      hash: keyHash(options.keySecret),
      parts,
    });
    this.#retaining = this.#makeRetaining(options);
  }

  #openChunks(database: DatabaseSync, { keySecret, avoided }: ContentsOptions): Chunks {
    return new Chunks(database, {
      sumsFrom: this.#marks.sumsFrom,
      stored: this.#counters.sumOf('source', 'accepted'),
      retainedFrom: () => this.#marks.retainedFrom,
      hash: keyHash(keySecret),
      avoided,
      onDamage: (first, n) => this.#damage.note('chunk', first, n),
    });
  }

  #makeRetaining({ avoided, dedupeWindow }: ContentsOptions): Retaining {
    return new Retaining({
      chunks: this.#chunks,
      keys: this.#keys,
      pending: this.pending,
      failures: this.#failures,
      accepted: this.#accepted,
      batches: this.#batches,
      marks: this.#marks,
      space: this.#space,
      avoided,
      dedupeWindow,
      forgetDamage: (position) => this.#damage.forgetBelow(position),
      bury: (sets, reason, at) => {
        for (const set of sets) this.#settling.bury({ ...set, reason, at });
      },
    });
  }

  append(message: AppendMessage): string {
    const known = this.#batches.answerTo(message.batch);
    if (known !== undefined) return known;
    const places = this.#dedupe.place(message, this.#chunks.next);
    const answer = encodeAppended({
      positions: Array.from(places, (place) => (place < 0 ? undefined : place)),
      held: message.owed.map((owed) => this.#owe(owed, places, message.receivedAt)),
    });
    for (const { destination, reason, indexes } of message.skipped) {
      const n = positionsOf(indexes, places).length;
      this.#counters.add('destination', destination, `skipped:${reason}`, n);
    }
    this.#count(message, places);
    const kept = keep(message, places, this.#plans.numbersOf(message));
    if (kept.n > 0) this.#chunks.append(kept, { batch: message.batch, answer });
    this.#batches.remember(message.batch, answer, kept.n > 0);
    return answer;
  }

  #owe(owed: AppendMessage['owed'][number], places: Float64Array, receivedAt: Time): SetId | undefined {
    const positions = positionsOf(owed.indexes, places);
    if (positions.length === 0) return undefined;
    this.#counters.add('destination', owed.destination, 'owed', positions.length);
    if (owed.held) return this.pending.bearHeld(owed.destination, positions, receivedAt);
    this.pending.bearParked(owed.destination, positions, receivedAt);
    return undefined;
  }

  #count(message: AppendMessage, places: Float64Array): void {
    for (let index = 0; index < places.length; ) {
      const source = message.sources[index]!;
      const duplicate = places[index]! < 0;
      const from = index;
      while (index < places.length && message.sources[index] === source && places[index]! < 0 === duplicate)
        index++;
      this.#counters.add('source', source, duplicate ? 'duplicates' : 'accepted', index - from);
    }
    for (const { source, calls, discarded } of message.received) {
      this.#counters.add('source', source, 'received', calls);
      for (const [reason, n] of Object.entries(discarded))
        this.#counters.add('source', source, `discarded:${reason}`, n);
    }
  }

  settle(message: SettleMessage): Settled {
    return this.#settling.settle(message);
  }

  release(destination: number, now: Time): number {
    return this.pending.release(destination, now);
  }

  expire(destination: number, before: Time, reason: string): number {
    let n = 0;
    for (const set of this.pending.expire(destination, before)) {
      this.#settling.bury({ destination, at: before, reason, ...set });
      n += set.n;
    }
    return n;
  }

  taken(): SetId[] {
    return this.pending.taken();
  }

  park(sets: readonly SetId[]): void {
    this.pending.park(sets);
  }

  ledger(): LedgerMessage {
    return { counters: this.#counters.all(), pending: this.facts.sums() };
  }

  read(positions: Float64Array): ReadMessage {
    return linesAt(this.#chunks, positions);
  }

  damaged(positions: readonly Position[]): Position[] {
    return positions.filter((position) => {
      return this.#chunks.at(position) === undefined && this.#chunks.isDamaged(position);
    });
  }

  /** Slices of upkeep until the budget (milliseconds) is used up; whether there is more to do now. */
  maintain({ now, retention, budget, mark }: MaintainMessage): boolean {
    if (mark !== undefined) this.#marks.clocks = mark;
    const end = performance.now() + budget;
    do {
      const { avoided } = this;
      const busy =
        avoided.guarded('sealing of keys', () => this.#keys.seal()) ||
        avoided.guarded('merging of chunks', () => this.#sealing.step(now)) ||
        avoided.guarded('filters of users', () => this.#users.step()) ||
        this.#retaining.step(now, retention) ||
        avoided.guarded('giving space back', () => this.#space.giveBack(retention.disk));
      if (!busy) {
        this.#verifier.step(now);
        this.#damage.write(now);
        return false;
      }
    } while (performance.now() < end);
    this.#damage.write(now);
    return true;
  }

  /** One slice of a search, and how far it has come. */
  find({ query, below }: FindMessage): Found {
    return this.search.find(query, below, this.#counters.sources());
  }

  /** Takes these events out of everything; how many there were. */
  erase(positions: Float64Array): number {
    const gone = new Set(positions);
    let events = 0;
    for (const position of gone) {
      const chunk = this.#chunks.at(position);
      if (chunk === undefined) {
        // What is left of it may still show what a person did, and nobody can read the rest of it either.
        if (this.#chunks.isDamaged(position)) this.#chunks.wipe(position);
        continue;
      }
      if (lineOf(chunk, position).length === 0) continue;
      const goes = (one: Position) => gone.has(one);
      for (let one = chunk.first; one < chunk.first + chunk.n; one++) {
        if (gone.has(one) && lineOf(chunk, one).length > 0) events++;
      }
      this.#chunks.put(chunk.first, withoutLines(chunk, goes), chunk.stage, chunk.origin);
    }
    for (const [destination, n] of this.pending.erase(gone))
      this.#counters.add('destination', destination, 'erased', n);
    this.#failures.eraseAttempts(gone);
    return events;
  }

  size(): LogSize {
    const { retainedFrom } = this.#marks;
    const oldestAt = this.#chunks.factsFrom(retainedFrom, 1)[0]?.at;
    const damage = this.#damage.sum(this.avoided.steps);
    return {
      events: this.#chunks.next - retainedFrom,
      bytes: this.#space.size(),
      ...(oldestAt === undefined ? {} : { oldestAt }),
      ...(damage === undefined ? {} : { damage }),
    };
  }

  /** Free pages, which may still hold what was deleted. */
  freePages(): number {
    return this.#space.free();
  }

  giveBack(): void {
    this.#space.giveBackSome();
  }

  /** Last step of a transaction: what it adds to the ledger, and its number. */
  seal(): void {
    this.#marks.writeClocks();
    this.#counters.write();
  }

  /** How many transactions this file has seen; tells after a failed commit whether it happened. */
  get commits(): number {
    return this.#counters.commits;
  }
}

export interface ContentsOptions {
  readonly avoided: DamageAvoided;
  /** Number of this start of the program; what an earlier one held is not ours. */
  readonly epoch: number;
  readonly dedupeWindow: Duration;
  /** Secret of the key hash. */
  readonly keySecret: Uint8Array;
  /** Bytes of memory that filters of sealed runs may take. */
  readonly filterMemory: number;
}
