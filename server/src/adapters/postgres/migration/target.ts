import type { Duration } from '../../../model/time.ts';
import { SECOND } from '../../../model/time.ts';
import { StorageError } from '../../../ports/event-log.ts';
import type {
  EventRow,
  InstallationPart,
  InstallationReader,
  InstallationTables,
  InstallationTarget,
  MigrationOrigin,
  MigrationProgress,
} from '../../../ports/installation.ts';
import { placeOf } from '../connection.ts';
import { Database, type Session, type Statement, type Transaction } from '../database.ts';
import { type ClockShift, databaseNow } from '../nodes.ts';
import { BOUNDED, formatOf, migrate } from '../schema.ts';
import { writeEvents } from './event-writer.ts';
import { RECORD } from './moved.ts';
import { type TablePart, writeRows } from './part-tables.ts';
import { DatabaseReader } from './reader.ts';
import { type MigrationRecord, newRecord, refuseOtherOrigin } from './record.ts';
import { takeSoleUse } from './sole-use.ts';

/** The process whose lease guards what is written: it has no other, and no node ever has this number. */
const PROCESS = 0;

/** A clock that differs by less than this from that of the database is the same. */
const SAME_CLOCK: Duration = SECOND;

const PUT_FACT: Statement = {
  name: 'migration.put_fact',
  text: `insert into installation(name, value) values ($1, $2) on conflict (name) do update set value = excluded.value`,
};

/** `$1` the record, `$2` the one before: of two programs that write, only one goes on. */
const NOTE: Statement = {
  name: 'migration.note',
  text: `update installation set value = $1 where name = '${RECORD}' and value = $2 returning name`,
};

const PUT_CURSOR: Statement = {
  name: 'migration.put_cursor',
  text: `update profile_cursor set position = $1, clock = $2, next_profile = $3, next_outbox = $4, commits = 1`,
};

/** Reads the tables of keys from end to end, which takes a minute for some hundred million of them. */
const COUNT_KEYS = `begin; set local enable_seqscan = on;
  select (select coalesce(sum(cardinality(hashes)), 0) from key_page) + sum(n) as n from (
    select count_keys(id) as n from key_slot where not is_paged) counted; commit`;
const COUNT_WITHIN = 3_600_000;

/** Numbers go on behind those that were given. */
const SEQUENCES = [
  'record',
  'audit',
  'delivery_plan',
  'skip_set',
  'endpoint',
  'accepted_attempt',
  'failed_attempt',
  'dead_letter',
]
  .map((table) => numbersOf(table, 'id'))
  .concat(numbersOf('regulation', 'number'))
  .join('; ');

function numbersOf(table: string, column: string): string {
  return `select setval(pg_get_serial_sequence('${table}', '${column}'), coalesce((select max(${column}) from ${table}), 0) + 1, false)`;
}

const EMPTY = 'drop the database and create it anew (drop database …; create database …)';

/** Opens a database that holds nothing, or is being filled. Rejects with a `StorageError`. */
export async function openDatabaseTarget(url: string): Promise<InstallationTarget> {
  const place = placeOf(url);
  const database = new Database({ url, connections: 3 });
  try {
    await database.refuseSharedSessions();
    return new DatabaseTarget(url, { place, database, use: await takeSoleUse(database, place) });
  } catch (error) {
    await database.stop();
    throw error;
  }
}

interface TargetParts {
  readonly place: string;
  readonly database: Database;
  readonly use: { release(): Promise<void> };
}

class DatabaseTarget implements InstallationTarget {
  readonly place: string;
  readonly #url: string;
  readonly #database: Database;
  readonly #use: TargetParts['use'];
  #origin: MigrationOrigin | undefined;
  #record: MigrationRecord | undefined;

  constructor(url: string, { place, database, use }: TargetParts) {
    this.place = place;
    this.#url = url;
    this.#database = database;
    this.#use = use;
  }

  async begin(origin: MigrationOrigin): Promise<MigrationProgress> {
    this.#origin = origin;
    const found = await this.#database.session((session) => recordIn(session, this.place));
    const record = found ?? newRecord(origin);
    refuseOtherOrigin(record, origin, { place: this.place, empty: EMPTY });
    if (record.progress.phase === 'complete') return record.progress;
    await this.#database.session(async (session) => {
      await migrate(session);
      await session.query(
        `insert into process(id, node, expires) values (${PROCESS}, 'millrace migrate', 'infinity') on conflict do nothing`,
      );
    });
    this.#database.guardBy(PROCESS, () => undefined);
    const shift = await this.#clockShift(origin);
    await this.#database.write(async (write) => {
      const { id, keySecret, marks } = origin;
      const facts = {
        id,
        key_secret: Buffer.from(keySecret).toString('hex'),
        retained_from: String(marks.retainedFrom),
        merged_to: String(marks.mergedTo),
        [BOUNDED]: marks.isBounded === true ? 'yes' : 'no',
        clock_shift: JSON.stringify(shift),
        [RECORD]: JSON.stringify(record),
      };
      for (const [name, value] of Object.entries(facts)) write.later(PUT_FACT, [name, value]);
    });
    this.#record = record;
    return record.progress;
  }

  write<Part extends InstallationPart>(
    part: Part,
    rows: readonly InstallationTables[Part][],
    progress: MigrationProgress,
  ): Promise<void> {
    const before = this.#record!.progress.rows[part] ?? 0;
    return this.#commit(progress, async (write) => {
      if (part === 'events') await writeEvents(write, rows as readonly EventRow[]);
      else if (part === 'profileCursor')
        for (const row of rows as readonly InstallationTables['profileCursor'][])
          write.later(PUT_CURSOR, [row.position, row.clock, row.nextProfile, row.nextOutbox]);
      else writeRows(write, part as TablePart, rows as never, before);
    });
  }

  async advance(progress: MigrationProgress): Promise<void> {
    if (progress.phase === 'verified') await this.#refuseMissingKeys(progress);
    await this.#commit(progress, async () => undefined);
  }

  async openReader(): Promise<InstallationReader> {
    return new DatabaseReader(new Database({ url: this.#url, connections: 2 }), this.#origin!.keySecret);
  }

  async complete(progress: MigrationProgress): Promise<void> {
    const { end } = this.#origin!.marks;
    await this.#commit(progress, async (write) => {
      await write.text(SEQUENCES);
      if (end > 0) await write.text(`select setval('position', ${end - 1})`);
      await write.text(`update profile_cursor set profiles = ${progress.rows.profiles ?? 0}`);
      await write.text(`delete from process where id = ${PROCESS}`);
    });
  }

  async stop(): Promise<void> {
    await this.#use.release();
    await this.#database.stop();
  }

  async #commit(progress: MigrationProgress, change: (write: Transaction) => Promise<void>): Promise<void> {
    const before = this.#record!;
    const record = { origin: before.origin, progress };
    await this.#database.write(async (write) => {
      const [noted] = await write.rows(NOTE, [JSON.stringify(record), JSON.stringify(before)]);
      if (noted === undefined)
        throw new StorageError(`another millrace migrate writes to ${this.place} too: end one of them`);
      await change(write);
    });
    this.#record = record;
  }

  /** By how much the clock of the installation is ahead of that of the database. */
  async #clockShift({ clock: { now, monotonic, steps } }: MigrationOrigin): Promise<ClockShift> {
    const ofDatabase = await databaseNow(this.#database);
    // The marks of a large source take a while to read, and its clock has gone on since it was looked at.
    const by = monotonic + (Date.now() - now) - ofDatabase;
    return { by: Math.abs(by) < SAME_CLOCK ? 0 : by, steps };
  }

  /** Keys have a table of their own here, which no row shows. */
  async #refuseMissingKeys({ messageIds }: MigrationProgress): Promise<void> {
    const [row] = await this.#database.session(
      (session) => session.query<{ n: number }>(COUNT_KEYS),
      COUNT_WITHIN,
    );
    if (row!.n === messageIds) return;
    throw new StorageError(
      `${this.place} does not hold what was written to it (keys of messageIds: ${row!.n} of ${messageIds}): ${EMPTY}, and begin anew`,
    );
  }
}

/**
 * The record of the migration that fills a database; undefined for an empty one. Throws a `StorageError` for
 * any other.
 */
async function recordIn(session: Session, place: string): Promise<MigrationRecord | undefined> {
  if ((await formatOf(session)) === 0) return undefined;
  const [row] = await session.query<{ record: string | null; isUsed: boolean }>(
    `select (select value from installation where name = '${RECORD}') as record,
      (select is_called from process_id) or exists (select from record) or exists (select from slot where id > 1) as "isUsed"`,
  );
  if (row!.record !== null) return JSON.parse(row!.record) as MigrationRecord;
  if (!row!.isUsed) return undefined;
  throw new StorageError(
    `${place} holds an installation already: make a database for this one alone (create database …), and name that with --to`,
  );
}
