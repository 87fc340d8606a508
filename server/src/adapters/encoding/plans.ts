import { BoundedCache } from '../../model/containers.ts';
import type { Position } from '../../model/event.ts';
import { destinationOfLane } from '../../model/lane.ts';
import { type EventPlan, type Skip, type SkipSet, skipsOf } from '../../model/plan.ts';
import { NO_PLAN } from './chunk-codec.ts';
import type { LedgerAnswer, LedgerCount } from './ledger.ts';

/**
 * Plans and skip sets as stores keep them: each once, under a number. An event stores the number of its plan,
 * a plan the number of its set, and the ledger counts the events of a set. Neither a commit nor a plan grows
 * with the destinations that skip an event.
 */

/** A plan as JSON in the table `plan`. Formats 1–5 have no sets. */
interface PlanDocument {
  /** Ids of lanes. */
  readonly owed: readonly number[];
  readonly skipped: readonly Skip[];
  /** The number of its skip set; absent when it has none. */
  readonly set?: number;
}

/** The lanes that receive an event, and the destinations that skip it and why, by id. */
export interface StoredPlan {
  readonly owed: readonly number[];
  readonly skipped: readonly Skip[];
}

/** The plan of an event without one. */
export const NOT_PLANNED: StoredPlan = { owed: [], skipped: [] };

/** The different plans of a batch as texts, which tell equal ones apart from others and cross threads. */
export interface EncodedPlans {
  /** Documents without their sets. */
  readonly documents: readonly string[];
  /** For each plan the index of its set in `skipSets`; −1 when it has none. */
  readonly setIndexes: readonly number[];
  readonly skipSets: readonly string[];
}

/** A plan with its number, and what its events change in the ledger. */
export interface NumberedPlan {
  readonly number: number;
  /** The number of its skip set. */
  readonly set?: number;
  /** Skips to count for each event of the plan, beside its skip set. */
  readonly corrections: readonly SkipCorrection[];
}

/**
 * `n` is −1 where the set names the destination and the plan says something else, and 1 for a skip of the
 * plan's own.
 */
interface SkipCorrection extends Skip {
  readonly n: 1 | -1;
}

/**
 * The texts of plans and sets. Routers make an object for many events, and writing it takes longer than
 * looking it up.
 */
const documents = new WeakMap<EventPlan, string>();
const setDocuments = new WeakMap<SkipSet, string>();

export function encodePlans(plans: readonly EventPlan[]): EncodedPlans {
  const skipSets = new Map<string, number>();
  const setIndexes = plans.map(({ skipSet }) => {
    if (skipSet === undefined || skipSet.size === 0) return -1;
    const document = setDocumentOf(skipSet);
    const index = skipSets.get(document) ?? skipSets.size;
    skipSets.set(document, index);
    return index;
  });
  return { documents: plans.map(documentOf), setIndexes, skipSets: [...skipSets.keys()] };
}

function documentOf(plan: EventPlan): string {
  let document = documents.get(plan);
  if (document === undefined) {
    const { owed, skipped } = plan;
    document = JSON.stringify({
      owed: owed.map(({ id }) => id).sort((a, b) => a - b),
      skipped: skipped
        .map(({ destination, reason }) => ({ destination, reason }))
        .sort((a, b) => a.destination - b.destination),
    } satisfies PlanDocument);
    documents.set(plan, document);
  }
  return document;
}

/** Ids by reason: `[["filtered",[1,2,3]]]`. */
function setDocumentOf(set: SkipSet): string {
  let document = setDocuments.get(set);
  if (document === undefined) {
    const byReason = new Map<string, number[]>();
    for (const [destination, reason] of [...set].sort(([a], [b]) => a - b)) {
      const ids = byReason.get(reason);
      if (ids === undefined) byReason.set(reason, [destination]);
      else ids.push(destination);
    }
    document = JSON.stringify([...byReason].sort(([a], [b]) => (a < b ? -1 : 1)));
    setDocuments.set(set, document);
  }
  return document;
}

function decodeSkipSet(document: string): SkipSet {
  const byReason = JSON.parse(document) as [string, number[]][];
  return new Map(byReason.flatMap(([reason, ids]) => ids.map((id) => [id, reason] as const)));
}

/** Whether a plan owes nothing and skips nothing. It has no number then: see `NO_PLAN`. */
export function isEmptyPlan({ documents: texts, setIndexes }: EncodedPlans, index: number): boolean {
  return setIndexes[index] === -1 && texts[index] === EMPTY_DOCUMENT;
}

const EMPTY_DOCUMENT = JSON.stringify({ owed: [], skipped: [] } satisfies PlanDocument);

/** The document of a plan with the number of its set. */
export function withSet(document: string, set: number | undefined): string {
  return set === undefined ? document : `${document.slice(0, -1)},"set":${set}}`;
}

/** The number of the skip set that a stored plan names. */
export function setNumberIn(document: string): number | undefined {
  return (JSON.parse(document) as PlanDocument).set;
}

/** A stored plan, with the set that it names. */
function decodePlan(document: string, skipSet: SkipSet | undefined): StoredPlan {
  const { owed, skipped } = JSON.parse(document) as PlanDocument;
  const lanes = owed.map((id) => ({ id }));
  return {
    owed,
    skipped: skipsOf(skipSet === undefined ? { owed: lanes, skipped } : { owed: lanes, skipped, skipSet }),
  };
}

/** Changes that an event of a plan makes to the ledger, beside the count of its skip set. */
function correctionsOf(document: string, skipSet: SkipSet | undefined): SkipCorrection[] {
  const { owed, skipped } = JSON.parse(document) as PlanDocument;
  const others = new Set([...owed.map(destinationOfLane), ...skipped.map(({ destination }) => destination)]);
  const corrections: SkipCorrection[] = skipped.map((skip) => ({ ...skip, n: 1 }));
  for (const destination of others) {
    const reason = skipSet?.get(destination);
    if (reason !== undefined) corrections.push({ destination, reason, n: -1 });
  }
  return corrections;
}

/** The ledger's counts of skips for the events of a batch, without its duplicates, whose place is below 0. */
export function skipCountsOf(
  plans: readonly NumberedPlan[],
  planIndexes: ArrayLike<number>,
  places: ArrayLike<Position>,
): LedgerCount[] {
  const events = new Uint32Array(plans.length);
  for (let index = 0; index < planIndexes.length; index++)
    if (places[index]! >= 0) events[planIndexes[index]!]!++;
  const counts: LedgerCount[] = [];
  for (const [index, { set, corrections }] of plans.entries()) {
    const n = events[index]!;
    if (n === 0) continue;
    if (set !== undefined) counts.push({ scope: 'skip_set', id: set, name: 'events', n });
    for (const { destination, reason, n: each } of corrections)
      counts.push({ scope: 'destination', id: destination, name: `skipped:${reason}`, n: each * n });
  }
  return counts;
}

/** The numbers of the sets that have counters. */
export function countedSets(counters: LedgerAnswer['counters']): number[] {
  return counters.filter(({ scope }) => scope === 'skip_set').map(({ id }) => id);
}

/** The counters with the events of each set counted for its destinations. */
export function spreadSkipSets(
  counters: LedgerAnswer['counters'],
  setOf: (number: number) => SkipSet | undefined,
): LedgerAnswer['counters'] {
  const spread = counters.filter(({ scope }) => scope !== 'skip_set');
  for (const { scope, id, value } of counters) {
    if (scope !== 'skip_set') continue;
    for (const [destination, reason] of setOf(id) ?? [])
      spread.push({ scope: 'destination', id: destination, name: `skipped:${reason}`, value });
  }
  return spread;
}

/**
 * Limits of what is remembered: characters of documents that are looked up, with those that an entry costs
 * besides, and skips of documents that were read. Integrations objects, which clients write, can make any
 * number of plans.
 */
const MAX_CHARACTERS = 8_000_000;
const PLAN_CHARACTERS = 200;
const MAX_SKIPS = 500_000;

/** A plan that need not be stored. */
export const NO_NUMBER: NumberedPlan = { number: NO_PLAN, corrections: [] };

/**
 * Plans and skip sets that a process has met, with their numbers. There are as many as there are routes
 * through the settings, and consecutive events mostly take the same route. Only what is on stable storage may
 * be remembered.
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
