import type { DatabaseSync } from 'node:sqlite';
import { StorageError } from '../../../ports/event-log.ts';
import type { PartCursor, PartPage, RowOf } from '../../../ports/installation.ts';
import { decodeShared, SHARED, SuccessfulAttemptRows } from '../../encoding/results.ts';
import { Quarantine } from '../damage.ts';
import { ProducerSequences } from '../installation.ts';
import { LedgerReader } from '../ledger-table.ts';
import { GONE, regulationChecksum, ZEROS } from '../regulations/regulation-table.ts';
import { type RecordRow, recordChecksum } from '../settings/records.ts';
import type { PartReaders, StorePart } from './parts.ts';
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
    deadLetters: plain(
      'destination, at, state, reason, note, first, last, n, origin, refs',
      'dead_letter',
      'id',
    ),
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
  const ledger = new LedgerReader(database);
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

/** Words of this machine's order as words of the order of a network. */
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

/**
 * A row that destinations share becomes one for each of them and each endpoint: other engines have no shared
 * ones.
 */
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
