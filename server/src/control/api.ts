import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type * as z from 'zod';
import type { Logger } from '../ports/logger.ts';
import { answerTo } from './answer.ts';
import { matcherOf, tokenIn } from './bearer.ts';
import type { Operation } from './operation.ts';
import { type Fault, Problem } from './problem.ts';

export interface ControlOptions {
  /** Whoever has it may do everything. */
  readonly token: string;
  readonly operations: readonly Operation[];
  readonly logger: Logger;
}

const ROOT = '/api/v1/';
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;

/** The operations as routes. It listens to nothing: the listener hands requests in. */
export async function makeApi({ token, operations, logger }: ControlOptions): Promise<FastifyInstance> {
  const api = fastify({ routerOptions: { ignoreTrailingSlash: true }, exposeHeadRoutes: true });
  const isToken = matcherOf(token);
  const served = `The control API serves ${[...new Set(operations.map(({ path }) => ROOT + path))].join(', ')}.`;

  api.setErrorHandler((error, request, reply) => {
    const problem = isUnreadable(error) ? new Problem('body_not_json') : error;
    const { status, headers, body } = answerTo(problem, pathOf(request), logger);
    return reply.status(status).headers(headers).send(body);
  });
  // A path that does not exist is 404 even without a token: the paths are public, and whoever mistypes one must not look
  // for the mistake in the token.
  api.setNotFoundHandler(() => {
    throw new Problem('not_found', { hint: served });
  });

  const signIn = async (request: FastifyRequest, reply: FastifyReply) => {
    const candidate = tokenIn(request.headers.authorization);
    if (candidate !== undefined && isToken(candidate)) return;
    const wrong = candidate === undefined ? '' : ', error="invalid_token"';
    // What a client is to do about a 401. RFC 6750 section 3.
    reply.header('WWW-Authenticate', `Bearer realm="millrace"${wrong}`);
    throw new Problem(candidate === undefined ? 'token_missing' : 'token_invalid');
  };
  for (const [path, those] of Map.groupBy(operations, ({ path }) => path)) {
    for (const one of those) {
      api.route({
        method: one.method,
        url: ROOT + path,
        onRequest: signIn,
        handler: async (request, reply) => {
          const value = await one.run(inputOf(one, request));
          return reply.type('application/json').send(JSON.stringify(value));
        },
      });
    }
    refuseOthers(api, ROOT + path, those);
  }
  await api.ready();
  return api;
}

function refuseOthers(api: FastifyInstance, url: string, operations: readonly Operation[]): void {
  const allowed = operations.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
  api.route({
    method: METHODS.filter((method) => !allowed.includes(method)),
    url,
    handler: async (_request, reply) => {
      reply.header('Allow', allowed.join(', '));
      throw new Problem('method_not_allowed');
    },
  });
}

function inputOf({ query, body }: Operation, request: FastifyRequest) {
  const faults: Fault[] = [];
  const input = {
    names: request.params as Record<string, string>,
    query: parsed(query, request.query, { part: 'query', faults }),
    body: parsed(body, request.body ?? {}, { part: 'body', faults }),
  };
  if (faults.length > 0) throw new Problem('invalid_parameters', { errors: faults });
  return input;
}

function parsed(
  schema: z.ZodType | undefined,
  value: unknown,
  { part, faults }: { readonly part: string; readonly faults: Fault[] },
): unknown {
  const result = schema?.safeParse(value);
  for (const { path, message } of result?.error?.issues ?? []) {
    faults.push({ path: [part, ...path].join('.'), message });
  }
  return result?.data;
}

/** The framework's word for a body that is no JSON. */
function isUnreadable(error: unknown): boolean {
  return (
    error instanceof SyntaxError ||
    (error instanceof Error && 'code' in error && error.code === 'FST_ERR_CTP_EMPTY_JSON_BODY') ||
    (error instanceof Error && 'code' in error && error.code === 'FST_ERR_CTP_INVALID_JSON_BODY')
  );
}

function pathOf({ url, method }: FastifyRequest): { path: string; method: string } {
  return { path: url.split('?')[0]!, method };
}
