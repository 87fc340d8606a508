import type { Computation } from '../../model/definition.ts';
import type { Json } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';

/**
 * Values of one computation that destinations were sent for one profile. Nearly always all destinations know
 * the same `value`; `known` has those that missed it, because they were disabled or filtered. The functions
 * are pure; users/sync/membership-sync.ts makes events from their results.
 */
export interface Sent {
  /** The value that was sent last; undefined while no destination knows anything of the recipient. */
  readonly value: Json | undefined;
  /** The timestamp of the newest event. The next one is never earlier. */
  readonly at: Time;
  /** The sequence of the newest event. The next one is greater. */
  readonly sequence: number;
  /** Knowledge of single destinations, by name, where it is not `value`. */
  readonly known?: Readonly<Record<string, Known>> | undefined;
  /**
   * Former recipients of whom these destinations have to hear `false` yet, as keys (users/sync/recipient.ts).
   */
  readonly owed?: readonly Owed[] | undefined;
}

/**
 * A list with the value that a destination was sent last, or an empty one; null when it may or may not have
 * got the last events.
 */
export type Known = readonly Json[] | null;

export interface Owed {
  readonly to: string;
  readonly destinations: readonly string[];
}

/** The destinations of a computation that count for a profile, by name. */
export interface Listeners {
  /**
   * Destinations that know what was sent, apart from `known`; also those that the computation named before.
   */
  readonly connected: readonly string[];
  /**
   * Connected destinations that the computation names, that are enabled, and whose filter lets the events
   * through.
   */
  readonly hearing: readonly string[];
  /** Destinations that the computation names and that get nothing before a walk has come to the profile. */
  readonly waiting?: readonly string[];
  /** The waiting destinations that could hear now. */
  readonly ready?: readonly string[];
}

export const NOTHING_SENT: Sent = { value: undefined, at: 0, sequence: 0 };

/** Tells whether a value needs a first event: a membership, or a computed trait that has a value. */
export function isMember({ kind }: Pick<Computation, 'kind'>, value: Json): boolean {
  return kind === 'audience' ? value === true : value !== null;
}

/** Tells whether a value differs from what was sent last. */
export function differs(sent: Sent, value: Json, computation: Computation): boolean {
  return sent.value === undefined ? isMember(computation, value) : !isSame(sent.value, value);
}

/** The destinations that have to hear a value, and those that would if they could. */
export function whoNeeds(
  sent: Sent,
  value: Json,
  { computation, listeners }: { readonly computation: Computation; readonly listeners: Listeners },
): Pick<Listeners, 'connected' | 'hearing'> {
  // Nearly always all of them know the same.
  if (sent.known === undefined) return differs(sent, value, computation) ? listeners : NOBODY;
  const isNeeded = (name: string) => needs(knownTo(sent, name), value, computation);
  return {
    connected: listeners.connected.filter(isNeeded),
    hearing: listeners.hearing.filter(isNeeded),
  };
}

/** State after these destinations have heard a value. The others keep what they know. */
export function withSent(
  sent: Sent,
  value: Json,
  to: readonly string[],
  { computation, listeners }: { readonly computation: Computation; readonly listeners: Listeners },
): Sent {
  // Nearly always all of them know the same, and all of them hear.
  if (sent.known === undefined && to.length === listeners.connected.length) return { ...sent, value };
  const unsure = unsureAmong(sent, listeners).flatMap((name): [string, Known][] =>
    to.includes(name) ? [] : [[name, null]],
  );
  if (to.length === listeners.connected.length) return withKnown({ ...sent, value }, unsure);
  const known = listeners.connected.flatMap((name): [string, Known][] => {
    const before = knownTo(sent, name);
    return to.includes(name) || !needs(before, value, computation) ? [] : [[name, before]];
  });
  return withKnown({ ...sent, value }, [...known, ...unsure]);
}

/**
 * The listeners of a recipient that no walk will pass any more: also those that wait for a walk, where events
 * may have been on their way to them.
 */
export function withUnsureListeners(sent: Sent, listeners: Listeners): Listeners {
  const unsure = unsureAmong(sent, listeners);
  if (unsure.length === 0) return listeners;
  const { connected, hearing, ready = [] } = listeners;
  return {
    ...listeners,
    connected: [...connected, ...unsure],
    hearing: [...hearing, ...unsure.filter((name) => ready.includes(name))],
  };
}

/** New destinations that wait for a walk and may or may not have got the last events. */
function unsureAmong({ known = {} }: Sent, { connected, waiting = [] }: Listeners): string[] {
  return waiting.filter((name) => known[name] === null && !connected.includes(name));
}

/**
 * State in which these destinations count as new: they know nothing, except for events that may have been on
 * their way.
 */
export function withNew(sent: Sent, names: readonly string[]): Sent {
  const sure = names.filter((name) => knownTo(sent, name) !== null);
  return withKnown(sent, [...Object.entries(sent.known ?? {}), ...sure.map((name) => [name, []] as const)]);
}

/**
 * State in which these destinations are to hear of a member once more: as if they might not have got what
 * they know.
 */
export function withRepeated(sent: Sent, names: readonly string[], computation: Computation): Sent {
  const again = names.filter((name) => {
    const known = knownTo(sent, name);
    return known !== null && known.length > 0 && isMember(computation, known[0]!);
  });
  return again.length === 0 ? sent : withUnsure(sent, again);
}

/** State in which these destinations may or may not have got the events on their way. */
export function withUnsure(sent: Sent, names: readonly string[]): Sent {
  return withKnown(sent, [
    ...Object.entries(sent.known ?? {}),
    ...names.map((name) => [name, null] as const),
  ]);
}

/** State in which these destinations need to hear of no former recipient any more. */
export function withoutOwed(sent: Sent, names: readonly string[]): Sent {
  const { owed = [], ...rest } = sent;
  const left = owed.flatMap(({ to, destinations }) => {
    const others = destinations.filter((name) => !names.includes(name));
    return others.length === 0 ? [] : [{ to, destinations: others }];
  });
  return left.length === 0 ? rest : { ...rest, owed: left };
}

export function withOwed(sent: Sent, more: readonly Owed[]): Sent {
  const all = [...(sent.owed ?? []), ...more].filter(({ destinations }) => destinations.length > 0);
  return all.length === 0 ? sent : { ...sent, owed: all };
}

/** The same state, with a sequence and a time that are not before those of the other. */
export function behind(sent: Sent, { at, sequence }: Pick<Sent, 'at' | 'sequence'>): Sent {
  return { ...sent, at: Math.max(sent.at, at), sequence: Math.max(sent.sequence, sequence) };
}

/** Tells whether no destination knows anything of the recipient. */
export function isNothing({ value, known }: Sent): boolean {
  return value === undefined && known === undefined;
}

function withKnown(sent: Sent, entries: readonly (readonly [string, Known])[]): Sent {
  if (entries.length === 0 && sent.known === undefined) return sent;
  const { known: _, ...rest } = sent;
  return entries.length === 0 ? rest : { ...rest, known: Object.fromEntries(entries) };
}

const NOBODY: Listeners = { connected: [], hearing: [] };

function knownTo({ value, known }: Sent, name: string): Known {
  if (known !== undefined && Object.hasOwn(known, name)) return known[name]!;
  return value === undefined ? [] : [value];
}

function needs(known: Known, value: Json, computation: Computation): boolean {
  if (known === null) return true;
  return known.length === 0 ? isMember(computation, value) : !isSame(known[0]!, value);
}

export function isSame(a: Json, b: Json): boolean {
  return (
    a === b || (typeof a === 'object' && typeof b === 'object' && JSON.stringify(a) === JSON.stringify(b))
  );
}
