import { closestWord } from '../../model/closest-word.ts';
import type { Condition, EventAggregate } from '../../model/definition.ts';
import { defined, type Json } from '../../model/json.ts';
import type { UnknownName } from '../../ports/users.ts';
import type { ProfileState } from '../identity/profile-state.ts';
import { partsOf } from '../language/checks.ts';
import type { LogEvent } from '../log-events.ts';
import { type CompiledAggregate, traitReader } from './audience-compiler.ts';

/** Different names of one kind that are kept as candidates for the name that may be meant. */
const MAX_CANDIDATES = 1000;

/**
 * Characters that move the cursor of a terminal or reverse its text. Names come from clients, so they may
 * contain them.
 */
const HIDDEN = /\p{C}/u;

type Kind = UnknownName['kind'];

/**
 * Finds the names in a definition that occur nowhere. It forgets each name that it is shown, so the names
 * left at the end never occurred: a misspelled name makes an audience without members, and nothing else would
 * say why.
 */
export class UnknownNames {
  readonly #events = new Map<string, { readonly kind: EventAggregate['type']; readonly name: string }>();
  readonly #traits = new Map<string, (scope: { readonly state: ProfileState }) => Json | undefined>();
  readonly #candidates: Readonly<Record<Kind, Set<string>>> = {
    track: new Set(),
    page: new Set(),
    screen: new Set(),
    trait: new Set(),
  };

  #hasProfiles = false;

  /** @param searched names of which all stored events are shown to `ofEvent` */
  constructor(
    definition: Condition | EventAggregate,
    searched: readonly Pick<CompiledAggregate, 'type' | 'name'>[],
  ) {
    for (const { type, name } of searched) this.#events.set(keyOf(type, name), { kind: type, name });
    for (const name of traitsIn(definition)) this.#traits.set(name, traitReader(name));
  }

  ofEvent({ type, name }: Pick<LogEvent, 'type' | 'name'>): void {
    if (this.#events.size > 0) this.#events.delete(keyOf(type, name));
  }

  ofProfile(state: ProfileState): void {
    this.#hasProfiles = true;
    if (this.#traits.size === 0) return;
    for (const [name, read] of this.#traits) if (read({ state }) !== undefined) this.#traits.delete(name);
    for (const name of state.traits.keys()) this.#propose('trait', name);
  }

  /** True when events are missing, so that it is worth showing which others there are. */
  get misses(): boolean {
    return this.#events.size > 0;
  }

  /** Adds a name of an event that may be the one that was meant. */
  propose({ type, name }: Pick<LogEvent, 'type' | 'name'>): void {
    if (name !== '' && (type === 'track' || type === 'page' || type === 'screen')) this.#propose(type, name);
  }

  /**
   * Names that never occurred. Empty while there are no profiles: events that are stored but not applied yet
   * would count as missing.
   */
  read(): UnknownName[] {
    if (!this.#hasProfiles) return [];
    const traits = Array.from(this.#traits.keys(), (name) => ({ kind: 'trait' as const, name }));
    return [...this.#events.values(), ...traits].map(({ kind, name }) => {
      const closest = name === '' ? undefined : closestWord(name, this.#candidates[kind]);
      return { kind, name, ...defined({ closest }) };
    });
  }

  #propose(kind: Kind, name: string): void {
    const names = this.#candidates[kind];
    if (names.size < MAX_CANDIDATES && !HIDDEN.test(name)) names.add(name);
  }
}

function keyOf(type: string, name: string): string {
  return `${type}\0${name}`;
}

function traitsIn(definition: Condition | EventAggregate): string[] {
  if (definition.op === 'event') return definition.where === undefined ? [] : traitsIn(definition.where);
  const parts = partsOf(definition);
  if (parts !== undefined) return parts.flatMap(traitsIn);
  if (!('value' in definition)) return [];
  const { value } = definition;
  if (value.op === 'event') return traitsIn(value);
  return value.op === 'trait' ? [value.name] : [];
}
