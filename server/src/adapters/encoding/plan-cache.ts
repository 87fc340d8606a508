import { BoundedCache } from '../../model/bounded-cache.ts';
import type { SkipSet } from '../../model/destination.ts';
import { NO_PLAN } from './chunk-codec.ts';
import {
  correctionsOf,
  decodePlan,
  decodeSkipSet,
  NOT_PLANNED,
  type NumberedPlan,
  type StoredPlan,
  withSet,
} from './plans.ts';

/**
 * Limits of what is remembered: characters of documents that are looked up, with those that an entry costs besides, and
 * skips of documents that were read. Integrations objects, which clients write, can make any number of plans.
 */
const MAX_CHARACTERS = 8_000_000;
const PLAN_CHARACTERS = 200;
const MAX_SKIPS = 500_000;

/** A plan that need not be stored. */
export const NO_NUMBER: NumberedPlan = { number: NO_PLAN, corrections: [] };

/**
 * Plans and skip sets that a process has met, with their numbers. There are as many as there are routes through the settings, and
 * consecutive events mostly take the same route. Only what is on stable storage may be remembered.
 */
export class PlanCache {
  /** By document with the number of its set. */
  readonly #numbered = new BoundedCache<string, NumberedPlan>(MAX_CHARACTERS);
  readonly #setNumbers = new BoundedCache<string, number>(MAX_CHARACTERS);
  readonly #plans = new BoundedCache<number, StoredPlan>(MAX_SKIPS);
  readonly #sets = new BoundedCache<number, SkipSet>(MAX_SKIPS);

  numbered(document: string, set: number | undefined): NumberedPlan | undefined {
    return this.#numbered.get(withSet(document, set));
  }

  /** The skip set of the plan must be remembered. */
  rememberNumber(number: number, document: string, set: number | undefined): NumberedPlan {
    const corrections = correctionsOf(document, set === undefined ? undefined : this.#sets.get(set));
    const plan = set === undefined ? { number, corrections } : { number, set, corrections };
    const stored = withSet(document, set);
    return this.#numbered.set(stored, plan, stored.length + PLAN_CHARACTERS);
  }

  numberOfSet(document: string): number | undefined {
    return this.#setNumbers.get(document);
  }

  rememberSetNumber(number: number, document: string): number {
    return this.#setNumbers.set(document, number, document.length);
  }

  plan(number: number): StoredPlan | undefined {
    return number === NO_PLAN ? NOT_PLANNED : this.#plans.get(number);
  }

  /** A plan is decoded with all its skips, so only as many are kept as a page of histories needs. */
  rememberPlan(number: number, stored: string, set: SkipSet | undefined): StoredPlan {
    const plan = decodePlan(stored, set);
    return this.#plans.set(number, plan, 1 + plan.skipped.length);
  }

  set(number: number): SkipSet | undefined {
    return this.#sets.get(number);
  }

  rememberSet(number: number, document: string): SkipSet {
    const set = decodeSkipSet(document);
    return this.#sets.set(number, set, 1 + set.size);
  }
}
