import { isDeepStrictEqual } from 'node:util';
import type { AudienceDefinition, TraitDefinition } from '../../../model/definition.ts';
import type { Destination } from '../../../model/destination.ts';
import type { RecordKind, Source } from '../../../model/settings.ts';
import type { Time } from '../../../model/time.ts';
import { StorageError } from '../../../ports/event-log.ts';
import {
  type AuditEntry,
  type AuditPage,
  type AuditQuery,
  MAX_AUDIT_PAGE,
  type SettingsChanges,
  SettingsMovedError,
  type SettingsSnapshot,
  type SettingsStore,
} from '../../../ports/settings-store.ts';
import { RecordOpener, sealRecord, unknownKey } from '../../encoding/sealed-records.ts';
import type { SecretSeal } from '../../encoding/secret-seal.ts';
import type { Database, Transaction } from '../database.ts';
import { storedKeyName } from './secret-keys.ts';

/** The statements of the settings store. Array parameters have one element for each row. */
const SQL = {
  /** First in every change: waits for changes of other nodes, and keeps them waiting until the commit. */
  move: {
    name: 'settings.move',
    text: 'update settings_version set version = version + 1 returning version',
  },
  version: { name: 'settings.version', text: 'select version from settings_version' },
  /** One statement, so that the records are those of the version. */
  load: {
    name: 'settings.load',
    text: `select v.version as settings, r.id, r.kind, r.name, r.version, r.gone, r.document
from settings_version v left join record r on true order by r.id`,
  },
  records: {
    name: 'settings.records',
    text: 'select id, kind, name, version, gone, document from record',
  },
  /** $1 kinds, $2 names, $3 versions, $4 gone, $5 documents. A name keeps its id. */
  put: {
    name: 'settings.put',
    text: `insert into record as r (kind, name, version, gone, document)
select * from unnest($1::text[], $2::text[], $3::int[], $4::boolean[], $5::text[])
on conflict (kind, name) do update set version = excluded.version, gone = excluded.gone, document = excluded.document`,
  },
  /** $1 at, $2 by, $3 actions, $4 kinds, $5 names, $6 before, $7 after. */
  note: {
    name: 'settings.note',
    text: `insert into audit (at, by, action, kind, name, before, after)
select * from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])`,
  },
  /**
   * $1 kind, $2 name, $3 below, $4 limit, $5 characters after which the page ends. `found`: how many rows
   * there were without that.
   */
  audit: {
    name: 'settings.audit',
    text: `select id, at, by, action, kind, name, before, after, found from (
  select a.*, count(*) over () as found, sum(coalesce(length(before), 0) + coalesce(length(after), 0)) over w
    - coalesce(length(before), 0) - coalesce(length(after), 0) as size
  from (select * from audit where id < $3 and ($1::text is null or kind = $1) and ($2::text is null or name = $2)
    order by id desc limit $4) a
  window w as (order by id desc)) b where size < $5 order by id desc`,
  },
  auditedBefore: { name: 'settings.audited_before', text: 'select count(*) as n from audit where at < $1' },
  /** $1 time: some of the oldest. */
  dropAudit: {
    name: 'settings.drop_audit',
    text: `delete from audit where id in (select id from (select id, at from audit order by id limit 500) a where at < $1)
returning id`,
  },
} as const;

/**
 * The operator's records as JSON documents under stable ids, their secrets encrypted where there is a key.
 * They are few, so each load reads all of them. `settings_version` is one row that every change updates: it
 * puts the changes of all nodes in one order, and tells a node that others have made some.
 */
export class PostgresSettings implements SettingsStore {
  readonly #database: Database;
  /** The version of each snapshot that was given out. */
  readonly #versions = new WeakMap<SettingsSnapshot, number>();

  readonly #seal: SecretSeal;
  readonly #opener: RecordOpener;
  #problem: string | undefined;

  constructor(database: Database, seal: SecretSeal) {
    this.#database = database;
    this.#seal = seal;
    this.#opener = new RecordOpener(seal);
  }

  /**
   * Why this node does not know the settings that are stored, such as a key that it was not given; empty when
   * it does.
   */
  readonly problems = (): readonly string[] => (this.#problem === undefined ? [] : [this.#problem]);

  load(): Promise<SettingsSnapshot> {
    return this.#database.read((transaction) => this.#load(transaction));
  }

  apply(changes: SettingsChanges, basis?: SettingsSnapshot): Promise<SettingsSnapshot> {
    return this.#database.write(async (transaction) => {
      const [moved] = await transaction.rows<{ version: number }>(SQL.move, []);
      const expected = basis && this.#versions.get(basis);
      if (expected !== undefined && moved!.version !== expected + 1) throw new SettingsMovedError();
      await this.#change(transaction, changes);
      return this.#load(transaction);
    });
  }

  audit(query: AuditQuery, limit: number, from = Number.MAX_SAFE_INTEGER): Promise<AuditPage> {
    const { kind = null, name = null } = query;
    return this.#database.read(async (transaction) => {
      // One row more than asked for tells whether the trail goes on.
      const rows = await transaction.rows<AuditRow & { found: number }>(SQL.audit, [
        ...[kind, name, from, limit + 1],
        MAX_AUDIT_PAGE,
      ]);
      const shown = rows.slice(0, limit);
      return {
        entries: shown.map(({ id: _, found: __, before, after, ...entry }) => ({
          ...entry,
          before: before === null ? undefined : JSON.parse(before),
          after: after === null ? undefined : JSON.parse(after),
        })),
        next: shown.length > 0 && rows[0]!.found > shown.length ? shown.at(-1)!.id : undefined,
      };
    });
  }

  auditedBefore(time: Time): Promise<number> {
    return this.#database.read(async (transaction) => {
      const [row] = await transaction.rows<{ n: number }>(SQL.auditedBefore, [time]);
      return row!.n;
    });
  }

  /** The number of changes that were ever made, by any node. */
  async version(): Promise<number> {
    return this.#database.read(async (transaction) => {
      const [row] = await transaction.rows<{ version: number }>(SQL.version, []);
      return row!.version;
    });
  }

  async #load(transaction: Transaction): Promise<SettingsSnapshot> {
    const rows = await transaction.rows<VersionedRow>(SQL.load, []);
    const snapshot = this.#open(rows.filter((row): row is VersionedRow & RecordRow => row.id !== null));
    this.#versions.set(snapshot, rows[0]!.settings);
    return snapshot;
  }

  #open(rows: readonly RecordRow[]): SettingsSnapshot {
    try {
      const snapshot = snapshotOf(rows, this.#opener);
      this.#problem = undefined;
      return snapshot;
    } catch (error) {
      if (error instanceof StorageError) this.#problem = error.reason;
      throw error;
    }
  }

  async #change(transaction: Transaction, changes: SettingsChanges): Promise<void> {
    const { removed = [], audit = [] } = changes;
    // The key of the store counts, not that of this node: they differ while a key is replaced.
    const secretKey = await storedKeyName(transaction);
    if (secretKey !== undefined && !this.#seal.has(secretKey))
      throw new StorageError(unknownKey(secretKey, this.#seal));
    const known = new Map<string, RecordRow>();
    for (const row of await transaction.rows<RecordRow>(SQL.records, []))
      known.set(keyOf(row.kind, row.name), row);
    const touched = new Map<string, ChangedRecord>();
    for (const { kind, name } of removed) {
      const row = known.get(keyOf(kind, name));
      if (row?.gone === false)
        touched.set(keyOf(kind, name), { ...row, gone: true, version: row.version + 1 });
    }
    for (const { kind, name, record } of recordsOf(changes)) {
      const key = keyOf(kind, name);
      const document = sealRecord(this.#seal, secretKey, { kind, name, record });
      const row = touched.get(key) ?? known.get(key);
      const isSame = row?.gone === false && isDeepStrictEqual(JSON.parse(row.document), JSON.parse(document));
      if (!isSame) touched.set(key, { kind, name, document, version: (row?.version ?? 0) + 1, gone: false });
    }
    const all = [...touched.values()];
    if (all.length > 0) {
      const column = <Key extends keyof ChangedRecord>(key: Key) => all.map((record) => record[key]);
      await transaction.rows(SQL.put, [
        column('kind'),
        column('name'),
        column('version'),
        column('gone'),
        column('document'),
      ]);
    }
    if (audit.length > 0) await note(transaction, audit);
  }
}

/**
 * Drops some of the oldest entries of the audit trail from before a time. Resolves to false when there are
 * none.
 */
export async function dropAuditBefore(transaction: Transaction, time: Time): Promise<boolean> {
  return (await transaction.rows(SQL.dropAudit, [time])).length > 0;
}

/** Adds entries to the audit trail, in the commit of what they tell. */
export async function note(transaction: Transaction, entries: readonly AuditEntry[]): Promise<void> {
  const column = <Key extends keyof AuditEntry>(key: Key) => entries.map((entry) => entry[key]);
  const asJson = (key: 'before' | 'after') =>
    entries.map((entry) => (entry[key] === undefined ? null : JSON.stringify(entry[key])));
  await transaction.rows(SQL.note, [
    column('at'),
    column('by'),
    column('action'),
    column('kind'),
    column('name'),
    asJson('before'),
    asJson('after'),
  ]);
}

interface ChangedRecord {
  readonly kind: RecordKind;
  readonly name: string;
  readonly version: number;
  readonly gone: boolean;
  readonly document: string;
}

interface RecordRow extends ChangedRecord {
  readonly id: number;
}

/** A record beside the version of all; without a record where there is none. */
interface VersionedRow {
  readonly settings: number;
  readonly id: number | null;
}

type AuditRow = Omit<AuditEntry, 'before' | 'after'> & {
  readonly id: number;
  readonly before: string | null;
  readonly after: string | null;
};

function keyOf(kind: RecordKind, name: string): string {
  return `${kind} ${name}`;
}

interface NamedRecord {
  readonly kind: RecordKind;
  readonly name: string;
  readonly record: object;
}

function recordsOf(changes: SettingsChanges): NamedRecord[] {
  const { sources, destinations, audiences = [], traits = [] } = changes;
  const { alerts = [], tokens = [], replays = [], splits = [] } = changes;
  const named = (kind: RecordKind, records: readonly { readonly name: string }[]): NamedRecord[] =>
    records.map((record) => ({ kind, name: record.name, record }));
  return [
    ...named('source', sources),
    ...named('destination', destinations),
    ...named('audience', audiences),
    ...named('trait', traits),
    ...named('alert', alerts),
    ...named('token', tokens),
    ...replays.map((replay) => ({ kind: 'replay' as const, name: replay.id, record: replay })),
    ...splits.map((split) => ({ kind: 'split' as const, name: split.id, record: split })),
  ];
}

function snapshotOf(rows: readonly RecordRow[], opener: RecordOpener): SettingsSnapshot {
  const of = (kind: RecordKind, gone: boolean) =>
    rows
      .filter((row) => row.kind === kind && row.gone === gone)
      .map((row) => ({ id: row.id, version: row.version, document: opener.open(row) }));
  const sources = (gone: boolean): Source[] =>
    of('source', gone).map(({ id, document }) => ({ ...document, id }));
  const destinations = (gone: boolean): Destination[] =>
    of('destination', gone).map(({ id, version, document }) => ({ ...document, id, version }));
  const audiences = (gone: boolean): AudienceDefinition[] =>
    of('audience', gone).map(({ id, version, document }) => ({ ...document, id, version }));
  const traits = (gone: boolean): TraitDefinition[] =>
    of('trait', gone).map(({ id, version, document }) => ({ ...document, id, version }));
  return {
    sources: sources(false),
    destinations: destinations(false),
    audiences: audiences(false),
    traits: traits(false),
    alerts: of('alert', false).map(({ document }) => document),
    tokens: of('token', false).map(({ document }) => document),
    replays: of('replay', false).map(({ document }) => document),
    splits: of('split', false).map(({ document }) => document),
    gone: {
      sources: sources(true),
      destinations: destinations(true),
      audiences: audiences(true),
      traits: traits(true),
    },
  };
}
