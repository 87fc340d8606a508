import type { Computation } from '../../model/definition.ts';
import type { CallType } from '../../model/event.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';
import type { ProfileState } from '../identity/profile-state.ts';
import { NOTHING_SENT } from '../sync/sent.ts';
import {
  type CompiledAggregate,
  type CompiledComputation,
  type ComputationName,
  compileComputation,
  type EvaluationScope,
  evaluationOrder,
} from './audience-compiler.ts';
import { ComputationFailures } from './computation-failures.ts';
import type { Sample } from './reductions.ts';
import { addToSlot, emptySlot, isCounted, nextFlip, nextLeaving } from './slots.ts';

/** An event as definitions see it. */
export interface UserEvent {
  readonly type: CallType;
  /** The name of the tracked action, the page or the screen. */
  readonly name: string | undefined;
  readonly properties: JsonObject;
  /** When it happened; the time of arrival for a time in the future. */
  readonly at: Time;
  readonly messageId: string;
}

/** The value of a computation changed for a profile. */
export interface ComputedChange {
  readonly computation: number;
  /** True or false for an audience; the value of a trait, null when there is none. */
  readonly value: Json;
}

/** Computes audiences and traits of profiles. It keeps nothing itself: all state is in the profile. */
export interface TraitEngine {
  /** Tells whether any definition counts events of this name; others need not be applied. */
  mentions(type: CallType, name: string | undefined): boolean;

  /**
   * Adds an event to the slots of a profile that count it, with `only` to those alone. The event must not
   * have been added before. Tells whether a slot changed.
   */
  apply(state: ProfileState, event: UserEvent, only?: ReadonlySet<number>): boolean;

  /** Adds to `touched` the computations that read what an event may have changed: slots, traits, groups. */
  touch(touched: TouchedComputations, event: TouchingEvent): void;

  /**
   * Computes the values of a profile at a time, not before its newest event, and sets `value` and `since` of
   * those that changed; the rest of `state.computed` is the business of others. Drops slots that no
   * definition uses. Returns the changes. With `touched` it looks at these computations alone, at those that
   * they are mentioned by, and at those whose windows the profile has.
   */
  evaluate(state: ProfileState, now: Time, touched?: TouchedComputations): readonly ComputedChange[];

  /**
   * The earliest time at which a value may change because time passes; undefined when none will. For counts
   * it is exact.
   */
  nextChange(state: ProfileState, now: Time): Time | undefined;

  /** Aggregates of a computation, also of one in preparation. */
  aggregatesOf(computation: number): readonly CompiledAggregate[];

  /**
   * Ids of computations that mention each other in a circle, or mention such ones. They keep the values they
   * have.
   */
  readonly circular: readonly number[];

  /** Computations that failed. They are left alone since then: their values stay. */
  readonly failures: ComputationFailures;
}

/** Indexes of computations in the order of their evaluation. */
export type TouchedComputations = Set<number>;

/** The fields of an event that decide what has to be evaluated. */
export interface TouchingEvent {
  readonly type: CallType;
  readonly name: string | undefined;
  readonly traits: JsonObject;
  readonly groupId: string | undefined;
}

/**
 * Makes the engine of these computations. Those of `preparing` are collected and not evaluated: they may be
 * newer versions of computations that go on being evaluated as they were. `slotNumberOf` gives the number for
 * the key of a slot, for good. What throws is added to `failures`, and nobody else notices.
 */
export function createTraitEngine(
  computations: readonly Computation[],
  slotNumberOf: (canonicalSlotKey: string) => number,
  preparing: readonly Computation[] = [],
  failures: ComputationFailures = new ComputationFailures(),
): TraitEngine {
  const compiled = compileAll(computations, { slotNumberOf, world: computations, failures });
  const world = [...preparing, ...computations];
  const prepared = compileAll(preparing, { slotNumberOf, world, failures });
  const order = evaluationOrder(compiled);
  const slots = new SlotIndex([...compiled, ...prepared], failures);
  const evaluator = new Evaluator(order, slots, failures);
  return {
    failures,
    circular: compiled.filter((one) => !order.includes(one)).map(({ computation }) => computation.id),
    mentions: (type, name) => slots.of(type, name).length > 0,
    apply: (state, event, only) => slots.apply(state, event, only),
    touch: (touched, event) => evaluator.touch(touched, event),
    evaluate: (state, now, touched) => evaluator.evaluate(state, now, touched),
    nextChange: (state, now) => slots.nextChange(state, now),
    aggregatesOf(computation) {
      const all = [...compiled, ...prepared].filter((one) => one.computation.id === computation);
      return all.flatMap(({ aggregates }) => aggregates);
    },
  };
}

interface CompileTerms {
  readonly slotNumberOf: (key: string) => number;
  /** All computations that a definition can mention. */
  readonly world: readonly Computation[];
  readonly failures: ComputationFailures;
}

function compileAll(
  computations: readonly Computation[],
  { slotNumberOf, world, failures }: CompileTerms,
): CompiledComputation[] {
  const idOf = ({ kind, name }: ComputationName) =>
    world.find((one) => one.kind === kind && one.name === name)?.id;
  return computations.flatMap((computation) => {
    try {
      return [compileComputation(computation, { slotNumberOf, idOf })];
    } catch (error) {
      failures.add(computation, { error });
      return [];
    }
  });
}

/**
 * Evaluates computations in their order, each behind those it mentions, and only those that an event may have
 * changed.
 */
class Evaluator {
  readonly #order: readonly CompiledComputation[];
  readonly #slots: SlotIndex;
  readonly #failures: ComputationFailures;
  /** Indexes of computations, by what they read. */
  readonly #byEvent = new Map<string, number[]>();
  readonly #byTrait = new Map<string, number[]>();
  readonly #byWindow = new Map<number, number[]>();
  readonly #byMention: number[][];
  readonly #ofGroups: number[] = [];

  constructor(order: readonly CompiledComputation[], slots: SlotIndex, failures: ComputationFailures) {
    this.#order = order;
    this.#slots = slots;
    this.#failures = failures;
    this.#byMention = order.map(() => []);
    order.forEach(({ aggregates, traits, readsGroups, mentions }, place) => {
      for (const { type, name, slot, shape } of aggregates) {
        addTo(this.#byEvent, eventKey(type, name), place);
        if (shape.window !== 'none') addTo(this.#byWindow, slot, place);
      }
      // A dot may be a part of the name, or lead into a value.
      for (const name of traits)
        for (const one of new Set([name, firstOf(name)])) addTo(this.#byTrait, one, place);
      if (readsGroups) this.#ofGroups.push(place);
      for (const { kind, name } of mentions) {
        const other = order.findIndex(
          ({ computation }) => computation.kind === kind && computation.name === name,
        );
        if (other >= 0) this.#byMention[other]!.push(place);
      }
    });
  }

  touch(touched: TouchedComputations, { type, name, traits, groupId }: TouchingEvent): void {
    if (name !== undefined) addAll(touched, this.#byEvent.get(eventKey(type, name)));
    if (this.#byTrait.size > 0) for (const trait in traits) addAll(touched, this.#byTrait.get(trait));
    if (groupId !== undefined) addAll(touched, this.#ofGroups);
  }

  evaluate(state: ProfileState, now: Time, touched?: TouchedComputations): readonly ComputedChange[] {
    for (const slot of state.slots.keys()) {
      const use = this.#slots.byNumber.get(slot);
      if (use === undefined || use.isBroken) state.slots.delete(slot);
      else if (touched !== undefined) addAll(touched, this.#byWindow.get(slot));
    }
    const places = touched === undefined ? [...this.#order.keys()] : [...touched].sort((a, b) => a - b);
    const changes: ComputedChange[] = [];
    const scope = { state, now };
    for (let nth = 0; nth < places.length; nth++) {
      const place = places[nth]!;
      const change = this.#change(place, scope);
      if (change === undefined) continue;
      changes.push(change);
      if (touched === undefined) continue;
      // Those that mention it stand behind it.
      const more = this.#byMention[place]!.filter((one) => !touched.has(one));
      addAll(touched, more);
      if (more.length > 0)
        places.splice(nth + 1, places.length, ...[...places.slice(nth + 1), ...more].sort((a, b) => a - b));
    }
    return changes;
  }

  #change(place: number, scope: EvaluationScope): ComputedChange | undefined {
    const { computation, evaluate } = this.#order[place]!;
    if (this.#failures.has(computation)) return undefined;
    try {
      const value = evaluate(scope);
      const isChanged = setValue(scope.state, computation, { value, now: scope.now });
      return isChanged ? { computation: computation.id, value } : undefined;
    } catch (error) {
      this.#failures.add(computation, { error });
      return undefined;
    }
  }
}

function eventKey(type: string, name: string): string {
  return `${type} ${name}`;
}

function firstOf(name: string): string {
  const dot = name.indexOf('.');
  return dot < 0 ? name : name.slice(0, dot);
}

function addTo<Key>(lists: Map<Key, number[]>, key: Key, place: number): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [place]);
  else if (!list.includes(place)) list.push(place);
}

function addAll(touched: Set<number>, places: readonly number[] = []): void {
  for (const place of places) touched.add(place);
}

/** The slots of all definitions. An event finds those that count it by its type and name. */
class SlotIndex {
  readonly byNumber = new Map<number, SlotUse>();
  readonly #byName: Record<string, Map<string, SlotUse[]>> = {
    track: new Map(),
    page: new Map(),
    screen: new Map(),
  };

  readonly #failures: ComputationFailures;

  constructor(compiled: readonly CompiledComputation[], failures: ComputationFailures) {
    this.#failures = failures;
    for (const { computation, aggregates } of compiled)
      for (const aggregate of aggregates) this.#add(computation, aggregate);
  }

  /** See `TraitEngine.apply`. */
  apply(state: ProfileState, event: UserEvent, only?: ReadonlySet<number>): boolean {
    let isChanged = false;
    for (const use of this.of(event.type, event.name)) {
      if (use.isBroken || (only !== undefined && !only.has(use.aggregate.slot))) continue;
      try {
        if (applyTo(use.aggregate, state, event)) isChanged = true;
      } catch (error) {
        use.isBroken = true;
        state.slots.delete(use.aggregate.slot);
        for (const computation of use.computations)
          this.#failures.add(computation, { error, slot: use.aggregate.slot });
      }
    }
    return isChanged;
  }

  of(type: CallType, name: string | undefined): readonly SlotUse[] {
    return (name === undefined ? undefined : this.#byName[type]?.get(name)) ?? NO_SLOTS;
  }

  nextChange(state: ProfileState, now: Time): Time | undefined {
    let earliest: Time | undefined;
    for (const [number, slot] of state.slots) {
      if (slot.kind !== 'times' && slot.kind !== 'buckets') continue;
      const use = this.byNumber.get(number);
      if (use === undefined) continue;
      for (const test of use.tests) {
        const next = test === undefined ? nextLeaving(slot, now) : nextFlip(slot, now, test);
        if (next !== undefined && (earliest === undefined || next < earliest)) earliest = next;
      }
    }
    return earliest;
  }

  #add(computation: Computation, aggregate: CompiledAggregate): void {
    const known = this.byNumber.get(aggregate.slot);
    if (known !== undefined) {
      known.tests.push(aggregate.test);
      known.computations.push(computation);
      return;
    }
    const isBroken = this.#failures.hasSlot(aggregate.slot);
    const use: SlotUse = { aggregate, tests: [aggregate.test], computations: [computation], isBroken };
    this.byNumber.set(aggregate.slot, use);
    const names = this.#byName[aggregate.type]!;
    const others = names.get(aggregate.name);
    if (others === undefined) names.set(aggregate.name, [use]);
    else others.push(use);
  }
}

/** A slot with the tests of all definitions that share it. */
interface SlotUse {
  readonly aggregate: CompiledAggregate;
  readonly tests: CompiledAggregate['test'][];
  readonly computations: Computation[];
  /** True when an event could not be added, so that the slot does not match its events. */
  isBroken: boolean;
}

const NO_SLOTS: readonly SlotUse[] = [];

/** Tells whether the event counts. */
function applyTo(aggregate: CompiledAggregate, state: ProfileState, event: UserEvent): boolean {
  const { slot, shape, matches, readProperty } = aggregate;
  if (matches !== undefined && !matches(event.properties)) return false;
  const value = readProperty?.(event.properties);
  const sample: Sample = { at: event.at, messageId: event.messageId, value };
  if (!isCounted(shape, sample)) return false;
  const slotState = state.slots.get(slot) ?? emptySlot(shape);
  addToSlot(slotState, sample);
  state.slots.set(slot, slotState);
  return true;
}

/**
 * Sets the value of a computation unless it is there already. No entry stands for what nearly every profile
 * has: no value.
 */
function setValue(
  { computed }: ProfileState,
  { id, kind }: Computation,
  { value, now }: { value: Json; now: Time },
): boolean {
  const known = computed.get(id);
  if (known === undefined) {
    if (value === (kind === 'audience' ? false : null)) return false;
    computed.set(id, { value, since: now, sent: NOTHING_SENT });
    return true;
  }
  if (isSame(known.value, value)) return false;
  known.value = value;
  known.since = now;
  return true;
}

function isSame(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
  return a.every((value, i) => value === b[i]);
}
