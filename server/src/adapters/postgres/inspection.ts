import { defined } from '../../model/json.ts';
import type { DatabaseProblem, DatabaseStatus, StandbyStatus } from '../../model/node.ts';
import { type Duration, MINUTE, SECOND, type Time } from '../../model/time.ts';
import { StorageError } from '../../ports/event-log.ts';
import type { Database, Session, Statement } from './database.ts';

/** Connections of one node at most: those for events, for profiles, and for the reader of the log. */
const CONNECTIONS_OF_NODE = 12;

/** Facts that the server tells of itself. Columns that the user may not see are null. */
export interface DatabaseFacts {
  readonly version: string;
  readonly user: string;
  readonly now: Time;
  readonly fsync: string;
  readonly full_page_writes: string;
  readonly autovacuum: string;
  readonly statement_timeout: string;
  readonly idle_session_timeout: string;
  /** Names of the standbys that commits wait for. */
  readonly synchronous: string;
  readonly connections: number;
  readonly nodes: number;
  /** Names of living nodes, those whose configuration files declare the same together. */
  readonly files: readonly string[];
  /** Age of the oldest transaction that keeps deleted rows alive, in milliseconds, and its process. */
  readonly transaction_age: number | null;
  readonly transaction_pid: number | null;
  /** Bytes of the log that slots keep which nobody reads. */
  readonly idle_slots: number | null;
}

export interface StandbyFacts {
  readonly name: string | null;
  readonly sync_state: string | null;
  readonly behind_bytes: number | null;
  readonly behind_ms: number | null;
}

const FACTS: Statement = {
  name: 'inspection.facts',
  text: `select current_setting('server_version') as version, current_user::text as user,
      floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now,
      current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
      current_setting('autovacuum') as autovacuum, current_setting('statement_timeout') as statement_timeout,
      current_setting('idle_session_timeout') as idle_session_timeout,
      current_setting('synchronous_standby_names') as synchronous, current_setting('max_connections')::int as connections,
      (select count(*) from process)::int as nodes,
      array(select string_agg(node, ', ' order by node) from process where file is not null and expires > clock_timestamp()
        group by file order by 1) as files, t.age::float8 as transaction_age, t.pid as transaction_pid,
      (select sum(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)) from pg_replication_slots where not active)::float8 as idle_slots
    from (select 1) one left join lateral (
      select pid, extract(epoch from clock_timestamp() - xact_start) * 1000 as age from pg_stat_activity
        where backend_xmin is not null and xact_start is not null and backend_type = 'client backend'
        order by xact_start limit 1) t on true`,
};

const STANDBYS: Statement = {
  name: 'inspection.standbys',
  text: `select nullif(application_name, '') as name, sync_state, pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn)::float8 as behind_bytes,
      (extract(epoch from flush_lag) * 1000)::float8 as behind_ms
    from pg_stat_replication order by application_name, pid`,
};

/**
 * Asks the server for its state, and judges it. `now`: the clock of this machine. Rejects with a
 * `StorageError`.
 */
export async function inspectDatabase(database: Database, now: () => Time): Promise<DatabaseStatus> {
  return await database.read(async (read) => {
    const asked = now();
    const [facts] = await read.rows<DatabaseFacts>(FACTS);
    const middle = (asked + now()) / 2;
    const standbys = await read.rows<StandbyFacts>(STANDBYS);
    return {
      version: facts!.version,
      standbys: standbys.map(standbyStatus),
      problems: databaseProblems(facts!, standbys, facts!.now - middle),
    };
  });
}

function standbyStatus({ name, sync_state, behind_bytes, behind_ms }: StandbyFacts): StandbyStatus {
  const shown = { name: name ?? 'unnamed' };
  // Hidden from this user: `behind_ms` alone is null while nothing is written.
  if (sync_state === null) return shown;
  return {
    ...shown,
    isSynchronous: sync_state === 'sync' || sync_state === 'quorum',
    ...defined({ behindBytes: behind_bytes === null ? undefined : Math.max(0, behind_bytes) }),
    behind: Math.max(0, behind_ms ?? 0),
  };
}

/** Thresholds for warnings. */
const MAX_CLOCK_SKEW: Duration = 5 * SECOND;
const MAX_TRANSACTION_AGE: Duration = 5 * MINUTE;
const MAX_RETAINED_WAL = 2 ** 30;

/**
 * A node renews its lease on a connection of the pool every second: a limit below this cuts connections all
 * the time.
 */
const MIN_IDLE_TIMEOUT: Duration = 10 * SECOND;

/**
 * Problems that endanger events, or slow all nodes down. `ahead`: how far the clock of the server is before
 * that of this machine.
 */
export function databaseProblems(
  facts: DatabaseFacts,
  standbys: readonly StandbyFacts[],
  ahead: Duration,
): DatabaseProblem[] {
  const problems: DatabaseProblem[] = [];
  const say = (isSevere: boolean, found: string, advice: string) =>
    problems.push({ isSevere, found, advice });
  if (facts.fsync !== 'on') say(true, 'fsync is off', 'a crash of its machine loses events: set fsync = on');
  if (facts.full_page_writes !== 'on')
    say(
      true,
      'full_page_writes is off',
      'a crash of its machine may damage events: set full_page_writes = on',
    );
  if (facts.autovacuum !== 'on')
    say(true, 'autovacuum is off', 'deleted rows pile up and claims become slow: set autovacuum = on');
  if (facts.statement_timeout !== '0') {
    const advice = `a commit that is cancelled looks as if it had failed: alter role ${facts.user} set statement_timeout = 0`;
    say(false, `statement_timeout is ${facts.statement_timeout}`, advice);
  }
  const idle = millisecondsOf(facts.idle_session_timeout);
  if (idle > 0 && idle <= MIN_IDLE_TIMEOUT) {
    const advice = `connections are cut all the time: alter role ${facts.user} set idle_session_timeout = 0`;
    say(false, `idle_session_timeout is ${facts.idle_session_timeout}`, advice);
  }
  const wanted = (facts.nodes + 1) * CONNECTIONS_OF_NODE;
  if (facts.connections < wanted) {
    const advice = `each node opens up to ${CONNECTIONS_OF_NODE}, and one is replaced by another: set it to ${wanted} or more`;
    say(false, `max_connections is ${facts.connections} with ${facts.nodes} nodes`, advice);
  }
  if (facts.files.length > 1) {
    const found = `the configuration files of its nodes differ (${facts.files.join(' / ')})`;
    const advice =
      'the file of the node that starts last is in force for all: give them one file, and start those again that had another';
    say(false, found, advice);
  }
  problems.push(...standbyProblems(facts, standbys), ...upkeepProblems(facts));
  if (Math.abs(ahead) >= MAX_CLOCK_SKEW) {
    const found = `its clock is ${Math.round(Math.abs(ahead) / SECOND)} s ${ahead < 0 ? 'behind' : 'ahead of'} this node's`;
    say(false, found, 'set both by NTP: times of events and retries depend on it');
  }
  return problems;
}

function standbyProblems(
  { synchronous, user }: DatabaseFacts,
  standbys: readonly StandbyFacts[],
): DatabaseProblem[] {
  const hidden = standbys.some(({ sync_state }) => sync_state === null);
  if (hidden) {
    const found = 'its standbys are hidden from this user';
    return [{ isSevere: false, found, advice: `grant pg_monitor to ${user}, and their lag is shown` }];
  }
  const isConfirmed = standbys.some(({ sync_state }) => sync_state === 'sync' || sync_state === 'quorum');
  if (synchronous !== '' && !isConfirmed) {
    const found = `commits wait for a standby (${synchronous}), and none is connected`;
    const advice = 'start the standby, or take it out of synchronous_standby_names';
    return [{ isSevere: true, found, advice }];
  }
  if (standbys.length > 0 && !isConfirmed) {
    const found = 'no standby confirms commits';
    const advice = 'a failover loses the last events that were answered 200: set synchronous_standby_names';
    return [{ isSevere: false, found, advice }];
  }
  return [];
}

function upkeepProblems(facts: DatabaseFacts): DatabaseProblem[] {
  const problems: DatabaseProblem[] = [];
  const { transaction_age: age, transaction_pid: pid, idle_slots: kept } = facts;
  if (age !== null && age >= MAX_TRANSACTION_AGE) {
    const found = `a transaction is open for ${Math.round(age / MINUTE)} min (process ${pid})`;
    const advice = `deleted rows cannot be removed meanwhile: end it, or select pg_terminate_backend(${pid})`;
    problems.push({ isSevere: false, found, advice });
  }
  if (kept !== null && kept >= MAX_RETAINED_WAL) {
    const found = `replication slots that nobody reads keep ${Math.round(kept / 2 ** 30)} GB of its log`;
    const advice = 'start their standbys, or drop them: its disk fills up';
    problems.push({ isSevere: false, found, advice });
  }
  return problems;
}

/** A time as PostgreSQL shows it: `0`, `500ms`, `5s`, `1min`. */
function millisecondsOf(shown: string): Duration {
  const [, n = '0', unit = 'ms'] = /^(\d+)(ms|s|min|h|d)?$/.exec(shown) ?? [];
  const units = { ms: 1, s: SECOND, min: MINUTE, h: 60 * MINUTE, d: 24 * 60 * MINUTE };
  return Number(n) * units[unit as keyof typeof units];
}

/**
 * Older versions have no `security_invoker` views and merge statements that this adapter may come to use, and
 * no support.
 */
const OLDEST_POSTGRES = 15;

/**
 * Refuses a database that no start can use: too old, a standby, or of an encoding that cannot hold every
 * text. Throws a `StorageError`.
 */
export async function refuseUnusable(session: Session): Promise<void> {
  const [server] = await session.query<{ version: number; standby: boolean; encoding: string }>(
    `select current_setting('server_version_num')::int / 10000 as version, pg_is_in_recovery() as standby,
      current_setting('server_encoding') as encoding`,
  );
  if (server!.version < OLDEST_POSTGRES)
    throw new StorageError(
      `the database is PostgreSQL ${server!.version}: Millrace needs ${OLDEST_POSTGRES} or newer`,
    );
  if (server!.standby)
    throw new StorageError('the database is a standby and takes no writes: name the primary in "database"');
  if (server!.encoding !== 'UTF8') {
    throw new StorageError(
      `the database has the encoding ${server!.encoding}, which cannot hold every text that clients send: make one with ` +
        "create database … encoding 'UTF8' template template0",
    );
  }
  await refuseForeignTables(session);
}

/**
 * Deletions, retention and later versions change tables, which only their owner may. Those of extensions are
 * not ours.
 */
async function refuseForeignTables(session: Session): Promise<void> {
  const [rights] = await session.query<{ user: string; schema: string; isOpen: boolean; owners: string[] }>(
    `select quote_ident(current_user) as "user", quote_ident(current_schema()) as schema,
      coalesce(has_schema_privilege(current_schema(), 'create'), true) as "isOpen",
      array(select distinct quote_ident(pg_get_userbyid(c.relowner)) from pg_class c
        where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p', 'S') and not pg_has_role(c.relowner, 'usage')
          and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
        order by 1) as owners`,
  );
  const { user, schema, isOpen, owners } = rights!;
  const statements = [
    ...owners.map((owner) => `grant ${owner} to ${user}`),
    ...(isOpen ? [] : [`grant create on schema ${schema} to ${user}`]),
  ];
  if (statements.length === 0) return;
  const what = [
    ...(owners.length === 0 ? [] : [`does not own the tables, which belong to ${owners.join(' and ')}`]),
    ...(isOpen ? [] : [`may make no tables in the schema ${schema}`]),
  ];
  throw new StorageError(
    `the user ${user} of the database ${what.join(', and ')}: without that, deletions and retention would stand still. Run as a superuser: ` +
      `${statements.join('; ')}`,
  );
}
