import { randomBytes } from 'node:crypto';
import { StorageError } from '../../ports/event-log.ts';
import type { Logger } from '../../ports/logger.ts';
import { LOCKS, type Session } from './database.ts';
import { MIGRATIONS } from './formats.ts';
import { refuseUnusable } from './inspection.ts';

/**
 * The format since which statistics hold no samples of what people sent. Its migration leaves the old ones as
 * deleted rows.
 */
const WITHOUT_SAMPLES = 4;

/**
 * Settings of the transaction of a migration. Nodes of the version before wait while it waits for a lock, so
 * that must not take long. It reads whole tables, in the order in which they are stored. The server stops
 * working for a node that was killed, where it can tell: the next one would wait until it had done it all,
 * and then do it again.
 */
const MIGRATION_SETTINGS = `
  set local statement_timeout = 0; set local lock_timeout = '10s';
  set local enable_seqscan = on; set local enable_hashjoin = on; set local work_mem = '64MB';
  do $$ begin perform set_config('client_connection_check_interval', '1s', true); exception when others then null; end $$`;

/** The newest format that this version reads, and the one that it writes. */
export const FORMAT = MIGRATIONS.length;

/** The fact that stands behind `Store.isBounded`. */
export const BOUNDED = 'bounded';

export interface Installation {
  /** Tells this store from every other. */
  readonly id: string;
  /** The secret of the key hash. */
  readonly keySecret: Buffer;
  /** See `Store.isBounded`. */
  readonly isBounded: boolean;
  /** The clocks as JSON; absent when they were never told. */
  readonly clocks: string | undefined;
}

/**
 * Brings a new or older database to the current format, one process at a time, and reads the facts about the
 * store. Throws a `StorageError` when the database is too old, cannot hold every text, belongs to somebody
 * else, or was written by a newer version.
 */
export async function migrate(session: Session, logger?: Pick<Logger, 'info'>): Promise<Installation> {
  await refuseUnusable(session);
  await session.query(`begin; select pg_advisory_xact_lock(${LOCKS.schema})`);
  const version = await formatOf(session);
  if (version > FORMAT) {
    throw new StorageError(
      `the database was written by a newer Millrace (format ${version}, this one knows ${FORMAT}): start the newer version`,
    );
  }
  const isOlder = version > 0 && version < FORMAT;
  const began = performance.now();
  if (isOlder) logger?.info({ from: version, to: FORMAT }, 'database.upgrading');
  await session.query(MIGRATION_SETTINGS);
  for (const migration of MIGRATIONS.slice(version)) await session.query(migration);
  if (version < FORMAT) {
    await session.query(`
      insert into installation(name, value) values ('format', '${FORMAT}'), ('id', '${randomBytes(16).toString('hex')}'),
        ('key_secret', '${randomBytes(8).toString('hex')}')
      on conflict (name) do update set value = excluded.value where installation.name = 'format'`);
  }
  if (version === 0)
    await session.query(
      `insert into installation(name, value) values ('${BOUNDED}', 'yes') on conflict do nothing`,
    );
  const facts = await session.query<{ name: string; value: string }>('select name, value from installation');
  await session.query('commit');
  if (isOlder) logger?.info({ to: FORMAT, ms: Math.round(performance.now() - began) }, 'database.upgraded');
  // Deleted rows stay in their file until it is written anew.
  if (version > 0 && version < WITHOUT_SAMPLES) await session.query('vacuum full pg_statistic');
  const of = new Map(facts.map(({ name, value }) => [name, value]));
  return {
    id: of.get('id')!,
    keySecret: Buffer.from(of.get('key_secret')!, 'hex'),
    isBounded: of.get(BOUNDED) === 'yes',
    clocks: of.get('clocks'),
  };
}

/** The format of the database; 0 when it has no table of ours. */
export async function formatOf(session: Session): Promise<number> {
  const [found] = await session.query<{ installation: string | null; chunk: string | null }>(
    `select to_regclass('installation')::text as installation, to_regclass('chunk')::text as chunk`,
  );
  if (found!.installation === null && found!.chunk === null) return 0;
  const rows =
    found!.installation === null
      ? []
      : await session.query<{ value: string }>(`select value from installation where name = 'format'`);
  if (rows.length === 0)
    throw new StorageError(
      'the database holds tables that Millrace did not write: make a database for Millrace alone',
    );
  return Number(rows[0]!.value);
}
