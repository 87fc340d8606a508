import * as z from 'zod';
import { findLimitViolation, isTextTooDeep, MAX_PROBLEMS, TOO_DEEP } from '../model/input-limits.ts';
import { isObject } from '../model/json.ts';
import type { Role, TokenLimits } from '../model/settings.ts';
import type { ResponseStream } from '../ports/control-api.ts';
import type { Caller } from './auth.ts';
import { type Fault, Problem, type ProblemCode } from './problem.ts';
import type { BrowserRequest } from './sessions.ts';

/** An answer of server-sent events that goes on until one side ends it. */
export class StreamResult {
  readonly body: ResponseStream;

  constructor(body: ResponseStream) {
    this.body = body;
  }
}

/** One operation of the control API: its route, its schemas and the rest of its description. */
export interface ApiOperation {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below `/api/v1/`; `:name` stands for one segment. */
  readonly path: string;
  /** A sentence without its full stop. */
  readonly summary: string;
  /** The least role that may call it. */
  readonly role: Role;
  /** Schema of the query. When absent the query must be empty. */
  readonly query?: z.ZodType;
  /** Schema of the body. Without one the body is ignored. */
  readonly body?: z.ZodType;
  /** Schema of the body for the description, where `body` leaves the details to a later check. */
  readonly described?: z.ZodType;
  /** Schema of the answer; absent where there is none (204). */
  readonly answer?: z.ZodType;
  /**
   * Schema of a `DryRunResult`, which is answered with 200 when the request only asks for the effect of the
   * operation.
   */
  readonly dryRun?: z.ZodType;
  /** Status of the answer; 200 when absent, and 204 without an answer. */
  readonly status?: 200 | 201;
  /** Problems that are its own; those of every operation come on top. */
  readonly problems?: readonly ProblemCode[];
  /** It answers with server-sent events; `answer` is the data of one event. */
  readonly isStream?: boolean;
  /**
   * Its answer is kept for a repetition at another node, where it would otherwise be done twice, or be
   * refused. Only for answers that name no users, who may be erased.
   */
  readonly sharesAnswer?: boolean;
  /** It answers with an ETag, or heeds If-Match. */
  readonly isTagged?: boolean;
  /** Entries of the longest list in its body; `MAX_ENTRIES` when absent. */
  readonly maxEntries?: number;
  /** It needs no token: it checks the credentials in its body itself. */
  readonly isSignIn?: boolean;
  /** Its answer has a secret that is shown once. It is not kept for a repeated `Idempotency-Key`. */
  readonly answersSecret?: boolean;
  /**
   * It shows what events hold, so it is not for tokens without bodies. An operation that leaves that out for
   * them has no need of this.
   */
  readonly showsBodies?: boolean;
  /**
   * Whether a token with limits may call it so. Absent: it may not, because the operation is about more than
   * these.
   */
  readonly isWithin?: Reach;
  /**
   * It answers to the cookie of a session also where the value beside it is absent: it says whose session
   * that is, and no more.
   */
  readonly takesCookieAlone?: boolean;
  /** Its success is a `CookieResult`. */
  readonly setsCookie?: boolean;
  /** It neither reads nor writes the store, so it works while that is broken. */
  readonly isInMemory?: boolean;
  /**
   * Resolves to a value that is answered as JSON, to one of the results below, or to nothing. Throws a
   * `Problem`.
   */
  readonly run: (input: OperationInput) => Promise<object | undefined>;
}

export interface OperationInput {
  /** The decoded segment for each `:name` of the path. */
  readonly names: Readonly<Record<string, string>>;
  /** The query as its schema has parsed it. */
  readonly query: unknown;
  /** The body as its schema has parsed it. */
  readonly body: unknown;
  /** The name of the token; empty for a sign-in. */
  readonly by: string;
  /** The If-Match header. */
  readonly ifMatch: string | undefined;
  /** Of a request with an `Idempotency-Key`: what tells it from others, also after a restart. */
  readonly repeat?: { readonly key: string; readonly body: string };
  readonly client: OperationClient;
}

/** The input of an operation, by which it is decided whether a token with limits may call it. */
export type ScopedInput = Pick<OperationInput, 'names' | 'query' | 'body'>;

/** Whether the answer, and the change, concern nothing but the sources and destinations of a token. */
export type Reach = (limits: TokenLimits, input: ScopedInput) => boolean;

/** The sender of a request. */
export interface OperationClient {
  readonly address: string;
  readonly request: BrowserRequest;
  /** Absent for a sign-in. */
  readonly caller?: Caller;
  /** Whether the token, and the session if there is one, are still good. For answers that go on. */
  readonly isSignedIn: () => boolean;
  /** Aborted when the connection closes, or the answer is sent. */
  readonly gone: AbortSignal;
}

/** An answer, or none (204), with a Set-Cookie header. */
export class CookieResult<Value extends object | undefined = object | undefined> {
  readonly value: Value;
  readonly cookie: string;

  constructor(value: Value, cookie: string) {
    this.value = value;
    this.cookie = cookie;
  }
}

/** The answer to a dry run. See `ApiOperation.dryRun`. */
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
 * A schema for every key of a type that another stage publishes. `satisfies Shape<Report>` does not compile
 * when a key of the report is renamed or missing, an optional one too. The types of the values are compared
 * where an operation returns the report.
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
  | CookieResult<(Described<z.output<Answer>> & object) | undefined>
  | StreamResult
  | undefined;

/**
 * Whether an `Idempotency-Key` counts. A sign-in answers every repetition with another session, and a secret
 * is answered once.
 */
export function isRepeatable({
  method,
  isSignIn,
  answersSecret,
}: Pick<ApiOperation, 'method' | 'isSignIn' | 'answersSecret'>): boolean {
  return method === 'POST' && isSignIn !== true && answersSecret !== true;
}

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

/** The query and the body of a request, not yet checked. */
export interface RawInput {
  readonly query: unknown;
  /** The text of the body; empty when there is none. */
  readonly body: string;
}

/**
 * Makes the function that checks the query and the body of an operation and parses them by their schemas. It
 * throws one `Problem` with the faults of both. An unknown key of the query is a fault: a mistyped `dryRun`
 * must not run the operation.
 */
export function inputParser({
  query,
  body,
  maxEntries,
}: ApiOperation): (asked: RawInput) => { query: unknown; body: unknown } {
  const known = query === undefined ? z.strictObject({}) : strict(query);
  return (asked) => {
    const faults: Fault[] = [];
    const input = {
      query: parsePart(known, asked.query, { part: 'query', faults }),
      body: body && parseBody(body, asked.body, { part: 'body', faults, maxEntries }),
    };
    if (faults.length > 0) throw new Problem('invalid_parameters', { errors: faults });
    return input;
  };
}

function strict(query: z.ZodType): z.ZodType {
  return query instanceof z.ZodObject ? query.strict() : query;
}

function parseBody(schema: z.ZodType, text: string, options: PartOptions): unknown {
  if (!isTextTooDeep(text)) return parsePart(schema, parseJson(text), options);
  options.faults.push({ path: pathText(options.part, []), message: TOO_DEEP });
  return undefined;
}

/** An empty body counts as `{}`, because most bodies have defaults for every key. */
function parseJson(text: string): unknown {
  if (text === '') return {};
  try {
    return JSON.parse(text);
  } catch {
    throw new Problem('body_not_json');
  }
}

interface PartOptions {
  readonly part: string;
  readonly faults: Fault[];
  readonly maxEntries?: number | undefined;
}

/**
 * Parses one part of a request by its schema. Faults are added up to the number that an answer tells. The
 * size of the value is checked first, because a schema spends far more on each entry.
 */
function parsePart(schema: z.ZodType, value: unknown, { part, faults, maxEntries }: PartOptions): unknown {
  const excess = findLimitViolation(value, { maxEntries });
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

/** The faults of one issue of a schema: path, rule, and the value that was found. */
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

/** A path as messages about the configuration file write it: `body.ids[0]`. */
function pathText(part: string, path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[${key}]` : `${text}.${String(key)}`),
    part,
  );
}

const MAX_QUOTED = 80;

/**
 * A value for a message. Collections are only counted, because each of their issues would quote them again.
 */
function abbreviate(found: unknown): string {
  if (Array.isArray(found)) return `a list of ${found.length}`;
  if (isObject(found)) return `a mapping of ${Object.keys(found).length}`;
  if (typeof found === 'string' && found.length > MAX_QUOTED)
    return `${JSON.stringify(found.slice(0, MAX_QUOTED)).slice(0, MAX_QUOTED)}…`;
  const text = JSON.stringify(found);
  return text.length <= MAX_QUOTED ? text : `${text.slice(0, MAX_QUOTED)}…`;
}
