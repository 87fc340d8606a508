/**
 * The statements about regulations and suppressions. Hashes are bytes: they do not fit into a number of
 * JavaScript.
 */
export const REGULATION_STATEMENTS = {
  insert: {
    name: 'regulation.insert',
    text: 'insert into regulation(id, open, document, hashes) values ($1, $2, $3, $4) returning number',
  },
  /** $1 number, $2 open, $3 document. */
  update: {
    name: 'regulation.update',
    text: 'update regulation set open = $2, document = $3 where number = $1',
  },
  get: { name: 'regulation.get', text: 'select number, document from regulation where id = $1' },
  /** Like `get`, and locks the row: no other transaction changes it before the commit. */
  lock: { name: 'regulation.lock', text: 'select number, document from regulation where id = $1 for update' },
  /** $1 below, $2 limit. */
  list: {
    name: 'regulation.list',
    text: 'select number, document from regulation where number < $1::bigint order by number desc limit $2',
  },
  /** $1 behind, $2 limit: those that are done. */
  ended: {
    name: 'regulation.ended',
    text: 'select number, document from regulation where number > $1::bigint and not open order by number limit $2',
  },
  /** $1 numbers. */
  drop: { name: 'regulation.drop', text: 'delete from regulation where number = any($1::int[])' },
  open: {
    name: 'regulation.open',
    text: 'select number, document from regulation where open order by number',
  },
  subjects: {
    name: 'regulation.subjects',
    text: 'select s.subjects from regulation_subject s join regulation r on r.number = s.number where r.id = $1',
  },
  putSubjects: {
    name: 'regulation.put_subjects',
    text: `insert into regulation_subject(number, subjects) values ($1, $2)
on conflict (number) do update set subjects = excluded.subjects`,
  },
  dropSubjects: {
    name: 'regulation.drop_subjects',
    text: 'delete from regulation_subject where number = $1',
  },
  /** The number of changes of suppressions: a node that has seen a lower one loads them again. */
  moveSuppressions: {
    name: 'suppression.move',
    text: 'update suppression_version set version = version + 1 returning version',
  },
  suppressionVersion: { name: 'suppression.version', text: 'select version from suppression_version' },
  /**
   * $1 hashes, $2 ids or nulls, $3 since, $4 regulation. A null in $2 removes the id that an earlier
   * regulation kept.
   */
  suppress: {
    name: 'suppression.put',
    text: `insert into suppression as s (hash, owner, id, since, regulation)
select distinct on (hash) hash, null::bytea, id, $3::bigint, $4::text from unnest($1::bytea[], $2::bytea[]) u(hash, id)
order by hash
on conflict (hash) do update set owner = null, id = excluded.id, since = least(s.since, excluded.since),
  regulation = excluded.regulation`,
  },
  /**
   * $1 hashes, $2 hashes of their owners, $3 since, $4 regulation. Only of owners that are suppressed still.
   * A user who is suppressed on its own account stays so when another user's suppression ends.
   */
  suppressJoined: {
    name: 'suppression.put_joined',
    text: `insert into suppression (hash, owner, since, regulation)
select distinct on (hash) hash, owner, $3::bigint, $4::text from unnest($1::bytea[], $2::bytea[]) u(hash, owner)
where exists (select from suppression o where o.hash = u.owner) order by hash
on conflict (hash) do nothing`,
  },
  /** $1 hashes. */
  unsuppress: {
    name: 'suppression.remove',
    text: 'delete from suppression where hash = any($1::bytea[]) or owner = any($1::bytea[])',
  },
  /** $1 hashes, $2 the regulation that suppressed them. */
  unsuppressOf: {
    name: 'suppression.remove_of',
    text: 'delete from suppression where hash = any($1::bytea[]) and regulation = $2',
  },
  /** $1 hashes: keeps these, and no id. */
  forgetIds: {
    name: 'suppression.forget',
    text: 'update suppression set id = null where hash = any($1::bytea[]) and id is not null',
  },
  suppression: {
    name: 'suppression.find',
    text: 'select id, since, regulation from suppression where hash = $1',
  },
  /** $1 behind, $2 limit. */
  suppressions: {
    name: 'suppression.list',
    text: 'select id, since, regulation from suppression where id > $1 order by id limit $2',
  },
  /** $1 behind, $2 limit. */
  hashes: {
    name: 'suppression.hashes',
    text: 'select hash from suppression where hash > $1 order by hash limit $2',
  },
} as const;
