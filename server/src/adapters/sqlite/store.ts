import type { Event, Position } from '../../model/event.ts';
import type { Ledger } from '../../model/ledger.ts';
import { joined, lineStarts, startsOf, writtenLine } from '../../model/lines.ts';
import { DAY, type Duration, type Monotonic } from '../../model/time.ts';
import type { Line } from '../../model/written-event.ts';
import type {
  Backlog,
  Claim,
  Held,
  LaneStat,
  OwedSlice,
  Owing,
  Result,
  SetId,
  Settled,
} from '../../ports/backlog.ts';
import type { ClockMark } from '../../ports/clock.ts';
import type {
  Appended,
  Batch,
  EventLog,
  Extent,
  Found,
  LogSize,
  Query,
  Retention,
  StoredEvent,
} from '../../ports/event-log.ts';
import type { Logger } from '../../ports/logger.ts';
import type { Store } from '../../ports/store.ts';
import { decodeAppended } from './appended.ts';
import { Backups } from './backups.ts';
import { FolderCondition } from './folder-condition.ts';
import { hashIds } from './id-hashes.ts';
import { type KeyHash, keyHash } from './key-hash.ts';
import { ledgerOf } from './ledger.ts';
import { deadLettersOf, historyOf } from './past.ts';
import { type AppendMessage, DELIVERED_WORDS, type ReadMessage, type SettleMessage } from './protocol.ts';
import { settingsOf } from './settings.ts';
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
  const condition = new FolderCondition(folder, options.logger);
  const filterMemory = options.filterMemory ?? 64 * 1024 * 1024;
  const thread = new WriterThread({ folder, dedupeWindow, filterMemory }, condition.changed);
  const { keySecret, lastMark, isMarkDamaged } = await thread.ready;
  condition.opened(isMarkDamaged);
  const { problems } = condition;
  const backups = new Backups(folder, problems);
  return {
    problems,
    log: new SqliteEventLog(thread, keyHash(keySecret), dedupeWindow),
    backlog: new SqliteBacklog(thread),
    settings: settingsOf(thread),
    history: historyOf(thread),
    deadLetters: deadLettersOf(thread),
    endpoints: {
      load: () => thread.ask({ kind: 'loadHealth' }),
      keep: (healths) => thread.ask({ kind: 'keepHealth', healths }),
    },
    ...(lastMark === undefined ? {} : { lastMark }),
    backup: (folder, progress) => backups.make(folder, progress),
    stop: async () => {
      await backups.stop();
      await thread.stop();
    },
    abandon: async () => {
      await backups.stop();
      await thread.kill();
    },
  };
}

/** Events erased in one transaction. */
const ERASED_AT_ONCE = 1000;

class SqliteEventLog implements EventLog {
  readonly #thread: WriterThread;
  readonly #hash: KeyHash;
  readonly #dedupeWindow: Duration;

  constructor(thread: WriterThread, hash: KeyHash, dedupeWindow: Duration) {
    this.#dedupeWindow = dedupeWindow;
    this.#thread = thread;
    this.#hash = hash;
  }

  async append(batch: Batch): Promise<Appended> {
    const append = this.#encode(batch);
    return decodeAppended(
      await this.#thread.ask({ kind: 'append', append }, [append.lines.buffer as ArrayBuffer]),
    );
  }

  #encode(batch: Batch): AppendMessage {
    const { events } = batch;
    const sources = new Uint32Array(events.length);
    for (let index = 0; index < events.length; index++) sources[index] = events[index]!.source;
    const { keys, users } = hashIds(this.#hash, events);
    const lines = events.map((event) => event.line ?? writtenLine(event.json));
    const windows = events.some((event) => event.dedupeWindow !== undefined)
      ? { windows: Float64Array.from(events, (event) => event.dedupeWindow ?? this.#dedupeWindow) }
      : {};
    return {
      batch: batch.id,
      receivedAt: batch.receivedAt,
      events: events.length,
      lines: joined(lines),
      starts: startsOf(lines),
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
    const message = await this.#thread.ask({ kind: 'read', positions: Float64Array.from(positions) });
    return decode(message, positions.length);
  }

  damaged(positions: readonly Position[]): Promise<readonly Position[]> {
    return this.#thread.ask({ kind: 'damaged', positions });
  }

  async find(query: Query, below?: Position): Promise<Found> {
    return await this.#thread.ask({ kind: 'find', find: below === undefined ? { query } : { query, below } });
  }

  async erase(userId: string): Promise<number> {
    let events = 0;
    let below: Position | undefined;
    do {
      const found = await this.find({ userId }, below);
      // In slices, so that commits do not wait for a user who was here a million times.
      for (let from = 0; from < found.positions.length; from += ERASED_AT_ONCE) {
        const positions = Float64Array.from(found.positions.slice(from, from + ERASED_AT_ONCE));
        events += await this.#thread.ask({ kind: 'erase', positions });
      }
      below = found.next;
    } while (below !== undefined);
    await this.#thread.ask({ kind: 'scrub' });
    return events;
  }

  maintain(now: Monotonic, retention: Retention, budget: Duration, mark?: ClockMark): Promise<boolean> {
    const maintain = { now, retention, budget, ...(mark === undefined ? {} : { mark }) };
    return this.#thread.ask({ kind: 'maintain', maintain });
  }

  size(): Promise<LogSize> {
    return this.#thread.ask({ kind: 'size' });
  }

  extent(range: { readonly from: Monotonic; readonly to: Monotonic }, from: Position): Promise<Extent> {
    return this.#thread.ask({ kind: 'extent', range, from });
  }
}

function decode({ lines, sources, times }: ReadMessage, n: number): (StoredEvent | undefined)[] {
  const bytes = Buffer.from(lines.buffer, lines.byteOffset, lines.byteLength);
  const starts = lineStarts(lines, n);
  return Array.from({ length: n }, (_, index) => {
    const [from, to] = [starts[index]!, starts[index + 1]! - 1];
    if (from === to) return undefined;
    // A copy: one that waits for a slow endpoint must not keep hundreds of others in memory.
    return new StoredLine(sources[index]!, times[index]!, Buffer.from(bytes.subarray(from, to)));
  });
}

/** Parsed when somebody looks: parsing is most of what reading costs, and not every reader wants the event itself. */
class StoredLine implements StoredEvent, Line {
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
  get line(): Line {
    return this;
  }

  get event(): Event {
    this.#event ??= JSON.parse(this.bytes.toString()) as Event;
    return this.#event;
  }
}

class SqliteBacklog implements Backlog {
  readonly #thread: WriterThread;

  constructor(thread: WriterThread) {
    this.#thread = thread;
  }

  lanes(): Promise<readonly LaneStat[]> {
    return this.#thread.ask({ kind: 'lanes' });
  }

  async claim(destination: number, max: number, now: number): Promise<Claim> {
    const claimed = await this.#thread.ask({ kind: 'claim', destination, max, now });
    const { fresh, tried, origins, nextDueAt } = claimed;
    const deliveries: Held[] = [];
    for (let at = 0; at < fresh.length; at += 2) {
      deliveries.push({ set: fresh[at]!, delivery: { position: fresh[at + 1]!, rounds: 0 } });
    }
    for (const held of tried) deliveries.push(held);
    const all = origins.length === 0 ? deliveries : withOrigins(deliveries, new Map(origins));
    return nextDueAt === undefined ? { deliveries: all } : { deliveries: all, nextDueAt };
  }

  settle(results: readonly Result[]): Promise<Settled> {
    const settle = encodeResults(results);
    return this.#thread.ask({ kind: 'settle', settle }, [settle.delivered.buffer as ArrayBuffer]);
  }

  release(destination: number, now: number): Promise<number> {
    return this.#thread.ask({ kind: 'release', destination, now });
  }

  expire(destination: number, before: number, reason: string): Promise<number> {
    return this.#thread.ask({ kind: 'expire', destination, before, reason });
  }

  owe(slice: OwedSlice): Promise<Owing> {
    return this.#thread.ask({ kind: 'owe', slice });
  }

  adopt(): Promise<number> {
    return this.#thread.ask({ kind: 'adopt' });
  }

  async ledger(): Promise<Ledger> {
    return ledgerOf(await this.#thread.ask({ kind: 'ledger' }));
  }
}

function withOrigins(deliveries: readonly Held[], origins: ReadonlyMap<SetId, string>): Held[] {
  return deliveries.map((held) => {
    const origin = origins.get(held.set);
    return origin === undefined ? held : { ...held, origin };
  });
}

function encodeResults(results: readonly Result[]): SettleMessage {
  const delivered = new Float64Array(results.length * DELIVERED_WORDS);
  const endpoints: string[] = [];
  const others: Result[] = [];
  let at = 0;
  for (const result of results) {
    const { set, position, destination, attempts, decision } = result;
    const [attempt] = attempts;
    const isPlain = attempts.length <= 1 && (attempt === undefined || attempt.outcome.kind === 'accepted');
    if (decision.kind !== 'delivered' || !isPlain) {
      others.push(result);
      continue;
    }
    delivered[at] = set;
    delivered[at + 1] = position;
    delivered[at + 2] = destination;
    delivered[at + 3] = attempt === undefined ? -1 : placeOf(attempt.endpoint, endpoints);
    delivered[at + 4] = attempt?.startedAt ?? 0;
    delivered[at + 5] = attempt?.latencyMs ?? 0;
    delivered[at + 6] = attempt?.outcome.status ?? 0;
    at += DELIVERED_WORDS;
  }
  return { delivered: delivered.subarray(0, at), endpoints, others };
}

/** One settle is about few endpoints, so looking from the end is the quickest. */
function placeOf(endpoint: string, endpoints: string[]): number {
  const known = endpoints.lastIndexOf(endpoint);
  return known >= 0 ? known : endpoints.push(endpoint) - 1;
}
