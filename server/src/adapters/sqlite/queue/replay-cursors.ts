import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { ReplayProgress, ReplaySlice } from '../../../ports/delivery-queue.ts';
import type { LedgerTable } from '../ledger.ts';
import type { PendingTable } from './pending.ts';

/**
 * What is owed once more, and how far each origin has come with it: a row for each origin that there ever was, written by
 * the same transaction as the pending sets, so that a crash can neither repeat a slice nor leave one out.
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

  enqueue({ origin, destinations, positions, only, from, to, now }: ReplaySlice): ReplayProgress {
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

  /** Counts what was revived on behalf of an origin. */
  count(origin: string, events: number): void {
    this.#sql.insert.run(origin);
    this.#sql.addEvents.run(events, origin);
  }

  progress(origin: string): ReplayProgress {
    const row = this.#sql.progress.get(origin) as Pick<ReplayProgress, 'cursor' | 'events'> | undefined;
    const pending = this.#sql.pendingByDestination.all(origin) as unknown as {
      destination: number;
      n: number;
    }[];
    return {
      cursor: row?.cursor ?? 0,
      events: row?.events ?? 0,
      pending: new Map(pending.map(({ destination, n }) => [destination, n])),
    };
  }
}
