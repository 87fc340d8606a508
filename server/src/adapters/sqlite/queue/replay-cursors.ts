import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { invariant } from '../../../model/invariant.ts';
import type { ReplayProgress, ReplaySlice } from '../../../ports/delivery-queue.ts';
import type { LedgerTable } from '../ledger-table.ts';
import type { PendingTable } from './pending.ts';

/**
 * The cursor of each origin (a replay or a redelivery), a row for every origin that ever was. The transaction
 * that writes the pending sets of a slice moves the cursor too, so that a crash neither repeats a slice nor
 * leaves one out.
 */
export class ReplayCursors {
  readonly #pending: PendingTable;
  readonly #ledger: LedgerTable;
  readonly #sql: Readonly<
    Record<'insert' | 'advance' | 'addEvents' | 'progress' | 'pendingByDestination', StatementSync>
  >;

  constructor(database: DatabaseSync, { pending, ledger }: { pending: PendingTable; ledger: LedgerTable }) {
    this.#pending = pending;
    this.#ledger = ledger;
    this.#sql = {
      insert: database.prepare(
        'insert into origin(id, cursor, events) values (?, 0, 0) on conflict do nothing',
      ),
      advance: database.prepare(
        'update origin set cursor = ?, events = events + ? where id = ? and cursor = ?',
      ),
      addEvents: database.prepare('update origin set events = events + ? where id = ?'),
      progress: database.prepare('select cursor, events from origin where id = ?'),
      pendingByDestination: database.prepare(
        'select destination, sum(n) as n from pending where origin = ? group by destination',
      ),
    };
  }

  /** A slice that does not begin at the cursor of its origin was enqueued before and changes nothing. */
  enqueue({ origin, destinations, positions, only, from, to, now }: ReplaySlice): ReplayProgress {
    invariant(to >= from, 'a slice of a replay does not go back');
    this.#sql.insert.run(origin);
    const moved = Number(this.#sql.advance.run(to, positions.length, origin, from).changes) > 0;
    if (moved && positions.length > 0) {
      for (const destination of destinations) {
        const own = only?.get(destination) ?? positions;
        if (own.length === 0) continue;
        this.#ledger.add('destination', destination, 'owed', own.length);
        this.#pending.requeue(destination, own, now, origin);
      }
    }
    return this.progress(origin);
  }

  /** Counts events redelivered on behalf of an origin. */
  count(origin: string, events: number): void {
    this.#sql.insert.run(origin);
    this.#sql.addEvents.run(events, origin);
  }

  progress(origin: string): ReplayProgress {
    const row = this.#sql.progress.get(origin) as Pick<ReplayProgress, 'cursor' | 'events'> | undefined;
    const [pending = new Map()] = this.pendingOf([origin]);
    return { cursor: row?.cursor ?? 0, events: row?.events ?? 0, pending };
  }

  pendingOf(origins: readonly string[]): ReplayProgress['pending'][] {
    return origins.map((origin) => {
      const rows = this.#sql.pendingByDestination.all(origin) as unknown as {
        destination: number;
        n: number;
      }[];
      return new Map(rows.map(({ destination, n }) => [destination, n]));
    });
  }
}
