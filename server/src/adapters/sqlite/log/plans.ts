import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { SkipSet } from '../../../model/plan.ts';
import {
  type EncodedPlans,
  isEmptyPlan,
  NO_NUMBER,
  NOT_PLANNED,
  type NumberedPlan,
  PlanCache,
  type StoredPlan,
  setNumberIn,
  withSet,
} from '../../encoding/plans.ts';

/** Plans by number. An event stores the number of its plan, and its chunk stores runs of equal numbers. */
export class PlanTable {
  readonly #insert: StatementSync;
  readonly #find: StatementSync;
  readonly #insertSet: StatementSync;
  readonly #findSet: StatementSync;
  readonly #known = new PlanCache();

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
    const known = this.#known.plan(number);
    if (known !== undefined) return known;
    const row = this.#find.get(number) as { document: string } | undefined;
    if (row === undefined) return NOT_PLANNED;
    const set = setNumberIn(row.document);
    return this.#known.rememberPlan(number, row.document, set === undefined ? undefined : this.set(set));
  }

  /** Why destinations skip the events of a set. */
  set(number: number): SkipSet | undefined {
    const known = this.#known.set(number);
    if (known !== undefined) return known;
    const row = this.#findSet.get(number) as { document: string } | undefined;
    return row && this.#known.rememberSet(number, row.document);
  }

  #numberOf(document: string, set: number | undefined): NumberedPlan {
    const known = this.#known.numbered(document, set);
    if (known !== undefined) return known;
    const { id } = this.#insert.get(withSet(document, set)) as { id: number };
    if (set !== undefined) this.set(set);
    return this.#known.rememberNumber(id, document, set);
  }

  #numberOfSet(document: string): number {
    const known = this.#known.numberOfSet(document);
    if (known !== undefined) return known;
    const { id } = this.#insertSet.get(document) as { id: number };
    return this.#known.rememberSetNumber(id, document);
  }
}
