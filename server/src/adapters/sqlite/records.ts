import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { isDeepStrictEqual } from 'node:util';
import type { Destination } from '../../model/destination.ts';
import type { Source } from '../../model/source.ts';
import type { SettingsChanges, SettingsSnapshot } from '../../ports/settings.ts';

type Kind = 'source' | 'destination';

/** Sources and destinations as JSON documents under stable ids. There are few of them; they are read whole. */
export class Records {
  readonly #all: StatementSync;
  readonly #find: StatementSync;
  readonly #insert: StatementSync;
  readonly #update: StatementSync;

  constructor(database: DatabaseSync) {
    this.#all = database.prepare('select id, kind, version, document from record order by id');
    this.#find = database.prepare('select id, document from record where kind = ? and name = ?');
    this.#insert = database.prepare('insert into record(kind, name, version, document) values (?, ?, 1, ?)');
    this.#update = database.prepare('update record set document = ?, version = version + 1 where id = ?');
  }

  load(): SettingsSnapshot {
    const sources: Source[] = [];
    const destinations: Destination[] = [];
    for (const row of this.#all.all() as unknown as Row[]) {
      const document = JSON.parse(row.document);
      if (row.kind === 'source') sources.push({ ...document, id: row.id });
      else destinations.push({ ...document, id: row.id, version: row.version });
    }
    return { sources, destinations };
  }

  apply(changes: SettingsChanges): SettingsSnapshot {
    for (const source of changes.sources) this.#put('source', source);
    for (const destination of changes.destinations) this.#put('destination', destination);
    return this.load();
  }

  #put(kind: Kind, record: { readonly name: string }): void {
    const document = JSON.stringify(record);
    const row = this.#find.get(kind, record.name) as { id: number; document: string } | undefined;
    if (row === undefined) this.#insert.run(kind, record.name, document);
    else if (!isDeepStrictEqual(JSON.parse(row.document), JSON.parse(document)))
      this.#update.run(document, row.id);
  }
}

interface Row {
  id: number;
  kind: Kind;
  version: number;
  document: string;
}
