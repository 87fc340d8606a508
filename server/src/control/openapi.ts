import { STATUS_CODES } from 'node:http';
import * as z from 'zod';
import receiving from '../../../spec/receiving.openapi.json' with { type: 'json' };
import type { Json, JsonObject } from '../model/json.ts';
import type { Operation } from './operation.ts';
import { type ProblemCode, statusOf } from './problem.ts';

/** What can be wrong with any request, whatever it asks for. */
const ALWAYS: readonly ProblemCode[] = [
  'token_missing',
  'token_invalid',
  'too_many_failed_sign_ins',
  'role_too_low',
  'internal_error',
];

/**
 * Both APIs as an OpenAPI 3.1 document: the control API from its operations, so that it cannot say anything else than
 * what is validated, and the receiving API from `spec/receiving.openapi.json`. contract.md section 4.
 */
export function openApi(operations: readonly Operation[], version: string): JsonObject {
  const paths: Record<string, Record<string, Json>> = { ...(receiving.paths as Record<string, JsonObject>) };
  for (const one of operations) {
    const path = `/api/v1/${one.path.replace(/:(\w+)/g, '{$1}')}`;
    paths[path] = { ...paths[path], [one.method.toLowerCase()]: described(one) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Millrace',
      version,
      summary: 'Calls in, signed webhooks out',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    paths,
    components: {
      securitySchemes: {
        ...receiving.components.securitySchemes,
        token: { type: 'http', scheme: 'bearer', description: 'A token of the control API.' },
      },
      schemas: { ...(receiving.components.schemas as JsonObject), Problem: PROBLEM },
    },
  };
}

function described(one: Operation): Json {
  return {
    operationId: nameOf(one),
    summary: `${one.summary}.`,
    description: `Needs the role \`${one.role}\`.`,
    tags: ['control'],
    security: [{ token: [] }],
    parameters: parametersOf(one),
    ...(one.body === undefined
      ? {}
      : { requestBody: { content: { 'application/json': { schema: schemaOf(one.body, 'input') } } } }),
    responses: {
      ...successOf(one),
      ...problemsOf(one),
    },
  };
}

/** `GET destinations/:name` is `getDestinationsName`. */
function nameOf({ method, path }: Operation): string {
  const words = path.replace(/[^A-Za-z]+/g, ' ').trim();
  return method.toLowerCase() + words.replace(/(?:^| )(\w)/g, (_, letter: string) => letter.toUpperCase());
}

function parametersOf({ method, path, query, isTagged }: Operation): Json[] {
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    ...{ name: name!, in: 'path', required: true, schema: { type: 'string' } },
  }));
  const { properties = {}, required = [] } = (query === undefined ? {} : schemaOf(query, 'input')) as {
    properties?: Record<string, JsonObject>;
    required?: readonly string[];
  };
  const asked = Object.entries(properties).map(([name, schema]) => {
    const { description, ...rest } = schema;
    return {
      ...{ name, in: 'query', required: required.includes(name) },
      ...(description === undefined ? {} : { description }),
      schema: rest,
    };
  });
  const header = (name: string, description: string) => ({
    ...{ name, in: 'header', required: false, description, schema: { type: 'string' } },
  });
  return [
    ...names,
    ...asked,
    ...(isTagged === true && method !== 'GET' ? [header('If-Match', IF_MATCH)] : []),
    ...(method === 'POST' ? [header('Idempotency-Key', IDEMPOTENCY_KEY)] : []),
  ];
}

const IF_MATCH = 'The ETag that the record was read with: when it has changed since, nothing is done (412).';
const IDEMPOTENCY_KEY =
  'A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart.';

function successOf({ answer, status = 200, isTagged }: Operation): JsonObject {
  if (answer === undefined) return { '204': { description: STATUS_CODES[204]! } };
  const headers = { ETag: { description: 'Of the record, for If-Match.', schema: { type: 'string' } } };
  return {
    [status]: {
      description: STATUS_CODES[status]!,
      ...(isTagged === true ? { headers } : {}),
      content: { 'application/json': { schema: schemaOf(answer, 'output') } },
    },
  };
}

function problemsOf(one: Operation): JsonObject {
  const takesBody = one.method === 'POST' || one.method === 'PUT' || one.method === 'PATCH';
  const codes: readonly ProblemCode[] = [
    ...ALWAYS,
    ...(one.method === 'GET' ? (['store_unreadable'] as const) : (['store_unwritable'] as const)),
    // Whatever it takes, a body that is there is read first.
    ...(takesBody ? (['body_not_json'] as const) : []),
    'body_too_large',
    ...(one.query === undefined && one.body === undefined ? [] : (['invalid_parameters'] as const)),
    ...(one.method === 'POST' ? (['idempotency_key_reused'] as const) : []),
    ...(one.isTagged === true && one.method !== 'GET' ? (['changed_meanwhile'] as const) : []),
    ...(one.problems ?? []),
  ];
  const byStatus = Map.groupBy(new Set(codes), statusOf);
  return Object.fromEntries(
    [...byStatus]
      .sort(([one], [other]) => one - other)
      .map(([status, those]) => [
        String(status),
        {
          description: `${STATUS_CODES[status]}: ${those.map((code) => `\`${code}\``).join(', ')}`,
          content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
        },
      ]),
  );
}

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonObject {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any', reused: 'inline' });
  return JSON.parse(JSON.stringify(rest)) as JsonObject;
}

/** RFC 9457. */
const PROBLEM = {
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
        properties: { path: { type: 'string' }, message: { type: 'string' } },
      },
    },
  },
} as const;
