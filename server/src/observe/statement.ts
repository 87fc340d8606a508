import { balanceOf, type DestinationCounts, type Ledger, type SourceCounts } from '../model/ledger.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';

/** The ledger as the control API gives it, by name. contract.md section 4, `ledger`. */
export interface Statement {
  readonly sources: Readonly<Record<string, SourceCounts>>;
  readonly destinations: Readonly<Record<string, DestinationCounts & { readonly balance: number }>>;
  /** Whether every sum comes out: `differences` is empty. */
  readonly balanced: boolean;
  readonly differences: readonly Difference[];
}

/** A sum that does not come out, with its terms: `difference` is what is missing, negative what is counted twice. */
export type Difference =
  | {
      readonly source: string;
      readonly difference: number;
      readonly received: number;
      readonly accepted: number;
      readonly duplicates: number;
      readonly discarded: number;
    }
  | {
      readonly destination: string;
      readonly difference: number;
      readonly owed: number;
      readonly delivered: number;
      readonly pending: number;
      readonly dead: number;
      readonly erased: number;
    };

const NO_SOURCE: SourceCounts = { received: 0, accepted: 0, duplicates: 0, discarded: {} };
const NO_DESTINATION: DestinationCounts = {
  owed: 0,
  delivered: 0,
  pending: 0,
  dead: {},
  erased: 0,
  skipped: {},
};

/**
 * Gives every count its name, and every name its counts: what was never counted stands there with zeros. The counts of
 * a record that was removed keep its name, and one that no record ever named stands there as `#<id>`, so that no
 * difference can hide behind a missing name.
 */
export function statementOf(ledger: Ledger, settings: SettingsSnapshot): Statement {
  const sources = named(ledger.sources, settings.sources, { none: NO_SOURCE, gone: settings.gone.sources });
  const destinations = named(ledger.destinations, settings.destinations, {
    ...{ none: NO_DESTINATION, gone: settings.gone.destinations },
  });
  const differences = [
    ...sources.map(([source, counts]) => differenceOfSource(source, counts)),
    ...destinations.map(([destination, counts]) => differenceOfDestination(destination, counts)),
  ].filter(({ difference }) => difference !== 0);
  return {
    // From entries and not by assignment: a source may have the name `__proto__`.
    sources: Object.fromEntries(
      sources.map(([name, { received, accepted, discarded, duplicates }]) => [
        name,
        { received, accepted, discarded, duplicates },
      ]),
    ),
    destinations: Object.fromEntries(
      destinations.map(([name, counts]) => [name, { ...counts, balance: balanceOf(counts) }]),
    ),
    balanced: differences.length === 0,
    differences,
  };
}

interface Named {
  readonly id: number;
  readonly name: string;
}

function named<Counts>(
  counts: ReadonlyMap<number, Counts>,
  records: readonly Named[],
  { none, gone }: { readonly none: Counts; readonly gone: readonly Named[] },
): [name: string, counts: Counts][] {
  const known = new Set(records.map(({ id }) => id));
  const strays = [...counts].filter(([id]) => !known.has(id));
  return [
    ...records.map(({ id, name }): [string, Counts] => [name, counts.get(id) ?? none]),
    ...strays.map(([id, stray]): [string, Counts] => [
      gone.find((record) => record.id === id)?.name ?? `#${id}`,
      stray,
    ]),
  ];
}

/** received = accepted + duplicates + discarded. model/ledger.ts */
function differenceOfSource(source: string, counts: SourceCounts): Difference {
  const { received, accepted, duplicates } = counts;
  const discarded = sumOf(counts.discarded);
  const difference = received - accepted - duplicates - discarded;
  return { source, difference, received, accepted, duplicates, discarded };
}

function differenceOfDestination(destination: string, counts: DestinationCounts): Difference {
  const { owed, delivered, pending, erased } = counts;
  const dead = sumOf(counts.dead);
  return { destination, difference: balanceOf(counts), owed, delivered, pending, dead, erased };
}

function sumOf(byReason: Readonly<Record<string, number>>): number {
  return Object.values(byReason).reduce((sum, n) => sum + n, 0);
}
