import type { UsersSettings } from '../contract.ts';
import { movedIn, type NamesById } from './computation-jobs.ts';
import type { RestoreTerms } from './profile-computations.ts';

type Hearing = Pick<UsersSettings, 'hearing' | 'computations'>;

/** What has changed in who hears of computations since the last commit of this process, also what has changed back. */
export class HearingNews {
  readonly #switched = new Set<string>();
  #moved: NamesById = {};

  get terms(): Pick<RestoreTerms, 'switched' | 'moved'> {
    return { switched: [...this.#switched], moved: this.#moved };
  }

  note(before: Hearing, after: Hearing): void {
    for (const name of changedIn(before.hearing, after.hearing)) this.#switched.add(name);
    for (const [id, names] of Object.entries(movedIn(before.computations, after.computations)))
      this.#moved = { ...this.#moved, [id]: [...new Set([...(this.#moved[id] ?? []), ...names])] };
  }

  /** A commit has noted it. */
  clear(): void {
    this.#switched.clear();
    this.#moved = {};
  }
}

/** Names that are in one of the lists. */
function changedIn(a: readonly string[], b: readonly string[]): string[] {
  return [...a.filter((name) => !b.includes(name)), ...b.filter((name) => !a.includes(name))];
}
