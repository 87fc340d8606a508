import * as z from 'zod';
import { closestWord } from '../../model/closest-word.ts';
import {
  COMPARISONS,
  type Condition,
  type EventAggregate,
  PROPERTY_REDUCERS,
  type Reducer,
  type Scalar,
  type Value,
} from '../../model/definition.ts';
import { findLimitViolation, MAX_PROBLEMS } from '../../model/input-limits.ts';
import { isObject } from '../../model/json.ts';
import { type CheckOptions, checkDefinition, type PartMistake } from './checks.ts';

const NAME_RULE = 'must be a text that is not empty, of whole Unicode characters';
const TEXT_RULE = 'must be a text of whole Unicode characters';
const name = () =>
  z
    .string(NAME_RULE)
    .min(1, NAME_RULE)
    .refine((text) => text.isWellFormed(), NAME_RULE);

const SCALAR_RULE = 'must be a text, a number, true or false; null equals nothing';
const scalar: z.ZodType<Scalar> = z
  .union(
    [
      z.string().refine((text) => text.isWellFormed(), 'must be whole Unicode characters'),
      // A negative zero equals zero.
      z.number().transform((value) => value + 0),
      z.boolean(),
    ],
    SCALAR_RULE,
  )
  .refine((value) => !standsForNeighbours(value), {
    error: 'is a whole number of so many digits that it is kept as text: write it in quotes',
  });

/**
 * Tells whether a number stands for its neighbours too. From 10^21 on a number is written with an exponent,
 * and is a number in events as well.
 */
function standsForNeighbours(value: Scalar): boolean {
  return Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value as number) < 1e21;
}

/** Schema of the `op` of a mapping; its message proposes the operator that may be meant. */
function opRule(what: string, ops: readonly string[]) {
  return {
    error: ({ input }: { readonly input?: unknown }) => {
      if (!isObject(input)) return `must be a mapping with the op of ${what}`;
      const op = input['op'];
      const meant = typeof op === 'string' ? closestWord(op, ops) : undefined;
      const hint = meant === undefined ? `: one of ${ops.join(', ')}` : `; did you mean ${meant}?`;
      return `must be the op of ${what}${hint}`;
    },
  };
}

const reducer: z.ZodType<Reducer> = z.discriminatedUnion(
  'op',
  [
    z.strictObject({ op: z.literal('count') }),
    z.strictObject({ op: z.enum(PROPERTY_REDUCERS), property: name() }),
  ],
  opRule('a reducer', ['count', ...PROPERTY_REDUCERS]),
);

const WITHIN_RULE = 'must be a time in milliseconds, a whole number of seconds';
const aggregate = z.strictObject(
  {
    op: z.literal('event', 'must be event: a computed trait is a value of events'),
    type: z.enum(['track', 'page', 'screen'], 'must be track, page or screen'),
    // An empty one stands for pages without a name; checkDefinition refuses it for others.
    name: z.string(TEXT_RULE).refine((text) => text.isWellFormed(), TEXT_RULE),
    where: z.lazy((): z.ZodType<Condition> => condition).exactOptional(),
    within: z.int(WITHIN_RULE).positive(WITHIN_RULE).multipleOf(1000, WITHIN_RULE).exactOptional(),
    reduce: reducer,
  },
  'must be a mapping with the op event',
);

const value: z.ZodType<Value> = z.discriminatedUnion(
  'op',
  [z.strictObject({ op: z.enum(['trait', 'computed', 'property']), name: name() }), aggregate],
  opRule('a value', ['trait', 'computed', 'property', 'event']),
);

const LIST_RULE = 'must be a list of texts, numbers, true or false';
const PARTS_RULE = 'must be a list of at least two conditions';
const condition: z.ZodType<Condition> = z.discriminatedUnion(
  'op',
  [
    z.strictObject({
      op: z.enum(['and', 'or']),
      conditions: z
        .array(
          z.lazy((): z.ZodType<Condition> => condition),
          PARTS_RULE,
        )
        .min(2, PARTS_RULE),
    }),
    z.strictObject({ op: z.literal('not'), condition: z.lazy((): z.ZodType<Condition> => condition) }),
    z.strictObject({ op: z.enum(COMPARISONS), value, to: scalar }),
    z.strictObject({ op: z.literal('in'), value, to: z.array(scalar, LIST_RULE).min(1, LIST_RULE) }),
    z.strictObject({ op: z.literal('exists'), value }),
    z.strictObject({ op: z.literal('audience'), name: name() }),
    z.strictObject({ op: z.literal('group'), id: name() }),
  ],
  opRule('a condition', ['and', 'or', 'not', ...COMPARISONS, 'in', 'exists', 'audience', 'group']),
);

/** A mistake in the JSON form, with the path of the part from the top of the definition. */
export interface JsonDefinitionProblem {
  readonly message: string;
  readonly path: readonly (string | number)[];
}

export type ReadDefinition<Of> =
  | {
      readonly definition: Of;
      /** The place of a mistake in a part of the definition. */
      readonly problemAt: (mistake: PartMistake) => JsonDefinitionProblem;
    }
  /** At most `MAX_PROBLEMS`. */
  | { readonly problems: readonly JsonDefinitionProblem[] };

type Options = Omit<CheckOptions, 'max'>;

/**
 * Reads the condition of an audience from its JSON form. spec/contract.md, "Definitions of traits and
 * audiences".
 */
export function readAudience(json: unknown, options: Options = {}): ReadDefinition<Condition> {
  return read(json, condition, options);
}

/** Reads the value of a computed trait from its JSON form. */
export function readTrait(json: unknown, options: Options = {}): ReadDefinition<EventAggregate> {
  return read(json, aggregate, options);
}

function read<Of extends Condition | EventAggregate>(
  json: unknown,
  schema: z.ZodType<Of>,
  options: Options,
): ReadDefinition<Of> {
  const excess = findLimitViolation(json);
  if (excess !== undefined) return { problems: [excess] };
  const result = schema.safeParse(json);
  if (!result.success) return { problems: result.error.issues.slice(0, MAX_PROBLEMS).map(problemOfIssue) };
  const definition = result.data;
  const paths = new Map<object, readonly (string | number)[]>();
  collectPaths(definition, [], paths);
  const problemAt = ({ part, message }: PartMistake) => ({ message, path: paths.get(part) ?? [] });
  const wrong = checkDefinition(definition, { ...options, max: MAX_PROBLEMS });
  return wrong.length > 0 ? { problems: wrong.map(problemAt) } : { definition, problemAt };
}

function problemOfIssue(issue: z.core.$ZodIssue): JsonDefinitionProblem {
  const path = issue.path.map((segment) => (typeof segment === 'number' ? segment : String(segment)));
  if (issue.code === 'unrecognized_keys')
    return { path: [...path, issue.keys[0] ?? ''], message: 'is not a known key' };
  return { path, message: issue.message };
}

function collectPaths(
  part: unknown,
  path: readonly (string | number)[],
  paths: Map<object, readonly (string | number)[]>,
): void {
  if (typeof part !== 'object' || part === null) return;
  paths.set(part, path);
  const entries: Iterable<[string | number, unknown]> = Array.isArray(part)
    ? part.entries()
    : Object.entries(part);
  for (const [key, below] of entries) collectPaths(below, [...path, key], paths);
}
