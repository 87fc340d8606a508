/** The statements of the settings store. Array parameters have one element for each row. */
export const SETTINGS_STATEMENTS = {
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
  /** $1 kind, $2 name, $3 below, $4 limit. */
  audit: {
    name: 'settings.audit',
    text: `select id, at, by, action, kind, name, before, after from audit
where id < $3 and ($1::text is null or kind = $1) and ($2::text is null or name = $2) order by id desc limit $4`,
  },
} as const;
