import type { Computation, Condition, EventAggregate, Value } from '../../model/definition.ts';
import type { Duration } from '../../model/time.ts';
import { partsOf } from './checks.ts';

/** A definition names another computation. */
export interface Reference {
  readonly kind: Computation['kind'];
  readonly name: string;
  /** The part of the definition that names it. */
  readonly part: object;
}

/** The audiences and computed traits that a definition names, in the order of its text. */
export function referencesOf(definition: Condition | EventAggregate): Reference[] {
  return definition.op === 'event' ? referencesOfValue(definition) : referencesOfCondition(definition);
}

function referencesOfCondition(condition: Condition): Reference[] {
  const parts = partsOf(condition);
  if (parts !== undefined) return parts.flatMap(referencesOfCondition);
  if (condition.op === 'audience') return [{ kind: 'audience', name: condition.name, part: condition }];
  return 'value' in condition ? referencesOfValue(condition.value) : [];
}

function referencesOfValue(value: Value): Reference[] {
  if (value.op === 'computed') return [{ kind: 'trait', name: value.name, part: value }];
  return value.op === 'event' && value.where !== undefined ? referencesOfCondition(value.where) : [];
}

/** The longest time that a definition looks back; undefined when it has none. */
export function longestWindowOf(definition: Condition | EventAggregate): Duration | undefined {
  const windows = definition.op === 'event' ? windowsOfValue(definition) : windowsOf(definition);
  return windows.length === 0 ? undefined : Math.max(...windows);
}

function windowsOf(condition: Condition): Duration[] {
  const parts = partsOf(condition);
  if (parts !== undefined) return parts.flatMap(windowsOf);
  return 'value' in condition ? windowsOfValue(condition.value) : [];
}

function windowsOfValue(value: Value): Duration[] {
  return value.op === 'event' && value.within !== undefined ? [value.within] : [];
}
