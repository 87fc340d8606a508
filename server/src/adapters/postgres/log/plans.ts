import type { OwedEvents, SkippedEvents } from '../../../ports/event-log.ts';
import { NO_PLAN } from '../../encoding/chunk-codec.ts';
import type { Database, Statement, Transaction } from '../database.ts';

/** The destinations that receive an event, and those that skip it and why, by id. Stored as JSON. */
export interface EventPlan {
  readonly owed: readonly number[];
  readonly skipped: readonly { readonly destination: number; readonly reason: string }[];
}

const PUT: Statement = {
  name: 'plan.put',
  text: 'insert into plan(document) values ($1) on conflict (document) do update set document = excluded.document returning id',
};

const GET: Statement = { name: 'plan.get', text: 'select id, document from plan where id = any($1::int[])' };

/**
 * Plans by number. There are as many different plans as there are routes through the settings, so each process keeps those it has
 * met. A plan is stored in a commit of its own before the batch that needs it: then two processes never wait for each other.
 */
export class PlanNumbers {
  readonly #database: Database;
  readonly #numbers = new Map<string, number>();
  readonly #plans = new Map<number, EventPlan>();

  constructor(database: Database) {
    this.#database = database;
  }

  /** The plan number of each event of a batch. New plans are stored. */
  async numbersOf(
    events: number,
    owed: readonly Pick<OwedEvents, 'destination' | 'indexes'>[],
    skipped: readonly SkippedEvents[],
  ): Promise<Uint32Array> {
    const numbers = new Uint32Array(events);
    const isForAll = ({ indexes }: { indexes: readonly number[] }) => indexes.length === events;
    if (owed.every(isForAll) && skipped.every(isForAll))
      return numbers.fill(await this.#numberOf(owed, skipped));
    const plans = Array.from({ length: events }, () => ({
      owed: [] as { destination: number }[],
      skipped: [] as { destination: number; reason: string }[],
    }));
    for (const one of owed) for (const index of one.indexes) plans[index]!.owed.push(one);
    for (const one of skipped) for (const index of one.indexes) plans[index]!.skipped.push(one);
    for (const [index, plan] of plans.entries())
      numbers[index] = await this.#numberOf(plan.owed, plan.skipped);
    return numbers;
  }

  /** The plans with these numbers. One that is not known is empty. */
  async get(read: Transaction, numbers: Iterable<number>): Promise<ReadonlyMap<number, EventPlan>> {
    const wanted = new Set(numbers);
    const missing = [...wanted].filter((number) => number !== NO_PLAN && !this.#plans.has(number));
    if (missing.length > 0) {
      const rows = await read.rows<{ id: number; document: string }>(GET, [missing]);
      for (const { id, document } of rows) this.#plans.set(id, JSON.parse(document) as EventPlan);
    }
    return new Map(
      [...wanted].map((number) => [number, this.#plans.get(number) ?? { owed: [], skipped: [] }]),
    );
  }

  async #numberOf(
    owed: readonly { readonly destination: number }[],
    skipped: readonly { readonly destination: number; readonly reason: string }[],
  ): Promise<number> {
    if (owed.length === 0 && skipped.length === 0) return NO_PLAN;
    const plan: EventPlan = {
      owed: owed.map(({ destination }) => destination).sort((a, b) => a - b),
      skipped: skipped
        .map(({ destination, reason }) => ({ destination, reason }))
        .sort((a, b) => a.destination - b.destination),
    };
    const document = JSON.stringify(plan);
    const known = this.#numbers.get(document);
    if (known !== undefined) return known;
    const [row] = await this.#database.read((read) => read.rows<{ id: number }>(PUT, [document]));
    this.#numbers.set(document, row!.id);
    return row!.id;
  }
}
