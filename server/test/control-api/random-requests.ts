import fc from 'fast-check';
import type { DescribedOperation, Schema } from './document.ts';
import type { RequestPlan } from './world.ts';

/** Names of records that are there, and what nobody would call anything. */
const NAMES = fc.oneof(
  fc.constantFrom('website', 'crm', 'refusing', 'viewer'),
  fc.constantFrom(
    '%',
    '%zz',
    'a/b',
    ' ',
    '?',
    '#',
    '__proto__',
    'constructor',
    'ü'.repeat(100),
    'x'.repeat(3000),
  ),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }),
  fc.uuid(),
);

/** Keys of objects that mean something to the language rather than to us. */
const ODD_KEYS = fc.constantFrom('__proto__', 'constructor', 'toString', '', 'length', 'set');

const ANYTHING = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom(null, '', [], {}, -1, '\ud800', '\u0000', 'x'.repeat(200)),
  fc.dictionary(ODD_KEYS, fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 }),
);

/** A value that a schema asks for, or at some place one that it does not. */
function valueFor(schema: Schema): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 9, arbitrary: rightFor(schema) }, { weight: 1, arbitrary: ANYTHING });
}

function rightFor(schema: Schema): fc.Arbitrary<unknown> {
  const { type, anyOf, oneOf, enum: values } = schema as { [key: string]: unknown } & Parts;
  if ('const' in schema) return fc.constant(schema['const']);
  if (values !== undefined) return fc.constantFrom(...values);
  const either = anyOf ?? oneOf;
  if (either !== undefined) return fc.oneof(...either.map(valueFor));
  if (type === 'string') return fc.oneof(NAMES, fc.string(), fc.date({ noInvalidDate: true }).map(iso));
  if (type === 'boolean') return fc.boolean();
  if (type === 'integer' || type === 'number') return fc.oneof(fc.nat(600), fc.integer(), fc.double());
  if (type === 'array') return fc.array(valueFor((schema['items'] ?? {}) as Schema), { maxLength: 4 });
  return type === 'object' ? objectFor(schema) : ANYTHING;
}

interface Parts {
  readonly type?: string;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly enum?: readonly unknown[];
}

function objectFor({ properties = {}, required = [] }: Schema): fc.Arbitrary<unknown> {
  const parts = Object.entries(properties as Record<string, Schema>);
  const model = Object.fromEntries(parts.map(([key, schema]) => [key, valueFor(schema)]));
  const requiredKeys = fc.constantFrom(required as string[], required as string[], []);
  const right = requiredKeys.chain((keys) => fc.record(model, { requiredKeys: keys }));
  return fc.oneof(
    { weight: 5, arbitrary: right },
    {
      weight: 1,
      arbitrary: fc
        .tuple(right, ODD_KEYS, ANYTHING)
        .map(([object, key, value]) => ({ ...object, [key]: value })),
    },
  );
}

const iso = (date: Date) => date.toISOString();

/** A request of this operation: right, nearly so, or not at all. */
export function requestOf({ parameters, body, path }: DescribedOperation): fc.Arbitrary<RequestPlan> {
  const placed = (place: string) => parameters.filter((parameter) => parameter.in === place);
  const texts = (place: string) =>
    fc.record(
      Object.fromEntries(
        placed(place).map(({ name, schema }) => [name, valueFor(schema).map((value) => textOf(value))]),
      ),
      { requiredKeys: placed(place).flatMap(({ name, required }) => (required === true ? [name] : [])) },
    );
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => [name!, NAMES.filter(isReachable)]);
  const unknown = fc.dictionary(fc.constantFrom('nonsense', 'limit', '__proto__'), fc.string(), {
    maxKeys: 1,
  });
  return fc.record({
    names: fc.record(Object.fromEntries(names) as Record<string, fc.Arbitrary<string>>),
    query: fc
      .tuple(
        texts('query'),
        fc.oneof({ weight: 4, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: unknown }),
      )
      .map(([known, odd]) => ({ ...known, ...odd })),
    headers: texts('header').map(visible),
    body: fc.oneof(
      { weight: 6, arbitrary: body === undefined ? fc.constant(undefined) : valueFor(body) },
      { weight: 1, arbitrary: fc.constantFrom('{', '[', 'null', '"', '{"a":', '\u0000', '{"__proto__":1}') },
    ),
  }) as fc.Arbitrary<RequestPlan>;
}

/** Dots alone mean the folder above on the way, so they name nothing. */
function isReachable(name: string): boolean {
  return !/^\.{0,2}$/.test(name);
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

/** Keeps only the characters that a header may hold. */
function visible(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, text]) => [name, text.replace(/[^ -~]/g, '').slice(0, 100)]),
  );
}
