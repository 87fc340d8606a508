import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { AnswerStream } from '../ports/control.ts';
import type { Logger } from '../ports/logger.ts';
import { answerTo } from './answer.ts';
import { readerOf } from './input.ts';
import { openApi } from './openapi.ts';
import { DryRun, type Operation, Tagged } from './operation.ts';
import { Problem } from './problem.ts';
import { Repeats } from './repeats.ts';
import { type Caller, SignIn, type SignInTools } from './sign-in.ts';
import { carry, Streamed } from './streamed.ts';

export interface ControlOptions extends SignInTools {
  readonly operations: readonly Operation[];
  readonly logger: Logger;
  /** Of the program, for the description of the API. */
  readonly version: string;
}

const ROOT = '/api/v1/';
const DESCRIPTION = '/api/openapi.json';

/** The listener bounds bodies and heads; the framework is not to refuse what has come through. */
const UNBOUNDED = Number.MAX_SAFE_INTEGER;

/** Operations check by themselves what they are given. Not said, the framework loads two compilers of schemas at each start. */
const NO_SCHEMAS = { compilersFactory: { buildValidator: refuseSchema, buildSerializer: refuseSchema } };

function refuseSchema(): never {
  throw new Error('routes of the control API have no schemas');
}

/** What an operation has to say, as it goes out. */
interface Said {
  readonly status: number;
  readonly text: string | undefined;
  readonly tag: string | undefined;
  readonly stream?: AnswerStream;
}

/** The operations as routes. It listens to nothing: the listener hands requests in. */
export async function makeApi(options: ControlOptions): Promise<FastifyInstance> {
  const { operations, logger } = options;
  const fail = (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const { status, headers, body } = answerTo(error, pathOf(request), logger);
    return reply.status(status).headers(headers).send(body);
  };
  const api = fastify({
    bodyLimit: UNBOUNDED,
    exposeHeadRoutes: false,
    schemaController: NO_SCHEMAS,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: UNBOUNDED },
    // A path that cannot be decoded, such as /%zz.
    frameworkErrors: (_error, request, reply) => void fail(new Problem('not_found'), request, reply),
  });
  // A body is read by the operation that takes one; the others do not look at it.
  api.removeAllContentTypeParsers();
  api.addContentTypeParser('*', { parseAs: 'string' }, (_request, text, done) => done(null, text));
  api.setErrorHandler(fail);
  const paths = pathsOf(operations);
  const served = `The control API serves ${paths.map(({ path }) => path).join(', ')}.`;
  // A path that does not exist is 404 even without a token: the paths are public, and whoever mistypes one must not look
  // for the mistake in the token.
  api.setNotFoundHandler((request, reply) => {
    const found = paths.find(({ pattern }) => pattern.test(pathOf(request).path));
    if (found === undefined) throw new Problem('not_found', { hint: served });
    reply.header('Allow', found.allow);
    throw new Problem('method_not_allowed');
  });
  describe(api, options);

  const signIn = new SignIn(options);
  const repeats = new Repeats<Said>(options.clock);
  const callers = new WeakMap<FastifyRequest, Caller>();
  for (const one of operations) {
    const read = readerOf(one);
    api.route({
      method: one.method,
      url: ROOT + one.path,
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
        const { status, text, tag, stream } = await answered(one, { request, read, by: name, repeats });
        if (stream !== undefined) {
          carry(reply.raw, stream);
          return reply.type('text/event-stream').send('');
        }
        if (tag !== undefined) reply.header('ETag', tag);
        return reply.status(status).type('application/json').send(text);
      },
    });
  }
  await api.ready();
  return api;
}

/** Every path with the methods it takes; `pattern` finds it in a request. */
function pathsOf(operations: readonly Operation[]) {
  const routes = [
    ...operations.map(({ method, path }) => ({ method, path: ROOT + path })),
    { method: 'GET', path: DESCRIPTION },
  ];
  return [...Map.groupBy(routes, ({ path }) => path)].map(([path, those]) => ({
    path,
    pattern: new RegExp(`^${path.replaceAll('.', '\\.').replace(/:\w+/g, '[^/]+')}/?$`),
    allow: those.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', '),
  }));
}

/** What a client is to do about a 401. RFC 6750 section 3. */
function challenge(error: unknown, reply: FastifyReply): void {
  if (!(error instanceof Problem) || error.status !== 401) return;
  const wrong = error.code === 'token_invalid' ? ', error="invalid_token"' : '';
  reply.header('WWW-Authenticate', `Bearer realm="millrace"${wrong}`);
}

interface Asked {
  readonly request: FastifyRequest;
  readonly read: ReturnType<typeof readerOf>;
  readonly by: string;
  readonly repeats: Repeats<Said>;
}

async function answered(one: Operation, { request, read, by, repeats }: Asked): Promise<Said> {
  const body = typeof request.body === 'string' ? request.body : '';
  const run = async (): Promise<Said> => {
    const names = request.params as Record<string, string>;
    const input = { names, ...read({ query: request.query, body }), by };
    const value = await one.run({ ...input, ifMatch: request.headers['if-match'] });
    if (value === undefined) return { status: 204, text: undefined, tag: undefined };
    if (value instanceof Streamed) return { status: 200, text: '', tag: undefined, stream: value.body };
    if (value instanceof DryRun) return { status: 200, text: JSON.stringify(value.value), tag: undefined };
    const { value: shown, tag } = value instanceof Tagged ? value : { value, tag: undefined };
    return { status: one.status ?? 200, text: JSON.stringify(shown), tag };
  };
  const key = request.headers['idempotency-key'];
  if (one.method !== 'POST' || typeof key !== 'string' || key === '') return await run();
  return await repeats.once(JSON.stringify([by, request.url, key]), body, run);
}

/** Both APIs in one document, for everybody: it says what there is and nothing about what is in it. */
function describe(api: FastifyInstance, { operations, version }: ControlOptions): void {
  let text: string | undefined;
  api.get(DESCRIPTION, async (_request, reply) => {
    text ??= JSON.stringify(openApi(operations, version));
    return reply.type('application/json').send(text);
  });
}

function pathOf({ url, method }: FastifyRequest): { path: string; method: string } {
  return { path: url.split('?')[0]!, method };
}
