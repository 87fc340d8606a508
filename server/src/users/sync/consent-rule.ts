import { isConsented, type Preferences } from '../../model/consent.ts';
import type { UsersConsent } from '../contract.ts';
import { asPreferences } from '../identity/profile-consent.ts';
import type { ProfileState } from '../identity/profile-state.ts';

type Consenting = Pick<ProfileState, 'consent' | 'sources'>;

/** Tells which destinations may hear of a user, by the consent that they ask for. */
export class ConsentRule {
  /** Categories by name of the destination. */
  readonly #asking: ReadonlyMap<string, readonly string[]>;
  readonly #requiredSources: readonly number[];

  constructor({ asking, requiredSources }: UsersConsent = { asking: [], requiredSources: [] }) {
    this.#asking = new Map(asking);
    this.#requiredSources = requiredSources;
  }

  asks(name: string): boolean {
    return this.#asking.has(name);
  }

  /** Whether one of these destinations asks for consent. Nearly always none does. */
  isAskedBy(names: readonly string[]): boolean {
    return this.#asking.size > 0 && names.some((name) => this.#asking.has(name));
  }

  /** The destinations of these that a user has consented to, and those that ask for none. */
  allowed(names: readonly string[], user: Consenting): readonly string[] {
    const preferences = this.preferencesOf(user);
    if (preferences === undefined) return names;
    return names.filter((name) => isConsented(preferences, this.#asking.get(name) ?? []));
  }

  /**
   * The preferences of a user: those of the newest event that has any, else none at all where a source has
   * seen the user that requires consent.
   */
  preferencesOf({ consent, sources }: Consenting): Preferences {
    const said = asPreferences(consent);
    if (said !== undefined) return said;
    return this.#requiredSources.some((source) => sources.has(source)) ? {} : undefined;
  }
}
