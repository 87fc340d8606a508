import type { DatabaseSync } from 'node:sqlite';
import { StorageError } from '../../ports/event-log.ts';
import { checksumOf, withChecksum } from '../encoding/hashes.ts';
import { emptySlots } from './earlier-slots.ts';
import { refuseOthers, refuseProgramsIn } from './foreign-objects.ts';
import { factChecksum } from './installation.ts';
import { type RecordRow, recordChecksum } from './settings/records.ts';

/** "MILR": tells `file` and us that a database is a Millrace store. */
export const APPLICATION_ID = 0x4d494c52;

/**
 * Numbered, never edited after release: an older file is brought forward one step at a time, in one
 * transaction. The number of steps is the format version, kept in `user_version`.
 */
const MIGRATIONS: readonly (string | ((database: DatabaseSync) => void))[] = [
  `
  -- Facts about this installation: the secret of the key hash, the boot epoch.
  create table installation(name text primary key, value any) strict, without rowid;

  -- Sources, destinations, tokens. Ids are what everything else refers to and are never reused, so a record that was
  -- removed stays as it last was, marked as gone.
  create table record(
    id integer primary key autoincrement,
    kind text not null,
    name text not null,
    version integer not null,
    gone integer not null,
    document text not null,
    unique(kind, name)
  ) strict;

  -- Who changed which record when, as people see records: without secrets.
  create table audit(
    id integer primary key autoincrement,
    at integer not null,
    by text not null,
    action text not null,
    kind text not null,
    name text not null,
    before text,
    after text
  ) strict;
  create index audit_name on audit(kind, name, id);

  -- The event log. One row per commit (at most 500 events); the row of a position is the last one whose "first" is not
  -- above it, so merging neighbours moves no event. Columns stand in the order they are needed: SQLite reads a row from
  -- the front, and looking for keys or users leaves the overflow pages of the body alone.
  create table chunk(
    first integer primary key,
    n integer not null,
    -- When its first and its last event arrived.
    at integer not null,
    until integer not null,
    -- How the body is written, in the lowest four bits, and above them the checksum of the numbers: see adapters/encoding/chunk-codec.ts.
    codec integer not null,
    -- Bytes of its events as JSON.
    json integer not null,
    -- 0 as committed, 1 sealed (merged, or large enough), 2 past its retention and kept for its dead letters.
    stage integer not null,
    -- The batch it came with and the answer to it; null when sealed.
    batch text,
    answer text,
    sources blob not null,
    -- When each event arrived, where that is not the same for all.
    times blob,
    -- Number of the plan of each event, where there is any.
    plans blob,
    keys blob not null,
    users blob not null,
    body blob not null
  ) strict;

  -- Plans of events: see log/plans.ts.
  create table plan(id integer primary key, document text not null unique) strict;

  -- Sorted runs of keys: see log/sorted-run.ts.
  create table run(
    id integer primary key,
    from_position integer not null,
    to_position integer not null,
    youngest integer not null,
    n integer not null,
    complete integer not null
  ) strict;
  create table run_page(id integer primary key, entries blob not null) strict;
  create table run_filter(id integer primary key, bytes blob not null) strict;

  -- Filters of the users in each part of the log: see log/user-index.ts.
  create table user_block(id integer primary key, filter blob not null) strict;

  -- Batches that left no chunk behind: every event a duplicate, or only counts.
  create table empty_batch(number integer primary key, batch text not null, answer text not null) strict;

  -- Pending sets: see queue/pending.ts for the states and adapters/encoding/pending-set.ts for the two forms of "refs".
  create table pending(
    id integer primary key,
    destination integer not null,
    state integer not null,
    owner integer not null,
    due integer not null,
    -- From when the retry window of its oldest delivery counts: its first failure, or its parking.
    since integer not null,
    -- The lowest of its positions, and the highest.
    first integer not null,
    last integer not null,
    n integer not null,
    -- How many of the n were tried before.
    tried integer not null,
    -- On whose behalf they are owed once more; null for what is owed since its event was stored.
    origin text,
    refs blob not null
  ) strict;
  -- Held sets stay out of the index: on the healthy path a set is born held and deleted, and never indexed.
  create index pending_due on pending(destination, due) where state <> 0;
  create index pending_since on pending(destination, since) where state <> 0;
  create index pending_origin on pending(origin) where origin is not null;
  create index pending_last on pending(destination, last, first) where state <> 0;

  -- How far each origin of replayed or redelivered events has come: see queue/replay-cursors.ts.
  create table origin(id text primary key, cursor integer not null, events integer not null) strict, without rowid;

  create table ledger(
    scope text not null,
    id integer not null,
    name text not null,
    value integer not null,
    primary key(scope, id, name)
  ) strict, without rowid;

  -- Successful attempts: see queue/settle.ts.
  create table endpoint(id integer primary key, url text not null unique) strict;
  create table accepted_attempt(
    id integer primary key,
    destination integer not null,
    endpoint integer not null,
    -- The lowest and the highest of its positions.
    first integer not null,
    last integer not null,
    -- When the first of its requests was begun.
    at integer not null,
    facts blob not null
  ) strict;
  create index accepted_attempt_first on accepted_attempt(first);

  -- Failed attempts, a row each.
  create table failed_attempt(
    position integer not null,
    destination integer not null,
    started_at integer not null,
    latency_ms real not null,
    endpoint text not null,
    -- 'retryable' or 'refused'
    kind text not null,
    reason text not null,
    status integer,
    answer text
  ) strict;
  create index failed_attempt_position on failed_attempt(position, destination);

  -- Deliveries given up, as sets like those of "pending": an outage that outlasts the retry window gives up millions.
  create table dead_letter(
    id integer primary key,
    destination integer not null,
    at integer not null,
    reason text not null,
    -- The lowest and the highest of its positions.
    first integer not null,
    last integer not null,
    n integer not null,
    -- As in "pending".
    origin text,
    refs blob not null
  ) strict;
  create index dead_letter_at on dead_letter(at);
  create index dead_letter_last on dead_letter(last);
  `,
  `
  -- Dead letters of one destination, in the order they were given up: see queue/dead-letters.ts.
  create index dead_letter_destination on dead_letter(destination, id);
  -- The few sets of dead letters that span many positions: see queue/dead-letters.ts.
  create index dead_letter_wide on dead_letter(last) where last - first >= 65536;
  `,
  addChecksums,
  `
  -- The health of each destination's endpoints, as JSON: see queue/endpoint-health.ts.
  create table endpoint_health(destination integer primary key, endpoints text not null) strict;
  `,
  addRegulations,
  `
  -- Why destinations skip events, as sets that many plans share: see adapters/encoding/plans.ts. Plans of earlier formats have none,
  -- and stay as they are.
  create table skip_set(id integer primary key, document text not null unique) strict;
  `,
  `
  -- The latest changes of "ledger", until format 10: see earlier-slots.ts.
  create table ledger_tail(slot integer primary key, number integer not null, sum integer not null, counts blob not null) strict;
  `,
  `
  -- The latest small transactions, until format 10: see earlier-slots.ts.
  create table redo(slot integer primary key, number integer not null, sum integer not null, bytes blob not null) strict;
  `,
  `
  -- Who is signed in to the console: digests of the secrets that the browser shows. See settings/session-table.ts. An earlier version
  -- would take a token that has limits or an end for one without.
  create table session(
    number integer primary key autoincrement,
    id text not null unique,
    key text not null,
    token text not null,
    expires_at integer not null,
    until integer not null
  ) strict;
  create index session_token on session(token, number);
  `,
  (database) => {
    emptySlots(database);
    database.exec(`
      drop table ledger_tail;
      drop table redo;
      -- How they were given up: dead, or dropped by the type of their destination, with what that says about it.
      alter table dead_letter add column state text not null default 'dead';
      alter table dead_letter add column note text;
      create index dead_letter_note on dead_letter(id) where note is not null;
    `);
  },
];

/** The newest format that this version reads, and the one that it writes. */
export const FORMAT = MIGRATIONS.length;

/** The first format whose rows carry checksums. */
export const FORMAT_WITH_CHECKSUMS = 3;

/**
 * Refuses a database with somebody else's tables, and one that a newer version has written. Comes before
 * anything else is judged: what this version makes of a newer file is wrong. Changes nothing.
 */
export function refuseForeign(database: DatabaseSync): void {
  const application = pragma(database, 'application_id');
  const version = pragma(database, 'user_version');
  if (application === APPLICATION_ID && version <= MIGRATIONS.length) {
    refuseProgramsIn(database, THIS_FILE);
    return;
  }
  if (application === APPLICATION_ID) {
    throw new StorageError(
      `the data folder was written by a newer Millrace (format ${version}, this one knows ${MIGRATIONS.length}): ` +
        'start the newer version, or restore a backup made before the upgrade',
    );
  }
  const { tables } = database.prepare('select count(*) as tables from sqlite_schema').get() as {
    tables: number;
  };
  if (application === 0 && version === 0 && tables === 0) return;
  throw new StorageError(
    'the data folder holds a millrace.db that Millrace did not write: choose another data folder',
  );
}

/** In messages. */
const THIS_FILE = 'the millrace.db of the data folder';

/** Refuses a file of the current format that has other tables than this version makes. */
export function refuseOtherTables(database: DatabaseSync): void {
  refuseOthers(database, THIS_FILE, migrate);
}

/** Brings a new or older file, which is not refused, to the current format. */
export function migrate(database: DatabaseSync): void {
  const version = pragma(database, 'user_version');
  for (let step = version; step < MIGRATIONS.length; step++) {
    database.exec('begin immediate');
    const migration = MIGRATIONS[step]!;
    if (typeof migration === 'string') database.exec(migration);
    else migration(database);
    database.exec(`pragma application_id = ${APPLICATION_ID}`);
    database.exec(`pragma user_version = ${step + 1}`);
    database.exec('commit');
  }
}

function pragma(database: DatabaseSync, name: string): number {
  const row = database.prepare(`pragma ${name}`).get() as Record<string, number>;
  return row[name]!;
}

/**
 * Format 3: everything stored carries a checksum (docs/decisions/0014). Chunks and runs of format 1 stay as
 * they are until they are merged or past their retention, so that a large file opens at once; the other
 * tables are small and get theirs here.
 */
function addChecksums(database: DatabaseSync): void {
  database.exec(`
    -- Chunks below may stand without checksums.
    insert into installation(name, value)
      values ('sums_from', coalesce((select first + n from chunk order by first desc limit 1), 0));
    -- Keys of events below are nowhere any more.
    insert into installation(name, value)
      values ('keys_from', coalesce((select min(from_position) from run where complete = 1), 0));
    -- Which rows were found damaged, and how many events or deliveries cannot be read for it.
    create table damage(
      part text not null,
      id integer not null,
      n integer not null,
      found_at integer not null,
      primary key(part, id)
    ) strict, without rowid;
    -- Filters are made anew by upkeep.
    delete from user_block;
    -- 1: pages and filter without checksums, 2: with.
    alter table run rename column complete to form;
    alter table record add column sum integer not null default 0;
    alter table installation add column sum integer;
  `);
  for (const table of ['pending', 'dead_letter']) {
    const rows = database.prepare(`select id, destination, refs from ${table}`).all();
    const update = database.prepare(`update ${table} set refs = ? where id = ?`);
    for (const row of rows as unknown as { id: number; destination: number; refs: Uint8Array }[])
      update.run(withChecksum(row.refs, checksumOf(row.destination)), row.id);
  }
  const put = database.prepare('update installation set sum = ? where name = ?');
  for (const row of database.prepare('select name, value from installation').all()) {
    const { name, value } = row as unknown as { name: string; value: number | Uint8Array };
    put.run(factChecksum(name, value), name);
  }
  const update = database.prepare('update record set sum = ? where id = ?');
  for (const row of database.prepare('select id, kind, name, version, gone, document from record').all())
    update.run(recordChecksum(row as unknown as RecordRow), (row as unknown as RecordRow).id);
}

/** Format 5: regulations, and the hash of the anonymousId in the place of that of an absent userId. */
function addRegulations(database: DatabaseSync): void {
  database.exec(`
    -- Requests to delete or to suppress users, and their receipts, as JSON: see regulations/regulation-table.ts.
    create table regulation(
      number integer primary key autoincrement,
      id text not null unique,
      open integer not null,
      document text not null,
      -- The keyed hashes of its users, two words each: of use when a backup is restored.
      hashes blob not null,
      sum integer not null
    ) strict;
    create index regulation_open on regulation(number) where open = 1;

    -- The users of regulations that are not done. The ids stand behind a page of zeros, so that all of them are on overflow pages:
    -- those are given back whole, while the place of a deleted cell may keep old bytes.
    create table regulation_subject(number integer primary key, subjects blob not null) strict;

    -- Suppressed ids by their keyed hash.
    create table suppression(
      high integer not null,
      low integer not null,
      -- Hash of the user whom this id is joined to; null for the user's own id.
      owner_high integer,
      owner_low integer,
      -- The userId; null where only its hash may be kept.
      id text,
      since integer not null,
      regulation text not null,
      primary key(high, low)
    ) strict, without rowid;
    create index suppression_owner on suppression(owner_high, owner_low) where owner_high is not null;
    create index suppression_id on suppression(id) where id is not null;
  `);
  const { next } = database
    .prepare('select coalesce((select first + n from chunk order by first desc limit 1), 0) as next')
    .get() as { next: number };
  database
    .prepare('insert into installation(name, value, sum) values (?, ?, ?)')
    .run('anonymous_from', next, factChecksum('anonymous_from', next));
}
