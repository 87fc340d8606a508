import { StorageError } from '../../../ports/event-log.ts';
import type {
  EventRow,
  InstallationPart,
  InstallationReader,
  InstallationSize,
  InstallationTables,
  LogMarks,
  PartCursor,
  PartPage,
} from '../../../ports/installation.ts';
import { hashLines, type KeyHash, keyHash } from '../../encoding/hashes.ts';
import type { Database, Statement, Transaction } from '../database.ts';
import { ChunkTable, type StoredRow } from '../log/chunk-table.ts';
import { retainedFrom } from '../log/log-reader.ts';
import { mergedTo, volumeOf } from '../log/maintenance.ts';
import { databaseClockMark } from '../nodes.ts';
import { BOUNDED, FORMAT, formatOf } from '../schema.ts';
import { readPage } from './part-tables.ts';

/** Bytes of JSON, events and chunks after which a page ends. */
const PAGE_BYTES = 4 * 1024 * 1024;
const PAGE_EVENTS = 8000;
const PAGE_CHUNKS = 1000;

const IDENTITY: Statement = {
  name: 'migration.identity',
  text: `select (select value from installation where name = 'id') as id,
    (select value from installation where name = 'key_secret') as "keySecret"`,
};

/** No process writes anything before it has a number of its own. */
const STATE: Statement = {
  name: 'migration.state',
  text: `select 'process ' || last_value || case when is_called then '' else ' to come' end as state from process_id`,
};

const SIZE: Statement = {
  name: 'migration.size',
  text: `select pg_database_size(current_database()) as bytes, (select coalesce(sum(n), 0) from pending) as waiting,
    (select coalesce(sum(n), 0) from dead_letter) as dead, (select profiles from profile_cursor) as profiles`,
};

const END: Statement = {
  name: 'migration.end',
  text: 'select case when is_called then last_value + 1 else 0 end as "end" from position',
};

const IS_BOUNDED: Statement = {
  name: 'migration.is_bounded',
  text: `select value from installation where name = '${BOUNDED}'`,
};

const CURSOR: Statement = {
  name: 'migration.cursor',
  text: `select position, clock, next_profile as "nextProfile", next_outbox as "nextOutbox" from profile_cursor where commits > 0`,
};

/** Reads the installation of a database that no node uses. */
export class DatabaseReader implements InstallationReader {
  readonly place: string;
  readonly identity: { readonly id: string; readonly keySecret: Uint8Array };
  readonly lastClockMark: NonNullable<InstallationReader['lastClockMark']>;
  readonly unreadableRows = 0;
  readonly #database: Database;
  readonly #chunks: ChunkTable;
  readonly #hash: KeyHash;

  private constructor(
    database: Database,
    { place, identity, lastClockMark }: Pick<DatabaseReader, 'place' | 'identity' | 'lastClockMark'>,
  ) {
    this.#database = database;
    this.place = place;
    this.identity = identity;
    this.lastClockMark = lastClockMark;
    this.#hash = keyHash(identity.keySecret);
    this.#chunks = new ChunkTable(this.#hash, () => undefined);
  }

  /** `stop` closes the database. */
  static async open(database: Database, place: string): Promise<DatabaseReader> {
    await database.session(async (session) => refuseOtherFormat(await formatOf(session), place));
    const [row] = await database.read((read) => read.rows<{ id: string; keySecret: string }>(IDENTITY));
    const identity = { id: row!.id, keySecret: Buffer.from(row!.keySecret, 'hex') };
    return new DatabaseReader(database, {
      place,
      identity,
      lastClockMark: await databaseClockMark(database),
    });
  }

  async state(): Promise<string> {
    const [row] = await this.#database.read((read) => read.rows<{ state: string }>(STATE));
    return row!.state;
  }

  size(): Promise<InstallationSize> {
    return this.#database.read(async (read) => {
      const { events } = await volumeOf(read);
      const [row] = await read.rows<Omit<InstallationSize, 'events'>>(SIZE);
      return { events, ...row! };
    });
  }

  marks(): Promise<LogMarks> {
    return this.#database.read(async (read) => {
      const [row] = await read.rows<{ end: number }>(END);
      const [bounded] = await read.rows<{ value: string }>(IS_BOUNDED);
      return {
        end: row!.end,
        retainedFrom: await retainedFrom(read),
        mergedTo: await mergedTo(read),
        isBounded: bounded?.value === 'yes',
      };
    });
  }

  async page<Part extends InstallationPart>(
    part: Part,
    after?: PartCursor,
  ): Promise<PartPage<InstallationTables[Part]>> {
    return await this.#database.read(async (read): Promise<PartPage<never>> => {
      const page = await this.#page(read, part, after);
      return page as PartPage<never>;
    });
  }

  leftBehind(): readonly string[] {
    return [];
  }

  async stop(): Promise<void> {
    await this.#database.stop();
  }

  async #page(
    read: Transaction,
    part: InstallationPart,
    after?: PartCursor,
  ): Promise<PartPage<InstallationTables[InstallationPart]>> {
    if (part === 'events') return await this.#events(read, after);
    if (part === 'profileCursor')
      return { rows: await read.rows<InstallationTables['profileCursor']>(CURSOR) };
    return await readPage(read, part, after);
  }

  async #events(read: Transaction, [after = 0]: PartCursor = []): Promise<PartPage<EventRow>> {
    const from = Number(after);
    const facts = await this.#chunks.factsFrom(read, from, PAGE_CHUNKS);
    let [bytes, events, taken] = [0, 0, 0];
    for (const { json, n } of facts) {
      if (bytes > PAGE_BYTES || events > PAGE_EVENTS) break;
      bytes += json;
      events += n;
      taken++;
    }
    const last = facts[taken - 1];
    if (last === undefined) return { rows: [] };
    const stored = await this.#chunks.whole(read, from, last.first + 1, taken);
    const rows = stored.map((row) => this.#rowOf(row));
    return taken === PAGE_CHUNKS || taken < facts.length ? { rows, next: [last.first + 1] } : { rows };
  }

  /** The keys are computed from the lines, as they were when they were stored. */
  #rowOf(row: StoredRow): EventRow {
    const { first, n, stage, at, until } = row;
    const chunk = this.#chunks.decode(row);
    if (chunk === undefined) return { kind: 'unreadable', first, n, at, until };
    const { body: lines, sources, times, plans, users } = chunk;
    const { keys } = hashLines(this.#hash, chunk);
    return { kind: 'events', first, n, stage, lines, sources, times, plans, keys, users };
  }
}

function refuseOtherFormat(format: number, place: string): void {
  if (format === 0)
    throw new StorageError(`${place} holds no installation: name the database of a server with --from`);
  if (format < FORMAT)
    throw new StorageError(
      `${place} is of an earlier version (format ${format}, this one writes ${FORMAT}): start this Millrace with it once, stop it, and ` +
        'move it then',
    );
  if (format > FORMAT)
    throw new StorageError(
      `${place} was written by a newer Millrace (format ${format}, this one knows ${FORMAT}): move it with that version`,
    );
}
