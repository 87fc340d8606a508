import { recordFaults, snakeCase } from '@millrace/server/config';
import { type KnownKeys, translateQuery } from './audience-query.ts';
import { Names } from './names.ts';
import { PRODUCT } from './product.ts';
import { keptText, type Translation, type WrittenRecord } from './translation.ts';
import type { ExportedComputation, Workspace } from './workspace.ts';

const KINDS = { audience: 'audience', trait: 'computedTrait' } as const;

/** A computation with the name that it gets here, and what is said of that. */
interface Named {
  readonly computation: ExportedComputation;
  readonly name: string;
  readonly notes: readonly string[];
  readonly losses: readonly string[];
}

/** A record that stands as soon as everything that it names stands. */
interface Candidate extends Named {
  readonly record: WrittenRecord;
  readonly uses: readonly string[];
}

/** Makes records of audiences and computed traits that can be said in the language here. */
export function translateComputations({ computations }: Workspace, translation: Translation): void {
  const named = namedOf(computations, translation);
  const known: KnownKeys = {
    audiences: keysOf(named, 'audience'),
    traits: keysOf(named, 'trait'),
  };
  const candidates: Candidate[] = [];
  for (const one of named) {
    const made = candidateOf(one, known);
    if (typeof made === 'string') refuse(one.computation, made, translation);
    else if (candidates.length >= PRODUCT.maxComputations)
      refuse(one.computation, `a server has at most ${PRODUCT.maxComputations} of them`, translation);
    else candidates.push(made);
  }
  for (const one of standing(candidates, translation)) put(one, translation);
}

function keysOf(named: readonly Named[], kind: ExportedComputation['kind']): ReadonlyMap<string, string> {
  return new Map(
    named
      .filter(({ computation }) => computation.kind === kind)
      .map(({ computation, name }) => [computation.key, name]),
  );
}

/** Names whose keys, which destinations hear, are those of there. */
function namedOf(computations: readonly ExportedComputation[], translation: Translation): Named[] {
  const names = new Names(['preview']);
  const keys = new Set<string>();
  return computations.flatMap((computation) => {
    const { key, subject } = computation;
    const notes: string[] = [];
    const losses: string[] = [];
    if (subject !== 'USERS')
      return refuse(computation, `it is about ${subject.toLowerCase()}, and not users`, translation);
    if (keys.has(key)) return refuse(computation, `another one has its key ${key}`, translation);
    keys.add(key);
    const own = computation.name ?? key;
    const isKept = snakeCase(own) === key;
    if (!isKept && snakeCase(key) !== key)
      losses.push(`destinations hear the key ${snakeCase(key)} instead of ${key}`);
    else if (!isKept) notes.push('is named by its key, which destinations hear');
    const name = names.give(isKept ? own : key);
    return [{ computation, name, notes, losses }];
  });
}

function refuse(computation: ExportedComputation, reason: string, translation: Translation): [] {
  translation.tell(KINDS[computation.kind], computation, 'not', { reasons: [reason] });
  translation.end.push(
    ...keptText(`${KINDS[computation.kind]} ${computation.id} (${reason})`, computation.query),
  );
  return [];
}

/** A record, or the reason why there is none. */
function candidateOf(named: Named, known: KnownKeys): Candidate | string {
  const { computation, name } = named;
  const { kind, query, enabled, includeAnonymous } = computation;
  const translated = translateQuery(kind, query, known);
  if ('cannot' in translated) return translated.cannot;
  const record: WrittenRecord = {
    name,
    definition: translated.text,
    destinations: [],
    ...(kind === 'audience' ? { includeAnonymous } : {}),
    enabled,
  };
  const [fault] = recordFaults(kind, record);
  if (fault !== undefined) return fault.message;
  const losses = translated.looseTexts.map(
    (text) => `there '${text}' is equal to ${text} too, and here to texts alone`,
  );
  return { ...named, losses: [...named.losses, ...losses], record, uses: translated.uses };
}

/**
 * Candidates whose references all stand, and do not lead back to themselves, each behind those that it names.
 * The others are refused.
 */
function standing(candidates: readonly Candidate[], translation: Translation): readonly Candidate[] {
  const byKey = new Map(candidates.map((one) => [one.computation.key, one]));
  const inOrder = new Set<Candidate>();
  const refused = new Set<Candidate>();
  const isStanding = (one: Candidate, path: ReadonlySet<Candidate>): boolean => {
    if (inOrder.has(one)) return true;
    if (refused.has(one) || path.has(one)) return false;
    const below = new Set(path).add(one);
    const stands = one.uses.every((key) => {
      const used = byKey.get(key);
      return used !== undefined && isStanding(used, below);
    });
    (stands ? inOrder : refused).add(one);
    return stands;
  };
  for (const one of candidates) {
    if (!isStanding(one, new Set()))
      refuse(one.computation, 'it names another one that is not taken, or itself', translation);
  }
  return [...inOrder];
}

function put({ computation, name, record, losses, notes }: Candidate, translation: Translation): void {
  const { kind, enabled } = computation;
  const reasons = [...losses, ...notes, ...(enabled ? [] : ['disabled there, disabled here'])];
  translation.tell(KINDS[kind], computation, losses.length > 0 ? 'partly' : 'taken', { reasons, as: name });
  translation.records.push({ list: kind === 'audience' ? 'audiences' : 'traits', record });
}
