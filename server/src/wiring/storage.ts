import { accessSync, constants, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import manifest from '../../package.json' with { type: 'json' };
import { unknownKey } from '../adapters/encoding/sealed-records.ts';
import { SecretSeal } from '../adapters/encoding/secret-seal.ts';
import { literalRefusal } from '../adapters/http-client/egress-report.ts';
import { lockFolder } from '../adapters/sqlite/data-folder/folder.ts';
import { keyNameIn } from '../adapters/sqlite/settings/secret-keys.ts';
import { openSqliteStore } from '../adapters/sqlite/store.ts';
import { hasProfiles } from '../adapters/sqlite/users/profile-store.ts';
import { createSystemClock, type SystemClock, systemClock } from '../adapters/system/clock.ts';
import { wallClockStore } from '../adapters/system/wall-clock-store.ts';
import { applyConfigFile, fileDigest } from '../config/apply.ts';
import type { ProblemFormatter } from '../config/errors.ts';
import type { Config } from '../config/load.ts';
import { DESTINATION_TYPES } from '../destinations/list.ts';
import { isGroupWritable } from '../model/file-rights.ts';
import { defined } from '../model/json.ts';
import { isClientLibrary } from '../model/libraries.ts';
import { NODE_ROLES } from '../model/node.ts';
import type { ClockMark } from '../ports/clock.ts';
import { type EventLog, StorageError } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { Store } from '../ports/store.ts';
import type { StoreView } from '../ports/store-view.ts';
import type { ProfilesPlace } from '../users/contract.ts';
import { readSecretKeys } from './secret-keys.ts';
import { SettingsService } from './settings-service.ts';

export { readSecretKeys } from './secret-keys.ts';

/** The store of the program, whichever engine keeps it. */
export interface ProgramStore extends Store {
  /** Tells this store from every other, and the secret of its key hash. */
  readonly identity: { readonly id: string; readonly keySecret: Uint8Array };
  /** The number of the format in which this version writes it. */
  readonly format: number;
  /** Reasons why nothing can be stored or read now; empty otherwise. */
  readonly problems: () => readonly string[];
  /** The clock that several processes go by, as it was at the opening. */
  readonly sharedClock?: ClockMark;
  /** Whether profiles were kept before. */
  readonly hasProfiles: () => boolean;
  /** Where the users thread finds log and profiles. */
  readonly profilesPlace: () => ProfilesPlace;
}

/** The parts that every later part may use. */
export interface Storage {
  readonly store: ProgramStore;
  /** The store with times of the wall clock, for reports and operators. */
  readonly storeView: StoreView;
  readonly clock: SystemClock;
  readonly settings: SettingsService;
}

interface StorageOptions {
  readonly logger: Logger;
  readonly lineAt?: ProblemFormatter | undefined;
}

/** Takes what must be stopped, also when the start fails later. */
export interface StopList {
  add<Part extends { stop(): void | Promise<void> }>(part: Part): Part;
}

/** Opens the store and applies the configuration file to its records. */
export async function startStorage(
  config: Config,
  { logger, lineAt }: StorageOptions,
  started: StopList,
): Promise<Storage> {
  if (config.database !== undefined) started.add(takeFolder(config.data));
  const store = started.add(await openStore(config, logger));
  warnOfGroups(config, logger);
  const clock = createSystemClock(store.sharedClock ?? store.lastClockMark);
  refuseUnknownTypes(await store.settings.load());
  const snapshot = await applyConfigFile(config, store.settings, {
    logger,
    lineAt,
    clock,
    refusalOf: (url) => literalRefusal(url, config.egress),
    publicSources: () => publicSources(store.log),
  });
  return {
    store,
    storeView: wallClockStore(store, clock),
    clock,
    settings: new SettingsService(store.settings, snapshot),
  };
}

/**
 * A record of a type that this version does not have was written by another one: nothing could be sent to it,
 * and nobody would notice.
 */
function refuseUnknownTypes({ destinations }: SettingsSnapshot): void {
  const unknown = destinations.find(({ type }) => !DESTINATION_TYPES.has(type));
  if (unknown === undefined) return;
  throw new StorageError(
    `the destination ${JSON.stringify(unknown.name)} is of the type ${JSON.stringify(unknown.type)}, which this version does not have: start ` +
      'the version that made it, or remove the destination there first',
  );
}

/** Newest events that are looked through for those of browsers and phones. */
const LOOKED_AT = 10_000;
const READ_AT_ONCE = 1000;

/** The sources whose newest calls are of browsers or phones, by the libraries that they name. */
async function publicSources(log: Pick<EventLog, 'read' | 'size'>): Promise<ReadonlySet<number>> {
  const found = new Set<number>();
  const { end } = await log.size();
  for (let from = Math.max(0, end - LOOKED_AT); from < end; from += READ_AT_ONCE) {
    const positions = Array.from({ length: Math.min(READ_AT_ONCE, end - from) }, (_, nth) => from + nth);
    for (const stored of await log.read(positions))
      if (stored !== undefined && !found.has(stored.source) && isClientLibrary(stored.event.context))
        found.add(stored.source);
  }
  return found;
}

/**
 * Takes the folder of a node, which has its token and its timeline: two nodes would write into the same
 * files. One that may not be written has nothing to keep apart. Throws a `StorageError` when another process
 * has it.
 */
function takeFolder(folder: string): { stop(): void } {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  try {
    accessSync(folder, constants.W_OK);
  } catch {
    return { stop: () => {} };
  }
  const lock = lockFolder(folder);
  return { stop: () => lock.release() };
}

/**
 * Why no start can use a database, as far as is known without changing anything in it; undefined where one
 * could. For a look at it while no server runs.
 */
export async function databaseProblem(url: string): Promise<string | undefined> {
  const [{ Database }, { refuseUnusable }] = await Promise.all([
    import('../adapters/postgres/database.ts'),
    import('../adapters/postgres/inspection.ts'),
  ]);
  const database = new Database({ url });
  try {
    await database.session(refuseUnusable);
    return undefined;
  } catch (error) {
    if (error instanceof StorageError) return error.reason;
    throw error;
  } finally {
    await database.stop();
  }
}

/** State of the encryption of secrets before a start. Keys are shown by their names, which reveal nothing. */
export interface SecretsAtRest {
  /** The key that the configuration has; absent without one. */
  readonly key?: string;
  /** The reason why a start could not use the keys. */
  readonly problem?: string;
}

/** `canLook`: nobody uses the data folder, so its file can be read. */
export async function secretsAtRest(
  { secrets, database, data }: Config,
  canLook: boolean,
): Promise<SecretsAtRest> {
  try {
    const seal = new SecretSeal(readSecretKeys(secrets));
    const own = defined({ key: seal.current });
    const stored = database === undefined ? canLook && keyNameIn(data) : await keyNameOf(database);
    if (!stored || seal.has(stored)) return own;
    return { ...own, problem: unknownKey(stored, seal) };
  } catch (error) {
    if (error instanceof StorageError) return { problem: error.reason };
    throw error;
  }
}

/**
 * Name of the key that the database is encrypted with; undefined when it cannot be asked either:
 * `databaseProblem` says why.
 */
async function keyNameOf(url: string): Promise<string | undefined> {
  const [{ Database }, { keyNameIn: ofSession }] = await Promise.all([
    import('../adapters/postgres/database.ts'),
    import('../adapters/postgres/settings/secret-keys.ts'),
  ]);
  const database = new Database({ url });
  try {
    return await database.session(ofSession);
  } catch (error) {
    if (error instanceof StorageError) return undefined;
    throw error;
  } finally {
    await database.stop();
  }
}

/**
 * A group that may write may be meant, as with volumes of an orchestrator. What everybody may write is
 * refused where it is read.
 */
function warnOfGroups({ data, database, tls, secrets }: Config, logger: Logger): void {
  const ofDatabase = database === undefined ? [] : [data, process.env['MILLRACE_DATABASE_PASSWORD_FILE']];
  const keys = [secrets.key, ...secrets.previousKeys].map((key) =>
    typeof key === 'object' ? key.file : undefined,
  );
  for (const path of [join(data, 'admin-token'), tls?.key, ...ofDatabase, ...keys]) {
    const found = path ? statSync(path, { throwIfNoEntry: false }) : undefined;
    if (found === undefined || !isGroupWritable(found)) continue;
    const mode = (found.mode & 0o777).toString(8);
    logger.warn({ path, mode, problem: 'its group may write it' }, 'storage.rights_loose');
  }
}

/** One engine or the other, behind the same ports. Rejects with a `StorageError`. */
async function openStore(config: Config, logger: Logger): Promise<ProgramStore> {
  const { data: folder, database, limits } = config;
  const secretKeys = readSecretKeys(config.secrets);
  const memory = defined({ filterMemory: limits.dedupeMemory });
  if (database === undefined) {
    const store = await openSqliteStore({ folder, ...memory, secretKeys, logger });
    return { ...store, hasProfiles: () => hasProfiles(folder), profilesPlace: () => ({ folder }) };
  }
  const { node, roles = NODE_ROLES } = config;
  // Loaded only here: most servers have no database, and start sooner without its driver.
  const { openPostgresStore } = await import('../adapters/postgres/store.ts');
  const version = manifest.version;
  return await openPostgresStore({
    url: database,
    node,
    roles,
    version,
    ...memory,
    secretKeys,
    file: fileDigest(config, secretKeys.current),
    clock: systemClock,
    logger,
  });
}
