import type { Computation, Condition, EventAggregate, Value } from '../../model/definition.ts';
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
