import { DESTINATION_TYPES } from '../destinations/list.ts';
import { closestWord } from '../model/closest-word.ts';
import type { Computation } from '../model/definition.ts';
import {
  AUDIENCES_SOURCE,
  type AudienceRecord,
  type DestinationRecord,
  type SourceRecord,
  type TraitRecord,
} from '../model/settings.ts';
import { MAX_COMPUTATIONS, typeOfAggregate, type ValueType } from '../users/language/checks.ts';
import { referencesOf } from '../users/language/references.ts';
import { parseAudience, parseTrait } from '../users/language/text-form.ts';

type Kind = Computation['kind'];
type ComputationRecord = AudienceRecord | TraitRecord;

/** The records that audiences and computed traits may refer to. */
export interface ComputationContext {
  readonly sources: readonly Pick<SourceRecord, 'name' | 'system'>[];
  readonly destinations: readonly Pick<DestinationRecord, 'name' | 'type'>[];
  readonly audiences: readonly AudienceRecord[];
  readonly traits: readonly TraitRecord[];
}

export interface WantedComputations {
  readonly destinations: readonly Pick<DestinationRecord, 'name' | 'type'>[];
  readonly audiences: readonly AudienceRecord[];
  readonly traits: readonly TraitRecord[];
}

/** A rule that an audience or computed trait breaks together with others. */
export interface ComputationIssue {
  readonly path: readonly (string | number)[];
  readonly message: string;
  /** Of a mistake in the text of a definition. */
  readonly line?: number;
  readonly column?: number;
}

/** A definition to be stored, with its place in the document. Those that are stored already have no place. */
interface Entry {
  readonly record: ComputationRecord;
  readonly path: readonly (string | number)[] | undefined;
}

const LISTS = { audience: 'audiences', trait: 'traits' } as const;
const NOUNS = { audience: 'audience', trait: 'computed trait' } as const;

/**
 * Finds what is wrong with audiences and computed traits beside each other: names and keys that two of them
 * have, names of records that do not exist, circles, and comparisons that do not suit the type of a computed
 * trait.
 *
 * @param known The records that stay. Absent where they are not known yet: names that the document does not
 *   have are then accepted.
 */
export function* computationIssues(
  wanted: WantedComputations,
  known?: ComputationContext,
): Generator<ComputationIssue> {
  const entries = entriesOf(wanted, known);
  const asked = entries.filter(({ path }) => path !== undefined);
  if (asked.length === 0) return;
  const foreign = known?.sources.find(({ name, system }) => name === AUDIENCES_SOURCE.name && !system);
  if (foreign !== undefined) {
    const message = `need the name ${AUDIENCES_SOURCE.name} for a source of their own: remove the source of that name first`;
    yield { path: asked[0]!.path!.slice(0, 1), message };
  }
  if (entries.length > MAX_COMPUTATIONS) {
    const message = `would be ${entries.length} audiences and computed traits together, and at most ${MAX_COMPUTATIONS} are allowed`;
    yield { path: asked[0]!.path!.slice(0, 1), message };
    return;
  }
  yield* repeatedNames(entries);
  yield* unknownDestinations(asked, wanted, known);
  const byName = new Map(entries.map((entry) => [idOf(entry.record), entry]));
  for (const entry of asked) yield* referenceIssues(entry, byName, known !== undefined);
  yield* typeIssues(entries, byName);
  yield* cycleIssues(asked, byName);
}

/** The computations of the document, and the stored ones that it does not overwrite. */
function entriesOf(wanted: WantedComputations, known: ComputationContext | undefined): Entry[] {
  return (['audience', 'trait'] as const).flatMap((kind) => {
    const list = LISTS[kind];
    const named = new Set(wanted[list].map(({ name }) => name));
    const kept = (known?.[list] ?? []).filter(({ name }) => !named.has(name));
    return [
      ...kept.map((record): Entry => ({ record, path: undefined })),
      ...wanted[list].map((record, place): Entry => ({ record, path: [list, place] })),
    ];
  });
}

function idOf({ kind, name }: Pick<ComputationRecord, 'kind' | 'name'>): string {
  return `${kind} ${name}`;
}

function described({ kind, name }: Pick<ComputationRecord, 'kind' | 'name'>): string {
  return `the ${NOUNS[kind]} ${JSON.stringify(name)}`;
}

/** Stored records come first: it is always the wanted one that is in the wrong. */
function* repeatedNames(entries: readonly Entry[]): Generator<ComputationIssue> {
  const sorted = [...entries].sort(
    (one, other) => Number(one.path !== undefined) - Number(other.path !== undefined),
  );
  const [names, keys] = [new Map<string, ComputationRecord>(), new Map<string, ComputationRecord>()];
  for (const { record, path } of sorted) {
    const [sameName, sameKey] = [names.get(record.name), keys.get(record.key)];
    names.set(record.name, record);
    keys.set(record.key, record);
    if (path === undefined) continue;
    if (sameName !== undefined)
      yield { path: [...path, 'name'], message: `is also the name of ${describedOther(sameName, record)}` };
    else if (sameKey !== undefined) {
      const message = `has the key ${record.key}, which ${described(sameKey)} has too: destinations could not tell them apart`;
      yield { path: [...path, 'name'], message };
    }
  }
}

function describedOther(other: ComputationRecord, { kind }: ComputationRecord): string {
  return other.kind === kind
    ? `another ${NOUNS[kind]}`
    : `the ${NOUNS[other.kind]} ${JSON.stringify(other.name)}`;
}

/** A name that the stored record already has is accepted: its destination may have been removed since. */
function* unknownDestinations(
  asked: readonly Entry[],
  wanted: WantedComputations,
  known: ComputationContext | undefined,
): Generator<ComputationIssue> {
  const destinations = [...(known?.destinations ?? []), ...wanted.destinations];
  const names = new Map(destinations.map(({ name, type }) => [name, type]));
  const stored = new Map(
    [...(known?.audiences ?? []), ...(known?.traits ?? [])].map((one) => [
      idOf(one),
      new Set(one.destinations),
    ]),
  );
  for (const { record, path } of asked) {
    const seen = new Set<string>();
    for (const [place, name] of record.destinations.entries()) {
      const at = [...path!, 'destinations', place];
      if (seen.has(name)) yield { path: at, message: 'is named twice in this list' };
      seen.add(name);
      if (DESTINATION_TYPES.get(names.get(name) ?? '')?.planning.isPassingOn === true) {
        const message = `names the destination ${JSON.stringify(name)}, which only passes calls on: it hears of no audience or computed trait`;
        yield { path: at, message };
        continue;
      }
      if (known === undefined || names.has(name) || stored.get(idOf(record))?.has(name) === true) continue;
      const message = `names the destination ${JSON.stringify(name)}, which does not exist${hintFor(name, names.keys())}`;
      yield { path: at, message };
    }
  }
}

function hintFor(name: string, names: Iterable<string>): string {
  const similar = closestWord(name, names);
  return similar === undefined ? '' : `; did you mean ${JSON.stringify(similar)}?`;
}

function* referenceIssues(
  { record, path }: Entry,
  byName: ReadonlyMap<string, Entry>,
  isComplete: boolean,
): Generator<ComputationIssue> {
  const places = placesIn(record);
  for (const { kind, name, part } of referencesOf(record.definition)) {
    if (byName.has(idOf({ kind, name }))) continue;
    const otherKind: Kind = kind === 'audience' ? 'trait' : 'audience';
    const isOther = byName.has(idOf({ kind: otherKind, name }));
    if (!isOther && !isComplete) continue;
    const others = [...byName.values()].filter((one) => one.record !== record && one.record.kind === kind);
    const names = others.map((one) => one.record.name);
    const message = isOther
      ? `${JSON.stringify(name)} is ${otherKind === 'trait' ? 'a computed trait: write computed(…) and a comparison' : 'an audience: write audience(…)'}`
      : `names ${described({ kind, name })}, which does not exist${hintFor(name, names)}`;
    yield { path: [...path!, 'definition'], ...places(part, message) };
  }
}

/** The place of a mistake in the text of a definition. */
function placesIn({ kind, text, definition }: ComputationRecord) {
  const parsed = kind === 'audience' ? parseAudience(text) : parseTrait(text);
  if ('problems' in parsed) return (_: object, message: string) => ({ message });
  // The parts of the text that was read again stand in the same order.
  const [own, again] = [referencesOf(definition), referencesOf(parsed.definition)];
  return (part: object, message: string) => {
    const nth = own.findIndex((reference) => reference.part === part);
    return parsed.problemAt({ part: again[nth]?.part ?? part, message });
  };
}

/**
 * Computed traits have a type, which comparisons with them must suit, also those of stored definitions that
 * stay.
 */
function* typeIssues(
  entries: readonly Entry[],
  byName: ReadonlyMap<string, Entry>,
): Generator<ComputationIssue> {
  const typeOfComputed = (name: string): ValueType | undefined => {
    const definition = byName.get(idOf({ kind: 'trait', name }))?.record.definition;
    return definition?.op === 'event' ? typeOfAggregate(definition) : undefined;
  };
  for (const { record, path } of entries) {
    const { kind, text, definition } = record;
    const traits = referencesOf(definition).filter((reference) => reference.kind === 'trait');
    if (traits.length === 0) continue;
    const parsed =
      kind === 'audience' ? parseAudience(text, { typeOfComputed }) : parseTrait(text, { typeOfComputed });
    if (!('problems' in parsed)) continue;
    if (path !== undefined) {
      for (const problem of parsed.problems) yield { path: [...path, 'definition'], ...problem };
      continue;
    }
    const changed = traits
      .map(({ name }) => byName.get(idOf({ kind: 'trait', name })))
      .find((one) => one?.path);
    if (changed?.path === undefined) continue;
    const message = `does not suit ${described(record)}, which compares it: ${parsed.problems[0]!.message}`;
    yield { path: [...changed.path, 'definition'], message };
  }
}

/** One issue for each definition of the document that leads back to itself. */
function* cycleIssues(
  asked: readonly Entry[],
  byName: ReadonlyMap<string, Entry>,
): Generator<ComputationIssue> {
  const next = new Map(
    [...byName].map(([id, { record }]) => [id, referencesOf(record.definition).map(idOf)] as const),
  );
  for (const { record, path } of asked) {
    const circle = shortestCircle(idOf(record), next);
    if (circle === undefined) continue;
    const names = circle.map((id) => JSON.stringify(byName.get(id)!.record.name)).join(' → ');
    yield { path: [...path!, 'definition'], message: `leads back to itself: ${names}` };
  }
}

function shortestCircle(start: string, next: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const seen = new Set<string>();
  let paths: string[][] = [[start]];
  while (paths.length > 0) {
    const longer: string[][] = [];
    for (const path of paths) {
      for (const id of next.get(path.at(-1)!) ?? []) {
        if (id === start) return [...path, start];
        if (seen.has(id)) continue;
        seen.add(id);
        longer.push([...path, id]);
      }
    }
    paths = longer;
  }
  return undefined;
}

/** The audiences and computed traits whose definitions name this one. */
export function mentionsOf(
  computation: Computation,
  {
    audiences,
    traits,
  }: { readonly audiences: readonly Computation[]; readonly traits: readonly Computation[] },
): Computation[] {
  const id = idOf(computation);
  return [...audiences, ...traits].filter(({ definition }) =>
    referencesOf(definition).some((reference) => idOf(reference) === id),
  );
}
