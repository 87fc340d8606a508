import type { DatabaseSync } from 'node:sqlite';
import type { Delivery } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { LaneStat } from '../../ports/backlog.ts';
import { HELD, type PendingStatements, statements } from './pending-rows.ts';
import { deliveryIn } from './refs.ts';

/** What the rows of table "pending" say, without changing any. */
export class PendingFacts {
  readonly #sql: PendingStatements;

  constructor(database: DatabaseSync) {
    this.#sql = statements(database);
  }

  /** What is pending of one delivery, and when it is due while nobody holds it; nothing when it is settled. */
  of(destination: number, position: Position): { delivery: Delivery; dueAt?: Time } | undefined {
    for (const row of this.#sql.holding.iterate(destination, position) as Iterable<unknown>) {
      const { state, due, refs } = row as { state: number; due: Time; refs: Uint8Array };
      const delivery = deliveryIn(refs, position);
      if (delivery !== undefined) return state === HELD ? { delivery } : { delivery, dueAt: due };
    }
    return undefined;
  }

  lanes(): LaneStat[] {
    const rows = this.#sql.lanes.all() as unknown as (LaneStat & { nextDueAt: number | null })[];
    return rows.map(({ destination, held, onDisk, nextDueAt }) => ({
      destination,
      held,
      onDisk,
      ...(nextDueAt === null ? {} : { nextDueAt }),
    }));
  }

  sums(): { destination: number; n: number }[] {
    return this.#sql.sums.all() as unknown as { destination: number; n: number }[];
  }
}
