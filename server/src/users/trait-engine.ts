import type { Computation } from '../model/definition.ts';
import type { CallType } from '../model/event.ts';
import type { Json, JsonObject } from '../model/json.ts';
import type { Time } from '../model/time.ts';
import {
  type CompiledAggregate,
  type CompiledComputation,
  type ComputationName,
  compileComputation,
  evaluationOrder,
} from './audience-compiler.ts';
import type { ProfileState } from './profile-state.ts';
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

/** A computation says something else of a profile than before. */
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
   * Adds an event to the slots of a profile that count it, with `only` to those alone. The event must not have been added before.
   * Tells whether a slot changed.
   */
  apply(state: ProfileState, event: UserEvent, only?: ReadonlySet<number>): boolean;

  /**
   * Computes the values of a profile at a time, not before its newest event, and sets `value` and `since` of those that changed;
   * the rest of `state.computed` is the business of others. Drops slots that no definition uses. Returns the changes.
   */
  evaluate(state: ProfileState, now: Time): readonly ComputedChange[];

  /** The earliest time at which a value may change because time passes; undefined when none will. For counts it is exact. */
  nextChange(state: ProfileState, now: Time): Time | undefined;

  /** What a computation, also one that is prepared, collects. */
  aggregatesOf(computation: number): readonly CompiledAggregate[];

  /** Ids of computations that mention each other in a circle, or mention such ones. They keep the values they have. */
  readonly circular: readonly number[];
}

/**
 * Makes the engine of these computations. Those of `preparing` are collected and not evaluated: they may be newer versions of
 * computations that go on being evaluated as they were. `slotNumberOf` gives the number for the key of a slot, for good.
 */
export function createTraitEngine(
  computations: readonly Computation[],
  slotNumberOf: (canonicalSlotKey: string) => number,
  preparing: readonly Computation[] = [],
): TraitEngine {
  const compiled = compileAll(computations, slotNumberOf, computations);
  const prepared = compileAll(preparing, slotNumberOf, [...preparing, ...computations]);
  const order = evaluationOrder(compiled);
  const slots = new SlotIndex([...compiled, ...prepared]);
  return {
    circular: compiled.filter((one) => !order.includes(one)).map(({ computation }) => computation.id),
    mentions: (type, name) => slots.of(type, name).length > 0,
    apply: (state, event, only) => applyEvent(slots.of(event.type, event.name), { state, event, only }),
    evaluate(state, now) {
      for (const slot of state.slots.keys()) if (!slots.byNumber.has(slot)) state.slots.delete(slot);
      const changes: ComputedChange[] = [];
      const scope = { state, now };
      for (const { computation, evaluate } of order) {
        const value = evaluate(scope);
        if (setValue(state, computation, { value, now }))
          changes.push({ computation: computation.id, value });
      }
      return changes;
    },
    nextChange: (state, now) => slots.nextChange(state, now),
    aggregatesOf(computation) {
      const all = [...compiled, ...prepared].filter((one) => one.computation.id === computation);
      return all.flatMap(({ aggregates }) => aggregates);
    },
  };
}

function compileAll(
  computations: readonly Computation[],
  slotNumberOf: (key: string) => number,
  world: readonly Computation[],
): CompiledComputation[] {
  const idOf = ({ kind, name }: ComputationName) =>
    world.find((one) => one.kind === kind && one.name === name)?.id;
  return computations.map((computation) => compileComputation(computation, { slotNumberOf, idOf }));
}

/** The slots of all definitions. An event finds those that count it by its type and name. */
class SlotIndex {
  readonly byNumber = new Map<number, SlotUse>();
  readonly #byName: Record<string, Map<string, SlotUse[]>> = {
    track: new Map(),
    page: new Map(),
    screen: new Map(),
  };

  constructor(compiled: readonly CompiledComputation[]) {
    for (const { aggregates } of compiled) for (const aggregate of aggregates) this.#add(aggregate);
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

  #add(aggregate: CompiledAggregate): void {
    const known = this.byNumber.get(aggregate.slot);
    if (known !== undefined) {
      known.tests.push(aggregate.test);
      return;
    }
    const use: SlotUse = { aggregate, tests: [aggregate.test] };
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
}

const NO_SLOTS: readonly SlotUse[] = [];

function applyEvent(
  uses: readonly SlotUse[],
  { state, event, only }: { state: ProfileState; event: UserEvent; only: ReadonlySet<number> | undefined },
): boolean {
  let isChanged = false;
  for (const { aggregate } of uses) {
    const { slot, shape, matches, readProperty } = aggregate;
    if (only !== undefined && !only.has(slot)) continue;
    if (matches !== undefined && !matches(event.properties)) continue;
    const value = readProperty?.(event.properties);
    const sample: Sample = { at: event.at, messageId: event.messageId, value };
    if (!isCounted(shape, sample)) continue;
    let slotState = state.slots.get(slot);
    if (slotState === undefined) {
      slotState = emptySlot(shape);
      state.slots.set(slot, slotState);
    }
    addToSlot(slotState, sample);
    isChanged = true;
  }
  return isChanged;
}

/** Sets the value of a computation unless it is there already. No entry stands for what nearly every profile has: no value. */
function setValue(
  { computed }: ProfileState,
  { id, kind }: Computation,
  { value, now }: { value: Json; now: Time },
): boolean {
  const known = computed.get(id);
  if (known === undefined) {
    if (value === (kind === 'audience' ? false : null)) return false;
    computed.set(id, { value, since: now, told: undefined, transition: 0 });
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
