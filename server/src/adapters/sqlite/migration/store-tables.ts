import type { DatabaseSync } from 'node:sqlite';
import { StorageError } from '../../../ports/event-log.ts';
import type { PartCursor, PartPage, RowOf } from '../../../ports/installation.ts';
import { decodeShared, SHARED, SuccessfulAttemptRows } from '../../encoding/results.ts';
import { Quarantine } from '../damage.ts';
import { ProducerSequences } from '../installation.ts';
import { LedgerReader } from '../ledger-table.ts';
import { GONE, regulationChecksum, ZEROS } from '../regulations/regulation-table.ts';
import { type RecordRow, recordChecksum } from '../settings/records.ts';
import type { PartReaders, PartWriters, StorePart } from './parts.ts';
import { KeyedTableReader, type LeaveOut, NumberedTableReader } from './table-reader.ts';

/** Reads the tables of millrace.db. */
export function storeReaders(database: DatabaseSync, leaveOut: LeaveOut): Pick<PartReaders, StorePart> {
  const numbered = <Stored extends { readonly key: number }, Row>(
    sql: string,
    convert: (stored: Stored) => readonly Row[] | undefined,
  ) => new NumberedTableReader(database, sql, convert, leaveOut);
  /** A table whose rows need no change but for their key. */
  const plain = <Row>(columns: string, from: string, key: string) =>
    numbered<{ readonly key: number }, Row>(
      `select ${key} as key, ${columns} from ${from} where ${key} >= ? order by ${key}`,
      ({ key: _, ...row }) => [row as Row],
    );
  return {
    records: numbered(
      'select id as key, kind, name, version, gone, document, sum from record where id >= ? order by id',
      recordOf,
    ),
    audit: plain('at, by, action, kind, name, before, after', 'audit', 'id'),
    skipSets: plain('id, document', 'skip_set', 'id'),
    plans: plain('id, document', 'plan', 'id'),
    producers: { page: () => ({ rows: new ProducerSequences(database).all() }) },
    endpoints: plain('id, url', 'endpoint', 'id'),
    acceptedRequests: acceptedReader(database, leaveOut),
    failedRequests: plain(
      'position, destination, started_at as startedAt, latency_ms as latencyMs, endpoint, kind, reason, status, answer',
      'failed_attempt',
      'rowid',
    ),
    pending: plain('destination, due, since, first, last, n, tried, origin, refs', 'pending', 'id'),
    deadLetters: plain('destination, at, reason, first, last, n, origin, refs', 'dead_letter', 'id'),
    endpointHealth: plain('destination, endpoints', 'endpoint_health', 'destination'),
    regulations: numbered(
      `select number as key, id, open, document, hashes, sum from regulation
       where number >= ? and document <> '${GONE}' order by number`,
      regulationOf,
    ),
    regulationSubjects: numbered(
      'select number as key, subjects from regulation_subject where number >= ? order by number',
      ({ key, subjects }: { key: number; subjects: Uint8Array }) => [
        { number: key, subjects: Buffer.from(subjects).toString('utf8', ZEROS) },
      ],
    ),
    ...keyedReaders(database, leaveOut),
  };
}

function keyedReaders(
  database: DatabaseSync,
  leaveOut: LeaveOut,
): Pick<PartReaders, 'origins' | 'ledger' | 'suppressions'> {
  return {
    origins: new KeyedTableReader<RowOf<'origins'>, RowOf<'origins'>>(database, {
      sql: 'select id, cursor, events from origin where id > ? order by id limit ?',
      start: [''],
      keyOf: ({ id }) => [id],
      convert: (row) => [{ ...row }],
      leaveOut,
    }),
    ledger: { page: (after) => ledgerPage(database, leaveOut, after) },
    suppressions: new KeyedTableReader<StoredSuppression, RowOf<'suppressions'>>(database, {
      sql: `select high, low, owner_high, owner_low, id, since, regulation from suppression
        where (high, low) > (?, ?) order by high, low limit ?`,
      start: [-1, -1],
      keyOf: ({ high, low }) => [high, low],
      convert: ({ high, low, owner_high, owner_low, ...row }) => [
        {
          ...row,
          hash: hashBytes(high, low),
          owner: owner_high === null || owner_low === null ? null : hashBytes(owner_high, owner_low),
        },
      ],
      leaveOut,
    }),
  };
}

/** Counters in a page. */
const LEDGER_ROWS = 1000;

/** Counters are sums of several tables, so a page begins at their place in the order and not at a key. */
function ledgerPage(
  database: DatabaseSync,
  leaveOut: LeaveOut,
  [after = 0]: PartCursor = [],
): PartPage<RowOf<'ledger'>> {
  const from = Number(after);
  const quarantine = new Quarantine();
  const ledger = new LedgerReader(database, quarantine);
  if (from === 0 && quarantine.steps.length > 0) leaveOut(1);
  const rows = ledger.all().filter(({ value }) => value !== 0);
  const next = from + LEDGER_ROWS;
  return { rows: rows.slice(from, next), ...(next < rows.length ? { next: [next] } : {}) };
}

interface StoredSuppression {
  readonly high: number;
  readonly low: number;
  readonly owner_high: number | null;
  readonly owner_low: number | null;
  readonly id: string | null;
  readonly since: number;
  readonly regulation: string;
}

function hashBytes(high: number, low: number): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeUInt32BE(high, 0);
  bytes.writeUInt32BE(low, 4);
  return bytes;
}

/** Words of this machine's order as words of the order of a network, and back. */
function swapWords(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes).swap32();
}

/** Nothing is sent by settings that are not what was saved, here as at a start. */
function recordOf({
  key: id,
  sum,
  ...row
}: Omit<RecordRow, 'id'> & { readonly key: number; readonly sum: number }): RowOf<'records'>[] {
  if (sum === recordChecksum({ id, ...row })) return [{ id, ...row }];
  throw new StorageError(
    `the record of ${row.kind} ${JSON.stringify(row.name)} is damaged: restore a backup with millrace restore, and move that`,
  );
}

interface StoredRegulationRow {
  readonly key: number;
  readonly id: string;
  readonly open: number;
  readonly document: string;
  readonly hashes: Uint8Array;
  readonly sum: number;
}

function regulationOf({ key: number, sum, hashes, ...row }: StoredRegulationRow): RowOf<'regulations'>[] {
  if (sum === regulationChecksum(number, row.document))
    return [{ number, ...row, hashes: swapWords(hashes) }];
  throw new StorageError(
    `the record of regulation ${number} is damaged: restore a backup with millrace restore, and move that`,
  );
}

interface AcceptedRow extends RowOf<'acceptedRequests'> {
  readonly key: number;
}

/** A row that destinations share becomes one for each of them and each endpoint: other engines have no shared ones. */
function acceptedReader(database: DatabaseSync, leaveOut: LeaveOut) {
  return new NumberedTableReader<AcceptedRow, RowOf<'acceptedRequests'>>(
    database,
    'select id as key, destination, endpoint, first, last, at, facts from accepted_attempt where id >= ? order by id',
    ({ key: _, ...row }) => {
      if (row.destination !== SHARED) return [row];
      const own = new SuccessfulAttemptRows();
      for (const { destination, endpoint, ...attempt } of decodeShared(row.facts, row.first, row.at))
        own.add(destination, String(endpoint), attempt);
      return Array.from(own.rows(), ({ endpoint, ...one }) => ({ ...one, endpoint: Number(endpoint) }));
    },
    leaveOut,
  );
}

/** Writes the tables of millrace.db, inside the caller's transaction. */
export function storeWriters(database: DatabaseSync): PartWriters<StorePart> {
  const insert = (table: string, ...columns: readonly string[]) =>
    database.prepare(
      `insert into ${table}(${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`,
    );
  const sql = {
    record: insert('record', 'id', 'kind', 'name', 'version', 'gone', 'document', 'sum'),
    audit: insert('audit', 'at', 'by', 'action', 'kind', 'name', 'before', 'after'),
    skipSet: insert('skip_set', 'id', 'document'),
    plan: insert('plan', 'id', 'document'),
    endpoint: insert('endpoint', 'id', 'url'),
    origin: insert('origin', 'id', 'cursor', 'events'),
    ledger: insert('ledger', 'scope', 'id', 'name', 'value'),
    health: insert('endpoint_health', 'destination', 'endpoints'),
    regulation: insert('regulation', 'number', 'id', 'open', 'document', 'hashes', 'sum'),
    subjects: insert('regulation_subject', 'number', 'subjects'),
  };
  const producers = new ProducerSequences(database);
  return {
    records: ({ id, kind, name, version, gone, document }) => {
      const row = { id, kind, name, version, gone, document } as RecordRow;
      sql.record.run(id, kind, name, version, gone, document, recordChecksum(row));
    },
    audit: ({ at, by, action, kind, name, before, after }) =>
      void sql.audit.run(at, by, action, kind, name, before, after),
    skipSets: ({ id, document }) => void sql.skipSet.run(id, document),
    plans: ({ id, document }) => void sql.plan.run(id, document),
    producers: ({ name, sequence }) => producers.put(name, sequence),
    endpoints: ({ id, url }) => void sql.endpoint.run(id, url),
    origins: ({ id, cursor, events }) => void sql.origin.run(id, cursor, events),
    ledger: ({ scope, id, name, value }) => void sql.ledger.run(scope, id, name, value),
    endpointHealth: ({ destination, endpoints }) => void sql.health.run(destination, endpoints),
    regulations: ({ number, id, open, document, hashes }) => {
      const sum = regulationChecksum(number, document);
      sql.regulation.run(number, id, open, document, swapWords(hashes), sum);
    },
    regulationSubjects: ({ number, subjects }) =>
      void sql.subjects.run(number, Buffer.concat([Buffer.alloc(ZEROS), Buffer.from(subjects)])),
    ...deliveryWriters(database),
  };
}

type DeliveryPart = 'acceptedRequests' | 'failedRequests' | 'pending' | 'deadLetters' | 'suppressions';

function deliveryWriters(database: DatabaseSync): PartWriters<DeliveryPart> {
  const accepted = database.prepare(
    'insert into accepted_attempt(destination, endpoint, first, last, at, facts) values (?, ?, ?, ?, ?, ?)',
  );
  const failed = database.prepare(
    `insert into failed_attempt(position, destination, started_at, latency_ms, endpoint, kind, reason, status, answer)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  // 1: due. Nobody holds anything of a store that is not open.
  const pending = database.prepare(
    `insert into pending(id, destination, state, owner, due, since, first, last, n, tried, origin, refs)
     values (?, ?, 1, 0, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const dead = database.prepare(
    'insert into dead_letter(destination, at, reason, first, last, n, origin, refs) values (?, ?, ?, ?, ?, ?, ?, ?)',
  );
  const suppression = database.prepare(
    'insert into suppression(high, low, owner_high, owner_low, id, since, regulation) values (?, ?, ?, ?, ?, ?, ?)',
  );
  return {
    acceptedRequests: ({ destination, endpoint, first, last, at, facts }) =>
      void accepted.run(destination, endpoint, first, last, at, facts),
    failedRequests: ({ position, destination, startedAt, latencyMs, ...row }) => {
      const { endpoint, kind, reason, status, answer } = row;
      failed.run(position, destination, startedAt, latencyMs, endpoint, kind, reason, status, answer);
    },
    pending: ({ destination, due, since, first, last, n, tried, origin, refs }, nth) =>
      void pending.run(nth + 1, destination, due, since, first, last, n, tried, origin, refs),
    deadLetters: ({ destination, at, reason, first, last, n, origin, refs }) =>
      void dead.run(destination, at, reason, first, last, n, origin, refs),
    suppressions: ({ hash, owner, id, since, regulation }) =>
      void suppression.run(...wordsOf(hash), ...wordsOf(owner), id, since, regulation),
  };
}

function wordsOf(hash: Uint8Array): [high: number, low: number];
function wordsOf(hash: Uint8Array | null): [high: number | null, low: number | null];
function wordsOf(hash: Uint8Array | null): [high: number | null, low: number | null] {
  if (hash === null) return [null, null];
  const bytes = Buffer.from(hash.buffer, hash.byteOffset, hash.byteLength);
  return [bytes.readUInt32BE(0), bytes.readUInt32BE(4)];
}
