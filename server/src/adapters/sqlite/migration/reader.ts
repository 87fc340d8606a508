import type { DatabaseSync } from 'node:sqlite';
import type { ClockMark } from '../../../ports/clock.ts';
import { StorageError } from '../../../ports/event-log.ts';
import type {
  InstallationPart,
  InstallationReader,
  InstallationSize,
  InstallationTables,
  LogMarks,
  PartCursor,
  PartPage,
} from '../../../ports/installation.ts';
import { keyHash } from '../../encoding/hashes.ts';
import { Quarantine } from '../damage.ts';
import { asStorageError } from '../database.ts';
import { InstallationFacts, isBoundedIn, readClocks, Watermarks } from '../installation.ts';
import { LedgerReader } from '../ledger-table.ts';
import { Chunks } from '../log/chunks.ts';
import { EventReader } from './event-reader.ts';
import type { PartReaders } from './parts.ts';
import { profileReaders } from './profile-tables.ts';
import { storeReaders } from './store-tables.ts';

export interface FolderReaderOptions {
  readonly folder: string;
  readonly database: DatabaseSync;
  /** The file of profiles; absent where there is none. */
  readonly users?: DatabaseSync | undefined;
}

/** Reads the installation of a data folder from files that are open for reading. */
export class FolderReader implements InstallationReader {
  readonly place: string;
  readonly identity: { readonly id: string; readonly keySecret: Uint8Array };
  readonly lastClockMark?: ClockMark;
  readonly #options: FolderReaderOptions;
  readonly #chunks: Chunks;
  readonly #watermarks: Watermarks;
  readonly #readers: PartReaders;
  #unreadableRows = 0;

  constructor(options: FolderReaderOptions) {
    const { folder, database, users } = options;
    this.place = folder;
    this.#options = options;
    this.identity = identityIn(database, folder);
    const mark = readClocks(database);
    if (mark !== undefined) this.lastClockMark = mark;
    const watermarks = new Watermarks(database);
    const hash = keyHash(this.identity.keySecret);
    const chunks = new Chunks(database, {
      sumsFrom: watermarks.checksumsFrom,
      stored: new LedgerReader(database, new Quarantine()).total('source', 'accepted'),
      retainedFrom: () => watermarks.retainedFrom,
      hash,
      isReadOnly: true,
      quarantine: new Quarantine(),
      onDamage: () => {},
    });
    this.#chunks = chunks;
    this.#watermarks = watermarks;
    const leaveOut = (rows: number) => {
      this.#unreadableRows += rows;
    };
    this.#readers = {
      ...storeReaders(database, leaveOut),
      ...profileReaders(users, { log: this.identity.id, leaveOut }),
      events: new EventReader({ chunks, watermarks, hash }),
    };
  }

  get unreadableRows(): number {
    return this.#unreadableRows;
  }

  async state(): Promise<string> {
    return this.#do(({ database, users }) => {
      const epoch = new InstallationFacts(database).number('epoch');
      const commits = users === undefined ? 0 : new InstallationFacts(users).number('commits');
      return `start ${epoch}, commit ${new LedgerReader(database, new Quarantine()).commits}, profiles ${commits}`;
    });
  }

  async marks(): Promise<LogMarks> {
    const { retainedFrom, compactedTo } = this.#watermarks;
    const isBounded = this.#do(({ database }) => isBoundedIn(new InstallationFacts(database)));
    return { end: this.#chunks.next, retainedFrom, mergedTo: compactedTo, isBounded };
  }

  async size(): Promise<InstallationSize> {
    return this.#do(({ database, users }) => {
      const sum = (of: DatabaseSync, sql: string) => (of.prepare(sql).get() as { n: number }).n;
      const pages =
        'select (select page_count from pragma_page_count) * (select page_size from pragma_page_size) as n';
      return {
        events: sum(database, 'select coalesce(sum(n), 0) as n from chunk where stage < 2'),
        bytes: sum(database, pages) + (users === undefined ? 0 : sum(users, pages)),
        waiting: sum(database, 'select coalesce(sum(n), 0) as n from pending'),
        dead: sum(database, 'select coalesce(sum(n), 0) as n from dead_letter'),
        profiles: users === undefined ? 0 : sum(users, 'select count(*) as n from profile'),
      };
    });
  }

  async page<Part extends InstallationPart>(
    part: Part,
    after?: PartCursor,
  ): Promise<PartPage<InstallationTables[Part]>> {
    return this.#do(() => this.#readers[part].page(after));
  }

  leftBehind(): readonly string[] {
    return [];
  }

  async stop(): Promise<void> {
    const { database, users } = this.#options;
    database.close();
    users?.close();
  }

  #do<Answer>(run: (options: FolderReaderOptions) => Answer): Answer {
    try {
      return run(this.#options);
    } catch (error) {
      throw asStorageError(error, this.place);
    }
  }
}

function identityIn(database: DatabaseSync, folder: string): InstallationReader['identity'] {
  const facts = new InstallationFacts(database);
  const [id, keySecret] = [facts.bytes('id'), facts.bytes('key_secret')];
  if (id instanceof Uint8Array && keySecret instanceof Uint8Array)
    return { id: Buffer.from(id).toString('hex'), keySecret };
  throw new StorageError(
    `the store of the data folder ${folder} does not say which one it is: start Millrace with it once, stop it, and try again`,
  );
}
