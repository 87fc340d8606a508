import type { DatabaseSync } from 'node:sqlite';
import type { Position } from '../../model/event.ts';
import type { Duration, Time } from '../../model/time.ts';
import type { PendingSetId, SettleResult } from '../../ports/delivery-queue.ts';
import type { LogSize, PositionPage } from '../../ports/event-log.ts';
import { DamageTable, type Quarantine } from './damage.ts';
import { Watermarks } from './installation.ts';
import { LedgerTable } from './ledger.ts';
import { Chunks, eventLine, eventLines, REMNANT } from './log/chunks.ts';
import { Dedupe, dropDuplicates, encodeAppended, positionsAt, RecentBatches } from './log/dedupe.ts';
import { keyHash } from './log/key-hash.ts';
import { KeyIndex } from './log/key-index.ts';
import { PlanTable } from './log/plans.ts';
import { LogSearch } from './log/search.ts';
import { UserIndex } from './log/user-index.ts';
import { FailureTables, SuccessfulAttempts } from './queue/attempts.ts';
import { DeadLetterTable } from './queue/dead-letters.ts';
import { EndpointHealthTable } from './queue/endpoint-health.ts';
import { EventHistories, PendingQueries } from './queue/history.ts';
import { PendingTable } from './queue/pending.ts';
import { ReplayCursors } from './queue/replay-cursors.ts';
import { DeliverySettler } from './queue/settle.ts';
import type {
  AppendMessage,
  FindMessage,
  LedgerAnswer,
  MaintainMessage,
  ReadAnswer,
  RpcAnswers,
  RpcKind,
  RpcRequest,
  SettleMessage,
} from './rpc.ts';
import { RecordTable } from './settings/records.ts';
import { Compaction, redactEvents } from './upkeep/compaction.ts';
import { FileSpace, RetentionSweep } from './upkeep/retention.ts';
import { Verifier } from './upkeep/verification.ts';

/**
 * Everything in one open file, and what each operation does to it inside the caller's transaction. Its memory follows
 * the transaction step by step; when a transaction fails, throw the object away and make a new one from the file.
 */
export class Tables {
  readonly records: RecordTable;
  readonly endpointHealth: EndpointHealthTable;
  readonly pending: PendingTable;
  /** What is pending, for those who only look. */
  readonly pendingQueries: PendingQueries;
  readonly histories: EventHistories;
  readonly search: LogSearch;
  readonly avoided: Quarantine;
  readonly deadLetters: DeadLetterTable;
  readonly replayCursors: ReplayCursors;
  readonly #chunks: Chunks;
  readonly #damage: DamageTable;
  readonly #keyIndex: KeyIndex;
  readonly #dedupe: Dedupe;
  readonly #settler: DeliverySettler;
  readonly #counters: LedgerTable;
  readonly #plans: PlanTable;
  readonly #accepted: SuccessfulAttempts;
  readonly #failures: FailureTables;
  readonly #batches: RecentBatches;
  readonly #watermarks: Watermarks;
  readonly #space: FileSpace;
  readonly #compaction: Compaction;
  readonly #retention: RetentionSweep;
  readonly #userIndex: UserIndex;
  readonly #verifier: Verifier;

  constructor(database: DatabaseSync, options: TablesOptions) {
    this.avoided = options.avoided;
    this.records = new RecordTable(database);
    this.endpointHealth = new EndpointHealthTable(database);
    this.#damage = new DamageTable(database);
    this.#watermarks = new Watermarks(database);
    this.#counters = new LedgerTable(database);
    this.#chunks = this.#openChunks(database, options);
    this.#keyIndex = new KeyIndex(database, this.#chunks, {
      marks: this.#watermarks,
      memory: options.filterMemory,
      avoided: options.avoided,
    });
    this.#dedupe = new Dedupe(this.#chunks, this.#keyIndex, options.dedupeWindow);
    this.pending = new PendingTable(database, options.epoch, ({ id, destination, n }) => {
      this.#counters.add('destination', destination, 'dead:event_damaged', n);
      this.#damage.note('pending', id, n);
    });
    this.pendingQueries = new PendingQueries(database, this.pending.held, this.#chunks);
    this.#plans = new PlanTable(database);
    this.#accepted = new SuccessfulAttempts(database);
    this.#failures = new FailureTables(database);
    const parts = {
      plans: this.#plans,
      pending: this.pendingQueries,
      accepted: this.#accepted,
      failures: this.#failures,
    };
    this.histories = new EventHistories(this.#chunks, parts);
    this.replayCursors = new ReplayCursors(database, { pending: this.pending, counters: this.#counters });
    this.deadLetters = new DeadLetterTable(database, {
      pending: this.pending,
      counters: this.#counters,
      owings: this.replayCursors,
    });
    this.#settler = new DeliverySettler({
      pending: this.pending,
      counters: this.#counters,
      accepted: this.#accepted,
      failures: this.#failures,
      youngest: () => this.#keyIndex.youngest,
    });
    this.#batches = new RecentBatches(database);
    this.#space = new FileSpace(database);
    this.#compaction = new Compaction(this.#chunks, this.#watermarks);
    this.#userIndex = new UserIndex(database, this.#chunks, this.#watermarks);
    this.#verifier = new Verifier({ chunks: this.#chunks, keys: this.#keyIndex, marks: this.#watermarks });
    this.search = new LogSearch(this.#chunks, this.#keyIndex, {
      users: this.#userIndex,
      hash: keyHash(options.keySecret),
      parts,
    });
    this.#retention = this.#makeRetention(options);
  }

  #openChunks(database: DatabaseSync, { keySecret, avoided }: TablesOptions): Chunks {
    return new Chunks(database, {
      sumsFrom: this.#watermarks.checksumsFrom,
      stored: this.#counters.total('source', 'accepted'),
      retainedFrom: () => this.#watermarks.retainedFrom,
      hash: keyHash(keySecret),
      avoided,
      onDamage: (first, n) => this.#damage.note('chunk', first, n),
    });
  }

  #makeRetention({ avoided, dedupeWindow }: TablesOptions): RetentionSweep {
    return new RetentionSweep({
      chunks: this.#chunks,
      keys: this.#keyIndex,
      pending: this.pending,
      failures: this.#failures,
      accepted: this.#accepted,
      batches: this.#batches,
      marks: this.#watermarks,
      space: this.#space,
      avoided,
      dedupeWindow,
      forgetDamage: (position) => this.#damage.forgetBelow(position),
      deadLetter: (sets, reason, at) => {
        for (const set of sets) this.#settler.deadLetter({ ...set, reason, at });
      },
    });
  }

  append(message: AppendMessage): string {
    const known = this.#batches.answerTo(message.batch);
    if (known !== undefined) return known;
    const places = this.#dedupe.assignPositions(message, this.#chunks.next);
    const answer = encodeAppended({
      positions: Array.from(places, (place) => (place < 0 ? undefined : place)),
      held: message.owed.map((owed) => this.#owe(owed, places, message.receivedAt)),
    });
    for (const { destination, reason, indexes } of message.skipped) {
      const n = positionsAt(indexes, places).length;
      this.#counters.add('destination', destination, `skipped:${reason}`, n);
    }
    this.#count(message, places);
    const kept = dropDuplicates(message, places, this.#plans.numbersOf(message));
    if (kept.n > 0) this.#chunks.append(kept, { batch: message.batch, answer });
    this.#batches.remember(message.batch, answer, kept.n > 0);
    return answer;
  }

  #owe(
    owed: AppendMessage['owed'][number],
    places: Float64Array,
    receivedAt: Time,
  ): PendingSetId | undefined {
    const positions = positionsAt(owed.indexes, places);
    if (positions.length === 0) return undefined;
    this.#counters.add('destination', owed.destination, 'owed', positions.length);
    if (owed.held) return this.pending.insertHeld(owed.destination, positions, receivedAt);
    this.pending.insertParked(owed.destination, positions, receivedAt);
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

  settle(message: SettleMessage): SettleResult {
    return this.#settler.settle(message);
  }

  makeDue(destination: number, now: Time): number {
    return this.pending.makeDue(destination, now);
  }

  expire(destination: number, before: Time, reason: string): number {
    let n = 0;
    for (const set of this.pending.expire(destination, before)) {
      this.#settler.deadLetter({ destination, at: before, reason, ...set });
      n += set.n;
    }
    return n;
  }

  drainNewlyHeld(): PendingSetId[] {
    return this.pending.taken();
  }

  park(sets: readonly PendingSetId[]): void {
    this.pending.park(sets);
  }

  ledger(): LedgerAnswer {
    return { counters: this.#counters.all(), pending: this.pendingQueries.sums() };
  }

  read(positions: Float64Array): ReadAnswer {
    return readLines(this.#chunks, positions);
  }

  damaged(positions: readonly Position[]): Position[] {
    return positions.filter((position) => {
      return this.#chunks.at(position) === undefined && this.#chunks.isDamaged(position);
    });
  }

  /** Slices of upkeep until the budget (milliseconds) is used up; whether there is more to do now. */
  maintain({ now, retention, budget, mark }: MaintainMessage): boolean {
    if (mark !== undefined) this.#watermarks.clocks = mark;
    const end = performance.now() + budget;
    do {
      const { avoided } = this;
      const busy =
        avoided.guard('sealing of keys', () => this.#keyIndex.flush()) ||
        avoided.guard('merging of chunks', () => this.#compaction.step(now)) ||
        avoided.guard('filters of users', () => this.#userIndex.step()) ||
        this.#retention.step(now, retention) ||
        avoided.guard('giving space back', () => this.#space.vacuum(retention.disk));
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
  find({ query, below }: FindMessage): PositionPage {
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
      if (eventLine(chunk, position).length === 0) continue;
      const goes = (one: Position) => gone.has(one);
      for (let one = chunk.first; one < chunk.first + chunk.n; one++) {
        if (gone.has(one) && eventLine(chunk, one).length > 0) events++;
      }
      this.#chunks.put(chunk.first, redactEvents(chunk, goes), chunk.stage, chunk.batchAnswer);
    }
    for (const [destination, n] of this.pending.erase(gone))
      this.#counters.add('destination', destination, 'erased', n);
    this.#failures.eraseAttempts(gone);
    return events;
  }

  size(): LogSize {
    const { retainedFrom } = this.#watermarks;
    const oldestAt = this.#chunks.factsFrom(retainedFrom, 1)[0]?.at;
    const damage = this.#damage.summary(this.avoided.steps);
    return {
      events: this.#chunks.next - retainedFrom,
      bytes: this.#space.fileBytes(),
      ...(oldestAt === undefined ? {} : { oldestAt }),
      ...(damage === undefined ? {} : { damage }),
    };
  }

  /** Free pages, which may still hold what was deleted. */
  freePages(): number {
    return this.#space.freePages();
  }

  vacuum(): void {
    this.#space.vacuumMore();
  }

  /** Last step of a transaction: what it adds to the ledger, and its number. */
  beforeCommit(): void {
    this.#watermarks.writeClocks();
    this.#counters.write();
  }

  /** How many transactions this file has seen; tells after a failed commit whether it happened. */
  get commits(): number {
    return this.#counters.commits;
  }
}

export interface TablesOptions {
  readonly avoided: Quarantine;
  /** Number of this start of the program; what an earlier one held is not ours. */
  readonly epoch: number;
  readonly dedupeWindow: Duration;
  /** Secret of the key hash. */
  readonly keySecret: Uint8Array;
  /** Bytes of memory that filters of sealed runs may take. */
  readonly filterMemory: number;
}

/** Does what a request asks for, inside the caller's transaction where it writes. */
export function dispatch(contents: Tables, request: RpcRequest): RpcAnswers[RpcKind] {
  switch (request.kind) {
    case 'append':
      return contents.append(request.append);
    case 'settle':
      return contents.settle(request.settle);
    case 'claim':
      return contents.pending.claim(request.destination, request.max, request.now);
    case 'release':
      return contents.makeDue(request.destination, request.now);
    case 'expire':
      return contents.expire(request.destination, request.before, request.reason);
    case 'adopt':
      return contents.pending.recoverOrphans();
    case 'maintain':
      return contents.maintain(request.maintain);
    case 'erase':
      return contents.erase(request.positions);
    case 'scrub':
      return undefined;
    case 'find':
      return contents.find(request.find);
    case 'extent':
      return contents.search.rangeSize(request.range, request.from);
    case 'size':
      return contents.size();
    case 'apply':
      return contents.records.apply(request.changes);
    case 'load':
      return contents.records.load();
    case 'audit': {
      const { query, limit, from } = request.audit;
      return contents.records.audit.page(query, limit, from);
    }
    case 'loadHealth':
      return contents.endpointHealth.load();
    case 'keepHealth':
      return contents.endpointHealth.save(request.healths);
    case 'read':
      return contents.read(request.positions);
    case 'damaged':
      return contents.damaged(request.positions);
    case 'deadLetters':
      return contents.deadLetters.list(request.deadLetters);
    case 'countDead':
      return contents.deadLetters.count(request.deadLetters);
    case 'revive':
      return contents.deadLetters.redeliver(request.slice);
    case 'owe':
      return contents.replayCursors.enqueue(request.slice);
    case 'owing':
      return contents.replayCursors.progress(request.origin);
    case 'pending':
      return contents.pendingQueries.page(request.pending);
    case 'history':
      return contents.histories.of(request.positions);
    case 'lanes':
      return contents.pendingQueries.stats();
    case 'ledger':
      return contents.ledger();
    case 'stop':
      return undefined;
  }
}

const LINE_FEED = Uint8Array.of(10);

/** The events at these positions, a line each; an empty line where there is none that can be read. */
function readLines(chunks: Chunks, positions: Float64Array): ReadAnswer {
  const pieces: Uint8Array[] = [];
  const sources = new Uint32Array(positions.length);
  const times = new Float64Array(positions.length);
  for (let index = 0; index < positions.length; ) {
    const position = positions[index]!;
    const chunk = chunks.at(position);
    if (index > 0) pieces.push(LINE_FEED);
    if (chunk === undefined) {
      index++;
      continue;
    }
    // What is claimed lies side by side, so that its lines can be taken as one piece.
    const from = index;
    const end = chunk.first + chunk.n;
    do index++;
    while (
      chunk.stage < REMNANT &&
      positions[index]! < end &&
      positions[index] === positions[index - 1]! + 1
    );
    const n = index - from;
    pieces.push(n === 1 ? eventLine(chunk, position) : eventLines(chunk, position, n));
    const place = position - chunk.first;
    sources.set(chunk.sources.subarray(place, place + n), from);
    times.set(chunk.times.subarray(place, place + n), from);
  }
  return { lines: concatToTransfer(pieces), sources, times };
}

/** In a buffer of its own, because it is given away to the other thread. */
function concatToTransfer(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.byteLength, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.byteLength;
  }
  return bytes;
}
