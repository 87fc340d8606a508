/**
 * The steps of the format of a database; over 600 lines because one of any earlier version is brought forward
 * by all of them, in their order.
 */
import { LEASE_LOST, LOCKS } from './database.ts';

/** The table of the chunks of a slot, made ahead of the slot. */
export function partitionOf(slot: number): string {
  return `
  create table chunk_${slot} (like chunk including all);
  alter table chunk_${slot} alter body set storage external, alter users set storage external, alter body set statistics 0;
  alter table chunk attach partition chunk_${slot} for values in (${slot});`;
}

/** Keys of a page: five pages fill a block of the server. */
const PAGE_KEYS = 128;

/**
 * The table of a slot of keys, made ahead of the slot. It is dropped whole and only ever appended to:
 * cleaning it would be for nothing.
 */
export function keyTableOf(slot: number | string): string {
  return `
  create table key_${slot}(like key, primary key (hash, nth)) with (autovacuum_enabled = false);
  alter table key_${slot} alter hash set statistics 0;
  alter table key attach partition key_${slot} for values in (${slot});`;
}

/** SQLSTATE of what nodes of an earlier version are told. */
const VERSION_OVER = 'MR003';

/**
 * SQLSTATE by which functions of formats 8 to 13 refused a batch that shared a key with one of another node.
 */
const KEY_TAKEN = 'MR002';

/** The advisory lock of those functions. */
const KEYS_LOCK = 8;

/**
 * Numbered, never edited after release: an older database is brought forward one step at a time, in one
 * transaction. The number of steps is the format, kept in the table `installation`.
 */
export const MIGRATIONS: readonly string[] = [
  `
  -- Facts about this store: its id, the secret of the key hash, the format, the clocks.
  create table installation(name text primary key, value text not null);

  -- Nodes that are alive: see member.ts. Set ids are process × 2^32 + count, and stay below 2^53.
  create sequence process_id maxvalue 2097151;
  create table process(id bigint primary key, node text unique not null, expires timestamptz not null,
    roles text[] not null default '{}', version text not null default '', since timestamptz not null default clock_timestamp())
    with (fillfactor = 50);
  -- Work that one process does at a time.
  create table job(name text primary key, process bigint not null);

  -- The event log: see log/slots.ts and log/chunk-table.ts.
  create sequence position minvalue 0;
  -- youngest: when the last event of a closed slot arrived; null while the slot is open.
  create table slot(id int primary key, from_position bigint not null, youngest bigint, has_keys boolean not null default true);
  -- The columns of adapters/encoding/chunk-codec.ts.
  create table chunk(
    slot int not null,
    first bigint not null,
    n int not null,
    at bigint not null,
    until bigint not null,
    codec bigint not null,
    json bigint not null,
    stage int2 not null,
    sources bytea not null,
    times bytea,
    plans bytea,
    users bytea not null,
    body bytea not null,
    primary key (slot, first)
  ) partition by list (slot);
  create index chunk_remnant on chunk(stage, until) where stage >= 2;
  -- The hash of source and messageId. nth tells apart events with the same hash: ids that collide, and ids past their window.
  create table key(hash bigint not null, position bigint not null, nth int not null, slot int not null,
    primary key (hash, nth, slot)) partition by list (slot);
  ${partitionOf(1)}
  create table key_1 (like key including all);
  alter table key attach partition key_1 for values in (1);
  insert into slot(id, from_position) values (1, 0);
  -- The answers to the last batches of each process.
  create table batch(id text primary key, process bigint not null, number bigint not null, is_empty boolean not null,
    answer text not null, stored timestamptz not null default clock_timestamp());
  create index batch_number on batch(process, is_empty, number);
  -- Slots whose files still hold erased events, and how many erasures there were.
  create table erased_slot(slot int primary key, erasures bigint not null default 1);
  -- Events and bytes that each process has stored, less those that it has dropped.
  create table volume(process bigint primary key, events bigint not null, bytes bigint not null) with (fillfactor = 50);
  create table producer(name text primary key, sequence bigint not null);
  create table plan(id int generated always as identity primary key, document text not null unique);

  -- Pending sets: see queue/pending.ts. Held sets are in an index by themselves, with nothing that changes.
  create table pending(
    id bigint primary key,
    destination int not null,
    owner bigint,
    due bigint not null,
    since bigint not null,
    first bigint not null,
    last bigint not null,
    n int not null,
    tried int not null,
    origin text,
    refs bytea not null
  ) with (fillfactor = 50);
  create index pending_due on pending(destination, due, id) where owner is null;
  create index pending_since on pending(destination, since) where owner is null;
  -- Without "first": a claim that takes the beginning of a set then writes no entry of any index.
  create index pending_last on pending(destination, last) where owner is null;
  create index pending_held on pending(destination) where owner is not null;
  create index pending_origin on pending(origin) where origin is not null;
  create table origin(id text primary key, cursor bigint not null, events bigint not null);
  create table ledger(process bigint, scope text, id int, name text, value bigint not null,
    primary key (process, scope, id, name)) with (fillfactor = 50);
  create table endpoint(id int generated always as identity primary key, url text not null unique);
  create table accepted_attempt(id bigint generated always as identity primary key, destination int not null,
    endpoint int not null, first bigint not null, last bigint not null, at bigint not null, facts bytea not null);
  create index accepted_attempt_first on accepted_attempt(first);
  create table failed_attempt(id bigint generated always as identity primary key, position bigint not null,
    destination int not null, started_at bigint not null, latency_ms float8 not null, endpoint text not null,
    kind text not null, reason text not null, status int, answer bytea);
  create index failed_attempt_position on failed_attempt(position, destination);
  create table dead_letter(id bigint generated always as identity primary key, destination int not null, at bigint not null,
    reason text not null, first bigint not null, last bigint not null, n int not null, origin text, refs bytea not null);
  create index dead_letter_at on dead_letter(at);
  create index dead_letter_last on dead_letter(last);
  create index dead_letter_destination on dead_letter(destination, id);
  create index dead_letter_wide on dead_letter(last) where last - first >= 65536;
  create table endpoint_health(destination int primary key, endpoints text not null);

  -- Sources, destinations, tokens, and who changed them: see settings/.
  create table record(id int generated always as identity primary key, kind text not null, name text not null,
    version int not null, gone boolean not null default false, document text not null, unique (kind, name));
  -- One row each, which every change updates.
  create table settings_version(version bigint not null);
  insert into settings_version values (0);
  create table suppression_version(version bigint not null);
  insert into suppression_version values (0);
  create table audit(id bigint generated always as identity primary key, at bigint not null, by text not null,
    action text not null, kind text not null, name text not null, before text, after text);
  create index audit_name on audit(kind, name, id);

  -- Requests to delete or to suppress users, and suppressed ids by their keyed hash: see regulations/.
  create table regulation(number int generated always as identity primary key, id text not null unique,
    open boolean not null, document text not null, hashes bytea not null);
  create index regulation_open on regulation(number) where open;
  create table regulation_subject(number int primary key, subjects text not null);
  -- Hashes and ids are bytes: a hash does not fit into a number of JavaScript, and an id may hold any character.
  create table suppression(hash bytea primary key, owner bytea, id bytea, since bigint not null, regulation text not null);
  create index suppression_owner on suppression(owner) where owner is not null;
  create index suppression_id on suppression(id) where id is not null;

  -- Profiles of users: see users/.
  -- One row: where the log was applied to, and how often something was written.
  create table profile_cursor(position bigint not null, clock bigint not null, next_profile bigint not null,
    next_outbox bigint not null, profiles bigint not null, commits bigint not null);
  insert into profile_cursor values (0, 0, 1, 1, 0, 0);
  create table profile(id bigint primary key, state bytea not null);
  create table profile_identity(key bigint primary key, profile bigint not null);
  create index profile_identity_profile on profile_identity(profile);
  create table profile_timer(minute bigint not null, profile bigint not null, primary key (minute, profile));
  create index profile_timer_profile on profile_timer(profile);
  create table profile_outbox(sequence bigint primary key, profile bigint not null, json text not null);
  create table profile_merge(winner bigint not null, position bigint not null, loser bigint not null, body text not null,
    primary key (winner, position, loser));
  create table profile_document(name text primary key, body text not null);

  -- First in every transaction that writes: keeps the lease of a process from being taken until the commit.
  create function fence(of bigint) returns void language plpgsql as $$
  begin
    perform from process where id = of for key share;
    if not found then raise exception 'the lease is lost' using errcode = '${LEASE_LOST}'; end if;
  end $$;

  -- A block of positions. The lock lasts for these two calls and not until the commit.
  create function take_positions(n int) returns bigint language plpgsql as $$
  declare first bigint;
  begin
    perform pg_advisory_lock(${LOCKS.positions});
    first := nextval('position');
    perform setval('position', first + n - 1);
    perform pg_advisory_unlock(${LOCKS.positions});
    return first;
  end $$;

  -- The first half of an append, with a round trip of its own: the answer when the batch is known; otherwise the open slot, the
  -- first position, and the indexes of the events whose keys are new (null: all of them). A key that another transaction is just
  -- bringing makes it wait for that one.
  create function begin_append(of_batch text, hashes bigint[], since bigint)
  returns table(answer text, open_slot int, oldest_slot int, first_position bigint, fresh int[]) language plpgsql as $$
  declare inserted int[];
  begin
    perform pg_advisory_xact_lock_shared(${LOCKS.slot});
    select b.answer into answer from batch b where b.id = of_batch;
    if answer is not null then return next; return; end if;
    select max(s.id) into open_slot from slot s;
    select min(s.id) into oldest_slot from slot s where s.has_keys and (s.youngest is null or s.youngest > since);
    if cardinality(hashes) > 0 then
      first_position := take_positions(cardinality(hashes));
      with new as (
        insert into key(hash, nth, slot, position)
        select w.hash, 0, open_slot, first_position + w.nr - 1 from unnest(hashes) with ordinality w(hash, nr)
        where not exists (select from key k where k.hash = w.hash and k.slot >= oldest_slot and k.slot < open_slot)
        -- In one order, so that two processes never wait for each other.
        order by w.hash, w.nr
        on conflict do nothing returning position)
      select array_agg((position - first_position)::int) into inserted from new;
      if coalesce(cardinality(inserted), 0) < cardinality(hashes) then fresh := coalesce(inserted, '{}'); end if;
    end if;
    return next;
  end $$;
  `,
  `
  -- The same for a batch that is expected to have no duplicates: its keys are inserted without a look at each of them, at less than
  -- half the cost. Where the index finds one that is there, only this insert is undone, and the careful one follows. The function
  -- with three parameters is that of earlier versions, whose nodes may still run.
  create function begin_append(of_batch text, hashes bigint[], since bigint, expects_duplicates boolean)
  returns table(answer text, open_slot int, oldest_slot int, first_position bigint, fresh int[]) language plpgsql as $$
  declare inserted int[]; is_known boolean := false;
  begin
    perform pg_advisory_xact_lock_shared(${LOCKS.slot});
    select b.answer into answer from batch b where b.id = of_batch;
    if answer is not null then return next; return; end if;
    select max(s.id) into open_slot from slot s;
    select min(s.id) into oldest_slot from slot s where s.has_keys and (s.youngest is null or s.youngest > since);
    if cardinality(hashes) = 0 then return next; return; end if;
    first_position := take_positions(cardinality(hashes));
    if not expects_duplicates and oldest_slot < open_slot then
      is_known := exists (select from unnest(hashes) w(hash)
        where exists (select from key k where k.hash = w.hash and k.slot >= oldest_slot and k.slot < open_slot));
    end if;
    if not expects_duplicates and not is_known then
      begin
        -- In one order, so that two processes never wait for each other.
        insert into key(hash, nth, slot, position)
        select w.hash, 0, open_slot, first_position + w.nr - 1 from unnest(hashes) with ordinality w(hash, nr) order by w.hash, w.nr;
        return next; return;
      exception when unique_violation then
        -- An event that is there, or one that comes twice in the batch.
      end;
    end if;
    with new as (
      insert into key(hash, nth, slot, position)
      select w.hash, 0, open_slot, first_position + w.nr - 1 from unnest(hashes) with ordinality w(hash, nr)
      where oldest_slot = open_slot
        or not exists (select from key k where k.hash = w.hash and k.slot >= oldest_slot and k.slot < open_slot)
      order by w.hash, w.nr
      on conflict do nothing returning position)
    select array_agg((position - first_position)::int) into inserted from new;
    if coalesce(cardinality(inserted), 0) < cardinality(hashes) then fresh := coalesce(inserted, '{}'); end if;
    return next;
  end $$;
  `,
  `
  -- Why destinations skip events, as sets that many plans share: see adapters/encoding/plans.ts. Documents are found by their digest:
  -- those of a thousand destinations are longer than an entry of an index may be.
  create table skip_set(id int generated always as identity primary key, digest bytea not null unique, document text not null);
  `,
  `
  -- Columns with what people sent: samples of them in the server's statistics would outlive the rows. A column that is given a
  -- type, even its own, loses the samples it has.
  alter table chunk alter body type bytea, alter body set statistics 0;
  alter table failed_attempt alter answer type bytea, alter answer set statistics 0;
  alter table endpoint_health alter endpoints type text, alter endpoints set statistics 0;
  alter table regulation_subject alter subjects type text, alter subjects set statistics 0;
  alter table suppression alter owner type bytea, alter owner set statistics 0;
  alter table suppression alter id type bytea, alter id set statistics 0;
  alter table profile alter state type bytea, alter state set statistics 0;
  alter table profile_outbox alter json type text, alter json set statistics 0;
  alter table profile_merge alter body type text, alter body set statistics 0;
  alter table profile_document alter body type text, alter body set statistics 0;
  `,
  `
  -- Positions of events that were erased in the last hour: see log/eraser.ts.
  create table erasure(id bigint generated always as identity primary key, process bigint not null, positions bigint[] not null,
    at timestamptz not null default clock_timestamp());
  `,
  `
  -- When a failing lane may be probed next, by whichever node asks first: see nodes.ts.
  create table probe(lane int primary key, process bigint not null, next timestamptz not null) with (fillfactor = 50);
  `,
  `
  -- What begin_append does, in two halves that are sent together: the positions come back before the keys are stored, so that the next
  -- batch of the process can begin beside this one. begin_append stays for nodes of earlier versions.
  create function place_batch(of_batch text, events int, since bigint)
  returns table(answer text, open_slot int, oldest_slot int, first_position bigint) language plpgsql as $$
  begin
    perform pg_advisory_xact_lock_shared(${LOCKS.slot});
    select b.answer into answer from batch b where b.id = of_batch;
    if answer is null then
      select max(s.id) into open_slot from slot s;
      select min(s.id) into oldest_slot from slot s where s.has_keys and (s.youngest is null or s.youngest > since);
      if events > 0 then first_position := take_positions(events); end if;
    end if;
    -- For store_keys. It ends with the transaction.
    perform set_config('millrace.placed', coalesce(open_slot || ',' || coalesce(oldest_slot, open_slot) || ',' || first_position, ''), true);
    return next;
  end $$;

  -- The indexes of the events whose keys are new (null: all of them). A key that another transaction is just bringing makes it wait
  -- for that one.
  create function store_keys(hashes bigint[], expects_duplicates boolean) returns int[] language plpgsql as $$
  declare
    placed bigint[] := string_to_array(current_setting('millrace.placed'), ',')::bigint[];
    open_slot int := placed[1]; oldest_slot int := placed[2]; first_position bigint := placed[3];
    is_known boolean := false; inserted int[];
  begin
    -- The batch is known, or has no events.
    if first_position is null then return null; end if;
    if not expects_duplicates and oldest_slot < open_slot then
      is_known := exists (select from unnest(hashes) w(hash)
        where exists (select from key k where k.hash = w.hash and k.slot >= oldest_slot and k.slot < open_slot));
    end if;
    if not expects_duplicates and not is_known then
      begin
        -- In one order, so that two processes never wait for each other.
        insert into key(hash, nth, slot, position)
        select w.hash, 0, open_slot, first_position + w.nr - 1 from unnest(hashes) with ordinality w(hash, nr) order by w.hash, w.nr;
        return null;
      exception when unique_violation then
        -- An event that is there, or one that comes twice in the batch.
      end;
    end if;
    with new as (
      insert into key(hash, nth, slot, position)
      select w.hash, 0, open_slot, first_position + w.nr - 1 from unnest(hashes) with ordinality w(hash, nr)
      where oldest_slot = open_slot
        or not exists (select from key k where k.hash = w.hash and k.slot >= oldest_slot and k.slot < open_slot)
      order by w.hash, w.nr
      on conflict do nothing returning position)
    select array_agg((position - first_position)::int) into inserted from new;
    return case when coalesce(cardinality(inserted), 0) < cardinality(hashes) then coalesce(inserted, '{}') end;
  end $$;
  `,
  `
  -- Keys leave the unique index, until format 14. A batch is one row of key_log while its run is not converted; each node knows the
  -- keys of all these rows. "seq" rises in the order of the commits. "tag" tells a row from one that took its number after a crash had
  -- undone it. A hash of 0 stands for an event that is not there.
  create sequence key_seq;
  create table key_log(seq bigint primary key, tag bigint not null, run int not null, process bigint not null, first bigint not null,
    hashes bigint[] not null);
  alter table key_log alter hashes set storage external, alter hashes set statistics 0;
  -- Some million keys of one slot, one run after the other. "keys": how many there are in pages.
  create table key_run(id int primary key, slot int not null, from_position bigint not null, is_converted boolean not null default false,
    keys int not null default 0, opened timestamptz not null default clock_timestamp());
  create index key_run_slot on key_run(slot);
  create index key_run_unconverted on key_run(id) where not is_converted;
  -- The keys of a converted run in their order; offsets are from the first position of the run. "low" is the lowest hash of a page.
  create table key_page(run int not null, low bigint not null, page int not null, hashes bigint[] not null, offsets int[] not null,
    primary key (run, low, page));
  alter table key_page alter hashes set storage plain, alter offsets set storage plain, alter hashes set statistics 0,
    alter offsets set statistics 0;

  -- Nodes of earlier versions would not see the keys of others: these functions are theirs. Their appends under way are waited for, and
  -- those that wait meanwhile fail.
  select pg_advisory_xact_lock(${LOCKS.slot});
  lock table key in access exclusive mode;
  drop function begin_append(text, bigint[], bigint), begin_append(text, bigint[], bigint, boolean), place_batch, store_keys;
  -- In their place, so that such a node says what to do. The types are as before: statements are prepared with them.
  create function refuse_earlier_version() returns void language plpgsql as $$
  begin
    raise exception 'a newer Millrace has brought the database to format 8: stop this node, and start the newer version'
      using errcode = '${VERSION_OVER}';
  end $$;
  create function begin_append(of_batch text, hashes bigint[], since bigint)
  returns table(answer text, open_slot int, oldest_slot int, first_position bigint, fresh int[]) language plpgsql as $$
  begin perform refuse_earlier_version(); end $$;
  create function begin_append(of_batch text, hashes bigint[], since bigint, expects_duplicates boolean)
  returns table(answer text, open_slot int, oldest_slot int, first_position bigint, fresh int[]) language plpgsql as $$
  begin perform refuse_earlier_version(); end $$;
  create function place_batch(of_batch text, events int, since bigint)
  returns table(answer text, open_slot int, oldest_slot int, first_position bigint) language plpgsql as $$
  begin perform refuse_earlier_version(); end $$;
  -- The keys of each slot become a run, and the open slot gets one more.
  insert into key_page(run, low, page, hashes, offsets)
    select slot, min(hash), page, array_agg(hash), array_agg(at) from (
      select k.slot, k.hash, (k.position - s.from_position)::int as at,
        ((row_number() over (partition by k.slot order by k.hash, k.position) - 1) / ${PAGE_KEYS})::int as page
      from key k join slot s on s.id = k.slot) keys group by slot, page;
  insert into key_run(id, slot, from_position, is_converted, keys)
    select s.id, s.id, s.from_position, true, coalesce((select sum(cardinality(p.hashes)) from key_page p where p.run = s.id), 0)
    from slot s where s.has_keys;
  insert into key_run(id, slot, from_position) select max(id) + 1, max(id), (select last_value from position) from slot;
  -- A key was counted with 90 bytes, and is with 14.
  insert into volume as v (process, events, bytes) select 0, 0, -76 * sum(keys) from key_run
    on conflict (process) do update set bytes = v.bytes + excluded.bytes;
  drop table key;

  -- The first half of an append: the answer when the batch is known; otherwise the open slot, its open run, the oldest run with keys of
  -- the window, and the first position.
  create function begin_batch(of_batch text, events int, since bigint)
  returns table(answer text, open_slot int, open_run int, oldest_run int, first_position bigint) language plpgsql as $$
  declare oldest_slot int;
  begin
    perform pg_advisory_xact_lock_shared(${LOCKS.slot});
    select b.answer into answer from batch b where b.id = of_batch;
    if answer is not null then return next; return; end if;
    select max(s.id) into open_slot from slot s;
    select min(s.id) into oldest_slot from slot s where s.has_keys and (s.youngest is null or s.youngest > since);
    select max(r.id) into open_run from key_run r;
    select min(r.id) into oldest_run from key_run r where r.slot >= oldest_slot;
    if events > 0 then first_position := take_positions(events); end if;
    return next;
  end $$;

  -- The last statement of an append. The lock goes when the commit can be seen, so that a node which knows all rows up to a number misses
  -- none. Fails when a batch that this one does not know brought one of the keys: "since" is the number up to which it knows them, and
  -- "own" are the first positions of batches of its process that it knows too.
  create function add_keys(since bigint, own bigint[], of_tag bigint, of_run int, of_process bigint, of_first bigint, of_hashes bigint[])
  returns void language plpgsql as $$
  begin
    perform pg_advisory_xact_lock(${KEYS_LOCK});
    -- A statement of its own, which sees what was committed before the lock was given.
    if exists (select from key_log k where k.seq > since and not (k.process = of_process and k.first = any(own))) then
      if exists (
        select from (
          select hash, true as is_mine from unnest(of_hashes) w(hash)
          union all
          select hash, false from key_log k, unnest(k.hashes) w(hash)
            where k.seq > since and not (k.process = of_process and k.first = any(own))) hashes
        where hash <> 0 group by hash having bool_or(is_mine) and not bool_and(is_mine))
      then raise exception 'another batch has just brought one of these keys' using errcode = '${KEY_TAKEN}'; end if;
    end if;
    insert into key_log(seq, tag, run, process, first, hashes)
      values (nextval('key_seq'), of_tag, of_run, of_process, of_first, of_hashes);
  end $$;
  `,

  `
  -- The same at a fifth of the cost for each key that others have committed meanwhile. "marks" has a bit for each hash of the batch, at the
  -- number that the lowest bits of the hash are; few hashes of others meet one, and only those are compared. The function without marks stays
  -- for nodes of the version before.
  create function add_keys(since bigint, own bigint[], of_tag bigint, of_run int, of_process bigint, of_first bigint, of_hashes bigint[],
    marks bytea)
  returns void language plpgsql as $$
  declare last_bit bigint := length(marks) * 8 - 1;
  begin
    perform pg_advisory_xact_lock(${KEYS_LOCK});
    -- A statement of its own, which sees what was committed before the lock was given. "case" keeps the order: the planner would look
    -- through all hashes of the batch first.
    if exists (
      select from (
        select unnest(k.hashes) as hash from key_log k where k.seq > since and not (k.process = of_process and k.first = any(own))) k
      where case when get_bit(marks, k.hash & last_bit) = 1 then k.hash <> 0 and k.hash = any(of_hashes) else false end)
    then raise exception 'another batch has just brought one of these keys' using errcode = '${KEY_TAKEN}'; end if;
    insert into key_log(seq, tag, run, process, first, hashes)
      values (nextval('key_seq'), of_tag, of_run, of_process, of_first, of_hashes);
  end $$;
  `,
  `
  -- Up to which change of suppressions and up to which erasure each process has done what a deletion waits for: see acknowledgements.ts.
  -- Processes of earlier versions have no row. "gone": when it was first seen that the process has lost its lease.
  create table acknowledgement(process bigint primary key, suppressions bigint not null default 0, erasures bigint not null default 0,
    gone timestamptz) with (fillfactor = 50);
  `,
  `
  -- Nodes that died in the last hour: see member.ts. Nothing depends on it; nodes of earlier versions write nothing here.
  create table gone_node(node text primary key, roles text[] not null, version text not null, seen timestamptz not null,
    adopted timestamptz not null, adopted_by text not null);
  `,
  `
  -- States say of each id whether a server source has named it. A node of the version before would take such a state for a damaged one and
  -- drop it: by this name it finds none, and its profiles stand still until it is updated.
  alter table profile rename column state to body;
  `,
  `
  -- Who is signed in to the console: digests of the secrets that the browser shows. See settings/session-store.ts.
  create table session(number bigint generated always as identity primary key, id text not null unique, key text not null,
    token text not null, expires_at bigint not null, until bigint not null);
  create index session_token on session(token, number);
  `,
  `
  -- Keys of deduplication in slots: see log/key-slots.ts. The keys of the open slot and of those that a window reaches are rows of a table
  -- for each slot; those of older slots, by which events are found as long as they are stored, are in pages.
  -- tag: tells a slot from one that took its number after a failover had undone it. youngest: when the last event of a closed slot
  -- arrived. filter_bytes: of the filter of a closed slot; null while there is none. keys: how many there are in pages.
  create table key_slot(id int primary key, from_position bigint not null, tag bigint not null,
    opened timestamptz not null default clock_timestamp(), youngest bigint, filter_bytes int, has_table boolean not null default true,
    is_paged boolean not null default false, keys int);
  -- nth: tells apart events with the same hash, ids that collide and ids past their window. Only the tables of slots have indexes.
  create table key(slot int not null, hash bigint not null, position bigint not null, nth int not null) partition by list (slot);
  create table key_filter(slot int not null, part int not null, words bytea not null, primary key (slot, part));
  alter table key_filter alter words set storage external, alter words set statistics 0;

  -- Appends of earlier versions under way are waited for, and those that wait meanwhile fail.
  select pg_advisory_xact_lock(${LOCKS.slot});
  lock table key_log, key_run, key_page in access exclusive mode;
  -- Keys that are in pages stay there, and the last million follows them.
  insert into key_page(run, low, page, hashes, offsets)
    select run, min(hash), page, array_agg(hash), array_agg(at) from (
      select k.run, w.hash, (k.first + w.nr - 1 - r.from_position)::int as at,
        ((row_number() over (partition by k.run order by w.hash, k.first + w.nr) - 1) / ${PAGE_KEYS})::int as page
      from key_log k join key_run r on r.id = k.run, unnest(k.hashes) with ordinality w(hash, nr) where w.hash <> 0) keys group by run, page;
  insert into key_slot(id, from_position, tag, youngest, has_table, is_paged, keys)
    select r.id, r.from_position, (random() * 2 ^ 48)::bigint, s.youngest, false, true, p.keys from key_run r join slot s on s.id = r.slot,
      lateral (select sum(cardinality(hashes)) as keys from key_page where run = r.id) p where p.keys > 0;
  alter table key_page rename column run to slot;
  drop table key_log, key_run;
  drop sequence key_seq;

  -- Nodes of earlier versions are told what to do by whatever they ask: functions and tables of the same names and types. The next
  -- format can drop these, with the column slot.has_keys.
  create or replace function refuse_earlier_version() returns void language plpgsql as $$
  begin
    raise exception 'a newer Millrace has brought the database to format 14: stop this node, and start the newer version'
      using errcode = '${VERSION_OVER}';
  end $$;
  create function refuse_earlier_write() returns trigger language plpgsql as $$
  begin perform refuse_earlier_version(); return null; end $$;
  create or replace function begin_batch(of_batch text, events int, since bigint)
  returns table(answer text, open_slot int, open_run int, oldest_run int, first_position bigint) language plpgsql as $$
  begin perform refuse_earlier_version(); end $$;
  create or replace function add_keys(since bigint, own bigint[], of_tag bigint, of_run int, of_process bigint, of_first bigint,
    of_hashes bigint[]) returns void language plpgsql as $$
  begin perform refuse_earlier_version(); end $$;
  create or replace function add_keys(since bigint, own bigint[], of_tag bigint, of_run int, of_process bigint, of_first bigint,
    of_hashes bigint[], marks bytea) returns void language plpgsql as $$
  begin perform refuse_earlier_version(); end $$;
  -- Columns of functions: a condition on constants would be looked at first, and leave the row out.
  create function earlier_key_log()
  returns table(seq bigint, tag bigint, run int, process bigint, first bigint, hashes bigint[]) language plpgsql as $$
  begin perform refuse_earlier_version(); end $$;
  create function earlier_key_run()
  returns table(id int, slot int, from_position bigint, is_converted boolean, keys int, opened timestamptz) language plpgsql as $$
  begin perform refuse_earlier_version(); end $$;
  create view key_log as select * from earlier_key_log();
  create view key_run as select * from earlier_key_run();
  create trigger refuse instead of insert or update or delete on key_log for each row execute function refuse_earlier_write();
  create trigger refuse instead of insert or update or delete on key_run for each row execute function refuse_earlier_write();

  -- Waits a moment for the appends under way. False when one of them takes longer: it must hold up nobody.
  create function close_slots() returns boolean language plpgsql set lock_timeout = '50ms' as $$
  begin
    perform pg_advisory_xact_lock(${LOCKS.slot});
    return true;
  exception when lock_not_available then return false;
  end $$;

  -- Opens a slot of keys, whose table is there. No append is under way.
  create function open_key_slot(slot int) returns void language sql as $$
    insert into key_slot(id, from_position, tag)
      select $1, case when is_called then last_value + 1 else last_value end, (random() * 2 ^ 48)::bigint from position
  $$;

  -- The first half of an append: the answer when the batch is known; otherwise the open slots, the first position, and the numbers of the
  -- events, from 1 on, whose keys are in the slot already (null: none). A key that another transaction is just bringing makes it wait for
  -- that one. All of them take keys in the same order, so that they never wait for each other. Where no duplicates are expected, keys are
  -- stored without a look at each of them, at two thirds of the cost; where one is there, that is undone, and the careful way follows.
  create function take_batch(of_batch text, hashes bigint[], expects_duplicates boolean)
  returns table(answer text, open_slot int, key_slot int, key_tag bigint, first_position bigint, taken bigint[]) language plpgsql as $$
  #variable_conflict use_column
  declare stored int;
  begin
    perform pg_advisory_xact_lock_shared(${LOCKS.slot});
    select b.answer into answer from batch b where b.id = of_batch;
    if answer is not null then return next; return; end if;
    select max(s.id) into open_slot from slot s;
    select k.id, k.tag into key_slot, key_tag from key_slot k order by k.id desc limit 1;
    if cardinality(hashes) > 0 then
      first_position := take_positions(cardinality(hashes));
      if not expects_duplicates then
        begin
          insert into key(slot, hash, position, nth) select key_slot, w.hash, first_position + w.nr - 1, 0
            from unnest(hashes) with ordinality w(hash, nr) order by w.hash, w.nr;
          return next; return;
        exception when unique_violation then null;
        end;
      end if;
      insert into key(slot, hash, position, nth) select key_slot, w.hash, first_position + w.nr - 1, 0
        from unnest(hashes) with ordinality w(hash, nr) order by w.hash, w.nr on conflict do nothing;
      get diagnostics stored = row_count;
      if stored < cardinality(hashes) then
        execute format('select array_agg(w.nr) from unnest($1) with ordinality w(hash, nr) where not exists
          (select from key_%s k where k.hash = w.hash and k.position = $2 + w.nr - 1)', key_slot) into taken using hashes, first_position;
      end if;
    end if;
    return next;
  end $$;

  -- Stores keys of events that differ from all those with the same hash, the last of which has the number before "nths". Returns the
  -- numbers of those where another transaction, or another event of the batch, was faster, or the one before has gone: they must be
  -- compared anew. The lock keeps eraser and append apart.
  create function store_more_keys(of_slot int, hashes bigint[], positions bigint[], nths int[]) returns bigint[] language plpgsql as $$
  declare missing bigint[];
  begin
    execute format('select from key_%s k where k.hash = any($1) order by k.hash, k.nth for share', of_slot) using hashes;
    execute format('insert into key_%1$s(slot, hash, position, nth) select %1$s, w.hash, w.position, w.nth
      from unnest($1, $2, $3) w(hash, position, nth) where w.nth = 0 or exists (select from key_%1$s k where k.hash = w.hash and k.nth = w.nth - 1)
      order by w.hash, w.position on conflict do nothing', of_slot) using hashes, positions, nths;
    execute format('select array_agg(w.nr) from unnest($1, $2) with ordinality w(hash, position, nr) where not exists
      (select from key_%s k where k.hash = w.hash and k.position = w.position)', of_slot) into missing using hashes, positions;
    return missing;
  end $$;

  -- Where keys stand: the number of each pair that was found, with the position, which is -1 where the event was erased, and the number
  -- among those with the same hash. A slot that is gone has none. In this order: a slot whose table becomes pages meanwhile is found in
  -- one of the two.
  create function find_keys(slots int[], hashes bigint[]) returns table(nr bigint, "position" bigint, nth int) language plpgsql as $$
  #variable_conflict use_column
  declare one record;
  begin
    for one in select s.id, array_agg(w.hash) as hashes, array_agg(w.nr) as numbers
      from unnest(slots, hashes) with ordinality w(slot, hash, nr) join key_slot s on s.id = w.slot where not s.is_paged group by s.id
    loop
      begin
        return query execute format('select w.nr, k.position, k.nth from unnest($1, $2) w(hash, nr) join key_%s k on k.hash = w.hash',
          one.id) using one.hashes, one.numbers;
      exception when undefined_table then null;
      end;
    end loop;
    -- A hash may stand on several pages: on the last one that begins below it, and on all that begin with it.
    return query select w.nr, s.from_position + k.at, 0
      from unnest(slots, hashes) with ordinality w(slot, hash, nr) join key_slot s on s.id = w.slot and s.is_paged, lateral (
        (select hashes, offsets from key_page where slot = s.id and low < w.hash order by low desc, page desc limit 1)
        union all
        (select hashes, offsets from key_page where slot = s.id and low = w.hash)) p, unnest(p.hashes, p.offsets) k(hash, at)
      where k.hash = w.hash;
  end $$;

  -- Takes the keys of erased events out of their slots. A row stays, without its position, where others with the same hash follow it: who
  -- looks for the hash finds those by it.
  create function erase_keys(hashes bigint[], positions bigint[]) returns void language plpgsql as $$
  #variable_conflict use_column
  declare one record;
  begin
    for one in select s.id, s.is_paged, s.from_position, array_agg(w.hash) as hashes, array_agg(w.position) as positions
      from unnest(hashes, positions) w(hash, position)
        join lateral (select * from key_slot k where k.from_position <= w.position order by k.id desc limit 1) s on true
      group by s.id, s.is_paged, s.from_position
    loop
      if one.is_paged then
        -- The hash becomes 0 in its page, which is found as it was before.
        update key_page k set hashes = array(
            select case when w.hash = any(one.hashes) and one.from_position + k.offsets[w.nr] = any(one.positions) then 0 else w.hash end
            from unnest(k.hashes) with ordinality w(hash, nr) order by w.nr)
          from (select distinct p.low, p.page from unnest(one.hashes) w(hash), lateral (
            (select low, page from key_page where slot = one.id and low < w.hash order by low desc, page desc limit 1)
            union all
            (select low, page from key_page where slot = one.id and low = w.hash)) p) those
          where k.slot = one.id and k.low = those.low and k.page = those.page;
      else
        execute format('update key_%s set position = -1 where hash = any($1) and position = any($2)', one.id)
          using one.hashes, one.positions;
        execute format('delete from key_%1$s k where k.hash = any($1)
          and not exists (select from key_%1$s o where o.hash = k.hash and o.position >= 0)', one.id) using one.hashes;
      end if;
    end loop;
  end $$;

  -- Writes the keys of a slot past every window as pages, which are asked from then on. Returns how many there are.
  create function page_keys(of_slot int) returns int language plpgsql as $$
  declare n int;
  begin
    execute format('insert into key_page(slot, low, page, hashes, offsets)
      select $1, min(hash), page, array_agg(hash), array_agg(at) from (
        select k.hash, (k.position - s.from_position)::int as at, ((row_number() over (order by k.hash, k.nth) - 1) / ${PAGE_KEYS})::int as page
        from key_%1$s k join key_slot s on s.id = $1 where k.position >= 0) keys group by page', of_slot) using of_slot;
    select coalesce(sum(cardinality(p.hashes)), 0) into n from key_page p where p.slot = of_slot;
    update key_slot set is_paged = true, filter_bytes = null, keys = n where id = of_slot;
    delete from key_filter where slot = of_slot;
    return n;
  end $$;

  -- Drops the table of such a slot, for which no append may be under way for a moment. False when that takes longer, or somebody reads it.
  create function drop_key_table(of_slot int) returns boolean language plpgsql set lock_timeout = '50ms' as $$
  begin
    if exists (select from pg_locks where relation = to_regclass('key_' || of_slot)) then return false; end if;
    execute format('drop table key_%s', of_slot);
    update key_slot set has_table = false where id = of_slot;
    return true;
  exception when lock_not_available then return false;
  end $$;

  create function count_keys(of_slot int) returns bigint language plpgsql as $$
  declare n bigint;
  begin
    execute format('select count(*) from key_%s where position >= 0', of_slot) into n;
    return n;
  end $$;

  do $$
  declare first int := (select coalesce(max(id), 0) + 1 from key_slot);
  begin
    execute format('${keyTableOf('%1$s')}', first);
    perform open_key_slot(first);
  end $$;

  -- How deliveries were given up: dead, or dropped by the type of their destination, with what that says about it.
  alter table dead_letter add column state text not null default 'dead', add column note bytea;
  create index dead_letter_note on dead_letter(id) where note is not null;

  -- Requests with an Idempotency-Key, which every node knows: see settings/idempotency.ts. answer: null while it is under way.
  create table idempotency_key(number bigint generated always as identity primary key, key text not null unique, digest text not null,
    process bigint not null, at timestamptz not null default clock_timestamp(), answer text);
  create index idempotency_key_at on idempotency_key(at);

  -- Digest of what the configuration file of a node declares; null where it declares nothing.
  alter table process add column file text;

  -- Plans by their digest, as skip sets are: those of hundreds of destinations are longer than an entry of an index may be. The table of
  -- before stays for nodes of earlier versions, until the next format: they read what is there, and add nothing.
  create trigger refuse before insert on plan for each statement execute function refuse_earlier_write();
  create table delivery_plan(id int generated always as identity primary key, digest bytea not null unique, document text not null);
  insert into delivery_plan(id, digest, document) overriding system value
    select id, sha256(convert_to(document, 'UTF8')), document from plan;
  select setval(pg_get_serial_sequence('delivery_plan', 'id'), coalesce((select max(id) from plan), 0) + 1, false);
  `,
];
