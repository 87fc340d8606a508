import { NO_SECRET_KEYS, type SecretKeys } from '../../model/secret-keys.ts';
import { DAY, type Duration } from '../../model/time.ts';
import type { ClockMark } from '../../ports/clock.ts';
import { type LogReader, StorageError } from '../../ports/event-log.ts';
import type { ProfileStore } from '../../ports/profile-store.ts';
import type { Store } from '../../ports/store.ts';
import { idHash, keyHash } from '../encoding/hashes.ts';
import { SecretSeal } from '../encoding/secret-seal.ts';
import { unprotectedHosts } from './connection.ts';
import { Database, type DatabaseOptions } from './database.ts';
import { ChunkTable } from './log/chunk-table.ts';
import { PostgresEventLog } from './log/event-log.ts';
import { openPostgresLogReader } from './log/log-reader.ts';
import { databaseClockMark, type NodeOptions, PostgresNodes } from './nodes.ts';
import { PendingSets } from './queue/pending.ts';
import { queueOf } from './queue/queue.ts';
import { PostgresRegulations } from './regulations/regulation-store.ts';
import { FORMAT, migrate } from './schema.ts';
import { PostgresIdempotency } from './settings/idempotency.ts';
import { adoptKey, refuseUnknownKey } from './settings/secret-keys.ts';
import { PostgresSessions } from './settings/session-store.ts';
import { PostgresSettings } from './settings/settings-store.ts';
import { hasProfiles, PostgresProfileStore } from './users/profile-store.ts';

export interface PostgresStoreOptions extends DatabaseOptions, NodeOptions {
  /** How long a (source, messageId) is remembered. Default: 24 h. */
  readonly dedupeWindow?: Duration;
  /** Bytes of memory that the filters of deduplication may take. Default: 1 GB. */
  readonly filterMemory?: number;
  /** Default: none, and a database whose secrets are encrypted is refused. */
  readonly secretKeys?: SecretKeys;
}

/** They take what the window needs: this much is for 500 million events. */
const FILTER_MEMORY = 1024 ** 3;

/**
 * Milliseconds in which a database of an earlier version is brought forward: some seconds for each million of
 * keys.
 */
const MIGRATE_WITHIN = 3_600_000;

export interface PostgresStore extends Store {
  /** Tells this store from every other, and the secret of its key hash. */
  readonly identity: { readonly id: string; readonly keySecret: Uint8Array };
  /** The number of its format. */
  readonly format: number;
  /** This process among those of the database. */
  readonly nodes: PostgresNodes;
  readonly database: Database;
  /** The clock that all nodes go by, as it was at the opening. */
  readonly sharedClock: ClockMark;
  /** Whether profiles were kept in the database when it was opened. */
  readonly hasProfiles: () => boolean;
  /** How another thread of this process reaches log and profiles. */
  readonly profilesPlace: () => { readonly database: SharedDatabase };
  /** Why nothing can be stored or read; empty when all is well. */
  readonly problems: () => readonly string[];
  /** A reader of the log with connections of its own. */
  openLogReader(): LogReader;
  /**
   * Cuts all connections in the middle of their work and keeps the lease, as the end of the process would.
   */
  abandon(): Promise<void>;
}

/**
 * The store of several nodes: one database of PostgreSQL. Makes its tables when it is empty. Rejects with a
 * `StorageError` whose reason says what to do.
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<PostgresStore> {
  const { dedupeWindow = DAY, filterMemory = FILTER_MEMORY } = options;
  const database = new Database(options);
  try {
    const hosts = unprotectedHosts(options.url);
    if (hosts.length > 0) options.logger?.warn({ hosts, setting: 'sslmode' }, 'database.not_encrypted');
    await database.refuseSharedSessions();
    const { id, keySecret, isBounded, clocks } = await database.session(
      (session) => migrate(session, options.logger),
      MIGRATE_WITHIN,
    );
    const seal = new SecretSeal(options.secretKeys ?? NO_SECRET_KEYS);
    await database.session((session) => refuseUnknownKey(session, seal));
    database.belongTo(id);
    const nodes = await PostgresNodes.join(database, options);
    await encryptSecrets({ database, nodes, seal }, options);
    const settings = new PostgresSettings(database, seal);
    const hash = keyHash(keySecret);
    const pending = new PendingSets();
    const keys = { dedupeWindow, filterMemory, logger: options.logger };
    const log = new PostgresEventLog({ database, pending, hash, ...keys });
    log.prepare();
    return {
      identity: { id, keySecret },
      isBounded,
      format: FORMAT,
      nodes,
      database,
      hasProfiles: await hasProfiles(database),
      profilesPlace: () => ({ database: { url: options.url, process: nodes.process, installation: id } }),
      problems: () => [...nodes.problems(), ...settings.problems()],
      failed: nodes.failed,
      log,
      ...queueOf({ database, nodes, log, pending }),
      settings,
      sessions: new PostgresSessions(database),
      idempotency: new PostgresIdempotency(database),
      regulations: new PostgresRegulations(database, idHash(hash), (part) => log.noteDamage(part)),
      lastClockMark: clocks === undefined ? undefined : (JSON.parse(clocks) as ClockMark),
      sharedClock: await databaseClockMark(database, options.clock),
      openLogReader: () => openPostgresLogReader(options, new ChunkTable(hash, () => undefined)),
      backup: () => Promise.reject(new StorageError(NO_BACKUP)),
      stop: async () => {
        await log.stop();
        await nodes.stop(true);
        await database.stop();
      },
      abandon: async () => {
        void log.stop();
        await nodes.stop(false);
        await database.abandon();
      },
    };
  } catch (error) {
    await database.stop();
    throw error;
  }
}

/** A node that cannot leaves the others at once, and does not stay in their list until its lease is over. */
async function encryptSecrets(
  { database, nodes, seal }: { database: Database; nodes: PostgresNodes; seal: SecretSeal },
  { version = '', logger }: PostgresStoreOptions,
): Promise<void> {
  try {
    const records = await adoptKey(database, seal, version);
    if (records === undefined) return;
    const facts = seal.current === undefined ? { records } : { key: seal.current, records };
    logger?.info(facts, 'secrets.rewritten');
  } catch (error) {
    await nodes.stop(true);
    throw error;
  }
}

/** A database, and the process whose lease guards what is written. */
export interface SharedDatabase {
  readonly url: string;
  readonly installation: string;
  readonly process: number;
}

/** Connections of the users thread for profiles. It does one thing after the other. */
const PROFILE_CONNECTIONS = 2;

/** Log and profiles of a database, for another thread of a process that has the store open. */
export function openSharedProfiles(
  { url, process, installation }: SharedDatabase,
  keySecret: Uint8Array,
): { readonly reader: LogReader; openProfiles(): ProfileStore } {
  return {
    reader: openPostgresLogReader({ url }, new ChunkTable(keyHash(keySecret), () => undefined)),
    openProfiles: () => {
      const database = new Database({ url, connections: PROFILE_CONNECTIONS });
      // The main thread notices the loss of the lease, and ends the work of this one.
      database.guardBy(process, () => undefined);
      database.belongTo(installation);
      return new PostgresProfileStore(database);
    },
  };
}

const NO_BACKUP =
  'the events are in PostgreSQL: back up the database with its own tools, such as pg_basebackup or the snapshots of your provider';
