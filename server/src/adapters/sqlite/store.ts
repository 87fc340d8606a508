import type { Position } from '../../model/event.ts';
import type { InvariantError } from '../../model/invariant.ts';
import { isDeleting, newSubject, newVisitor, type RegulationSubject } from '../../model/regulation.ts';
import { NO_SECRET_KEYS, type SecretKeys } from '../../model/secret-keys.ts';
import { findLineOffsets, lineOf } from '../../model/serialized-event.ts';
import { DAY, type Duration } from '../../model/time.ts';
import type {
  Claim,
  ClaimedDelivery,
  DeadLetterQueue,
  DeliveryHistories,
  DeliveryQueue,
  EndpointHealthStore,
  PendingSetId,
} from '../../ports/delivery-queue.ts';
import type { Batch, EventLog, LogQuery, PositionPage, StoredEvent } from '../../ports/event-log.ts';
import type { Logger } from '../../ports/logger.ts';
import type { IdHash, Regulations, StoredRegulation } from '../../ports/regulations.ts';
import type { SessionStore } from '../../ports/session-store.ts';
import type { SettingsStore } from '../../ports/settings-store.ts';
import type { Store } from '../../ports/store.ts';
import { decodeAppended, joinedLength, joinLines, offsetsOf } from '../encoding/chunk-codec.ts';
import { StoredLine } from '../encoding/chunk-lines.ts';
import { ErasureCounts, eraseSlices, eraseUsers } from '../encoding/erasure-slices.ts';
import { hashIds, idHash, type KeyHash, keyHash } from '../encoding/hashes.ts';
import { redactInSlices } from '../encoding/kept-answers.ts';
import { ledgerOf } from '../encoding/ledger.ts';
import { encodePlans } from '../encoding/plans.ts';
import { SecretSeal } from '../encoding/secret-seal.ts';
import { BackupRunner } from './backup/backup.ts';
import { sharedIdentity } from './data-folder/files.ts';
import { FolderStatus, refuseUnfinishedRestore } from './data-folder/folder.ts';
import { refuseMoved } from './data-folder/moved.ts';
import type { AppendMessage, ReadAnswer } from './log/log-tables.ts';
import type { ClaimAnswer } from './queue/pending.ts';
import { encodeResults } from './queue/settle.ts';
import { decodeHashes, encodeHashes, type JournalEntry, RegulationJournal } from './regulations/journal.ts';
import { Arena } from './rpc.ts';
import { FORMAT } from './schema.ts';
import type { WriterOptions } from './writer.ts';
import { startThread, type WriterHandle, WriterThread } from './writer-thread.ts';

export interface SqliteStoreOptions {
  /** Made if it does not exist; used by one process at a time. */
  readonly folder: string;
  /** How long a (source, messageId) is remembered. Default: 24 h. */
  readonly dedupeWindow?: Duration;
  /**
   * Bytes of memory for the filters of sorted runs, two a key. Default: 64 MB. Beyond it the disk is read.
   */
  readonly filterMemory?: number;
  /** Also takes a folder whose restore has not come to its end: it is about to. */
  readonly isRestoring?: boolean;
  /** Default: none, and a store whose secrets are encrypted is refused. */
  readonly secretKeys?: SecretKeys;
  /** Gets messages about the data folder that no request caused, such as files with loose rights. */
  readonly logger?: Pick<Logger, 'info' | 'warn' | 'error'>;
  /**
   * Starts the writer. Default: a thread for each store. A process that opens hundreds of stores lets them
   * share one.
   */
  readonly startWriter?: (options: WriterOptions) => WriterHandle;
  /**
   * Called when an invariant did not hold in the writer, which then does nothing more. Default: the process
   * ends.
   */
  readonly onBroken?: (error: InvariantError) => void;
}

export interface SqliteStore extends Store {
  /** The id and the secret of the key hash. No other store has the same. */
  readonly identity: { readonly id: string; readonly keySecret: Uint8Array };
  /** The number of its format. */
  readonly format: number;
  /** Why nothing can be stored or read while the files are not in their place; empty otherwise. */
  readonly problems: () => readonly string[];
  /**
   * Carries out a regulation of a journal in a store that was restored from a backup from before it. Nobody
   * is notified. Resolves to the number of erased events.
   */
  reapply(entry: JournalEntry): Promise<number>;
  /** Whether a regulation was ever carried out in this store, also where its receipt is gone. */
  knows(regulation: string): Promise<boolean>;
  /** Ends the writer thread in the middle of its work, as the end of the process would. */
  abandon(): Promise<void>;
}

/**
 * The embedded store: one SQLite file on a thread of its own.
 * Rejects with a `StorageError` whose reason says what to do when the folder cannot be used.
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<SqliteStore> {
  const { folder, dedupeWindow = DAY } = options;
  if (options.isRestoring !== true) refuseUnfinishedRestore(folder);
  refuseMoved(folder);
  const status = new FolderStatus(folder, options.logger);
  const filterMemory = options.filterMemory ?? 64 * 1024 * 1024;
  const { startWriter = startThread } = options;
  const file = sharedIdentity();
  const { secretKeys = NO_SECRET_KEYS } = options;
  const writer = { folder, dedupeWindow, filterMemory, file };
  // A restore does not need the key: it reads no record.
  const withKeys = options.isRestoring === true ? writer : { ...writer, secretKeys };
  const thread = new WriterThread(startWriter(withKeys), status.changed, options.onBroken);
  const { keySecret, id, isBounded, lastMark, isMarkDamaged, secrets } = await thread.ready;
  status.opened(isMarkDamaged);
  const { problems } = status;
  const backups = new BackupRunner({ folder, file, problems, secretKeys });
  const journal = new RegulationJournal(folder);
  await completeJournal(thread, journal);
  if (secrets.records !== undefined)
    options.logger?.info(encryptionFacts(secretKeys, secrets.records), 'secrets.rewritten');
  if (secrets.hasRemnants) void scrubSecrets(thread);
  return {
    identity: { id, keySecret },
    isBounded,
    format: FORMAT,
    problems,
    log: eventLogOf(thread, keyHash(keySecret), dedupeWindow),
    queue: deliveryQueueOf(thread),
    settings: settingsOf(thread),
    sessions: sessionsOf(thread),
    history: deliveryHistoriesOf(thread),
    deadLetters: deadLetterQueueOf(thread),
    endpointHealth: endpointHealthOf(thread),
    regulations: regulationsOf(thread, keyHash(keySecret), journal),
    reapply: (entry) => reapply(thread, entry),
    knows: (regulation) => thread.request('knowsRegulation', regulation),
    memory: {
      shrink: () => thread.request('shrinkKeys'),
      release: () => thread.request('releaseMemory'),
    },
    lastClockMark: lastMark,
    backup: async (folder, progress) => {
      const made = await backups.make(folder, progress);
      await journal.follow(folder);
      return made;
    },
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

/** Facts for the log about the secrets at a start. The name of a key tells nothing of it. */
function encryptionFacts(keys: SecretKeys, records: number): { key?: string; records: number } {
  const { current } = new SecretSeal(keys);
  return current === undefined ? { records } : { key: current, records };
}

/**
 * Removes the bytes of secrets as they were before from the files, beside everything else; what fails is done
 * at the next start.
 */
async function scrubSecrets(thread: WriterThread): Promise<void> {
  try {
    await thread.scrub();
    await thread.request('secretsScrubbed');
  } catch {}
}

function eventLogOf(thread: WriterThread, hash: KeyHash, dedupeWindow: Duration): EventLog {
  const find = (query: LogQuery, below?: Position): Promise<PositionPage> =>
    thread.request('find', below === undefined ? { query } : { query, below });
  return {
    append: async (batch) => {
      const message = encodeBatch(batch, hash, dedupeWindow);
      return decodeAppended(await thread.request('append', message, [message.lines.buffer as ArrayBuffer]));
    },
    read: async (positions) => {
      if (positions.length === 0) return [];
      return decodeEvents(await thread.request('read', Float64Array.from(positions)), positions.length);
    },
    producedTo: (producer) => thread.request('producedTo', producer),
    damaged: (positions) => thread.request('damaged', positions),
    find,
    erase: (erasure) => eraseUsers(erasure, { find, eraseAt: (message) => thread.request('erase', message) }),
    eraseAt: async (positions) => {
      const counts = new ErasureCounts();
      await eraseSlices({ positions }, counts, (message) => thread.request('erase', message));
      return counts;
    },
    sharedIds: (query, from) => thread.request('sharedIds', { query, from }),
    maintain: (now, retention, budget, mark) => {
      const message = { now, retention, budget };
      return thread.request('maintain', mark === undefined ? message : { ...message, mark });
    },
    size: () => thread.request('size'),
    rangeSize: (range, from) => thread.request('rangeSize', { range, from }),
  };
}

/**
 * The integers of an event in a message: its start, source and plan, and two words each of its key and its
 * user.
 */
const INTEGERS = 7;

/** The message of a batch. All its columns stand in one buffer, that of `lines`. */
function encodeBatch(batch: Batch, hash: KeyHash, dedupeWindow: Duration): AppendMessage {
  const { events } = batch;
  const n = events.length;
  const lines = events.map((event) => event.line ?? lineOf(event.json));
  const hasWindows = events.some((event) => event.dedupeWindow !== undefined);
  const integers = batch.owed.reduce((sum, { indexes }) => sum + indexes.length, INTEGERS * n + 1);
  const arena = new Arena({ floats: hasWindows ? n : 0, integers, bytes: joinedLength(lines) });
  const windows = hasWindows ? arena.floats(n) : undefined;
  const sources = arena.integers(n);
  for (let index = 0; index < n; index++) {
    const { source, dedupeWindow: own } = events[index]!;
    sources[index] = source;
    if (windows !== undefined) windows[index] = own ?? dedupeWindow;
  }
  return {
    batch: batch.id,
    receivedAt: batch.receivedAt,
    events: n,
    lines: joinLines(lines, arena.bytes()),
    starts: offsetsOf(lines, arena.integers(n + 1)),
    sources,
    ...hashIds(hash, events, lines, { keys: arena.integers(n * 2), users: arena.integers(n * 2) }),
    windows,
    plans: encodePlans(batch.plans),
    planIndexes: arena.integersOf(batch.planIndexes),
    owed: batch.owed.map(({ destination, state, indexes, origin }) => ({
      destination,
      held: state === 'held',
      indexes: arena.integersOf(indexes),
      origin,
    })),
    received: batch.received,
    producer: batch.producer,
  };
}

function decodeEvents({ lines, sources, times }: ReadAnswer, n: number): (StoredEvent | undefined)[] {
  const bytes = Buffer.from(lines.buffer, lines.byteOffset, lines.byteLength);
  const starts = findLineOffsets(lines, n);
  return Array.from({ length: n }, (_, index) => {
    const [from, to] = [starts[index]!, starts[index + 1]! - 1];
    if (from === to) return undefined;
    // A copy, so that an event waiting for a slow endpoint does not keep the bytes of hundreds of others in
    // memory.
    return new StoredLine(sources[index]!, times[index]!, Buffer.from(bytes.subarray(from, to)));
  });
}

function deliveryQueueOf(thread: WriterThread): DeliveryQueue {
  return {
    stats: () => thread.request('stats'),
    nextDue: () => thread.request('nextDue'),
    claim: async (destination, max, now) =>
      decodeClaim(await thread.request('claim', { destination, max, now })),
    settle: (results) => {
      const message = encodeResults(results);
      return thread.request('settle', message, [message.delivered.buffer as ArrayBuffer]);
    },
    makeDue: (destination, now) => thread.request('makeDue', { destination, now }),
    expire: (destination, before, reason) => thread.request('expire', { destination, before, reason }),
    enqueue: (slice) => thread.request('enqueue', slice),
    recoverOrphans: () => thread.request('recoverOrphans'),
    ledger: async () => ledgerOf(await thread.request('ledger')),
  };
}

function decodeClaim({ fresh, tried, origins, nextDueAt }: ClaimAnswer): Claim {
  const deliveries: ClaimedDelivery[] = [];
  for (let at = 0; at < fresh.length; at += 3) {
    const delivery = { position: fresh[at + 1]!, rounds: 0 };
    deliveries.push({ set: fresh[at]!, delivery, dueAt: fresh[at + 2]! });
  }
  for (const held of tried) deliveries.push(held);
  const all = origins.length === 0 ? deliveries : withOrigins(deliveries, new Map(origins));
  return nextDueAt === undefined ? { deliveries: all } : { deliveries: all, nextDueAt };
}

function withOrigins(
  deliveries: readonly ClaimedDelivery[],
  origins: ReadonlyMap<PendingSetId, string>,
): ClaimedDelivery[] {
  return deliveries.map((held) => {
    const origin = origins.get(held.set);
    return origin === undefined ? held : { ...held, origin };
  });
}

function deliveryHistoriesOf(thread: WriterThread): DeliveryHistories {
  return {
    read: (positions) => thread.request('readHistories', Float64Array.from(positions)),
    findPending: (query, max, below) =>
      thread.request('findPending', below === undefined ? { query, max } : { query, max, below }),
    progress: (origin) => thread.request('progress', origin),
    pendingOf: (origins) => thread.request('pendingOf', origins),
    redactAnswers: (redact, onSlice) => {
      return redactInSlices({
        redact,
        onSlice,
        page: (text, after) => thread.request('answersAfter', { text, after }),
        put: (text, changed) => thread.request('putAnswers', { text, changed }),
      });
    },
  };
}

function deadLetterQueueOf(thread: WriterThread): DeadLetterQueue {
  return {
    list: (query, limit, from) =>
      thread.request('listDeadLetters', from === undefined ? { query, limit } : { query, limit, from }),
    count: (query, from) =>
      thread.request('countDeadLetters', from === undefined ? { query } : { query, from }),
    redeliver: (slice) => thread.request('redeliver', slice),
  };
}

function endpointHealthOf(thread: WriterThread): EndpointHealthStore {
  return {
    load: () => thread.request('loadHealth'),
    save: (healths) => thread.request('saveHealth', healths),
  };
}

function settingsOf(thread: WriterThread): SettingsStore {
  return {
    load: () => thread.request('load'),
    apply: (changes) => thread.request('apply', changes),
    audit: (query, limit, from) =>
      thread.request('audit', from === undefined ? { query, limit } : { query, limit, from }),
    auditedBefore: (time) => thread.request('auditedBefore', time),
  };
}

function sessionsOf(thread: WriterThread): SessionStore {
  return {
    begin: (session, now, most) => thread.request('beginSession', { session, now, most }),
    find: (id) => thread.request('findSession', id),
    end: (id) => thread.request('endSession', id),
  };
}

function regulationsOf(thread: WriterThread, hash: KeyHash, journal: RegulationJournal): Regulations {
  const hashId = idHash(hash);
  const note = async (regulation: StoredRegulation, subjects: readonly RegulationSubject[]) => {
    const { id, type, createdAt: at } = regulation;
    const users = encodeHashes(hashesOf(subjects.flatMap(nameIn), hashId));
    await journal.append({ id, type, at, users, joined: encodeHashes(joinedHashes(subjects, hashId)) });
  };
  return {
    create: async (made) => {
      const { id, type, createdAt: at, userIds, anonymousIds = [] } = made;
      const named = [...userIds.map(newSubject), ...anonymousIds.map(newVisitor)];
      const users = encodeHashes(hashesOf(named.flatMap(nameIn), hashId));
      // The line comes first: no regulation is in force that a restored backup would not heed.
      await journal.append({ id, type, at, users, joined: '' });
      try {
        return await thread.request('createRegulation', made);
      } catch (error) {
        // Its commit may have happened all the same. While the store cannot be read either, the line stays.
        const stored = await thread.request('regulation', id);
        if (stored !== undefined) return stored;
        await journal.append({ id, type, at, users: '', joined: '' }).catch(() => {});
        throw error;
      }
    },
    get: (id) => thread.request('regulation', id),
    list: (max, below) => thread.request('listRegulations', below === undefined ? { max } : { max, below }),
    endedBefore: (time) => thread.request('endedRegulations', time),
    open: () => thread.request('openRegulations'),
    subjects: (id) => thread.request('regulationSubjects', id),
    advance: async (id, change) => {
      const regulation = change.subjects && (await thread.request('regulation', id));
      // Before the step is stored: after a crash the survey is repeated, and with it this line.
      if (regulation !== undefined) await note(regulation, change.subjects!);
      await thread.request('advanceRegulation', { id, change });
    },
    scrub: () => thread.scrub(),
    suppression: (id, kind = 'user') => thread.request('suppression', { id, kind }),
    suppressions: (max, after) =>
      thread.request('suppressions', after === undefined ? { max } : { max, after }),
    visitSuppressed: async (visit) => {
      for (let after = new Uint32Array(0); ; ) {
        const hashes = await thread.request('suppressed', after);
        if (hashes.length === 0) return;
        visit(hashes);
        after = hashes.slice(-2);
      }
    },
    hashId,
  };
}

/** The id by which a subject was named; none of a visitor who belongs to a user. */
function nameIn({ userId, anonymousId, belongsToUser }: RegulationSubject): NamedId[] {
  if (userId !== undefined) return [['user', userId]];
  return anonymousId === undefined || belongsToUser === true ? [] : [['anonymous', anonymousId]];
}

type NamedId = readonly [kind: 'user' | 'anonymous', id: string];

function joinedHashes(subjects: readonly RegulationSubject[], hashId: IdHash): Uint32Array {
  const ids = subjects.flatMap(({ formerUserIds, anonymousIds }) => [
    ...formerUserIds.map((id) => ['user', id] as const),
    ...anonymousIds.map((id) => ['anonymous', id] as const),
  ]);
  return hashesOf(ids, hashId);
}

/** Two words for each id. */
function hashesOf(ids: readonly NamedId[], hashId: IdHash): Uint32Array {
  const hashes = new Uint32Array(ids.length * 2);
  for (const [index, [kind, id]] of ids.entries()) hashId(kind, id, hashes, index * 2);
  return hashes;
}

/** Regulations that a crash has kept from the journal: they are the newest. */
async function completeJournal(thread: WriterThread, journal: RegulationJournal): Promise<void> {
  const known = journal.ids();
  const missing: StoredRegulation[] = [];
  for (let below: number | undefined; ; ) {
    const page = await thread.request(
      'listRegulations',
      below === undefined ? { max: 100 } : { max: 100, below },
    );
    const end = page.findIndex(({ id }) => known.has(id));
    missing.push(...(end < 0 ? page : page.slice(0, end)));
    if (end >= 0 || page.length < 100) break;
    below = page.at(-1)!.number;
  }
  for (const { id, type, createdAt: at } of missing.reverse())
    await journal.append({ id, type, at, users: await thread.request('regulationHashes', id), joined: '' });
}

/** See `SqliteStore.reapply`. */
async function reapply(thread: WriterThread, entry: JournalEntry): Promise<number> {
  await thread.request('reapplyRegulation', entry);
  if (!isDeleting(entry.type)) return 0;
  const [users, joined] = [decodeHashes(entry.users), decodeHashes(entry.joined)];
  const hashes = Uint32Array.from([...users, ...joined]);
  const counts = new ErasureCounts();
  for (let from: number | undefined = 0; from !== undefined; ) {
    const found: { readonly positions: Position[]; readonly next?: Position } = await thread.request(
      'hashed',
      {
        hashes,
        from,
      },
    );
    const erased = { positions: found.positions, regulation: entry.id };
    await eraseSlices(erased, counts, (message) => thread.request('erase', message));
    from = found.next;
  }
  return counts.events;
}
