import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { BoundedCache } from '../../../model/bounded-cache.ts';
import type { SkipSet } from '../../../model/destination.ts';
import { NO_PLAN } from '../../encoding/chunk-codec.ts';
import {
  correctionsOf,
  decodePlan,
  decodeSkipSet,
  type EncodedPlans,
  isEmptyPlan,
  MAX_CHARACTERS,
  MAX_SKIPS,
  NOT_PLANNED,
  type NumberedPlan,
  PLAN_CHARACTERS,
  type StoredPlan,
  setNumberIn,
  withSet,
} from '../../encoding/plans.ts';

/**
 * Plans by number. There are as many different plans as there are routes through the settings, and consecutive events mostly
 * take the same route. An event therefore stores the number of its plan, and its chunk stores runs of equal numbers.
 */
export class PlanTable {
  readonly #insert: StatementSync;
  readonly #find: StatementSync;
  readonly #insertSet: StatementSync;
  readonly #findSet: StatementSync;
  /** By document with its set. */
  readonly #numbered = new BoundedCache<string, NumberedPlan>(MAX_CHARACTERS);
  readonly #setNumbers = new BoundedCache<string, number>(MAX_CHARACTERS);
  readonly #plans = new BoundedCache<number, StoredPlan>(MAX_SKIPS);
  readonly #sets = new BoundedCache<number, SkipSet>(MAX_SKIPS);

  constructor(database: DatabaseSync) {
    this.#insert = database.prepare(
      'insert into plan(document) values (?) on conflict(document) do update set document = document returning id',
    );
    this.#find = database.prepare('select document from plan where id = ?');
    this.#insertSet = database.prepare(
      'insert into skip_set(document) values (?) on conflict(document) do update set document = document returning id',
    );
    this.#findSet = database.prepare('select document from skip_set where id = ?');
  }

  /** The different plans of a batch with their numbers. New plans and sets are stored. */
  store(plans: EncodedPlans): NumberedPlan[] {
    const sets = plans.skipSets.map((document) => this.#numberOfSet(document));
    return plans.documents.map((document, index) =>
      isEmptyPlan(plans, index) ? NO_NUMBER : this.#numberOf(document, sets[plans.setIndexes[index]!]),
    );
  }

  get(number: number): StoredPlan {
    if (number === NO_PLAN) return NOT_PLANNED;
    const known = this.#plans.get(number);
    if (known !== undefined) return known;
    const row = this.#find.get(number) as { document: string } | undefined;
    if (row === undefined) return NOT_PLANNED;
    const set = setNumberIn(row.document);
    const plan = decodePlan(row.document, set === undefined ? undefined : this.set(set));
    // A plan is decoded with all its skips, so only as many are kept as a page of histories needs.
    return this.#plans.set(number, plan, 1 + plan.skipped.length);
  }

  /** Why destinations skip the events of a set. */
  set(number: number): SkipSet | undefined {
    const known = this.#sets.get(number);
    if (known !== undefined) return known;
    const row = this.#findSet.get(number) as { document: string } | undefined;
    if (row === undefined) return undefined;
    const set = decodeSkipSet(row.document);
    return this.#sets.set(number, set, 1 + set.size);
  }

  #numberOf(document: string, set: number | undefined): NumberedPlan {
    const stored = withSet(document, set);
    const known = this.#numbered.get(stored);
    if (known !== undefined) return known;
    const { id } = this.#insert.get(stored) as { id: number };
    const corrections = correctionsOf(document, set === undefined ? undefined : this.set(set));
    const plan = set === undefined ? { number: id, corrections } : { number: id, set, corrections };
    return this.#numbered.set(stored, plan, stored.length + PLAN_CHARACTERS);
  }

  #numberOfSet(document: string): number {
    const known = this.#setNumbers.get(document);
    if (known !== undefined) return known;
    const { id } = this.#insertSet.get(document) as { id: number };
    return this.#setNumbers.set(document, id, document.length);
  }
}

const NO_NUMBER: NumberedPlan = { number: NO_PLAN, corrections: [] };
