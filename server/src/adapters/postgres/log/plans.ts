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
import type { Database, Statement, Transaction } from '../database.ts';

const PUT: Statement = {
  name: 'plan.put',
  text: 'insert into plan(document) values ($1) on conflict (document) do update set document = excluded.document returning id',
};

const GET: Statement = { name: 'plan.get', text: 'select id, document from plan where id = any($1::int[])' };

const PUT_SET: Statement = {
  name: 'skip_set.put',
  text: `insert into skip_set(digest, document) values (sha256(convert_to($1, 'UTF8')), $1)
    on conflict (digest) do update set document = excluded.document returning id`,
};

const GET_SETS: Statement = {
  name: 'skip_set.get',
  text: 'select id, document from skip_set where id = any($1::int[])',
};

/**
 * Plans by number. There are as many different plans as there are routes through the settings, so each process keeps those it has
 * met. A plan is stored in a commit of its own before the batch that needs it: then two processes never wait for each other.
 */
export class PlanNumbers {
  readonly #database: Database;
  /** By document with its set. */
  readonly #numbered = new BoundedCache<string, NumberedPlan>(MAX_CHARACTERS);
  readonly #setNumbers = new BoundedCache<string, number>(MAX_CHARACTERS);
  readonly #plans = new BoundedCache<number, StoredPlan>(MAX_SKIPS);
  readonly #sets = new BoundedCache<number, SkipSet>(MAX_SKIPS);

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
    const wanted = new Set(numbers);
    const found = new Map([...wanted].map((number) => [number, this.#plans.get(number) ?? NOT_PLANNED]));
    const missing = [...wanted].filter(
      (number) => number !== NO_PLAN && this.#plans.get(number) === undefined,
    );
    if (missing.length === 0) return found;
    const rows = await read.rows<{ id: number; document: string }>(GET, [missing]);
    const setOf = new Map(rows.map(({ id, document }) => [id, setNumberIn(document)]));
    const sets = await this.skipSets(
      read,
      [...setOf.values()].filter((set) => set !== undefined),
    );
    for (const { id, document } of rows) {
      const plan = decodePlan(document, sets.get(setOf.get(id)!));
      // A plan is decoded with all its skips, so only as many are kept as a page of histories needs.
      found.set(id, this.#plans.set(id, plan, 1 + plan.skipped.length));
    }
    return found;
  }

  /** The skip sets with these numbers. */
  async skipSets(read: Transaction, numbers: Iterable<number>): Promise<ReadonlyMap<number, SkipSet>> {
    const found = new Map<number, SkipSet>();
    const missing: number[] = [];
    for (const number of new Set(numbers)) {
      const known = this.#sets.get(number);
      if (known === undefined) missing.push(number);
      else found.set(number, known);
    }
    if (missing.length === 0) return found;
    for (const { id, document } of await read.rows<{ id: number; document: string }>(GET_SETS, [missing]))
      found.set(id, this.#rememberSet(id, document));
    return found;
  }

  async #numberOf(
    document: string,
    set: { readonly number: number; readonly document: string } | undefined,
  ): Promise<NumberedPlan> {
    const stored = withSet(document, set?.number);
    const known = this.#numbered.get(stored);
    if (known !== undefined) return known;
    const number = await this.#put(PUT, stored);
    if (set === undefined)
      return this.#remember(stored, { number, corrections: correctionsOf(document, undefined) });
    const skipSet = this.#sets.get(set.number) ?? this.#rememberSet(set.number, set.document);
    const plan = { number, set: set.number, corrections: correctionsOf(document, skipSet) };
    return this.#remember(stored, plan);
  }

  async #numberOfSet(document: string): Promise<number> {
    const known = this.#setNumbers.get(document);
    return known ?? this.#setNumbers.set(document, await this.#put(PUT_SET, document), document.length);
  }

  #remember(stored: string, plan: NumberedPlan): NumberedPlan {
    return this.#numbered.set(stored, plan, stored.length + PLAN_CHARACTERS);
  }

  #rememberSet(number: number, document: string): SkipSet {
    const set = decodeSkipSet(document);
    return this.#sets.set(number, set, 1 + set.size);
  }

  async #put(statement: Statement, document: string): Promise<number> {
    const [row] = await this.#database.read((read) => read.rows<{ id: number }>(statement, [document]));
    return row!.id;
  }
}

const NO_NUMBER: NumberedPlan = { number: NO_PLAN, corrections: [] };
