import type { Comparison, Condition, EventAggregate, Scalar, Value } from '../../model/definition.ts';
import { DAY, type Duration, HOUR, SECOND } from '../../model/time.ts';
import { durationText, formatDefinition } from './format.ts';

/** Most audiences and computed traits of a server. */
export const MAX_COMPUTATIONS = 500;

/**
 * Most characters of the text form of one definition. The limits below apply to one definition too.
 * spec/contract.md, "Definitions of traits and audiences".
 */
export const MAX_DEFINITION_LENGTH = 16_384;

/** Most values, audiences and groups in one definition. */
const MAX_PRIMARIES = 50;

/** Most levels of `and`, `or`, `not`, `where` and parentheses. */
export const MAX_NESTING = 20;

/** Most entries of one list behind `in`. */
const MAX_CHOICES = 100;

export const MAX_WITHIN: Duration = 3650 * DAY;

/**
 * A count within a time is exact when it is compared with this number at most; beyond it the window moves in
 * whole hours.
 */
export const MAX_EXACT_COUNT = 64;

/** A mistake in a part of a definition. */
export interface PartMistake {
  readonly message: string;
  /** The part, as the same object. */
  readonly part: object;
}

/** Type of a value as it is known before any event: `any` for one that clients send. */
export type ValueType = 'number' | 'list' | 'any';

export interface CheckOptions {
  /** The type of a computed trait by its name; undefined when it is not known. */
  readonly typeOfComputed?: (name: string) => ValueType | undefined;
  /** Most mistakes to report. */
  readonly max: number;
}

/**
 * Finds what is wrong with a definition that is well formed: comparisons that can never be true, parts in the
 * wrong place, windows that do not exist, and too much of anything. Both forms of a definition are checked by
 * it.
 */
export function checkDefinition(
  definition: Condition | EventAggregate,
  options: CheckOptions,
): PartMistake[] {
  const checker = new Checker(options);
  if (definition.op === 'event') checker.aggregate(definition, undefined);
  else checker.condition(definition, { depth: 1, isWhere: false });
  checker.size(definition);
  return checker.mistakes;
}

/** The type of a computed trait's value. */
export function typeOfAggregate({ reduce }: EventAggregate): ValueType {
  switch (reduce.op) {
    case 'unique':
      return 'list';
    case 'mode':
    case 'first':
    case 'last':
      return 'any';
    default:
      return 'number';
  }
}

interface Surrounding {
  readonly depth: number;
  readonly isWhere: boolean;
}

class Checker {
  readonly mistakes: PartMistake[] = [];
  readonly #options: CheckOptions;
  #primaries = 0;

  constructor(options: CheckOptions) {
    this.#options = options;
  }

  condition(condition: Condition, around: Surrounding): void {
    if (around.depth > MAX_NESTING) {
      this.#mistake(
        condition,
        `is nested more than ${MAX_NESTING} levels deep; make a part of it an audience of its own`,
      );
      return;
    }
    const below = { ...around, depth: around.depth + 1 };
    switch (condition.op) {
      case 'and':
      case 'or':
        for (const part of condition.conditions) this.condition(part, below);
        return;
      case 'not':
        this.condition(condition.condition, below);
        return;
      case 'audience':
      case 'group':
        this.#countPrimary(condition);
        if (around.isWhere)
          this.#mistake(
            condition,
            `${condition.op}(…) cannot stand in where(…): write … and ${condition.op}(…) behind the events`,
          );
        return;
      default:
        this.#value(condition, condition.value, around);
        this.#comparison(condition);
    }
  }

  aggregate(aggregate: EventAggregate, comparedWith: readonly Scalar[] | undefined): void {
    const { type, name, where, within } = aggregate;
    this.#countPrimary(aggregate);
    if (type === 'track' && name === '')
      this.#mistake(
        aggregate,
        "a track call always has a name; page('') and screen('') are those without one",
      );
    if (within !== undefined) this.#window(aggregate, within, comparedWith);
    if (where === undefined) return;
    this.condition(where, { depth: 2, isWhere: true });
    for (const part of conjunctsOf(where)) {
      const { hasProperty, hasTrait } = subjectsOf(part);
      if (hasProperty && hasTrait)
        this.#mistake(
          part,
          `looks at the event and at the user in one: in where(…), conditions on ${subjectNames(part)} stand beside those on property(…) with and only`,
        );
    }
  }

  size(definition: Condition | EventAggregate): void {
    // The text form of a deeper definition is not worth making, and the rest of its mistakes not worth
    // telling.
    if (this.mistakes.length > 0) return;
    const { length } = formatDefinition(definition);
    if (length > MAX_DEFINITION_LENGTH)
      this.#mistake(
        definition,
        `has ${length} characters as text, and at most ${MAX_DEFINITION_LENGTH} are allowed`,
      );
  }

  #value(condition: Condition, value: Value, { isWhere }: Surrounding): void {
    if (value.op === 'event') {
      if (isWhere) {
        this.#countPrimary(value);
        this.#mistake(value, 'events cannot stand in where(…): write … and event(…) behind these events');
      } else this.aggregate(value, scalarsOf(condition));
      return;
    }
    this.#countPrimary(value);
    if (value.op === 'property' && !isWhere)
      this.#mistake(
        value,
        "a property belongs to an event: write event('Name').where(property(…) …), or trait(…) for a trait of the user",
      );
  }

  #comparison(condition: Condition): void {
    if (!('value' in condition)) return;
    const { value } = condition;
    const type = this.#typeOf(value);
    const isCount =
      value.op === 'event' && (value.reduce.op === 'count' || value.reduce.op === 'unique_count');
    if (condition.op === 'exists') {
      if (isCount) this.#mistake(condition, 'a number of events always exists: compare it, as in >= 1');
      return;
    }
    if (condition.op === 'in' && condition.to.length > MAX_CHOICES)
      this.#mistake(condition, `has ${condition.to.length} choices, and at most ${MAX_CHOICES} are allowed`);
    for (const scalar of scalarsOf(condition)) {
      const message =
        comparisonProblem(condition.op as Comparison | 'in', type, scalar) ??
        (isCount ? countProblem(condition.op as Comparison | 'in', scalar as number) : undefined);
      if (message === undefined) continue;
      this.#mistake(condition, message);
      return;
    }
  }

  #typeOf(value: Value): ValueType {
    if (value.op === 'event') return typeOfAggregate(value);
    if (value.op === 'computed') return this.#options.typeOfComputed?.(value.name) ?? 'any';
    return 'any';
  }

  #window(aggregate: EventAggregate, within: Duration, comparedWith: readonly Scalar[] | undefined): void {
    if (within < SECOND || within > MAX_WITHIN || within % SECOND !== 0) {
      this.#mistake(
        aggregate,
        `has a time of ${within} milliseconds: it must be whole seconds, at most ${durationText(MAX_WITHIN)}`,
      );
      return;
    }
    if (within % HOUR === 0) return;
    const hours = durationText(Math.ceil(within / HOUR) * HOUR);
    const { op } = aggregate.reduce;
    if (op !== 'count')
      this.#mistake(aggregate, `the window of ${op} moves in whole hours: write within(${hours})`);
    else if (comparedWith === undefined)
      this.#mistake(
        aggregate,
        `the window of a count that is a trait moves in whole hours: write within(${hours})`,
      );
    else if (comparedWith.some((one) => typeof one === 'number' && one > MAX_EXACT_COUNT))
      this.#mistake(
        aggregate,
        `the window of a count that is compared with more than ${MAX_EXACT_COUNT} moves in whole hours: write within(${hours})`,
      );
  }

  #countPrimary(part: object): void {
    this.#primaries++;
    if (this.#primaries === MAX_PRIMARIES + 1)
      this.#mistake(
        part,
        `is one value too many: a definition has at most ${MAX_PRIMARIES}; make a part of it an audience of its own`,
      );
  }

  #mistake(part: object, message: string): void {
    if (this.mistakes.length < this.#options.max) this.mistakes.push({ part, message });
  }
}

function scalarsOf(condition: Condition): readonly Scalar[] {
  if (!('to' in condition)) return [];
  return condition.op === 'in' ? condition.to : [condition.to];
}

/** Reason why a comparison with a value of this type cannot be meant; undefined when it can. */
function comparisonProblem(op: Comparison | 'in', type: ValueType, to: Scalar): string | undefined {
  const isText = op === 'contains' || op === 'starts_with' || op === 'ends_with';
  if (type === 'list' && op !== 'contains') return 'a list is asked for one of its entries: write contains';
  if (type === 'number' && isText) return `a number has no ${op}: compare it, as in >= 100`;
  if (type === 'number' && typeof to !== 'number')
    return `a number is compared with a number, not with ${described(to)}`;
  if ((op === 'starts_with' || op === 'ends_with') && typeof to !== 'string')
    return `${op} takes a text in single quotes, not ${described(to)}`;
  if (['<', '<=', '>', '>='].includes(op) && typeof to === 'boolean')
    return `${to} has no order: write = or !=`;
  return undefined;
}

/** Reason why a comparison of a count is always true or always false. */
function countProblem(op: Comparison | 'in', to: number): string | undefined {
  if (!Number.isSafeInteger(to) || to < 0) return `a number of events is a whole number from 0, never ${to}`;
  if (op === '<' && to === 0) return 'a number of events is never less than 0: for no event write = 0';
  if (op === '>=' && to === 0)
    return 'a number of events is always at least 0: for at least one event write >= 1';
  return undefined;
}

function described(to: Scalar): string {
  return typeof to === 'string' ? 'a text' : typeof to === 'number' ? 'a number' : String(to);
}

/** The conditions that `and` joins, through any parentheses. */
function conjunctsOf(condition: Condition): readonly Condition[] {
  return condition.op === 'and' ? condition.conditions.flatMap(conjunctsOf) : [condition];
}

function subjectsOf(condition: Condition): { hasProperty: boolean; hasTrait: boolean } {
  const parts = partsOf(condition);
  if (parts !== undefined) {
    const all = parts.map(subjectsOf);
    return { hasProperty: all.some((one) => one.hasProperty), hasTrait: all.some((one) => one.hasTrait) };
  }
  const op = 'value' in condition ? condition.value.op : undefined;
  return { hasProperty: op === 'property', hasTrait: op === 'trait' || op === 'computed' };
}

function subjectNames(condition: Condition): string {
  const names = new Set<string>();
  const collect = (one: Condition) => {
    for (const part of partsOf(one) ?? []) collect(part);
    if ('value' in one && one.value.op !== 'property') names.add(`${one.value.op}(…)`);
  };
  collect(condition);
  return [...names].join(' and ');
}

/** The conditions that a condition is made of; undefined for one that is not made of others. */
export function partsOf(condition: Condition): readonly Condition[] | undefined {
  if (condition.op === 'and' || condition.op === 'or') return condition.conditions;
  return condition.op === 'not' ? [condition.condition] : undefined;
}
