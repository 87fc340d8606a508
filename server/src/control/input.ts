import * as z from 'zod';
import { firstExcess, MOST_PROBLEMS } from '../model/excess.ts';
import { isObject } from '../model/json.ts';
import type { Operation } from './operation.ts';
import { type Fault, Problem } from './problem.ts';

/** The parts of a request that an operation looks at, as they came. */
export interface Asked {
  readonly query: unknown;
  /** The text of the body; empty when there is none. */
  readonly body: string;
}

/**
 * Makes what reads the query and the body of an operation as their schemas have them. It throws a `Problem` with every
 * fault of both. A key of the query that the operation does not know is one: whoever mistypes `dryRun` must not find
 * that it was done.
 */
export function readerOf({ query, body }: Operation): (asked: Asked) => { query: unknown; body: unknown } {
  const known = query === undefined ? z.strictObject({}) : strict(query);
  return (asked) => {
    const faults: Fault[] = [];
    const input = {
      query: parsed(known, asked.query, { part: 'query', faults }),
      body: body && parsed(body, jsonIn(asked.body), { part: 'body', faults }),
    };
    if (faults.length > 0) throw new Problem('invalid_parameters', { errors: faults });
    return input;
  };
}

function strict(query: z.ZodType): z.ZodType {
  return query instanceof z.ZodObject ? query.strict() : query;
}

/** No body is one without any key: most operations that take one have defaults for all of it. */
function jsonIn(text: string): unknown {
  if (text === '') return {};
  try {
    return JSON.parse(text);
  } catch {
    throw new Problem('body_not_json');
  }
}

/**
 * What the schema makes of a value. Faults are added while there are not more of both parts than an answer tells. The value is
 * counted before the schema looks at it.
 */
function parsed(
  schema: z.ZodType,
  value: unknown,
  { part, faults }: { readonly part: string; readonly faults: Fault[] },
): unknown {
  const excess = firstExcess(value);
  if (excess !== undefined) {
    faults.push({ path: pathText(part, excess.path), message: excess.message });
    return undefined;
  }
  const result = schema.safeParse(value);
  for (const issue of result.error?.issues ?? []) {
    for (const fault of faultsOf(issue, { schema, value, part })) {
      if (faults.length > MOST_PROBLEMS) return undefined;
      faults.push(fault);
    }
  }
  return result.data;
}

interface Parsed {
  readonly schema: z.ZodType;
  readonly value: unknown;
  readonly part: string;
}

/** What one issue says: the path, what was found, what is allowed. */
function* faultsOf(issue: z.core.$ZodIssue, { schema, value, part }: Parsed): Generator<Fault> {
  if (issue.code === 'unrecognized_keys') {
    const known = issue.path.length === 0 && schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
    const allowed = known.length === 0 ? '' : `; allowed here: ${known.join(', ')}`;
    for (const key of issue.keys)
      yield { path: pathText(part, [...issue.path, key]), message: `is not a known key${allowed}` };
    return;
  }
  const found = issue.path.reduce((at: unknown, key) => (at as Record<PropertyKey, unknown>)?.[key], value);
  const rule = issue.message.replace(/^Invalid input: /, '').replace(/, received \w+$/, '');
  const message = found === undefined ? `is missing: ${rule}` : `${rule}, found ${short(found)}`;
  yield { path: pathText(part, issue.path), message };
}

/** As in the configuration file: `body.ids[0]`. */
function pathText(part: string, path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[${key}]` : `${text}.${String(key)}`),
    part,
  );
}

const LONGEST = 80;

/** Collections are only counted: each of their issues would show them again. */
function short(found: unknown): string {
  if (Array.isArray(found)) return `a list of ${found.length}`;
  if (isObject(found)) return `a mapping of ${Object.keys(found).length}`;
  if (typeof found === 'string' && found.length > LONGEST)
    return `${JSON.stringify(found.slice(0, LONGEST)).slice(0, LONGEST)}…`;
  const text = JSON.stringify(found);
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST)}…`;
}
