import { type EventRow, fieldOf } from './model.ts';

/** A recent event, from which suggestions are made. */
export interface SeenEvent {
  readonly type: string;
  /** Event name of a track call. */
  readonly event?: string;
  /** Name of a page or a screen. */
  readonly name?: string;
  readonly properties?: Values;
  readonly traits?: Values;
}

type Values = Readonly<Record<string, unknown>>;

/** Most values of a property that are suggested. */
const MOST = 20;

/** Names and values of recent events to choose from. They are suggestions only: other names may be typed. */
export class KnownEvents {
  readonly #events: readonly SeenEvent[];

  constructor(events: readonly SeenEvent[]) {
    this.#events = events;
  }

  /** Names of events of one kind: names of pages and of track calls are kept apart. */
  names(kind: EventRow['kind']): string[] {
    return sorted(this.#events.flatMap((one) => nameOf(one, kind) ?? []));
  }

  /** Properties that events of a kind and a name have; of any name where it is empty. */
  properties(kind: EventRow['kind'], name: string): string[] {
    return sorted(this.#propertiesOf(kind, name).flatMap((properties) => Object.keys(properties)));
  }

  /** Values that a property had, as text of a field. */
  values(kind: EventRow['kind'], name: string, property: string): string[] {
    return valuesOf(this.#propertiesOf(kind, name), property);
  }

  traits(): string[] {
    return sorted(this.#events.flatMap(({ traits = {} }) => Object.keys(traits)));
  }

  traitValues(trait: string): string[] {
    const all = this.#events.flatMap(({ traits }): Values[] => (traits === undefined ? [] : [traits]));
    return valuesOf(all, trait);
  }

  #propertiesOf(kind: EventRow['kind'], name: string): Values[] {
    return this.#events.flatMap((one): Values[] => {
      const found = nameOf(one, kind);
      const isWanted = found !== undefined && (name.trim() === '' || found === name.trim());
      return isWanted && one.properties !== undefined ? [one.properties] : [];
    });
  }
}

function nameOf({ type, event, name }: SeenEvent, kind: EventRow['kind']): string | undefined {
  if (type !== kind) return undefined;
  return kind === 'track' ? event : name;
}

function valuesOf(records: readonly Values[], key: string): string[] {
  const values = records.flatMap((record) => (Object.hasOwn(record, key) ? [record[key]] : []));
  const plain = values.filter((value) => ['string', 'number', 'boolean'].includes(typeof value));
  return sorted(plain.map(fieldOf)).slice(0, MOST);
}

function sorted(texts: readonly string[]): string[] {
  return [...new Set(texts)].sort();
}
