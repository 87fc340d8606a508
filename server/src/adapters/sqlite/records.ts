import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { isDeepStrictEqual } from 'node:util';
import type { Destination } from '../../model/destination.ts';
import type { Source } from '../../model/source.ts';
import type { RecordKind, RecordName, SettingsChanges, SettingsSnapshot } from '../../ports/settings.ts';
import { AuditTrail } from './audit-trail.ts';

/** The operator's records as JSON documents under stable ids. There are few of them; they are read whole. */
export class Records {
  readonly #all: StatementSync;
  readonly #find: StatementSync;
  readonly #insert: StatementSync;
  readonly #update: StatementSync;
  readonly #remove: StatementSync;
  readonly trail: AuditTrail;

  constructor(database: DatabaseSync) {
    this.#all = database.prepare('select id, kind, version, gone, document from record order by id');
    this.#find = database.prepare('select id, gone, document from record where kind = ? and name = ?');
    this.#insert = database.prepare(
      'insert into record(kind, name, version, gone, document) values (?, ?, 1, 0, ?)',
    );
    this.#update = database.prepare(
      'update record set document = ?, version = version + 1, gone = 0 where id = ?',
    );
    this.#remove = database.prepare(
      'update record set gone = 1, version = version + 1 where kind = ? and name = ? and gone = 0',
    );
    this.trail = new AuditTrail(database);
  }

  load(): SettingsSnapshot {
    const rows = this.#all.all() as unknown as Row[];
    const of = (kind: RecordKind, gone: 0 | 1) =>
      rows
        .filter((row) => row.kind === kind && row.gone === gone)
        .map(({ id, version, document }) => ({ id, version, document: JSON.parse(document) }));
    const sources = (gone: 0 | 1): Source[] =>
      of('source', gone).map(({ id, document }) => ({ ...document, id }));
    const destinations = (gone: 0 | 1): Destination[] =>
      of('destination', gone).map(({ id, version, document }) => ({ ...document, id, version }));
    return {
      sources: sources(0),
      destinations: destinations(0),
      tokens: of('token', 0).map(({ document }) => document),
      replays: of('replay', 0).map(({ document }) => document),
      gone: { sources: sources(1), destinations: destinations(1) },
    };
  }

  apply(changes: SettingsChanges): SettingsSnapshot {
    const { sources, destinations, tokens = [], replays = [], removed = [], audit = [] } = changes;
    for (const { kind, name } of removed) this.#drop({ kind, name });
    for (const source of sources) this.#put('source', source.name, source);
    for (const destination of destinations) this.#put('destination', destination.name, destination);
    for (const token of tokens) this.#put('token', token.name, token);
    for (const replay of replays) this.#put('replay', replay.id, replay);
    for (const entry of audit) this.trail.add(entry);
    return this.load();
  }

  #drop({ kind, name }: RecordName): void {
    this.#remove.run(kind, name);
  }

  #put(kind: RecordKind, name: string, record: object): void {
    const document = JSON.stringify(record);
    const row = this.#find.get(kind, name) as Pick<Row, 'id' | 'gone' | 'document'> | undefined;
    if (row === undefined) this.#insert.run(kind, name, document);
    else if (row.gone === 1 || !isDeepStrictEqual(JSON.parse(row.document), JSON.parse(document)))
      this.#update.run(document, row.id);
  }
}

interface Row {
  id: number;
  kind: RecordKind;
  version: number;
  gone: 0 | 1;
  document: string;
}
