import type { ReplayProgress, ReplaySlice } from '../../../ports/delivery-queue.ts';
import type { LedgerCount } from '../../encoding/ledger.ts';
import type { Database, Statement, Transaction } from '../database.ts';
import { count } from './ledger.ts';
import type { PendingSets } from './pending.ts';

const BEGIN: Statement = {
  name: 'origin.begin',
  text: 'insert into origin(id, cursor, events) values ($1, 0, 0) on conflict do nothing',
};

/** No row: the slice was enqueued before. */
const MOVE: Statement = {
  name: 'origin.move',
  text: 'update origin set cursor = $3, events = events + $4 where id = $1 and cursor = $2 returning cursor',
};

const ADD: Statement = {
  name: 'origin.add',
  text: `insert into origin(id, cursor, events) values ($1, 0, $2)
    on conflict (id) do update set events = origin.events + excluded.events`,
};

const PROGRESS: Statement = {
  name: 'origin.progress',
  text: `select o.cursor, o.events, p.destination, sum(p.n) as n
    from (select $1::text as id) asked left join origin o on o.id = asked.id left join pending p on p.origin = asked.id
    group by o.cursor, o.events, p.destination order by p.destination`,
};

/** $1 origins. */
const PENDING: Statement = {
  name: 'origin.pending',
  text: `select origin, destination, sum(n) as n from pending where origin = any($1::text[])
    group by origin, destination order by destination`,
};

interface ProgressRow {
  readonly cursor: number | null;
  readonly events: number | null;
  readonly destination: number | null;
  readonly n: number;
}

/**
 * See `DeliveryQueue.enqueue`. The transaction that writes the pending sets of a slice moves the cursor of
 * its origin too, so that a crash neither repeats a slice nor leaves one out.
 */
export async function enqueue(
  database: Database,
  pending: PendingSets,
  { origin, destinations, positions, only, from, to, now }: ReplaySlice,
): Promise<ReplayProgress> {
  const { progress } = await database.write(async (transaction) => {
    transaction.later(BEGIN, [origin]);
    const moved = await transaction.rows(MOVE, [origin, from, to, positions.length]);
    if (moved.length > 0) {
      const sets = destinations
        .map((destination) => ({ destination, positions: only?.get(destination) ?? positions, origin }))
        .filter((set) => positions.length > 0 && set.positions.length > 0);
      pending.requeue(transaction, sets, now);
      const owed = sets.map(
        ({ destination: id, positions: own }): LedgerCount => ({
          scope: 'destination',
          id,
          name: 'owed',
          n: own.length,
        }),
      );
      count(transaction, owed);
    }
    // Not awaited: the commit shares its round trip. When it fails, the commit says so.
    const progress = transaction.rows<ProgressRow>(PROGRESS, [origin]);
    progress.catch(() => undefined);
    return { progress };
  });
  return progressOf(await progress);
}

/** Counts events redelivered on behalf of an origin. */
export function countRedelivered(transaction: Transaction, origin: string, events: number): void {
  transaction.later(ADD, [origin, events]);
}

/** See `DeliveryHistories.progress`. */
export async function readProgress(database: Database, origin: string): Promise<ReplayProgress> {
  return progressOf(await database.read((read) => read.rows<ProgressRow>(PROGRESS, [origin])));
}

function progressOf(rows: readonly ProgressRow[]): ReplayProgress {
  const pending = rows.flatMap(({ destination, n }) =>
    destination === null ? [] : [[destination, n] as const],
  );
  return { cursor: rows[0]?.cursor ?? 0, events: rows[0]?.events ?? 0, pending: new Map(pending) };
}

/** See `DeliveryHistories.pendingOf`. */
export async function readPendingOf(
  database: Database,
  origins: readonly string[],
): Promise<ReplayProgress['pending'][]> {
  const rows = await database.read((read) =>
    read.rows<{ readonly origin: string; readonly destination: number; readonly n: number }>(PENDING, [
      origins,
    ]),
  );
  return origins.map(
    (asked) =>
      new Map(rows.filter(({ origin }) => origin === asked).map(({ destination, n }) => [destination, n])),
  );
}
