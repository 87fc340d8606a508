import { existsSync, mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { SecretSeal } from '../../src/adapters/encoding/secret-seal.ts';
import { DATABASE_FILE, databaseUri, USERS_FILE } from '../../src/adapters/sqlite/data-folder/files.ts';
import { openDatabase } from '../../src/adapters/sqlite/database.ts';
import { openLogReader } from '../../src/adapters/sqlite/log/log-reader.ts';
import { RecordTable } from '../../src/adapters/sqlite/settings/records.ts';
import { openSqliteStore, type SqliteStore } from '../../src/adapters/sqlite/store.ts';
import { hasProfiles, openProfileStore } from '../../src/adapters/sqlite/users/profile-store.ts';
import { startWriter, type WriterOptions } from '../../src/adapters/sqlite/writer.ts';
import type { WriterHandle } from '../../src/adapters/sqlite/writer-thread.ts';
import type { Ledger } from '../../src/model/ledger.ts';
import { NO_SECRET_KEYS } from '../../src/model/secret-keys.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import { type Doubt, type Ended, EngineChannel, tellDoubt } from './engine-channel.ts';
import { EngineContents } from './engine-contents.ts';
import type { Kernel, Life } from './kernel.ts';
import type { Chance } from './random.ts';
import { copyFiles, HAS_DISK, RecordedDisk } from './recorded-disk.ts';
import type { DiskFailing, PowerCut } from './scenario.ts';
import { OpenHandles } from './threads.ts';
import {
  type Beginning,
  FAIR,
  type OpenedStore,
  type StoredSet,
  type StoreListener,
  type Weather,
  type WorldStore,
} from './world-store.ts';

/** By this the writer empties the log of a file that it has opened anew. */
const EMPTIED = 'pragma wal_checkpoint(truncate)';

interface EngineOptions {
  readonly kernel: Kernel;
  readonly chance: Chance;
}

const MEMORY = '/dev/shm';
/** Bytes that the files of a world and the recording of its disk may come to. */
const ENOUGH = 1024 ** 3;

/** Memory where there is enough: a world writes and syncs all the time. */
export const ROOT = existsSync(MEMORY) && freeBytes(MEMORY) >= ENOUGH ? MEMORY : tmpdir();

function freeBytes(path: string): number {
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize;
}

/** The embedded engine of one process, with files in a folder. A process that dies leaves a copy of it. */
export class EngineStore implements WorldStore {
  readonly contents: EngineContents;
  readonly handles = new OpenHandles();
  readonly isShared = false;
  weather: Weather = FAIR;
  readonly #options: EngineOptions;
  readonly #listener: StoreListener;
  readonly #root = mkdtempSync(join(ROOT, 'millrace-world-'));
  readonly #disk = HAS_DISK ? new RecordedDisk() : undefined;
  #folder = this.#disk?.folder ?? join(this.#root, '0');
  #folders = 0;
  #channel: EngineChannel | undefined;
  /** How the next death comes; undefined where it is one of the process alone. */
  #powerCut: PowerCut | undefined;
  /** The transaction of an earlier process that is in the file or not. */
  #doubt: Doubt | undefined;

  constructor(options: EngineOptions, listener: StoreListener) {
    this.#options = options;
    this.#listener = listener;
    const disk = this.#disk;
    this.contents = new EngineContents(disk === undefined ? (run) => run() : disk.unharmed);
    this.handles.closing = (database) => this.#closing(database);
    this.handles.executed = (database, sql) => {
      if (sql === EMPTIED && this.#isFile(database)) this.#channel?.opened();
    };
  }

  prepare({ sources, destinations, audiences }: Beginning): void {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const database = openDatabase(this.#folder, { isNew: true });
    const records = new RecordTable(database, new SecretSeal(NO_SECRET_KEYS));
    database.exec('begin immediate');
    // All kinds count together: destinations come first.
    records.apply({
      sources: [],
      destinations: destinations.map(({ id: _id, version: _, ...record }) => record),
    });
    records.apply({
      sources: sources.map(({ id: _, ...record }) => record),
      destinations: [],
      audiences: audiences.map(({ id: _id, version: _, ...record }) => record),
    });
    database.exec('commit');
    database.close();
    this.#disk?.begin(this.#options.chance.bits());
  }

  areProfilesBehind(): boolean {
    return this.#disk === undefined ? this.#isBehind() : this.#disk.unharmed(() => this.#isBehind());
  }

  #isBehind(): boolean {
    const folder = this.#folder;
    if (!hasProfiles(folder)) return this.contents.lastPosition > 0;
    const database = new DatabaseSync(databaseUri(folder, 'ro', USERS_FILE), { readOnly: true });
    try {
      const [position, outbox] = [
        "value from installation where name = 'position'",
        'count(*) as value from outbox',
      ].map(
        (what) => (database.prepare(`select ${what}`).get() as { value: number } | undefined)?.value ?? 0,
      );
      return position! < this.contents.lastPosition || outbox! > 0;
    } finally {
      database.close();
    }
  }

  ledger(): Ledger {
    return this.contents.ledger();
  }

  newSets(): Iterable<StoredSet> {
    return this.contents.newSets();
  }

  async open(life: Life): Promise<OpenedStore> {
    const { kernel, chance } = this.#options;
    const folder = this.#folder;
    const channel = new EngineChannel(life, {
      ...{ kernel, chance, contents: this.contents, listener: this.#listener },
      ...{ latency: () => this.weather.latency, moment: () => this.#disk?.moment() ?? 0 },
    });
    this.#channel = channel;
    const store = await this.#openStore(channel, folder);
    const { contents } = this;
    const before = contents.lastPosition;
    contents.open(folder);
    const doubt = this.#doubt;
    this.#doubt = undefined;
    if (doubt !== undefined && contents.commits() >= doubt.commits)
      tellDoubt(doubt, before, { contents, applied: this.#listener.applied });
    channel.told();
    return {
      ...{ channel, nodes: undefined },
      store: { ...channel.overheard(store), ...folderOf(folder) },
      reader: () => openLogReader(folder),
      openProfiles: () => openProfileStore({ folder, log: store.identity.id }),
    };
  }

  /** A folder may be refused for a disk that fails, and for nothing else. */
  async #openStore(channel: EngineChannel, folder: string): Promise<SqliteStore> {
    const failures = this.#disk?.failures() ?? 0;
    try {
      return await openSqliteStore({ folder, startWriter: (options) => this.#start(channel, options) });
    } catch (error) {
      if (error instanceof StorageError && (this.#disk?.failures() ?? 0) > failures) throw error;
      throw new Error(`the folder is refused: ${(error as Error).message}`, { cause: error });
    }
  }

  #start(channel: EngineChannel, options: WriterOptions): WriterHandle {
    channel.start((port) => startWriter(port, options));
    return channel.main;
  }

  cut(): void {
    const isStopped = this.#channel?.isClosed === true;
    const ended = this.#channel?.cut();
    // One that died before it had opened the file knows nothing of what is in it.
    this.#doubt = ended?.doubt ?? this.#doubt;
    this.#channel = undefined;
    this.contents.close();
    const disk = this.#disk;
    if (disk !== undefined) disk.unharmed(() => this.#cutDisk(disk, ended));
    else if (isStopped) this.handles.closeAll();
    else this.#copyFolder();
  }

  /** The files as the system has them survive the process. */
  #copyFolder(): void {
    const old = this.#folder;
    this.#folder = join(this.#root, String(++this.#folders));
    copyFiles(old, this.#folder);
    this.handles.closeAll();
    rmSync(old, { recursive: true });
  }

  /** The files as the disk has them survive the machine. */
  #cutDisk(disk: RecordedDisk, ended: Ended | undefined): void {
    const { chance } = this.#options;
    const how = this.#powerCut;
    this.#powerCut = undefined;
    const { from, to } = ended ?? { from: 0, to: disk.moment() };
    // Before the process has noticed anything, or after it has written what it could.
    const at = how?.when === 'later' && chance.is(0.5) ? to : from + chance.below(to - from + 1);
    disk.stage(chance.bits(), how && { how, at });
    this.handles.closeAll();
    disk.restore();
    disk.begin(chance.bits());
  }

  failPower(how: PowerCut, die: () => void): boolean {
    if (this.#disk === undefined) return false;
    this.#powerCut = how;
    this.#channel?.failPower(how.when, die);
    return this.#channel !== undefined;
  }

  failDisk(how: DiskFailing): boolean {
    this.#disk?.fail(how);
    return this.#disk !== undefined;
  }

  healDisk(): void {
    this.#disk?.heal();
  }

  /** The engine empties its log with the last connection: that is never one of the world. */
  #closing(database: DatabaseSync): void {
    if (!this.contents.isOpen || !this.#isFile(database)) return;
    this.#channel?.closing();
    this.contents.release();
  }

  /** Whether it is a connection of the program to the file of events. */
  #isFile(database: DatabaseSync): boolean {
    return !this.contents.isOwn(database) && database.location()?.endsWith(DATABASE_FILE) === true;
  }

  /** Removes every file. */
  clean(): void {
    this.contents.close();
    this.#disk?.heal();
    this.handles.closeAll();
    this.#disk?.clean();
    rmSync(this.#root, { recursive: true, force: true });
  }
}

function folderOf(folder: string) {
  return { hasProfiles: () => hasProfiles(folder), profilesPlace: () => ({ folder }) };
}
