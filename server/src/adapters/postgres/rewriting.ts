import { setTimeout as delay } from 'node:timers/promises';
import { StorageError } from '../../ports/event-log.ts';
import type { Database } from './database.ts';

/** Milliseconds in which a table of some gigabytes is written anew. */
const REWRITE_WITHIN = 600_000;

/**
 * How long transactions of others may last that still see deleted rows, and how often they are looked for, in
 * milliseconds.
 */
const WAIT_FOR_OTHERS = 120_000;
const LOOK_EVERY = 50;

/**
 * Writes tables anew, each by itself: until then a deleted row stays in its file. Nobody can use a table
 * meanwhile. A row that another transaction may still see would be kept, so this waits for those that are
 * under way. Rejects with a `StorageError` that names one that does not end.
 */
export async function rewriteTables(database: Database, tables: readonly string[]): Promise<void> {
  await oldTransactionsEnded(database);
  for (const table of tables)
    await database.session((session) => session.query(`vacuum full ${table}`), REWRITE_WITHIN);
}

/** Resolves when every transaction has ended that began before the call. */
async function oldTransactionsEnded(database: Database): Promise<void> {
  const [own] = await database.session((session) =>
    session.query<{ xid: string }>('select pg_current_xact_id()::xid::text as xid'),
  );
  const older = `select pid, coalesce(application_name, '') as name from pg_stat_activity where datname = current_database()
    and greatest(age(backend_xmin), age(backend_xid)) > age('${own!.xid}'::xid) order by xact_start limit 1`;
  for (const end = performance.now() + WAIT_FOR_OTHERS; ; ) {
    const [one] = await database.session((session) => session.query<{ pid: number; name: string }>(older));
    if (one === undefined) return;
    if (performance.now() > end)
      throw new StorageError(
        `process ${one.pid} (${one.name}) of the database has an old transaction open that still sees deleted rows: end it, so that they can be removed from the files`,
      );
    await delay(LOOK_EVERY);
  }
}
