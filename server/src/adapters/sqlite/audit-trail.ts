import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { AuditEntry, AuditPage, AuditQuery } from '../../ports/settings.ts';

/** Who changed which record. Written in the commit that changes it, and never changed itself. */
export class AuditTrail {
  readonly #insert: StatementSync;
  readonly #page: StatementSync;

  constructor(database: DatabaseSync) {
    this.#insert = database.prepare(
      'insert into audit(at, by, action, kind, name, before, after) values (?, ?, ?, ?, ?, ?, ?)',
    );
    this.#page = database.prepare(
      `select id, at, by, action, kind, name, before, after from audit
       where id < ? and (? is null or kind = ?) and (? is null or name = ?) order by id desc limit ?`,
    );
  }

  add({ at, by, action, kind, name, before, after }: AuditEntry): void {
    this.#insert.run(at, by, action, kind, name, textOf(before), textOf(after));
  }

  page(
    { kind = null, name = null }: Nullable<AuditQuery>,
    limit: number,
    from = Number.MAX_SAFE_INTEGER,
  ): AuditPage {
    // One more than asked for: only then is it known whether the trail goes on.
    const rows = this.#page.all(from, kind, kind, name, name, limit + 1) as unknown as Row[];
    const shown = rows.slice(0, limit);
    return {
      entries: shown.map(({ id: _, before, after, ...entry }) => ({
        ...entry,
        ...(before === null ? {} : { before: JSON.parse(before) }),
        ...(after === null ? {} : { after: JSON.parse(after) }),
      })),
      ...(rows.length > limit ? { next: shown.at(-1)!.id } : {}),
    };
  }
}

type Nullable<Of> = { readonly [Key in keyof Of]?: Of[Key] | null };

type Row = Omit<AuditEntry, 'before' | 'after'> & { id: number; before: string | null; after: string | null };

function textOf(record: AuditEntry['before']): string | null {
  return record === undefined ? null : JSON.stringify(record);
}
