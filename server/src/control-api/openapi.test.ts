import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import errors from '../../../spec/errors.json' with { type: 'json' };
import receiving from '../../../spec/receiving.openapi.json' with { type: 'json' };
import { openApi } from './openapi.ts';
import { type ApiOperation, defineOperation } from './operation.ts';

const NOTHING = { run: async () => undefined };
const OPERATIONS: readonly ApiOperation[] = [
  defineOperation({
    method: 'GET',
    path: 'things',
    role: 'viewer',
    summary: 'Lists things',
    ...NOTHING,
    query: z.object({
      limit: z.coerce.number().int().max(500).default(100).meta({ description: 'At most.' }),
      kind: z.enum(['a', 'b']).exactOptional(),
      of: z.string(),
    }),
    answer: z.object({ data: z.array(z.string()) }),
  }),
  defineOperation({
    method: 'POST',
    path: 'things',
    role: 'editor',
    summary: 'Makes a thing',
    status: 201,
    ...NOTHING,
    isTagged: true,
    body: z.strictObject({ name: z.string() }),
    answer: z.object({ name: z.string() }),
    problems: ['name_taken'],
  }),
  defineOperation({
    method: 'GET',
    path: 'things/:name',
    role: 'viewer',
    summary: 'Shows a thing',
    ...NOTHING,
    isTagged: true,
    isInMemory: true,
    answer: z.object({ name: z.string() }),
    problems: ['unknown_name'],
  }),
  defineOperation({
    method: 'DELETE',
    path: 'things/:name',
    role: 'admin',
    summary: 'Removes a thing',
    ...NOTHING,
    isTagged: true,
    problems: ['unknown_name'],
  }),
];

interface Described {
  readonly operationId: string;
  readonly parameters: readonly { name: string; in: string; required: boolean; schema: object }[];
  readonly requestBody?: object;
  readonly responses: Readonly<Record<string, Answer | { readonly $ref: string }>>;
}

interface Answer {
  readonly description: string;
  readonly headers?: object;
}

interface Whole {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: { readonly responses: Readonly<Record<string, Answer>> };
}
const document = JSON.parse(JSON.stringify(openApi(OPERATIONS, '1.2.3'))) as Whole;
const things = document.paths['/api/v1/things']!;
const thing = document.paths['/api/v1/things/{name}']!;

/**
 * The description of an operation's answer with a status; problems are shared by all that have the same
 * codes.
 */
function answerOf(one: Described | undefined, status: string): Answer {
  const answer = one!.responses[status]!;
  return '$ref' in answer ? document.components.responses[answer.$ref.split('/').at(-1)!]! : answer;
}

describe('the description of an operation', () => {
  test('stands at its path and method, with a name made of both', () => {
    expect(
      [things['get'], things['post'], thing['get'], thing['delete']].map((one) => one?.operationId),
    ).toEqual(['getThings', 'postThings', 'getThingsName', 'deleteThingsName']);
  });

  test('has the parameters of path, query and headers', () => {
    expect(things['get']?.parameters).toEqual([
      {
        name: 'limit',
        in: 'query',
        required: false,
        description: 'At most.',
        schema: { type: 'integer', default: 100, maximum: 500, minimum: Number.MIN_SAFE_INTEGER },
      },
      { name: 'kind', in: 'query', required: false, schema: { type: 'string', enum: ['a', 'b'] } },
      { name: 'of', in: 'query', required: true, schema: { type: 'string' } },
    ]);
    const headers = (one?: Described) => one?.parameters.map(({ in: place, name }) => `${place} ${name}`);
    expect(headers(things['post'])).toEqual(['header Idempotency-Key']);
    expect(headers(thing['get'])).toEqual(['path name']);
    expect(headers(thing['delete'])).toEqual(['path name', 'header If-Match']);
  });

  test('has a body where the operation takes one', () => {
    expect(things['post']?.requestBody).toEqual({
      content: {
        'application/json': {
          schema: {
            type: 'object',
            properties: { name: { type: 'string' } },
            required: ['name'],
            additionalProperties: false,
          },
        },
      },
    });
    expect(thing['delete']).not.toHaveProperty('requestBody');
  });

  test('has every status, and no more, with the codes of errors', () => {
    const said = (one?: Described) =>
      Object.fromEntries(
        Object.keys(one!.responses).map((status) => [
          status,
          [...answerOf(one, status).description.matchAll(/`(\w+)`/g)].map(([, code]) => code).join(' '),
        ]),
      );
    const always = {
      401: 'token_invalid token_expired token_missing session_over',
      403: 'outside_token',
      413: 'body_too_large',
      421: 'host_not_allowed',
      422: 'invalid_parameters',
      429: 'too_many_failed_sign_ins',
      500: 'internal_error',
    };
    expect(said(things['get'])).toEqual({ ...always, 200: '', 503: 'store_unreadable' });
    expect(said(things['post'])).toEqual({
      ...always,
      201: '',
      400: 'body_not_json',
      403: 'cross_site_request role_too_low outside_token',
      409: 'name_taken',
      422: 'invalid_parameters idempotency_key_reused',
      503: 'store_unwritable',
    });
    expect(said(thing['get'])).toEqual({ ...always, 200: '', 404: 'unknown_name' });
    expect(said(thing['delete'])).toEqual({
      ...always,
      204: '',
      403: 'cross_site_request role_too_low',
      404: 'unknown_name',
      412: 'changed_meanwhile',
      503: 'store_unwritable',
    });
  });

  test('has the headers of its answers', () => {
    const headers = (one: Described | undefined, status: string) =>
      Object.keys(answerOf(one, status).headers ?? {});
    expect(headers(thing['get'], '200')).toEqual(['ETag']);
    expect(headers(thing['get'], '401')).toEqual(['WWW-Authenticate']);
    expect(headers(thing['get'], '429')).toEqual(['Retry-After']);
    expect(headers(things['get'], '200')).toEqual([]);
  });
});

describe('the description of the receiving API', () => {
  test('is there as it was written, beside the other one', () => {
    for (const path of Object.keys(receiving.paths)) expect(document.paths).toHaveProperty([path]);
    expect(Object.keys(document.paths)).toContain('/api/openapi.json');
  });

  test('names codes with the statuses of the catalogue, and all that a call can be answered', () => {
    const codes = Object.entries<object>({ ...errors.request, ...errors.discard });
    const known = new Map(codes.map(([code, entry]) => [code, 'status' in entry ? entry.status : undefined]));
    const { responses } = receiving.components;
    const named = (response: { content: object }) =>
      [...JSON.stringify(response.content).matchAll(/"enum":(\[.*?\])/g)].flatMap(
        ([, list]) => JSON.parse(list!) as string[],
      );
    const statuses = {
      InvalidCall: 400,
      InvalidBatch: 400,
      Unauthorized: 401,
      ComeBack: 429,
      Failed: 500,
      Unavailable: 503,
    };
    const seen = new Set<string>();
    for (const [name, status] of Object.entries(statuses)) {
      for (const code of named(responses[name as 'Failed'])) {
        expect([code, known.get(code)]).toEqual([code, status]);
        seen.add(code);
      }
    }
    const answered = [...known].filter(([, status]) => status !== undefined);
    // These are of HTTP, or the type of an item of a batch.
    const others = [
      'request_timeout',
      'headers_too_large',
      'not_found',
      'method_not_allowed',
      'unknown_type',
    ];
    expect(answered.map(([code]) => code).filter((code) => !seen.has(code))).toEqual(others);
  });
});
