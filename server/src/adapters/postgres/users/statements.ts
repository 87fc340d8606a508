/** The statements of the store of profiles. Array parameters have one element for each row. */
export const PROFILE_STATEMENTS = {
  cursor: {
    name: 'profile.cursor',
    text: 'select position, clock, next_profile, next_outbox, commits from profile_cursor',
  },
  /** First in every change: a commit of another node in between makes it fail. $1 commits known. */
  lock: { name: 'profile.lock', text: 'select commits from profile_cursor for update' },
  /** $1 position, $2 clock, $3 next profile, $4 next outbox, $5 change of the number of profiles. */
  move: {
    name: 'profile.move',
    text: `update profile_cursor set position = $1, clock = $2, next_profile = $3, next_outbox = $4, profiles = profiles + $5,
commits = commits + 1`,
  },
  /** $1 change of the number of profiles. */
  count: {
    name: 'profile.count',
    text: 'update profile_cursor set profiles = profiles + $1, commits = commits + 1',
  },
  /** The counters go on, so that no number is given twice. */
  begin: {
    name: 'profile.begin',
    text: 'update profile_cursor set position = 0, clock = 0, profiles = 0, commits = commits + 1',
  },
  /** $1 keys. */
  resolve: {
    name: 'profile.resolve',
    text: 'select key, profile from profile_identity where key = any($1::bigint[])',
  },
  /** $1 ids. */
  states: {
    name: 'profile.states',
    text: 'select id, body as state from profile where id = any($1::bigint[])',
  },
  /** $1 ids, $2 states. Gives a row for each profile that is new. */
  put: {
    name: 'profile.put',
    text: `insert into profile (id, body) select * from unnest($1::bigint[], $2::bytea[])
on conflict (id) do update set body = excluded.body returning (xmax = 0) as born`,
  },
  /** $1 ids. */
  remove: { name: 'profile.remove', text: 'delete from profile where id = any($1::bigint[]) returning id' },
  /** $1 keys, $2 profiles. */
  bind: {
    name: 'profile.bind',
    text: `insert into profile_identity (key, profile) select * from unnest($1::bigint[], $2::bigint[])
on conflict (key) do update set profile = excluded.profile`,
  },
  /** $1 keys. */
  unbind: { name: 'profile.unbind', text: 'delete from profile_identity where key = any($1::bigint[])' },
  /** $1 minutes, $2 profiles. */
  set: {
    name: 'profile.set_timers',
    text: `insert into profile_timer (minute, profile) select * from unnest($1::bigint[], $2::bigint[])
on conflict do nothing`,
  },
  /** $1 minutes, $2 profiles. */
  unset: {
    name: 'profile.unset_timers',
    text: `delete from profile_timer t using unnest($1::bigint[], $2::bigint[]) f(minute, profile)
where t.minute = f.minute and t.profile = f.profile`,
  },
  /** $1 minute, $2 limit. */
  due: {
    name: 'profile.due',
    text: 'select minute, profile from profile_timer where minute <= $1 order by minute, profile limit $2',
  },
  /** $1 behind, $2 limit. */
  scan: {
    name: 'profile.scan',
    text: 'select id, body as state from profile where id > $1 order by id limit $2',
  },
  /** $1 sequences, $2 profiles, $3 events. */
  send: {
    name: 'profile.send',
    text: `insert into profile_outbox (sequence, profile, json)
select * from unnest($1::bigint[], $2::bigint[], $3::text[])`,
  },
  /** $1 the last that is in the log. */
  sent: { name: 'profile.sent', text: 'delete from profile_outbox where sequence <= $1' },
  /** $1 behind, $2 limit. */
  outbox: {
    name: 'profile.outbox',
    text: 'select sequence, profile, json from profile_outbox where sequence > $1 order by sequence limit $2',
  },
  /** $1 loser, $2 winner: what became of the loser became of those that had been merged into it. */
  moveMerges: { name: 'profile.move_merges', text: 'update profile_merge set winner = $2 where winner = $1' },
  /** $1 winner, $2 position, $3 loser, $4 body. */
  putMerge: {
    name: 'profile.put_merge',
    text: `insert into profile_merge (winner, position, loser, body) values ($1, $2, $3, $4)
on conflict (winner, position, loser) do update set body = excluded.body`,
  },
  /** $1 winner, $2 limit. */
  merges: {
    name: 'profile.merges',
    text: `select winner, position, loser, body from profile_merge where winner = $1
order by position desc, loser desc limit $2`,
  },
  /** $1 ids: with those that were merged into them. */
  losers: {
    name: 'profile.losers',
    text: 'select loser from profile_merge where winner = any($1::bigint[])',
  },
  /** $1 ids. */
  forgetMerges: {
    name: 'profile.forget_merges',
    text: 'delete from profile_merge where winner = any($1::bigint[])',
  },
  document: { name: 'profile.document', text: 'select body from profile_document where name = $1' },
  /** $1 names, $2 bodies. */
  putDocuments: {
    name: 'profile.put_documents',
    text: `insert into profile_document (name, body) select * from unnest($1::text[], $2::text[])
on conflict (name) do update set body = excluded.body`,
  },
  /** $1 names. */
  removeDocuments: {
    name: 'profile.remove_documents',
    text: 'delete from profile_document where name = any($1::text[])',
  },
  /** $1 ids. */
  eraseOutbox: {
    name: 'profile.erase_outbox',
    text: 'delete from profile_outbox where profile = any($1::bigint[])',
  },
  /** $1 ids. */
  eraseIdentities: {
    name: 'profile.erase_identities',
    text: 'delete from profile_identity where profile = any($1::bigint[])',
  },
  /** $1 ids. */
  eraseTimers: {
    name: 'profile.erase_timers',
    text: 'delete from profile_timer where profile = any($1::bigint[])',
  },
  clear: {
    name: 'profile.clear',
    text: 'truncate profile, profile_identity, profile_timer, profile_merge, profile_document',
  },
  /** A row has some 40 bytes beside its values, and an identity two indexes. */
  usedBytes: {
    name: 'profile.used_bytes',
    text: `select (select coalesce(sum(pg_column_size(body)), 0) + 60 * count(*) from profile)
+ (select 100 * count(*) from profile_identity) as bytes`,
  },
  size: {
    name: 'profile.size',
    text: `select profiles, (select coalesce(sum(pg_total_relation_size(name)), 0) from unnest(
array['profile', 'profile_identity', 'profile_timer', 'profile_outbox', 'profile_merge', 'profile_document']::regclass[]) t(name)
) as bytes from profile_cursor`,
  },
} as const;
