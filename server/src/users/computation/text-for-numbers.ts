import type { Condition, EventAggregate, Value } from '../../model/definition.ts';
import type { Json } from '../../model/json.ts';
import type { TextForNumber } from '../../ports/users.ts';
import type { ProfileState } from '../identity/profile-state.ts';
import type { LogEvent } from '../log-events.ts';
import { largeNumberOf, pathReader, traitReader } from './audience-compiler.ts';

type Use = Pick<TextForNumber, 'kind' | 'name' | 'use'>;

interface UsedTrait {
  readonly use: Use;
  readonly read: (state: ProfileState) => Json | undefined;
}

interface UsedProperty {
  readonly use: Use;
  readonly of: Pick<EventAggregate, 'type' | 'name'>;
  readonly read: (properties: LogEvent['properties']) => Json | undefined;
}

const REDUCES_NUMBERS: readonly string[] = ['sum', 'avg', 'min', 'max'];

/**
 * Counts values of traits and properties that a definition uses as numbers, and how many of them are text.
 * "100" as text fits no `> 50` and no sum; the number of members alone would not show that.
 */
export class TextForNumbers {
  readonly #traits: UsedTrait[] = [];
  readonly #properties: UsedProperty[] = [];
  readonly #counts = new Map<string, { readonly use: Use; texts: number; values: number }>();

  constructor(definition: Condition | EventAggregate) {
    if (definition.op === 'event') this.#aggregate(definition, false);
    else this.#condition(definition, undefined);
  }

  ofProfile(state: ProfileState): void {
    for (const { use, read } of this.#traits) this.#count(use, read(state));
  }

  ofEvent({ type, name, properties }: Pick<LogEvent, 'type' | 'name' | 'properties'>): void {
    for (const { use, of, read } of this.#properties)
      if (of.type === type && of.name === name) this.#count(use, read(properties));
  }

  /** Names with at least one text among their values. */
  read(): TextForNumber[] {
    return [...this.#counts.values()].flatMap(({ use, texts, values }) =>
      texts === 0 ? [] : [{ ...use, texts, values }],
    );
  }

  #condition(condition: Condition, of: UsedProperty['of'] | undefined): void {
    if ('conditions' in condition) for (const part of condition.conditions) this.#condition(part, of);
    else if (condition.op === 'not') this.#condition(condition.condition, of);
    else if ('value' in condition) {
      const to = 'to' in condition ? [condition.to].flat() : [];
      this.#value(condition.value, { wantsNumber: to.some((one) => typeof one === 'number'), of });
    }
  }

  #value(value: Value, { wantsNumber, of }: { wantsNumber: boolean; of: UsedProperty['of'] | undefined }) {
    if (value.op === 'event') this.#aggregate(value, wantsNumber);
    if (!wantsNumber) return;
    const { op: kind } = value;
    if (kind === 'trait') {
      const use: Use = { kind, name: value.name, use: 'compared' };
      const read = traitReader(value.name);
      this.#traits.push({ use, read: (state) => read({ state }) });
    }
    if (kind === 'property' && of !== undefined) this.#property(value.name, of, 'compared');
  }

  #aggregate({ type, name, where, reduce }: EventAggregate, isCompared: boolean): void {
    if (where !== undefined) this.#condition(where, { type, name });
    if (!('property' in reduce)) return;
    if (REDUCES_NUMBERS.includes(reduce.op)) this.#property(reduce.property, { type, name }, 'reduced');
    else if (isCompared && ['mode', 'first', 'last'].includes(reduce.op))
      this.#property(reduce.property, { type, name }, 'compared');
  }

  #property(name: string, of: UsedProperty['of'], use: Use['use']): void {
    this.#properties.push({ use: { kind: 'property', name, use }, of, read: pathReader(name) });
  }

  #count(use: Use, value: Json | undefined): void {
    if (value === undefined || value === null) return;
    const key = JSON.stringify([use.kind, use.name, use.use]);
    const counted = this.#counts.get(key) ?? { use, texts: 0, values: 0 };
    counted.values++;
    // Text of many digits is compared as the number that it was, and is in no sum.
    const isNumber =
      use.use === 'compared' && typeof value === 'string' && largeNumberOf(value) !== undefined;
    if (typeof value === 'string' && !isNumber) counted.texts++;
    this.#counts.set(key, counted);
  }
}
