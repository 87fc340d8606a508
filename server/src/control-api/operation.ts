import * as z from 'zod';
import { findLimitViolation, MAX_PROBLEMS } from '../model/input-limits.ts';
import { isObject } from '../model/json.ts';
import type { Role } from '../model/settings.ts';
import type { ResponseStream } from '../ports/control-api.ts';
import { type Fault, Problem, type ProblemCode } from './problem.ts';

/** An answer of an operation that goes on, as server-sent events. */
export class StreamResult {
  readonly body: ResponseStream;

  constructor(body: ResponseStream) {
    this.body = body;
  }
}

/** One thing that the control API can be asked, and all that its description says of it. */
export interface ApiOperation {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below `/api/v1/`; `:name` stands for one segment. */
  readonly path: string;
  /** What it does, as a sentence without its full stop. */
  readonly summary: string;
  /** Who has less is refused. */
  readonly role: Role;
  /** Of the query; none is looked at when absent. */
  readonly query?: z.ZodType;
  /** Of the body; none is looked at when absent. */
  readonly body?: z.ZodType;
  /** Of the body as it is described, where `body` leaves the checking to something else. */
  readonly described?: z.ZodType;
  /** Of the answer; absent where there is none (204). */
  readonly answer?: z.ZodType;
  /** Of what is answered 200 instead of `answer`, given as a `DryRunResult`, when the request only asks what would be done. */
  readonly dryRun?: z.ZodType;
  /** Of the answer; 200 when absent, 204 where there is none. */
  readonly status?: 200 | 201;
  /** What can be wrong, beside what can be wrong with every request. */
  readonly problems?: readonly ProblemCode[];
  /** It answers with server-sent events for as long as the client stays; `answer` is the data of one of them. */
  readonly isStream?: boolean;
  /** It answers with an ETag, or heeds If-Match. */
  readonly isTagged?: boolean;
  /** It neither reads nor writes the store, so it works while that is broken. */
  readonly isInMemory?: boolean;
  /** Gives a value that is answered as JSON, a `Streamed`, or nothing; throws a `Problem`. */
  readonly run: (input: OperationInput) => Promise<object | undefined>;
}

export interface OperationInput {
  /** What stood for each `:name` of the path, decoded. */
  readonly names: Readonly<Record<string, string>>;
  /** As `query` of the operation has parsed it. */
  readonly query: unknown;
  /** As `body` of the operation has parsed it. */
  readonly body: unknown;
  /** The name of the token. */
  readonly by: string;
  /** The If-Match header. */
  readonly ifMatch: string | undefined;
}

/** The answer to a request that only asks what would be done; see `ApiOperation.dryRun`. */
export class DryRunResult<Value extends object = object> {
  readonly value: Value;

  constructor(value: Value) {
    this.value = value;
  }
}

/** An answer with its ETag. */
export class TaggedResult<Value extends object = object> {
  readonly value: Value;
  readonly tag: string;

  constructor(value: Value, tag: string) {
    this.value = value;
    this.tag = tag;
  }
}

/**
 * A schema for every key of a type that another stage publishes. `satisfies Shape<Report>` does not compile when a key of the
 * report is renamed or missing, an optional one too. The types of the values are compared where an operation returns the report.
 */
export type Shape<Report> = { readonly [Key in keyof Report]-?: z.ZodType };

/** The values that a schema describes, read-only. A loose object may have further keys. */
export type Described<Value> = Value extends readonly (infer Entry)[]
  ? readonly Described<Entry>[]
  : Value extends object
    ? string extends keyof Value
      ? unknown extends Value[string & keyof Value]
        ? { readonly [Key in keyof Value as string extends Key ? never : Key]: Described<Value[Key]> }
        : Readonly<Record<string, Described<Value[string & keyof Value]>>>
      : { readonly [Key in keyof Value]: Described<Value[Key]> }
    : Value;

/** The values that an operation may return, by its schemas. */
type OperationValue<Answer extends z.ZodType, DryRun extends z.ZodType> =
  | Described<z.output<Answer>>
  | TaggedResult<Described<z.output<Answer>> & object>
  | DryRunResult<Described<z.output<DryRun>> & object>
  | StreamResult
  | undefined;

/** An operation whose input and answers have the types of its schemas. */
export function defineOperation<
  Query extends z.ZodType,
  Body extends z.ZodType,
  Answer extends z.ZodType,
  DryRun extends z.ZodType,
>(
  one: Omit<ApiOperation, 'query' | 'body' | 'answer' | 'dryRun' | 'run'> & {
    readonly query?: Query;
    readonly body?: Body;
    readonly answer?: Answer;
    readonly dryRun?: DryRun;
    readonly run: (
      input: Omit<OperationInput, 'query' | 'body'> & {
        readonly query: z.output<Query>;
        readonly body: z.output<Body>;
      },
    ) => Promise<OperationValue<Answer, DryRun>>;
  },
): ApiOperation {
  const { run, ...rest } = one;
  return {
    ...rest,
    run: async (input) => {
      const value = await run({
        ...input,
        query: input.query as z.output<Query>,
        body: input.body as z.output<Body>,
      });
      return value as object | undefined;
    },
  };
}

/** The parts of a request that an operation looks at, as they came. */
export interface RawInput {
  readonly query: unknown;
  /** The text of the body; empty when there is none. */
  readonly body: string;
}

/**
 * Makes what reads the query and the body of an operation as their schemas have them. It throws a `Problem` with every
 * fault of both. A key of the query that the operation does not know is one: whoever mistypes `dryRun` must not find
 * that it was done.
 */
export function inputParser({
  query,
  body,
}: ApiOperation): (asked: RawInput) => { query: unknown; body: unknown } {
  const known = query === undefined ? z.strictObject({}) : strict(query);
  return (asked) => {
    const faults: Fault[] = [];
    const input = {
      query: parsePart(known, asked.query, { part: 'query', faults }),
      body: body && parsePart(body, parseJson(asked.body), { part: 'body', faults }),
    };
    if (faults.length > 0) throw new Problem('invalid_parameters', { errors: faults });
    return input;
  };
}

function strict(query: z.ZodType): z.ZodType {
  return query instanceof z.ZodObject ? query.strict() : query;
}

/** No body is one without any key: most operations that take one have defaults for all of it. */
function parseJson(text: string): unknown {
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
function parsePart(
  schema: z.ZodType,
  value: unknown,
  { part, faults }: { readonly part: string; readonly faults: Fault[] },
): unknown {
  const excess = findLimitViolation(value);
  if (excess !== undefined) {
    faults.push({ path: pathText(part, excess.path), message: excess.message });
    return undefined;
  }
  const result = schema.safeParse(value);
  for (const issue of result.error?.issues ?? []) {
    for (const fault of faultsOfIssue(issue, { schema, value, part })) {
      if (faults.length > MAX_PROBLEMS) return undefined;
      faults.push(fault);
    }
  }
  return result.data;
}

interface PartContext {
  readonly schema: z.ZodType;
  readonly value: unknown;
  readonly part: string;
}

/** What one issue says: the path, what was found, what is allowed. */
function* faultsOfIssue(issue: z.core.$ZodIssue, { schema, value, part }: PartContext): Generator<Fault> {
  if (issue.code === 'unrecognized_keys') {
    const known = issue.path.length === 0 && schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
    const allowed = known.length === 0 ? '' : `; allowed here: ${known.join(', ')}`;
    for (const key of issue.keys)
      yield { path: pathText(part, [...issue.path, key]), message: `is not a known key${allowed}` };
    return;
  }
  const found = issue.path.reduce((at: unknown, key) => (at as Record<PropertyKey, unknown>)?.[key], value);
  const rule = issue.message.replace(/^Invalid input: /, '').replace(/, received \w+$/, '');
  const message = found === undefined ? `is missing: ${rule}` : `${rule}, found ${abbreviate(found)}`;
  yield { path: pathText(part, issue.path), message };
}

/** As in the configuration file: `body.ids[0]`. */
function pathText(part: string, path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[${key}]` : `${text}.${String(key)}`),
    part,
  );
}

const MAX_QUOTED = 80;

/** Collections are only counted: each of their issues would show them again. */
function abbreviate(found: unknown): string {
  if (Array.isArray(found)) return `a list of ${found.length}`;
  if (isObject(found)) return `a mapping of ${Object.keys(found).length}`;
  if (typeof found === 'string' && found.length > MAX_QUOTED)
    return `${JSON.stringify(found.slice(0, MAX_QUOTED)).slice(0, MAX_QUOTED)}…`;
  const text = JSON.stringify(found);
  return text.length <= MAX_QUOTED ? text : `${text.slice(0, MAX_QUOTED)}…`;
}
