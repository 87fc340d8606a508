import { type ComputationForm, changeEventNames } from '../../model/delivery-policy.ts';
import type { JsonObject } from '../../model/json.ts';
import type { UsersSettings } from '../contract.ts';
import type { ProfileState } from '../identity/profile-state.ts';
import type { ChangeForm, ToldChange } from './computation-event.ts';
import { isMember } from './sent.ts';

type Known = Pick<ProfileState, 'identities' | 'traits'>;

/** The trait, and the kind of external id, that is an e-mail address. */
const EMAIL = 'email';

const USUAL: ComputationForm = {};

/**
 * Makes one event of a change for each form that its destinations ask for, and plans it to the destinations
 * of that form alone. docs/decisions/0072-forms-of-changes.md.
 */
export class ComputationForms {
  readonly #byName: ReadonlyMap<string, ComputationForm>;

  constructor(forms: UsersSettings['forms'] = []) {
    this.#byName = new Map(forms);
  }

  /**
   * A change for each event that tells it. `user`: the profile whose e-mail addresses and traits may go with
   * it; undefined where the event goes to an id that stands for the profile no more.
   */
  inForms(
    change: ToldChange,
    { to, user }: { readonly to: readonly string[]; readonly user: Known | undefined },
  ): readonly ToldChange[] {
    if (!this.#isAskedBy(change.computation.destinations)) return [change];
    const changes = this.#groups(to).flatMap(({ form, only }) =>
      eventsOf(form, change, user).map((one): ToldChange => ({ ...change, only, form: one })),
    );
    // The messageId of each is its own.
    return changes.map((one, nth) => (nth === 0 ? one : { ...one, number: `${one.number}.${nth + 1}` }));
  }

  /** Whether one of these destinations asks for another form than the usual. Nearly always none does. */
  #isAskedBy(names: readonly string[]): boolean {
    return this.#byName.size > 0 && names.some((name) => this.#byName.has(name));
  }

  /** These destinations by their form. */
  #groups(to: readonly string[]): readonly { readonly form: ComputationForm; readonly only: string[] }[] {
    const groups = new Map<string, { readonly form: ComputationForm; readonly only: string[] }>();
    for (const name of to) {
      const form = this.#byName.get(name) ?? USUAL;
      const text = JSON.stringify(form);
      const group = groups.get(text);
      if (group === undefined) groups.set(text, { form, only: [name] });
      else group.only.push(name);
    }
    return [...groups.values()];
  }
}

/** The events of one form: an identify, a track or both, and that for each e-mail address. */
function eventsOf(form: ComputationForm, change: ToldChange, user: Known | undefined): ChangeForm[] {
  const { as = 'identify', space } = form;
  const track = trackName(form, change);
  const names = { identify: [undefined], track: [track], both: [undefined, track] }[as];
  const emails = form.email === true ? emailsOf(user) : [];
  // A value that is taken back needs no consent, so its event says no more of the user than the ids.
  const isTold = isMember(change.computation, change.value);
  const traits = isTold ? traitsOf(user, form.traits ?? []) : {};
  const each = emails.length === 0 ? [undefined] : emails;
  return names.flatMap((event) => each.map((email) => ({ event, space, email, traits })));
}

function trackName(form: ComputationForm, { computation, value }: ToldChange): string {
  const { enteredEvent, exitedEvent, traitEvent } = changeEventNames(form);
  if (computation.kind !== 'audience') return traitEvent;
  return value === true ? enteredEvent : exitedEvent;
}

/** E-mail addresses that are ids of a user, in the order in which they came; else the trait. */
function emailsOf(user: Known | undefined): readonly string[] {
  if (user === undefined) return [];
  const ids = user.identities.filter(({ kind }) => kind === EMAIL).map(({ value }) => value);
  const trait = user.traits.get(EMAIL)?.value;
  return ids.length > 0 || typeof trait !== 'string' || trait === '' ? ids : [trait];
}

function traitsOf(user: Known | undefined, names: readonly string[]): JsonObject {
  const entries = names.flatMap((name) => {
    const value = user?.traits.get(name)?.value ?? null;
    return value === null ? [] : [[name, value] as const];
  });
  return Object.fromEntries(entries);
}
