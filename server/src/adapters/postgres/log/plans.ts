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
import type { Database, Statement, Transaction } from '../database.ts';

/**
 * Documents are found by their digest: those of a thousand destinations are longer than an entry of an index
 * may be.
 */
function putStatement(table: string): string {
  return `insert into ${table}(digest, document) values (sha256(convert_to($1, 'UTF8')), $1)
    on conflict (digest) do update set document = excluded.document returning id`;
}

const PUT: Statement = { name: 'plan.put', text: putStatement('delivery_plan') };

const GET: Statement = {
  name: 'plan.get',
  text: 'select id, document from delivery_plan where id = any($1::int[])',
};

const PUT_SET: Statement = { name: 'skip_set.put', text: putStatement('skip_set') };

const GET_SETS: Statement = {
  name: 'skip_set.get',
  text: 'select id, document from skip_set where id = any($1::int[])',
};

/**
 * Plans by number. A plan is stored in a commit of its own before the batch that needs it: then two processes
 * never wait for each other.
 */
export class PlanNumbers {
  readonly #database: Database;
  readonly #known = new PlanCache();

  constructor(database: Database) {
    this.#database = database;
  }

  /** The different plans of a batch with their numbers. New plans and sets are stored. */
  async store(plans: EncodedPlans): Promise<NumberedPlan[]> {
    const sets: number[] = [];
    for (const document of plans.skipSets) sets.push(await this.#numberOfSet(document));
    const numbered: NumberedPlan[] = [];
    for (const [index, document] of plans.documents.entries()) {
      const at = plans.setIndexes[index]!;
      const set = at < 0 ? undefined : { number: sets[at]!, document: plans.skipSets[at]! };
      numbered.push(isEmptyPlan(plans, index) ? NO_NUMBER : await this.#numberOf(document, set));
    }
    return numbered;
  }

  /** The plans with these numbers. One that is not known is empty. */
  async get(read: Transaction, numbers: Iterable<number>): Promise<ReadonlyMap<number, StoredPlan>> {
    const found = new Map<number, StoredPlan>();
    const missing: number[] = [];
    for (const number of new Set(numbers)) {
      const known = this.#known.plan(number);
      if (known === undefined) missing.push(number);
      found.set(number, known ?? NOT_PLANNED);
    }
    if (missing.length === 0) return found;
    const rows = await read.rows<{ id: number; document: string }>(GET, [missing]);
    const setOf = new Map(rows.map(({ id, document }) => [id, setNumberIn(document)]));
    const sets = await this.skipSets(
      read,
      [...setOf.values()].filter((set) => set !== undefined),
    );
    for (const { id, document } of rows)
      found.set(id, this.#known.rememberPlan(id, document, sets.get(setOf.get(id)!)));
    return found;
  }

  /** The skip sets with these numbers. */
  async skipSets(read: Transaction, numbers: Iterable<number>): Promise<ReadonlyMap<number, SkipSet>> {
    const found = new Map<number, SkipSet>();
    const missing: number[] = [];
    for (const number of new Set(numbers)) {
      const known = this.#known.set(number);
      if (known === undefined) missing.push(number);
      else found.set(number, known);
    }
    if (missing.length === 0) return found;
    for (const { id, document } of await read.rows<{ id: number; document: string }>(GET_SETS, [missing]))
      found.set(id, this.#known.rememberSet(id, document));
    return found;
  }

  async #numberOf(
    document: string,
    set: { readonly number: number; readonly document: string } | undefined,
  ): Promise<NumberedPlan> {
    const known = this.#known.numbered(document, set?.number);
    if (known !== undefined) return known;
    const number = await this.#put(PUT, withSet(document, set?.number));
    if (set !== undefined && this.#known.set(set.number) === undefined)
      this.#known.rememberSet(set.number, set.document);
    return this.#known.rememberNumber(number, document, set?.number);
  }

  async #numberOfSet(document: string): Promise<number> {
    const known = this.#known.numberOfSet(document);
    return known ?? this.#known.rememberSetNumber(await this.#put(PUT_SET, document), document);
  }

  async #put(statement: Statement, document: string): Promise<number> {
    const [row] = await this.#database.read((read) => read.rows<{ id: number }>(statement, [document]));
    return row!.id;
  }
}
