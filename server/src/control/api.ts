import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type * as z from 'zod';
import type { Logger } from '../ports/logger.ts';
import { answerTo } from './answer.ts';
import { openApi } from './openapi.ts';
import { type Operation, Tagged } from './operation.ts';
import { type Fault, Problem } from './problem.ts';
import { Repeats } from './repeats.ts';
import { type Caller, SignIn, type SignInTools } from './sign-in.ts';

export interface ControlOptions extends SignInTools {
  readonly operations: readonly Operation[];
  readonly logger: Logger;
  /** Of the program, for the description of the API. */
  readonly version: string;
}

const ROOT = '/api/v1/';
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;

/** What an operation has to say, as it goes out. */
interface Said {
  readonly status: number;
  readonly text: string | undefined;
  readonly tag: string | undefined;
}

/** The operations as routes. It listens to nothing: the listener hands requests in. */
export async function makeApi(options: ControlOptions): Promise<FastifyInstance> {
  const { operations, logger } = options;
  const api = fastify({ routerOptions: { ignoreTrailingSlash: true }, exposeHeadRoutes: true });
  const signIn = new SignIn(options);
  const repeats = new Repeats<Said>(options.clock);
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
  describe(api, options);

  const callers = new WeakMap<FastifyRequest, Caller>();
  for (const [path, those] of Map.groupBy(operations, ({ path }) => path)) {
    for (const one of those) {
      api.route({
        method: one.method,
        url: ROOT + path,
        // Before the body is looked at.
        onRequest: async (request, reply) => {
          try {
            callers.set(request, signIn.caller(request.headers.authorization, request.ip, one.role));
          } catch (error) {
            challenge(error, reply);
            throw error;
          }
        },
        handler: async (request, reply) => {
          const { name } = callers.get(request)!;
          const { status, text, tag } = await answered(one, { request, by: name, repeats });
          if (tag !== undefined) reply.header('ETag', tag);
          return reply.status(status).type('application/json').send(text);
        },
      });
    }
    refuseOthers(api, ROOT + path, those);
  }
  await api.ready();
  return api;
}

/** What a client is to do about a 401. RFC 6750 section 3. */
function challenge(error: unknown, reply: FastifyReply): void {
  if (!(error instanceof Problem) || error.status !== 401) return;
  const wrong = error.code === 'token_invalid' ? ', error="invalid_token"' : '';
  reply.header('WWW-Authenticate', `Bearer realm="millrace"${wrong}`);
}

interface Asked {
  readonly request: FastifyRequest;
  readonly by: string;
  readonly repeats: Repeats<Said>;
}

async function answered(one: Operation, { request, by, repeats }: Asked): Promise<Said> {
  const run = async (): Promise<Said> => {
    const input = { ...inputOf(one, request), by, ifMatch: request.headers['if-match'] };
    const value = await one.run(input);
    if (value === undefined) return { status: 204, text: undefined, tag: undefined };
    const { value: shown, tag } = value instanceof Tagged ? value : { value, tag: undefined };
    return { status: one.status ?? 200, text: JSON.stringify(shown), tag };
  };
  const key = request.headers['idempotency-key'];
  if (one.method !== 'POST' || typeof key !== 'string') return await run();
  return await repeats.once(JSON.stringify([by, request.url, key]), request.body, run);
}

/** Both APIs in one document, for everybody: it says what there is and nothing about what is in it. */
function describe(api: FastifyInstance, { operations, version }: ControlOptions): void {
  let text: string | undefined;
  api.get('/api/openapi.json', async (_request, reply) => {
    text ??= JSON.stringify(openApi(operations, version));
    return reply.type('application/json').send(text);
  });
}

function refuseOthers(api: FastifyInstance, url: string, operations: readonly Operation[]): void {
  const allowed: string[] = operations.flatMap(({ method }) =>
    method === 'GET' ? ['GET', 'HEAD'] : [method],
  );
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
