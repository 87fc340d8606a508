/** A definition in the builder. Fields are texts as typed; `jsonOf` checks whether they make a definition. */
export interface Group {
  readonly join: 'and' | 'or';
  readonly rows: readonly (Row | Group)[];
}

export type Row = EventRow | ValueRow | MemberRow;

export interface EventRow extends Comparing {
  readonly kind: 'track' | 'page' | 'screen';
  readonly isNot: boolean;
  readonly name: string;
  readonly where: readonly PropertyTest[];
  /** Empty: at any time. */
  readonly within: string;
  readonly unit: Unit;
  readonly reduce: Reducer;
  /** The property that is reduced; `count` has none. */
  readonly property: string;
}

/** A trait, or a computed trait, that is compared. */
export interface ValueRow extends Comparing {
  readonly kind: 'trait' | 'computed';
  readonly isNot: boolean;
  readonly name: string;
}

/** A member of another audience, or somebody in a group of users. */
export interface MemberRow {
  readonly kind: 'audience' | 'group';
  readonly isNot: boolean;
  readonly name: string;
}

interface Comparing {
  readonly op: Operator;
  /** As `scalarOf` reads it; with `in` several with commas between them. */
  readonly to: string;
}

export interface PropertyTest extends Comparing {
  readonly name: string;
}

export const UNITS = { seconds: 1_000, minutes: 60_000, hours: 3_600_000, days: 86_400_000 } as const;
export type Unit = keyof typeof UNITS;

export const OPERATORS = {
  '=': 'is',
  '!=': 'is not',
  '>=': 'is at least',
  '>': 'is more than',
  '<=': 'is at most',
  '<': 'is less than',
  in: 'is one of',
  contains: 'contains',
  starts_with: 'starts with',
  ends_with: 'ends with',
  exists: 'is set',
} as const;
export type Operator = keyof typeof OPERATORS;

export const REDUCERS = {
  count: 'times',
  sum: 'sum of',
  avg: 'average of',
  min: 'lowest',
  max: 'highest',
  first: 'first',
  last: 'last',
  mode: 'most frequent',
  unique: 'values of',
  unique_count: 'number of different',
} as const;
export type Reducer = keyof typeof REDUCERS;

export const NEW_EVENT: EventRow = {
  ...{ kind: 'track', isNot: false, name: '', where: [], within: '30', unit: 'days' },
  ...{ reduce: 'count', property: '', op: '>=', to: '1' },
};
export const NEW_TEST: PropertyTest = { name: '', op: '>=', to: '' };
export const NEW_GROUP: Group = { join: 'and', rows: [NEW_EVENT] };

export function isGroup(entry: Row | Group): entry is Group {
  return 'rows' in entry;
}

type Json = Readonly<Record<string, unknown>>;

/**
 * Converts a definition from its JSON form for the builder. If the builder cannot show it, returns the end of
 * the sentence "the builder cannot show …".
 */
export function builderOf(json: Json): Group | string {
  try {
    const entry = entryOf(json, false);
    return isGroup(entry) ? entry : { join: 'and', rows: [entry] };
  } catch (error) {
    if (error instanceof Unshowable) return error.message;
    throw error;
  }
}

class Unshowable extends Error {}

function entryOf(json: Json, isNot: boolean): Row | Group {
  const op = String(json['op']);
  if (op === 'not') {
    if (isNot) throw new Unshowable('a not inside a not');
    return entryOf(json['condition'] as Json, true);
  }
  if (op === 'and' || op === 'or') {
    if (isNot) throw new Unshowable('a not around several conditions');
    return { join: op, rows: (json['conditions'] as Json[]).map((one) => entryOf(one, false)) };
  }
  if (op === 'audience') return { kind: 'audience', isNot, name: String(json['name']) };
  if (op === 'group') return { kind: 'group', isNot, name: String(json['id']) };
  const value = json['value'] as Json | undefined;
  if (value === undefined || !Object.hasOwn(OPERATORS, op)) throw new Unshowable(`the op ${op}`);
  const comparing = { op: op as Operator, to: fieldOf(json['to']) };
  if (value['op'] === 'event') return { ...eventOf(value), ...comparing, isNot };
  return { kind: value['op'] as ValueRow['kind'], isNot, name: String(value['name']), ...comparing };
}

function eventOf(value: Json): Omit<EventRow, 'isNot' | 'op' | 'to'> {
  const { type, name, where, within, reduce } = value as {
    readonly type: EventRow['kind'];
    readonly name: string;
    readonly where?: Json;
    readonly within?: number;
    readonly reduce: { readonly op: Reducer; readonly property?: string };
  };
  const { op, property = '' } = reduce;
  return { kind: type, name, where: testsOf(where), ...windowOf(within), reduce: op, property };
}

function testsOf(where: Json | undefined): PropertyTest[] {
  if (where === undefined) return [];
  if (where['op'] === 'and') return (where['conditions'] as Json[]).flatMap(testsOf);
  const value = where['value'] as Json | undefined;
  if (value?.['op'] !== 'property') throw new Unshowable('an or, a not or a trait inside where');
  return [{ name: String(value['name']), op: where['op'] as Operator, to: fieldOf(where['to']) }];
}

/** The largest unit that is exact. */
function windowOf(within: number | undefined): Pick<EventRow, 'within' | 'unit'> {
  if (within === undefined) return { within: '', unit: 'days' };
  const units = Object.entries(UNITS).toReversed() as [Unit, number][];
  const [unit, length] = units.find(([, one]) => within % one === 0) ?? ['seconds', UNITS.seconds];
  return { within: String(within / length), unit };
}

/** The JSON form; undefined while a required field is empty. */
export function jsonOf(entry: Row | Group): Json | undefined {
  if (isGroup(entry)) {
    const conditions = entry.rows.map(jsonOf);
    if (conditions.length === 0 || conditions.includes(undefined)) return undefined;
    return conditions.length === 1 ? conditions[0] : { op: entry.join, conditions };
  }
  const condition = conditionOf(entry);
  return entry.isNot && condition !== undefined ? { op: 'not', condition } : condition;
}

function conditionOf(row: Row): Json | undefined {
  const name = row.name.trim();
  if (name === '') return undefined;
  switch (row.kind) {
    case 'audience':
      return { op: 'audience', name };
    case 'group':
      return { op: 'group', id: name };
    case 'trait':
    case 'computed':
      return compared({ op: row.kind, name }, row);
    default:
      return compared(eventJson(row, name), row);
  }
}

function eventJson(row: EventRow, name: string): Json | undefined {
  const { kind, where, within, unit, reduce, property } = row;
  const tests = where.map((test) =>
    test.name.trim() === '' ? undefined : compared({ op: 'property', name: test.name.trim() }, test),
  );
  if (tests.includes(undefined) || (reduce !== 'count' && property.trim() === '')) return undefined;
  const length = within.trim() === '' ? undefined : Number(within) * UNITS[unit];
  if (length !== undefined && !(length > 0)) return undefined;
  return {
    ...{ op: 'event', type: kind, name },
    ...(tests.length === 0
      ? {}
      : { where: tests.length === 1 ? tests[0] : { op: 'and', conditions: tests } }),
    ...(length === undefined ? {} : { within: length }),
    reduce: reduce === 'count' ? { op: 'count' } : { op: reduce, property: property.trim() },
  };
}

function compared(value: Json | undefined, { op, to }: Comparing): Json | undefined {
  if (value === undefined) return undefined;
  if (op === 'exists') return { op, value };
  if (to.trim() === '') return undefined;
  return { op, value, to: op === 'in' ? listOf(to) : scalarOf(to) };
}

const NUMBER = /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i;
const QUOTED = /^'(?:[^']|'')*'$/;

/**
 * The value of a field: a number, true, false, or a text. Single quotes make everything a text; a quote
 * inside is doubled.
 */
export function scalarOf(field: string): string | number | boolean {
  const text = field.trim();
  if (QUOTED.test(text)) return text.slice(1, -1).replaceAll("''", "'");
  if (text === 'true' || text === 'false') return text === 'true';
  return NUMBER.test(text) ? Number(text) : text;
}

/** The text of a field for a value. */
export function fieldOf(value: unknown): string {
  if (value === undefined) return '';
  if (Array.isArray(value)) return value.map((one) => entryField(one)).join(', ');
  return typeof value === 'string' && scalarOf(value) !== value ? quoted(value) : String(value);
}

function entryField(value: unknown): string {
  return typeof value === 'string' && value.includes(',') ? quoted(value) : fieldOf(value);
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

function listOf(field: string): (string | number | boolean)[] {
  const entries = field.match(/\s*'(?:[^']|'')*'\s*(?=,|$)|[^,]+/g) ?? [];
  return entries.filter((entry) => entry.trim() !== '').map(scalarOf);
}
