import * as z from 'zod';
import receiving from '../../../spec/receiving.openapi.json' with { type: 'json' };
import { STATUS_TEXT } from '../model/http-syntax.ts';
import { MAX_PROBLEMS } from '../model/input-limits.ts';
import { defined, type Json, type JsonObject } from '../model/json.ts';
import { type ApiOperation, isRepeatable } from './operation.ts';
import { type ProblemCode, statusOf } from './problem.ts';
import { FILTERED } from './token-limits.ts';

/** Problems of every operation that needs somebody who is signed in. */
const SIGN_IN_PROBLEMS = ['token_missing', 'session_over'] as const;

/** Problems that every operation can answer with. */
const COMMON_PROBLEMS: readonly ProblemCode[] = [
  'host_not_allowed',
  'token_invalid',
  'token_expired',
  'too_many_failed_sign_ins',
  'body_too_large',
  // An unknown key of the query.
  'invalid_parameters',
  'internal_error',
];

/**
 * Both APIs as an OpenAPI 3.1 document. The control API comes from its operations, whose schemas also
 * validate; the receiving API comes from `spec/receiving.openapi.json`. spec/contract.md, "Control API".
 */
export function openApi(operations: readonly ApiOperation[], version: string): JsonObject {
  const paths: Record<string, Record<string, Json>> = { ...(receiving.paths as Record<string, JsonObject>) };
  const problems: ProblemResponses = new Map();
  for (const one of operations) {
    const path = `/api/v1/${one.path.replace(/:(\w+)/g, '{$1}')}`;
    paths[path] = { ...paths[path], [one.method.toLowerCase()]: operationObject(one, problems) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Millrace',
      version,
      summary: 'Calls in, signed webhooks out',
      description: API_DESCRIPTION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    paths: {
      ...paths,
      '/api/openapi.json': { get: DESCRIPTION_OPERATION },
      '/metrics': { get: metricsOperation(problems) },
    },
    components: {
      securitySchemes: {
        ...receiving.components.securitySchemes,
        token: { type: 'http', scheme: 'bearer', description: 'A token of the control API.' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'millrace_<installation>',
          description: SESSION_DESCRIPTION,
        },
      },
      responses: { ...(receiving.components.responses as JsonObject), ...Object.fromEntries(problems) },
      schemas: { ...(receiving.components.schemas as JsonObject), Problem: PROBLEM_SCHEMA },
    },
  };
}

/** Rules that hold for every path. */
const API_DESCRIPTION = [
  'Every path may have a slash at its end. HEAD is answered wherever GET is, without the body. A method that a path does',
  'not take is answered 405 with Allow, a path that does not exist 404. What is no HTTP is answered 400',
  '(`malformed_request`), a request that does not arrive in time 408 (`request_timeout`), a head of more than 16 KB 431',
  '(`headers_too_large`), and when more is under way than fits into memory 429 (`overloaded`), before the path is looked',
  'at, in the form of `Refusal`.',
].join(' ');

const SESSION_DESCRIPTION =
  'The cookie of a session, for browsers; `__Host-millrace_<installation>` under https. Every request then also needs `X-Millrace-Console` with the `key` of the sign-in.';

const DESCRIPTION_OPERATION = {
  operationId: 'getOpenapi',
  summary: 'This document.',
  tags: ['control'],
  security: [],
  responses: {
    '200': { description: 'OK', content: { 'application/json': { schema: { type: 'object' } } } },
  },
} as const;

/** The metrics page is no operation: its answer is text. */
function metricsOperation(problems: ProblemResponses): Json {
  const codes = [
    ...SIGN_IN_PROBLEMS,
    ...([
      'token_invalid',
      'token_expired',
      'too_many_failed_sign_ins',
      'host_not_allowed',
      'outside_token',
    ] as const),
  ];
  return {
    operationId: 'metrics',
    summary: 'Metrics as Prometheus reads them.',
    description: 'Needs a token of any role, or none where `metrics.public` is set.',
    tags: ['control'],
    security: [{ token: [] }, { session: [] }, {}],
    responses: {
      '200': { description: 'OK', content: { 'text/plain': { schema: { type: 'string' } } } },
      ...problemResponses([...codes, 'internal_error'], problems),
    },
  };
}

function operationObject(one: ApiOperation, problems: ProblemResponses): Json {
  return {
    operationId: operationId(one),
    summary: `${one.summary}.`,
    description:
      one.isSignIn === true ? 'Needs no token but the one in its body.' : `Needs the role \`${one.role}\`.`,
    tags: ['control'],
    security: one.isSignIn === true ? [] : [{ token: [] }, { session: [] }],
    parameters: parameterObjects(one),
    ...defined({
      requestBody: one.body && {
        content: { 'application/json': { schema: toJsonSchema(one.described ?? one.body, 'input') } },
      },
    }),
    responses: {
      ...successResponse(one),
      ...problemResponses(problemCodes(one), problems),
    },
  };
}

/** `GET destinations/:name` is `getDestinationsName`. */
function operationId({ method, path }: ApiOperation): string {
  const words = path.replace(/[^A-Za-z]+/g, ' ').trim();
  return method.toLowerCase() + words.replace(/(?:^| )(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** GET changes nothing, and POST makes a record that nobody has read before: neither needs If-Match. */
function takesIfMatch({ method, isTagged }: Pick<ApiOperation, 'method' | 'isTagged'>): boolean {
  return isTagged === true && method !== 'GET' && method !== 'POST';
}

function parameterObjects(one: ApiOperation): Json[] {
  const { method, path, query, isTagged = false } = one;
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name: name!,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  const { properties = {}, required = [] } = (query === undefined ? {} : toJsonSchema(query, 'input')) as {
    properties?: Record<string, JsonObject>;
    required?: readonly string[];
  };
  const asked = Object.entries(properties).map(([name, schema]) => {
    const { description, ...rest } = schema;
    return {
      name,
      in: 'query',
      required: required.includes(name),
      ...defined({ description }),
      schema: rest,
    };
  });
  const header = (name: string, description: string) => ({
    name,
    in: 'header',
    required: false,
    description,
    schema: { type: 'string' },
  });
  return [
    ...names,
    ...asked,
    ...(takesIfMatch({ method, isTagged }) ? [header('If-Match', IF_MATCH)] : []),
    ...(isRepeatable(one) ? [header('Idempotency-Key', IDEMPOTENCY_KEY)] : []),
  ];
}

const IF_MATCH = 'The ETag that the record was read with: when it has changed since, nothing is done (412).';
const IDEMPOTENCY_KEY =
  'A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart.';

function successResponse({ answer, dryRun, status = 200, ...rest }: ApiOperation): JsonObject {
  const { isTagged, isStream, setsCookie } = rest;
  const cookie = { 'Set-Cookie': { required: true, schema: { type: 'string' } } };
  const ofDryRun =
    dryRun === undefined
      ? {}
      : {
          '200': {
            description: 'OK: what would be done, asked for with `dryRun`',
            content: { 'application/json': { schema: toJsonSchema(dryRun, 'output') } },
          },
        };
  if (answer === undefined) {
    const done = {
      description: STATUS_TEXT[204]!,
      ...defined({ headers: setsCookie === true ? cookie : undefined }),
    };
    return { '204': done, ...ofDryRun };
  }
  if (isStream === true) return { '200': streamResponse(answer) };
  const headers = {
    ETag: { required: true, description: 'Of the record, for If-Match.', schema: { type: 'string' } },
  };
  return {
    [status]: {
      description: STATUS_TEXT[status]!,
      ...defined({ headers: setsCookie === true ? cookie : isTagged === true ? headers : undefined }),
      content: { 'application/json': { schema: toJsonSchema(answer, 'output') } },
    },
    ...ofDryRun,
  };
}

/**
 * OpenAPI 3.1 cannot describe the single event of a stream (3.2 has `itemSchema`), so an extension holds its
 * data.
 */
function streamResponse(answer: z.ZodType): JsonObject {
  const description = 'Server-sent events. `x-event-data` is the data of each, which is JSON.';
  const content = { schema: { type: 'string' }, 'x-event-data': toJsonSchema(answer, 'output') };
  const headers = {
    'X-Accel-Buffering': { required: true, description: 'For proxies.', schema: { const: 'no' } },
  };
  return { description, headers, content: { 'text/event-stream': content } };
}

function problemCodes(one: ApiOperation): readonly ProblemCode[] {
  return [
    ...COMMON_PROBLEMS,
    ...(one.isSignIn === true ? [] : SIGN_IN_PROBLEMS),
    ...(one.method === 'GET' ? [] : (['cross_site_request'] as const)),
    ...(one.role === 'viewer' ? [] : (['role_too_low'] as const)),
    // A token with limits is no admin.
    ...(one.isWithin === FILTERED || one.isSignIn === true || one.role === 'admin'
      ? []
      : (['outside_token'] as const)),
    ...(one.showsBodies === true ? (['bodies_not_shown'] as const) : []),
    ...storeProblems(one),
    ...(one.body === undefined ? [] : (['body_not_json'] as const)),
    ...(isRepeatable(one) ? (['idempotency_key_reused'] as const) : []),
    ...(takesIfMatch({ isTagged: false, ...one }) ? (['changed_meanwhile'] as const) : []),
    ...(one.problems ?? []),
  ];
}

/** Responses with problems, by their codes. Operations with the same codes share one. */
type ProblemResponses = Map<string, Json>;

function problemResponses(codes: readonly ProblemCode[], problems: ProblemResponses): JsonObject {
  return Object.fromEntries(
    [...Map.groupBy(new Set(codes), statusOf)]
      .sort(([one], [other]) => one - other)
      .map(([status, those]) => {
        const name = those.toSorted().join('.');
        if (!problems.has(name)) problems.set(name, problemResponseObject(status, those));
        return [String(status), { $ref: `#/components/responses/${name}` }];
      }),
  );
}

function storeProblems({ method, isInMemory }: ApiOperation): readonly ProblemCode[] {
  if (isInMemory === true) return [];
  return [method === 'GET' ? 'store_unreadable' : 'store_unwritable'];
}

function problemResponseObject(status: number, codes: readonly ProblemCode[]): Json {
  const header = PROBLEM_HEADERS[status];
  const schema = {
    allOf: [
      { $ref: '#/components/schemas/Problem' },
      { properties: { status: { const: status }, code: { enum: [...codes] } } },
    ],
  };
  return {
    description: `${STATUS_TEXT[status]}: ${codes.map((code) => `\`${code}\``).join(', ')}`,
    ...defined({ headers: header }),
    content: { 'application/problem+json': { schema } },
  };
}

const RETRY_AFTER = { description: 'Seconds.', schema: { type: 'integer', minimum: 1 } } as const;

/** Headers of problems with these statuses. */
const PROBLEM_HEADERS: Readonly<Record<number, JsonObject>> = {
  401: { 'WWW-Authenticate': { required: true, schema: { type: 'string', pattern: '^Bearer ' } } },
  429: { 'Retry-After': { required: true, ...RETRY_AFTER } },
  503: { 'Retry-After': RETRY_AFTER },
};

function toJsonSchema(schema: z.ZodType, io: 'input' | 'output'): JsonObject {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any', reused: 'inline' });
  return JSON.parse(JSON.stringify(rest)) as JsonObject;
}

/** RFC 9457. */
const PROBLEM_SCHEMA = {
  type: 'object',
  required: ['type', 'title', 'status', 'detail', 'code'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string', description: 'The status in words.' },
    status: { type: 'integer' },
    detail: { type: 'string', description: 'What is wrong, and what to do about it.' },
    code: { type: 'string', description: 'Which error it is; never changes.' },
    errors: {
      type: 'array',
      items: {
        type: 'object',
        required: ['path', 'message'],
        properties: {
          path: { type: 'string' },
          message: { type: 'string' },
          line: {
            type: 'integer',
            description: 'Of a mistake in a definition: the line of its text, from 1.',
          },
          column: { type: 'integer', description: 'The column in that line, from 1.' },
        },
      },
      maxItems: MAX_PROBLEMS,
    },
    truncated: {
      const: true,
      description: 'More is wrong than `errors` lists. Absent when it lists everything.',
    },
  },
} as const;
