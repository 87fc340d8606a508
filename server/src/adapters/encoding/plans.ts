import {
  destinationOfLane,
  type EventPlan,
  type Skip,
  type SkipSet,
  skipsOf,
} from '../../model/destination.ts';
import type { Position } from '../../model/event.ts';
import type { LedgerAnswer, LedgerCount } from './ledger.ts';

/**
 * Plans and skip sets as stores keep them: each once, under a number. An event stores the number of its plan, a plan the number of
 * its set, and the ledger counts the events of a set. Neither a commit nor a plan grows with the destinations that skip an event.
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
  /** What is counted for each event of the plan beside the event of its set. */
  readonly corrections: readonly SkipCorrection[];
}

/** `n` is −1 where the set names the destination and the plan says something else, and 1 for a skip of the plan's own. */
interface SkipCorrection extends Skip {
  readonly n: 1 | -1;
}

/** The texts of plans and sets. Routers make an object for many events, and writing it takes longer than looking it up. */
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

export function decodeSkipSet(document: string): SkipSet {
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
export function decodePlan(document: string, skipSet: SkipSet | undefined): StoredPlan {
  const { owed, skipped } = JSON.parse(document) as PlanDocument;
  const lanes = owed.map((id) => ({ id }));
  return {
    owed,
    skipped: skipsOf(skipSet === undefined ? { owed: lanes, skipped } : { owed: lanes, skipped, skipSet }),
  };
}

/** What an event of a plan changes in the ledger beside the count of its set. */
export function correctionsOf(document: string, skipSet: SkipSet | undefined): SkipCorrection[] {
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
