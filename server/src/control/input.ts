import * as z from 'zod';
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

function parsed(
  schema: z.ZodType,
  value: unknown,
  { part, faults }: { readonly part: string; readonly faults: Fault[] },
): unknown {
  const result = schema.safeParse(value);
  for (const issue of result.error?.issues ?? []) faults.push(...faultsOf(issue, { schema, value, part }));
  return result.data;
}

interface Parsed {
  readonly schema: z.ZodType;
  readonly value: unknown;
  readonly part: string;
}

/** What one issue says: the path, what was found, what is allowed. */
function faultsOf(issue: z.core.$ZodIssue, { schema, value, part }: Parsed): Fault[] {
  if (issue.code === 'unrecognized_keys') {
    const known = issue.path.length === 0 && schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
    const allowed = known.length === 0 ? '' : `; allowed here: ${known.join(', ')}`;
    return issue.keys.map((key) => ({
      path: pathText(part, [...issue.path, key]),
      message: `is not a known key${allowed}`,
    }));
  }
  const found = issue.path.reduce((at: unknown, key) => (at as Record<PropertyKey, unknown>)?.[key], value);
  const rule = issue.message.replace(/^Invalid input: /, '').replace(/, received \w+$/, '');
  const message = found === undefined ? `is missing: ${rule}` : `${rule}, found ${short(found)}`;
  return [{ path: pathText(part, issue.path), message }];
}

/** As in the configuration file: `body.ids[0]`. */
function pathText(part: string, path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[${key}]` : `${text}.${String(key)}`),
    part,
  );
}

const LONGEST = 80;

function short(found: unknown): string {
  const text = JSON.stringify(found);
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST)}…`;
}
