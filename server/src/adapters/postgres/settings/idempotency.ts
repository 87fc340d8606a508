import type { IdempotencyStore, TakenKey } from '../../../ports/idempotency-store.ts';
import type { Database } from '../database.ts';

/** Keys that are kept; the oldest goes first. */
const MAX_KEYS = 10_000;

/**
 * A request without an answer for so long was lost, though its process goes on: the answer could not be kept.
 */
const LOST_AFTER = '1 minute';

const SQL = {
  dropOld: {
    name: 'idempotency.drop_old',
    text: `delete from idempotency_key where at < clock_timestamp() - interval '1 day'
      or number <= (select max(number) from idempotency_key) - ${MAX_KEYS}`,
  },
  /** $1 key, $2 digest, $3 process. */
  take: {
    name: 'idempotency.take',
    text: `insert into idempotency_key as k (key, digest, process) values ($1, $2, $3)
      on conflict (key) do update set digest = excluded.digest, process = excluded.process, at = clock_timestamp()
        where k.answer is null and (k.at < clock_timestamp() - interval '${LOST_AFTER}'
          or not exists (select from process p where p.id = k.process))
      returning number`,
  },
  find: { name: 'idempotency.find', text: 'select digest, answer from idempotency_key where key = $1' },
  /** $1 key, $2 process, $3 answer. */
  keep: {
    name: 'idempotency.keep',
    text: 'update idempotency_key set answer = $3 where key = $1 and process = $2',
  },
  free: {
    name: 'idempotency.free',
    text: 'delete from idempotency_key where key = $1 and process = $2 and answer is null',
  },
} as const;

/** Requests with an `Idempotency-Key`, which every node knows. */
export class PostgresIdempotency implements IdempotencyStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  take(key: string, digest: string): Promise<TakenKey | undefined> {
    return this.#database.write(async (transaction) => {
      await transaction.rows(SQL.dropOld);
      const taken = await transaction.rows(SQL.take, [key, digest, transaction.process]);
      if (taken.length > 0) return undefined;
      const [known] = await transaction.rows<{ digest: string; answer: string | null }>(SQL.find, [key]);
      return { digest: known!.digest, answer: known!.answer ?? undefined };
    });
  }

  keep(key: string, answer: string): Promise<void> {
    return this.#write((process) => [SQL.keep, [key, process, answer]]);
  }

  free(key: string): Promise<void> {
    return this.#write((process) => [SQL.free, [key, process]]);
  }

  #write(statement: (process: number) => [(typeof SQL)['keep' | 'free'], readonly unknown[]]): Promise<void> {
    return this.#database.write(async (transaction) => {
      await transaction.rows(...statement(transaction.process));
    });
  }
}
