import type {
  Comparison,
  Computation,
  Condition,
  EventAggregate,
  Reducer,
  Scalar,
  Value,
} from '../../model/definition.ts';
import { isObject, type Json, type JsonObject } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';
import type { ProfileState } from '../identity/profile-state.ts';
import { MAX_EXACT_COUNT } from '../language/checks.ts';
import type { ReductionKind } from './reductions.ts';
import { type SlotShape, slotValue } from './slots.ts';

/** A definition as functions, with the data that profiles must keep for its aggregates. */
export interface CompiledComputation {
  readonly computation: Computation;
  /** True or false for an audience; the value of a trait, null when there is none. */
  evaluate(scope: EvaluationScope): Json;
  readonly aggregates: readonly CompiledAggregate[];
  /** Audiences and traits whose values it reads. */
  readonly mentions: readonly ComputationName[];
  /** Names of traits that it reads, as written. */
  readonly traits: readonly string[];
  /** True when it reads the groups of a user. */
  readonly readsGroups: boolean;
}

export interface ComputationName {
  readonly kind: Computation['kind'];
  readonly name: string;
}

/** The input of an evaluation. The computations that the definition mentions have been evaluated before. */
export interface EvaluationScope {
  readonly state: ProfileState;
  readonly now: Time;
}

/** Events that are collected in a slot. Equal keys mean equal slots. */
export interface CompiledAggregate {
  readonly key: string;
  readonly slot: number;
  readonly shape: SlotShape;
  readonly type: EventAggregate['type'];
  readonly name: string;
  /** Absent when every event counts. */
  readonly matches: ((properties: JsonObject) => boolean) | undefined;
  readonly readProperty: ((properties: JsonObject) => Json | undefined) | undefined;
  /**
   * The test that a definition makes of this count, for slots of newest times; absent when it uses the value
   * otherwise.
   */
  readonly test: ((count: number) => boolean) | undefined;
}

/** Numbers that other parts assign, which the compiler puts into its functions. */
export interface CompilerContext {
  /** Gives the number under which profiles keep the slot of an aggregate, the same one for the same key. */
  slotNumberOf(key: string): number;
  /** The id of a computation; undefined when there is none of this name. */
  idOf(mentioned: ComputationName): number | undefined;
}

type Test<S> = (scope: S) => boolean;
type Read<S> = (scope: S) => Json | undefined;

/** Reads the operands of a condition, either from a user or from an event. */
interface Leaves<S> {
  value(value: Value, use: Use): Read<S>;
  audience(name: string): Test<S>;
  group(id: string): Test<S>;
}

/** The condition on a value, by which a count knows how many events it has to remember. */
type Use = Extract<Condition, { value: Value }> | undefined;

/**
 * Makes functions of a definition. A property outside of `where` is absent, and so is a value of the user in
 * a condition that has properties too; the language refuses both. spec/contract.md, "Definitions of traits
 * and audiences".
 */
export function compileComputation(computation: Computation, context: CompilerContext): CompiledComputation {
  const aggregates: CompiledAggregate[] = [];
  const read: ReadFacts = { mentions: [], traits: [], readsGroups: false };
  const leaves = userLeaves(context, aggregates, read);
  if (computation.kind === 'trait') {
    const { definition } = computation;
    const value = leaves.value(definition, undefined);
    const { slot } = aggregates.find(({ key }) => key === keyOf(definition, undefined))!;
    // A count of nothing is 0, but a user who never did it has no such trait.
    const evaluate = (scope: EvaluationScope): Json =>
      scope.state.slots.has(slot) ? (value(scope) ?? null) : null;
    return { computation, evaluate, aggregates, ...read };
  }
  const test = compileCondition(computation.definition, leaves);
  const { includeAnonymous } = computation;
  const evaluate = (scope: EvaluationScope): boolean =>
    (includeAnonymous || scope.state.userId !== undefined) && test(scope);
  return { computation, evaluate, aggregates, ...read };
}

/**
 * The keys of the slots that a definition needs; none for one that cannot be compiled, which the engine
 * reports.
 */
export function slotKeysOf(computation: Computation): readonly string[] {
  const context = { slotNumberOf: () => 0, idOf: () => undefined };
  try {
    return compileComputation(computation, context).aggregates.map(({ key }) => key);
  } catch {
    return [];
  }
}

/**
 * The computations in an order in which each comes behind those it mentions. Those that mention each other in
 * a circle, and those that need one of them, are left out.
 */
export function evaluationOrder(compiled: readonly CompiledComputation[]): CompiledComputation[] {
  const byName = new Map(compiled.map((one) => [nameKey(one.computation), one]));
  const order: CompiledComputation[] = [];
  const verdicts = new Map<CompiledComputation, 'looked at' | 'sound' | 'circular'>();
  const isSound = (one: CompiledComputation): boolean => {
    const known = verdicts.get(one);
    if (known !== undefined) return known === 'sound';
    verdicts.set(one, 'looked at');
    const sound = one.mentions.every((mentioned) => {
      const other = byName.get(nameKey(mentioned));
      return other === undefined || isSound(other);
    });
    verdicts.set(one, sound ? 'sound' : 'circular');
    if (sound) order.push(one);
    return sound;
  };
  for (const one of compiled) isSound(one);
  return order;
}

function nameKey({ kind, name }: ComputationName): string {
  return `${kind} ${name}`;
}

/** Facts that a definition reads beside its aggregates; the compiler collects them. */
interface ReadFacts {
  readonly mentions: ComputationName[];
  readonly traits: string[];
  readsGroups: boolean;
}

function userLeaves(
  context: CompilerContext,
  aggregates: CompiledAggregate[],
  read: ReadFacts,
): Leaves<EvaluationScope> {
  const computed = (mentioned: ComputationName): Read<EvaluationScope> => {
    read.mentions.push(mentioned);
    const id = context.idOf(mentioned);
    return ({ state }) => (id === undefined ? undefined : state.computed.get(id)?.value);
  };
  const leaves: Leaves<EvaluationScope> = {
    value(value, use) {
      switch (value.op) {
        case 'trait':
          read.traits.push(value.name);
          return traitReader(value.name);
        case 'computed':
          return computed({ kind: 'trait', name: value.name });
        case 'property':
          return () => undefined;
        case 'event': {
          const { gate, wanted } = splitWhere(value.where);
          const aggregate = compileAggregate(value, wanted, { use, context });
          aggregates.push(aggregate);
          const isOpen =
            gate.length === 0 ? undefined : allOf(gate.map((one) => compileCondition(one, leaves)));
          return aggregateReader(value.reduce, aggregate.slot, isOpen);
        }
      }
    },
    audience(name) {
      const membership = computed({ kind: 'audience', name });
      return (scope) => membership(scope) === true;
    },
    group: (id) => {
      read.readsGroups = true;
      return (scope) => scope.state.groups.has(id);
    },
  };
  return leaves;
}

/**
 * Values of users in `where` are looked at once, when the definition is evaluated, and not for each event.
 */
function aggregateReader(
  reduce: Reducer,
  slot: number,
  isOpen: Test<EvaluationScope> | undefined,
): Read<EvaluationScope> {
  const ofNothing = reduce.op === 'count' || reduce.op === 'unique_count' ? 0 : undefined;
  const asAverage = reduce.op === 'avg';
  return (scope) => {
    const state = scope.state.slots.get(slot);
    if (state === undefined || (isOpen !== undefined && !isOpen(scope))) return ofNothing;
    return slotValue(state, scope.now, asAverage);
  };
}

const EVENT_LEAVES: Leaves<JsonObject> = {
  value: (value) => (value.op === 'property' ? pathReader(value.name) : () => undefined),
  audience: () => () => false,
  group: () => () => false,
};

function compileAggregate(
  aggregate: EventAggregate,
  wanted: readonly Condition[],
  { use, context }: { use: Use; context: CompilerContext },
): CompiledAggregate {
  const { type, name, reduce } = aggregate;
  const key = keyOf(aggregate, use);
  const shape = shapeOf(aggregate, use);
  const tests = wanted.map((condition) => compileCondition(condition, EVENT_LEAVES));
  const isCountTest = shape.window === 'times' && !shape.buckets && use !== undefined;
  return {
    key,
    slot: context.slotNumberOf(key),
    shape,
    type,
    name,
    matches: tests.length === 0 ? undefined : allOf(tests),
    readProperty: reduce.op === 'count' ? undefined : pathReader(reduce.property),
    test: isCountTest ? compileTest(use, (count: number) => count) : undefined,
  };
}

function keyOf(aggregate: EventAggregate, use: Use): string {
  const { type, name, where, reduce } = aggregate;
  return canonical({
    type,
    name,
    where: splitWhere(where).wanted.map(canonical).sort(),
    property: reduce.op === 'count' ? null : reduce.property,
    shape: shapeOf(aggregate, use),
  });
}

function shapeOf({ reduce, within }: EventAggregate, use: Use): SlotShape {
  const reduction: ReductionKind = reduce.op === 'avg' ? 'sum' : reduce.op;
  if (within === undefined) return { window: 'none', reduction };
  if (reduction !== 'count') return { window: 'buckets', within, reduction };
  const most = mostCompared(use);
  if (most === undefined || most > MAX_EXACT_COUNT) {
    return { window: 'times', within, keep: MAX_EXACT_COUNT + 1, buckets: true };
  }
  return { window: 'times', within, keep: most + 1, buckets: false };
}

/** The greatest count that a condition tells from all greater ones; undefined when it uses each count. */
function mostCompared(use: Use): number | undefined {
  if (use === undefined) return undefined;
  const to = use.op === 'exists' ? [] : use.op === 'in' ? use.to : [use.to];
  const numbers = to.filter((one) => typeof one === 'number');
  return Math.max(1, ...numbers.map((one) => Math.ceil(one)));
}

/** The parts of `where` that look at the user, and those that look at the event. */
function splitWhere(where: Condition | undefined): {
  readonly gate: readonly Condition[];
  readonly wanted: readonly Condition[];
} {
  const parts = where === undefined ? [] : conjuncts(where);
  return {
    gate: parts.filter((part) => !hasProperty(part)),
    wanted: parts.filter(hasProperty),
  };
}

function conjuncts(condition: Condition): Condition[] {
  return condition.op === 'and' ? condition.conditions.flatMap(conjuncts) : [condition];
}

function hasProperty(condition: Condition): boolean {
  switch (condition.op) {
    case 'and':
    case 'or':
      return condition.conditions.some(hasProperty);
    case 'not':
      return hasProperty(condition.condition);
    case 'audience':
    case 'group':
      return false;
    default:
      return condition.value.op === 'property';
  }
}

function compileCondition<S>(condition: Condition, leaves: Leaves<S>): Test<S> {
  switch (condition.op) {
    case 'and':
      return allOf(condition.conditions.map((one) => compileCondition(one, leaves)));
    case 'or':
      return anyOf(condition.conditions.map((one) => compileCondition(one, leaves)));
    case 'not': {
      const test = compileCondition(condition.condition, leaves);
      return (scope) => !test(scope);
    }
    case 'audience':
      return leaves.audience(condition.name);
    case 'group':
      return leaves.group(condition.id);
    default:
      return compileTest(condition, leaves.value(condition.value, condition));
  }
}

function allOf<S>(tests: readonly Test<S>[]): Test<S> {
  return (scope) => {
    for (const test of tests) if (!test(scope)) return false;
    return true;
  };
}

function anyOf<S>(tests: readonly Test<S>[]): Test<S> {
  return (scope) => {
    for (const test of tests) if (test(scope)) return true;
    return false;
  };
}

function compileTest<S>(condition: NonNullable<Use>, read: Read<S>): Test<S> {
  if (condition.op === 'exists') {
    return (scope) => {
      const value = read(scope);
      return value !== undefined && value !== null;
    };
  }
  if (condition.op === 'in') {
    const options = new Set<unknown>(condition.to);
    return (scope) => options.has(read(scope));
  }
  const { op, to } = condition;
  return (scope) => compare(op, read(scope), to);
}

/**
 * Compares texts with texts, numbers with numbers and booleans with booleans. False for a value that is
 * absent, also with `!=`; a list or an object has nothing but `contains`. A number that no double holds is
 * stored as the text of its digits, and compared as a number.
 */
function compare(op: Comparison, value: Json | undefined, to: Scalar): boolean {
  if (value === undefined || value === null) return false;
  if (typeof value === 'object') return op === 'contains' && Array.isArray(value) && value.includes(to);
  const large = typeof value === 'string' && typeof to === 'number' ? largeNumberOf(value) : undefined;
  if (large !== undefined && typeof to === 'number') return compareLarge(op, large, to);
  switch (op) {
    case '=':
      return value === to;
    case '!=':
      return value !== to;
    case 'contains':
      return typeof value === 'string' && typeof to === 'string' && value.includes(to);
    case 'starts_with':
      return typeof value === 'string' && typeof to === 'string' && value.startsWith(to);
    case 'ends_with':
      return typeof value === 'string' && typeof to === 'string' && value.endsWith(to);
    default:
      return typeof value === typeof to && typeof to !== 'boolean' && isOrdered(op, value, to);
  }
}

const NUMBER = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/;
const INTEGER = /^-?\d+$/;

/**
 * The number that a text is the digits of, where receiving keeps it as text (spec/specification.md,
 * "Values"): an integer beyond 2^53, or what is infinite as a double. Undefined for every other text, such as
 * "100", which a client has sent as text.
 */
export function largeNumberOf(text: string): number | bigint | undefined {
  if (!NUMBER.test(text)) return undefined;
  const double = Number(text);
  if (INTEGER.test(text) && !Number.isSafeInteger(double)) return BigInt(text);
  return Number.isFinite(double) ? undefined : double;
}

function compareLarge(op: Comparison, value: number | bigint, to: number): boolean {
  switch (op) {
    case '=':
      // biome-ignore lint/suspicious/noDoubleEquals: a bigint equals a number of the same value by this operator alone.
      return value == to;
    case '!=':
      // biome-ignore lint/suspicious/noDoubleEquals: as above.
      return value != to;
    case '<':
      return value < to;
    case '<=':
      return value <= to;
    case '>':
      return value > to;
    case '>=':
      return value >= to;
    default:
      return false;
  }
}

/** Numbers by size, texts by their UTF-16 units: dates of ISO 8601 in one zone come out in their order. */
function isOrdered(op: '<' | '<=' | '>' | '>=', value: Scalar, to: Scalar): boolean {
  switch (op) {
    case '<':
      return value < to;
    case '<=':
      return value <= to;
    case '>':
      return value > to;
    case '>=':
      return value >= to;
  }
}

/** Reads a trait by its name, or else along the dots of the name. */
export function traitReader(name: string): Read<Pick<EvaluationScope, 'state'>> {
  const dot = name.indexOf('.');
  if (dot < 0) return ({ state }) => state.traits.get(name)?.value;
  const first = name.slice(0, dot);
  const rest = name.slice(dot + 1).split('.');
  return ({ state }) => (state.traits.get(name) ?? follow(state.traits.get(first), rest))?.value;

  function follow(trait: { readonly value: Json } | undefined, path: readonly string[]) {
    const value = trait === undefined ? undefined : walk(trait.value, path);
    return value === undefined ? undefined : { value };
  }
}

/** Reads a property by its name, or else along the dots of the name. */
export function pathReader(name: string): Read<JsonObject> {
  const path = name.split('.');
  return (properties) => {
    if (Object.hasOwn(properties, name)) return properties[name];
    return path.length === 1 ? undefined : walk(properties, path);
  };
}

function walk(value: Json | undefined, path: readonly string[]): Json | undefined {
  for (const name of path) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}

/** JSON with sorted keys, so that the same definition has one text. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) => {
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part;
    return Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
