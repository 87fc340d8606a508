import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { isDeepStrictEqual } from 'node:util';
import { crc32 } from 'node:zlib';
import type { AudienceDefinition, TraitDefinition } from '../../../model/definition.ts';
import type { Destination } from '../../../model/destination.ts';
import type { RecordKind, RecordName, Source } from '../../../model/settings.ts';
import type { Time } from '../../../model/time.ts';
import { StorageError } from '../../../ports/event-log.ts';
import {
  type AuditEntry,
  type AuditPage,
  type AuditQuery,
  MAX_AUDIT_PAGE,
  type SettingsChanges,
  type SettingsSnapshot,
} from '../../../ports/settings-store.ts';
import { checksumOf } from '../../encoding/hashes.ts';
import { RecordOpener, sealRecord } from '../../encoding/sealed-records.ts';
import type { SecretSeal } from '../../encoding/secret-seal.ts';
import { read, write } from '../rpc.ts';

/** The operations of the settings store (ports/settings-store.ts). */
export function settingsHandlers(records: RecordTable) {
  return {
    load: read(() => records.load()),
    apply: write((changes: SettingsChanges) => records.apply(changes)),
    audit: read(({ query, limit, from }: AuditMessage) => records.audit.page(query, limit, from)),
    auditedBefore: read((time: number) => records.audit.countBefore(time)),
  };
}

export interface AuditMessage {
  readonly query: AuditQuery;
  readonly limit: number;
  readonly from?: number;
}

/**
 * The operator's records as JSON documents under stable ids, their secrets encrypted where there is a key.
 * They are few, so each load reads all of them.
 */
export class RecordTable {
  readonly #seal: SecretSeal;
  readonly #opener: RecordOpener;
  readonly #all: StatementSync;
  readonly #find: StatementSync;
  readonly #insert: StatementSync;
  readonly #update: StatementSync;
  readonly audit: AuditTable;

  constructor(database: DatabaseSync, seal: SecretSeal) {
    this.#seal = seal;
    this.#opener = new RecordOpener(seal);
    this.#all = database.prepare(`select ${COLUMNS} from record order by id`);
    this.#find = database.prepare(`select ${COLUMNS} from record where kind = ? and name = ?`);
    this.#insert = database.prepare(
      'insert into record(kind, name, version, gone, document) values (?, ?, 1, 0, ?)',
    );
    this.#update = database.prepare(
      'update record set document = ?, version = ?, gone = ?, sum = ? where id = ?',
    );
    this.audit = new AuditTable(database);
  }

  load(): SettingsSnapshot {
    const rows = this.#all.all() as unknown as StoredRecordRow[];
    for (const row of rows) refuseDamaged(row);
    const of = (kind: RecordKind, gone: 0 | 1) =>
      rows
        .filter((row) => row.kind === kind && row.gone === gone)
        .map((row) => ({ id: row.id, version: row.version, document: this.#opener.open(row) }));
    const sources = (gone: 0 | 1): Source[] =>
      of('source', gone).map(({ id, document }) => ({ ...document, id }));
    const destinations = (gone: 0 | 1): Destination[] =>
      of('destination', gone).map(({ id, version, document }) => ({ ...document, id, version }));
    const audiences = (gone: 0 | 1): AudienceDefinition[] =>
      of('audience', gone).map(({ id, version, document }) => ({ ...document, id, version }));
    const traits = (gone: 0 | 1): TraitDefinition[] =>
      of('trait', gone).map(({ id, version, document }) => ({ ...document, id, version }));
    return {
      sources: sources(0),
      destinations: destinations(0),
      audiences: audiences(0),
      traits: traits(0),
      alerts: of('alert', 0).map(({ document }) => document),
      tokens: of('token', 0).map(({ document }) => document),
      replays: of('replay', 0).map(({ document }) => document),
      splits: of('split', 0).map(({ document }) => document),
      gone: {
        sources: sources(1),
        destinations: destinations(1),
        audiences: audiences(1),
        traits: traits(1),
      },
    };
  }

  apply(changes: SettingsChanges): SettingsSnapshot {
    const { sources, destinations, audiences = [], traits = [] } = changes;
    const { alerts = [], tokens = [], replays = [], splits = [], removed = [], audit = [] } = changes;
    for (const { kind, name } of removed) this.#drop({ kind, name });
    for (const source of sources) this.#put('source', source.name, source);
    for (const destination of destinations) this.#put('destination', destination.name, destination);
    for (const audience of audiences) this.#put('audience', audience.name, audience);
    for (const trait of traits) this.#put('trait', trait.name, trait);
    for (const alert of alerts) this.#put('alert', alert.name, alert);
    for (const token of tokens) this.#put('token', token.name, token);
    for (const replay of replays) this.#put('replay', replay.id, replay);
    for (const split of splits) this.#put('split', split.id, split);
    for (const entry of audit) this.audit.add(entry);
    return this.load();
  }

  #drop({ kind, name }: RecordName): void {
    const row = this.#find.get(kind, name) as StoredRecordRow | undefined;
    if (row?.gone === 0) this.#write({ ...row, gone: 1, version: row.version + 1 });
  }

  #put(kind: RecordKind, name: string, record: object): void {
    const document = sealRecord(this.#seal, this.#seal.current, { kind, name, record });
    const row = this.#find.get(kind, name) as StoredRecordRow | undefined;
    if (row === undefined) {
      const id = Number(this.#insert.run(kind, name, document).lastInsertRowid);
      this.#write({ id, kind, name, version: 1, gone: 0, document });
    } else if (row.gone === 1 || !isDeepStrictEqual(JSON.parse(row.document), JSON.parse(document)))
      this.#write({ ...row, document, version: row.version + 1, gone: 0 });
  }

  #write(row: RecordRow): void {
    this.#update.run(row.document, row.version, row.gone, recordChecksum(row), row.id);
  }
}

const COLUMNS = 'id, kind, name, version, gone, document, sum';

export interface RecordRow {
  id: number;
  kind: RecordKind;
  name: string;
  version: number;
  gone: 0 | 1;
  document: string;
}

export interface StoredRecordRow extends RecordRow {
  sum: number;
}

/**
 * Covers the whole row: an event must not go to another address because one bit of its destination has
 * flipped.
 */
export function recordChecksum({ id, kind, name, version, gone, document }: RecordRow): number {
  return crc32(`${kind} ${name} ${document}`, checksumOf(id, version, gone));
}

function refuseDamaged(row: StoredRecordRow): void {
  if (row.sum === recordChecksum(row)) return;
  throw new StorageError(
    `the record of ${row.kind} ${JSON.stringify(row.name)} is damaged: nothing is sent by settings that are not what was ` +
      'saved; stop Millrace and restore a backup with millrace restore',
  );
}

/** Entries of the audit trail that one slice looks at, from the oldest on. */
const SLICE_ENTRIES = 500;

/** The audit trail. An entry is written in the commit of its change and never altered. */
export class AuditTable {
  readonly #drop: StatementSync;
  readonly #count: StatementSync;
  readonly #insert: StatementSync;
  readonly #select: StatementSync;

  constructor(database: DatabaseSync) {
    this.#drop = database.prepare(
      `delete from audit where id in
       (select id from (select id, at from audit order by id limit ${SLICE_ENTRIES}) where at < ?)`,
    );
    this.#count = database.prepare('select count(*) as n from audit where at < ?');
    this.#insert = database.prepare(
      'insert into audit(at, by, action, kind, name, before, after) values (?, ?, ?, ?, ?, ?, ?)',
    );
    this.#select = database.prepare(
      `select id, at, by, action, kind, name, before, after from audit
       where id < ? and (? is null or kind = ?) and (? is null or name = ?) order by id desc`,
    );
  }

  /** Drops some of the oldest entries from before a time. False when there are none. */
  dropBefore(time: Time): boolean {
    return Number(this.#drop.run(time).changes) > 0;
  }

  countBefore(time: Time): number {
    return (this.#count.get(time) as { n: number }).n;
  }

  add({ at, by, action, kind, name, before, after }: AuditEntry): void {
    this.#insert.run(at, by, action, kind, name, toJson(before), toJson(after));
  }

  page(
    { kind = null, name = null }: Nullable<AuditQuery>,
    limit: number,
    from = Number.MAX_SAFE_INTEGER,
  ): AuditPage {
    const shown: AuditRow[] = [];
    let size = 0;
    let hasMore = false;
    for (const row of this.#select.iterate(from, kind, kind, name, name) as Iterable<unknown>) {
      hasMore = shown.length === limit || size >= MAX_AUDIT_PAGE;
      if (hasMore) break;
      const entry = row as AuditRow;
      shown.push(entry);
      size += (entry.before?.length ?? 0) + (entry.after?.length ?? 0);
    }
    return {
      entries: shown.map(({ id: _, before, after, ...entry }) => ({
        ...entry,
        before: before === null ? undefined : JSON.parse(before),
        after: after === null ? undefined : JSON.parse(after),
      })),
      next: hasMore ? shown.at(-1)!.id : undefined,
    };
  }
}

type Nullable<Of> = { readonly [Key in keyof Of]?: Of[Key] | null };

type AuditRow = Omit<AuditEntry, 'before' | 'after'> & {
  id: number;
  before: string | null;
  after: string | null;
};

function toJson(record: AuditEntry['before']): string | null {
  return record === undefined ? null : JSON.stringify(record);
}
