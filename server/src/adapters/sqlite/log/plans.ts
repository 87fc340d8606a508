import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { NO_PLAN } from '../../encoding/chunk-codec.ts';

/** The destinations that receive an event, and those that skip it and why, by id. Stored as JSON. */
export interface StoredPlan {
  readonly owed: readonly number[];
  readonly skipped: readonly { readonly destination: number; readonly reason: string }[];
}

/** The plans of a batch: for each destination the indexes of the events it receives, or skips and why. */
export interface PlannedBatch {
  /** The number of events in the batch. */
  readonly events: number;
  readonly owed: readonly { readonly destination: number; readonly indexes: Uint32Array }[];
  readonly skipped: readonly {
    readonly destination: number;
    readonly reason: string;
    readonly indexes: Uint32Array;
  }[];
}

const EMPTY_PLAN: StoredPlan = { owed: [], skipped: [] };

/**
 * Plans by number. There are as many different plans as there are routes through the settings, and consecutive events mostly
 * take the same route. An event therefore stores the number of its plan, and its chunk stores runs of equal numbers.
 */
export class PlanTable {
  readonly #insert: StatementSync;
  readonly #find: StatementSync;
  readonly #numbers = new Map<string, number>();

  constructor(database: DatabaseSync) {
    this.#insert = database.prepare(
      'insert into plan(document) values (?) on conflict(document) do update set document = document returning id',
    );
    this.#find = database.prepare('select document from plan where id = ?');
  }

  /** The plan number of each event of a batch. New plans are stored. */
  numbersOf({ events, owed, skipped }: PlannedBatch): Uint32Array {
    const numbers = new Uint32Array(events);
    const isForAll = ({ indexes }: { indexes: Uint32Array }) => indexes.length === events;
    if (owed.every(isForAll) && skipped.every(isForAll)) return numbers.fill(this.#numberOf(owed, skipped));
    const plans = Array.from({ length: events }, () => ({
      owed: [] as PlanDestination[],
      skipped: [] as PlanSkip[],
    }));
    for (const one of owed) for (const index of one.indexes) plans[index]!.owed.push(one);
    for (const one of skipped) for (const index of one.indexes) plans[index]!.skipped.push(one);
    for (let index = 0; index < events; index++) {
      numbers[index] = this.#numberOf(plans[index]!.owed, plans[index]!.skipped);
    }
    return numbers;
  }

  get(number: number): StoredPlan {
    if (number === NO_PLAN) return EMPTY_PLAN;
    const row = this.#find.get(number) as { document: string } | undefined;
    return row === undefined ? EMPTY_PLAN : (JSON.parse(row.document) as StoredPlan);
  }

  #numberOf(owed: readonly PlanDestination[], skipped: readonly PlanSkip[]): number {
    if (owed.length === 0 && skipped.length === 0) return NO_PLAN;
    const byId = (a: PlanDestination, b: PlanDestination) => a.destination - b.destination;
    const plan: StoredPlan = {
      owed: owed.map(({ destination }) => destination).sort((a, b) => a - b),
      skipped: skipped.map(({ destination, reason }) => ({ destination, reason })).sort(byId),
    };
    const document = JSON.stringify(plan);
    const known = this.#numbers.get(document);
    if (known !== undefined) return known;
    const { id } = this.#insert.get(document) as { id: number };
    this.#numbers.set(document, id);
    return id;
  }
}

interface PlanDestination {
  readonly destination: number;
}

interface PlanSkip extends PlanDestination {
  readonly reason: string;
}
