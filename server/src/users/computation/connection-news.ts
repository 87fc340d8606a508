import type { Computation } from '../../model/definition.ts';
import type { UsersConsent } from '../contract.ts';

/** Names of destinations, by id of the computation. */
export type NamesById = Readonly<Record<string, readonly string[]>>;

/** Destinations that were added to computations or taken away, and all of those switched on or off. */
export function movedIn(before: readonly Computation[], after: readonly Computation[]): NamesById {
  const moved: Record<string, readonly string[]> = {};
  for (const now of after) {
    const { id, destinations } = now;
    const old = before.find((one) => one.id === id) ?? now;
    const isSame = (name: string) =>
      old.enabled === now.enabled && old.destinations.includes(name) && destinations.includes(name);
    const names = union(old.destinations, destinations).filter((name) => !isSame(name));
    if (names.length > 0) moved[id] = names;
  }
  return moved;
}

/**
 * Collects which destinations began or ceased to hear of computations since the last commit of this process,
 * also changes that were taken back.
 */
export class ConnectionNews {
  readonly #switched = new Set<string>();
  #moved: NamesById = {};

  get terms(): { readonly switched: readonly string[]; readonly moved: NamesById } {
    return { switched: [...this.#switched], moved: this.#moved };
  }

  note(before: ConnectionSettings, after: ConnectionSettings): void {
    for (const name of difference(before.hearing, after.hearing)) this.#switched.add(name);
    for (const name of changedAsking(askingOf(before.consent), askingOf(after.consent)))
      this.#switched.add(name);
    for (const [id, names] of Object.entries(movedIn(before.computations, after.computations)))
      this.#moved = { ...this.#moved, [id]: union(this.#moved[id] ?? [], names) };
  }

  /** Call when a commit has stored the changes. */
  clear(): void {
    this.#switched.clear();
    this.#moved = {};
  }
}

interface ConnectionSettings {
  readonly hearing: readonly string[];
  readonly consent?: UsersConsent | undefined;
  readonly computations: readonly Computation[];
}

/** Each destination that asks for consent as a text, which changes with what it asks for and of whom. */
export function askingOf(consent: UsersConsent | undefined): readonly string[] {
  const { asking, requiredSources } = consent ?? { asking: [], requiredSources: [] };
  return asking.map(([name, categories]) => JSON.stringify([name, categories, requiredSources]));
}

/** Names of the destinations that began or ceased to ask for consent, or ask for other. */
export function changedAsking(before: readonly string[], after: readonly string[]): string[] {
  const names = difference(before, after).map((text) => (JSON.parse(text) as readonly [string])[0]);
  return [...new Set(names)];
}

/** Names that are in one of the lists. */
function difference(a: readonly string[], b: readonly string[]): string[] {
  return [...a.filter((name) => !b.includes(name)), ...b.filter((name) => !a.includes(name))];
}

/** The names of both lists, each once. */
export function union(a: readonly string[], b: readonly string[]): string[] {
  return [...new Set([...a, ...b])];
}
