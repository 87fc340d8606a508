import type { Event, Position } from '../../model/event.ts';
import type { Ledger } from '../../model/ledger.ts';
import {
  findLineOffsets,
  type JsonLine,
  joinLines,
  lineOf,
  offsetsOf,
} from '../../model/serialized-event.ts';
import { DAY, type Duration, type Monotonic } from '../../model/time.ts';
import type { ClockMark } from '../../ports/clock.ts';
import type {
  Claim,
  DeadLetterQueue,
  DeliveryHistories,
  DeliveryQueue,
  DeliveryResult,
  HeldDelivery,
  PendingSetId,
  QueueStats,
  ReplayProgress,
  ReplaySlice,
  SettleResult,
} from '../../ports/delivery-queue.ts';
import type {
  AppendResult,
  Batch,
  EventLog,
  LogQuery,
  LogSize,
  PositionPage,
  RangeSize,
  Retention,
  StoredEvent,
} from '../../ports/event-log.ts';
import type { Logger } from '../../ports/logger.ts';
import type { SettingsStore } from '../../ports/settings-store.ts';
import type { Store } from '../../ports/store.ts';
import { BackupRunner } from './backup/backup.ts';
import { FolderStatus } from './data-folder/folder.ts';
import { ledgerOf } from './ledger.ts';
import { type AppendMessage, decodeAppended } from './log/dedupe.ts';
import { hashIds, type KeyHash, keyHash } from './log/key-hash.ts';
import type { ReadAnswer } from './log/log-tables.ts';
import { encodeResults } from './queue/result-codec.ts';
import { WriterThread } from './writer-thread.ts';

export interface SqliteStoreOptions {
  /** Made if it does not exist; used by one process at a time. */
  readonly folder: string;
  /** How long a (source, messageId) is remembered. Default: 24 h. */
  readonly dedupeWindow?: Duration;
  /** Bytes of memory that the filters of sealed keys may take, two a key. Default: 64 MB. Beyond it disk is read. */
  readonly filterMemory?: number;
  /** Told of what happens to the files beside what is asked of them. */
  readonly logger?: Pick<Logger, 'info' | 'warn' | 'error'>;
}

export interface SqliteStore extends Store {
  /** Why nothing can be stored or read, as long as the files are not in their place; empty otherwise. */
  readonly problems: () => readonly string[];
  /** Lets go of everything at once, in the middle of whatever is being written, as the end of the process would. */
  abandon(): Promise<void>;
}

/**
 * The embedded store: one SQLite file on a thread of its own.
 * Rejects with a `StorageError` whose reason says what to do when the folder cannot be used.
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<SqliteStore> {
  const { folder, dedupeWindow = DAY } = options;
  const condition = new FolderStatus(folder, options.logger);
  const filterMemory = options.filterMemory ?? 64 * 1024 * 1024;
  const thread = new WriterThread({ folder, dedupeWindow, filterMemory }, condition.changed);
  const { keySecret, lastMark, isMarkDamaged } = await thread.ready;
  condition.opened(isMarkDamaged);
  const { problems } = condition;
  const backups = new BackupRunner(folder, problems);
  return {
    problems,
    log: new SqliteEventLog(thread, keyHash(keySecret), dedupeWindow),
    queue: new SqliteDeliveryQueue(thread),
    settings: settingsOf(thread),
    history: historyOf(thread),
    deadLetters: deadLettersOf(thread),
    endpointHealth: {
      load: () => thread.request('loadHealth'),
      save: (healths) => thread.request('saveHealth', healths),
    },
    ...(lastMark === undefined ? {} : { lastClockMark: lastMark }),
    backup: (folder, progress) => backups.make(folder, progress),
    stop: async () => {
      await backups.stop();
      await thread.stop();
    },
    abandon: async () => {
      await backups.stop();
      await thread.terminate();
    },
  };
}

/** Events erased in one transaction. */
const ERASE_BATCH = 1000;

class SqliteEventLog implements EventLog {
  readonly #thread: WriterThread;
  readonly #hash: KeyHash;
  readonly #dedupeWindow: Duration;

  constructor(thread: WriterThread, hash: KeyHash, dedupeWindow: Duration) {
    this.#dedupeWindow = dedupeWindow;
    this.#thread = thread;
    this.#hash = hash;
  }

  async append(batch: Batch): Promise<AppendResult> {
    const append = this.#encode(batch);
    return decodeAppended(await this.#thread.request('append', append, [append.lines.buffer as ArrayBuffer]));
  }

  #encode(batch: Batch): AppendMessage {
    const { events } = batch;
    const sources = new Uint32Array(events.length);
    for (let index = 0; index < events.length; index++) sources[index] = events[index]!.source;
    const { keys, users } = hashIds(this.#hash, events);
    const lines = events.map((event) => event.line ?? lineOf(event.json));
    const windows = events.some((event) => event.dedupeWindow !== undefined)
      ? { windows: Float64Array.from(events, (event) => event.dedupeWindow ?? this.#dedupeWindow) }
      : {};
    return {
      batch: batch.id,
      receivedAt: batch.receivedAt,
      events: events.length,
      lines: joinLines(lines),
      starts: offsetsOf(lines),
      sources,
      keys,
      users,
      ...windows,
      owed: batch.owed.map(({ destination, state, indexes }) => ({
        destination,
        held: state === 'held',
        indexes: Uint32Array.from(indexes),
      })),
      skipped: batch.skipped.map((skipped) => ({ ...skipped, indexes: Uint32Array.from(skipped.indexes) })),
      received: batch.received,
    };
  }

  async read(positions: readonly Position[]): Promise<(StoredEvent | undefined)[]> {
    if (positions.length === 0) return [];
    const message = await this.#thread.request('read', Float64Array.from(positions));
    return decodeEvents(message, positions.length);
  }

  damaged(positions: readonly Position[]): Promise<readonly Position[]> {
    return this.#thread.request('damaged', positions);
  }

  async find(query: LogQuery, below?: Position): Promise<PositionPage> {
    return await this.#thread.request('find', below === undefined ? { query } : { query, below });
  }

  async erase(userId: string): Promise<number> {
    let events = 0;
    let below: Position | undefined;
    do {
      const found = await this.find({ userId }, below);
      // In slices, so that commits do not wait for a user who was here a million times.
      for (let from = 0; from < found.positions.length; from += ERASE_BATCH) {
        const positions = Float64Array.from(found.positions.slice(from, from + ERASE_BATCH));
        events += await this.#thread.request('erase', positions);
      }
      below = found.next;
    } while (below !== undefined);
    await this.#thread.scrub();
    return events;
  }

  maintain(now: Monotonic, retention: Retention, budget: Duration, mark?: ClockMark): Promise<boolean> {
    const message = { now, retention, budget, ...(mark === undefined ? {} : { mark }) };
    return this.#thread.request('maintain', message);
  }

  size(): Promise<LogSize> {
    return this.#thread.request('size');
  }

  rangeSize(range: { readonly from: Monotonic; readonly to: Monotonic }, from: Position): Promise<RangeSize> {
    return this.#thread.request('rangeSize', { range, from });
  }
}

function decodeEvents({ lines, sources, times }: ReadAnswer, n: number): (StoredEvent | undefined)[] {
  const bytes = Buffer.from(lines.buffer, lines.byteOffset, lines.byteLength);
  const starts = findLineOffsets(lines, n);
  return Array.from({ length: n }, (_, index) => {
    const [from, to] = [starts[index]!, starts[index + 1]! - 1];
    if (from === to) return undefined;
    // A copy: one that waits for a slow endpoint must not keep hundreds of others in memory.
    return new StoredLine(sources[index]!, times[index]!, Buffer.from(bytes.subarray(from, to)));
  });
}

/** Parsed when somebody looks: parsing is most of what reading costs, and not every reader wants the event itself. */
class StoredLine implements StoredEvent, JsonLine {
  readonly source: number;
  readonly arrivedAt: Monotonic;
  readonly bytes: Buffer;
  readonly from = 0;
  #event: Event | undefined;

  constructor(source: number, arrivedAt: Monotonic, bytes: Buffer) {
    this.source = source;
    this.arrivedAt = arrivedAt;
    this.bytes = bytes;
  }

  get to(): number {
    return this.bytes.length;
  }

  /** Itself: thousands of them wait in memory, and each object more is paid by the garbage collector. */
  get line(): JsonLine {
    return this;
  }

  get event(): Event {
    this.#event ??= JSON.parse(this.bytes.toString()) as Event;
    return this.#event;
  }
}

class SqliteDeliveryQueue implements DeliveryQueue {
  readonly #thread: WriterThread;

  constructor(thread: WriterThread) {
    this.#thread = thread;
  }

  stats(): Promise<readonly QueueStats[]> {
    return this.#thread.request('stats');
  }

  async claim(destination: number, max: number, now: number): Promise<Claim> {
    const claimed = await this.#thread.request('claim', { destination, max, now });
    const { fresh, tried, origins, nextDueAt } = claimed;
    const deliveries: HeldDelivery[] = [];
    for (let at = 0; at < fresh.length; at += 2) {
      deliveries.push({ set: fresh[at]!, delivery: { position: fresh[at + 1]!, rounds: 0 } });
    }
    for (const held of tried) deliveries.push(held);
    const all = origins.length === 0 ? deliveries : withOrigins(deliveries, new Map(origins));
    return nextDueAt === undefined ? { deliveries: all } : { deliveries: all, nextDueAt };
  }

  settle(results: readonly DeliveryResult[]): Promise<SettleResult> {
    const message = encodeResults(results);
    return this.#thread.request('settle', message, [message.delivered.buffer as ArrayBuffer]);
  }

  makeDue(destination: number, now: number): Promise<number> {
    return this.#thread.request('makeDue', { destination, now });
  }

  expire(destination: number, before: number, reason: string): Promise<number> {
    return this.#thread.request('expire', { destination, before, reason });
  }

  enqueue(slice: ReplaySlice): Promise<ReplayProgress> {
    return this.#thread.request('enqueue', slice);
  }

  recoverOrphans(): Promise<number> {
    return this.#thread.request('recoverOrphans');
  }

  async ledger(): Promise<Ledger> {
    return ledgerOf(await this.#thread.request('ledger'));
  }
}

function withOrigins(
  deliveries: readonly HeldDelivery[],
  origins: ReadonlyMap<PendingSetId, string>,
): HeldDelivery[] {
  return deliveries.map((held) => {
    const origin = origins.get(held.set);
    return origin === undefined ? held : { ...held, origin };
  });
}

/** The main thread's end of ports/delivery-queue.ts: what became of events. */
function historyOf(thread: WriterThread): DeliveryHistories {
  return {
    read: (positions) => thread.request('readHistories', Float64Array.from(positions)),
    findPending: (query, max, below) =>
      thread.request('findPending', below === undefined ? { query, max } : { query, max, below }),
    progress: (origin) => thread.request('progress', origin),
  };
}

/** The main thread's end of ports/delivery-queue.ts. */
function deadLettersOf(thread: WriterThread): DeadLetterQueue {
  return {
    list: (query, limit, from) =>
      thread.request('listDeadLetters', from === undefined ? { query, limit } : { query, limit, from }),
    count: (query, from) =>
      thread.request('countDeadLetters', from === undefined ? { query } : { query, from }),
    redeliver: (slice) => thread.request('redeliver', slice),
  };
}

/** The settings of the store behind a writer thread; see `Records` for what that one does. */
function settingsOf(thread: WriterThread): SettingsStore {
  return {
    load: () => thread.request('load'),
    apply: (changes) => thread.request('apply', changes),
    audit: (query, limit, from) =>
      thread.request('audit', from === undefined ? { query, limit } : { query, limit, from }),
  };
}
