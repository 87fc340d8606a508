import type { Condition, EventAggregate, Scalar, Value } from '../../model/definition.ts';
import { DAY, type Duration, HOUR, MINUTE, SECOND } from '../../model/time.ts';

const UNITS: readonly (readonly [length: Duration, name: string])[] = [
  [DAY, 'day'],
  [HOUR, 'hour'],
  [MINUTE, 'minute'],
  [SECOND, 'second'],
];

/**
 * The text form of a definition, always the same one for the same definition: `parseAudience` or `parseTrait`
 * makes the definition of it again.
 */
export function formatDefinition(definition: Condition | EventAggregate): string {
  return definition.op === 'event' ? aggregateText(definition) : conditionText(definition);
}

function conditionText(condition: Condition): string {
  switch (condition.op) {
    case 'and':
    case 'or':
      return condition.conditions.map((part) => operandText(part, condition.op)).join(` ${condition.op} `);
    case 'not':
      return `not ${operandText(condition.condition, 'not')}`;
    case 'audience':
      return `audience(${quoted(condition.name)})`;
    case 'group':
      return `group(${quoted(condition.id)})`;
    case 'exists':
      return `${valueText(condition.value)} exists`;
    case 'in':
      return `${valueText(condition.value)} in (${condition.to.map(scalarText).join(', ')})`;
    default:
      return `${valueText(condition.value)} ${condition.op} ${scalarText(condition.to)}`;
  }
}

/** A condition beside an operator. `and` binds tighter than `or`, and `not` tighter than both. */
function operandText(part: Condition, beside: 'and' | 'or' | 'not'): string {
  const text = conditionText(part);
  const isLoose = part.op === 'or' || (part.op === 'and' && beside !== 'or');
  return isLoose ? `(${text})` : text;
}

function valueText(value: Value): string {
  return value.op === 'event' ? aggregateText(value) : `${value.op}(${quoted(value.name)})`;
}

function aggregateText({ type, name, where, within, reduce }: EventAggregate): string {
  const parts = [`${type === 'track' ? 'event' : type}(${quoted(name)})`];
  if (where !== undefined) parts.push(`where(${conditionText(where)})`);
  if (within !== undefined) parts.push(`within(${durationText(within)})`);
  parts.push(reduce.op === 'count' ? 'count()' : `${reduce.op}(property(${quoted(reduce.property)}))`);
  return parts.join('.');
}

/** A duration of whole seconds in the largest unit that is exact: `7 days`, `90 minutes`. */
export function durationText(duration: Duration): string {
  const [length, name] = UNITS.find(([unit]) => duration % unit === 0) ?? UNITS.at(-1)!;
  const count = duration / length;
  return `${count} ${name}${count === 1 ? '' : 's'}`;
}

function scalarText(value: Scalar): string {
  return typeof value === 'string' ? quoted(value) : String(value);
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
