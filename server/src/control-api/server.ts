import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type {
  ControlHandler,
  ControlRequest,
  ControlResponse,
  ResponseStream,
} from '../ports/control-api.ts';
import type { Logger } from '../ports/logger.ts';
import { Authenticator, type AuthenticatorDependencies, type Caller } from './auth.ts';
import { IdempotencyCache } from './idempotency.ts';
import { openApi } from './openapi.ts';
import {
  type ApiOperation,
  attachedStream,
  attachStream,
  DryRunResult,
  inputParser,
  StreamResult,
  TaggedResult,
} from './operation.ts';
import { Problem, problemResponse } from './problem.ts';

export interface ControlApiOptions extends AuthenticatorDependencies {
  readonly operations: readonly ApiOperation[];
  readonly logger: Logger;
  /** Of the program, for the description of the API. */
  readonly version: string;
}

const API_ROOT = '/api/v1/';
const DESCRIPTION_PATH = '/api/openapi.json';

/** The listener bounds bodies and heads; the framework is not to refuse what has come through. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER;

/** Operations check by themselves what they are given. Not said, the framework loads two compilers of schemas at each start. */
const NO_SCHEMAS = { compilersFactory: { buildValidator: refuseSchema, buildSerializer: refuseSchema } };

function refuseSchema(): never {
  throw new Error('routes of the control API have no schemas');
}

/** What an operation has to say, as it goes out. */
interface OperationResult {
  readonly status: number;
  readonly text: string | undefined;
  readonly tag: string | undefined;
  readonly stream?: ResponseStream;
}

/** The operations as routes. It listens to nothing: the listener hands requests in. */
async function createFastifyApi(options: ControlApiOptions): Promise<FastifyInstance> {
  const { operations, logger } = options;
  const fail = (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const { status, headers, body } = problemResponse(error, pathOf(request), logger);
    return reply.status(status).headers(headers).send(body);
  };
  const api = fastify({
    bodyLimit: NO_LIMIT,
    exposeHeadRoutes: false,
    schemaController: NO_SCHEMAS,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: NO_LIMIT },
    // A path that cannot be decoded, such as /%zz.
    frameworkErrors: (_error, request, reply) => void fail(new Problem('not_found'), request, reply),
  });
  // A body is read by the operation that takes one; the others do not look at it.
  api.removeAllContentTypeParsers();
  api.addContentTypeParser('*', { parseAs: 'string' }, (_request, text, done) => done(null, text));
  api.setErrorHandler(fail);
  const paths = servedPaths(operations);
  const served = `The control API serves ${paths.map(({ path }) => path).join(', ')}.`;
  // A path that does not exist is 404 even without a token: the paths are public, and whoever mistypes one must not look
  // for the mistake in the token.
  api.setNotFoundHandler((request, reply) => {
    const found = paths.find(({ pattern }) => pattern.test(pathOf(request).path));
    if (found === undefined) throw new Problem('not_found', { hint: served });
    reply.header('Allow', found.allow);
    throw new Problem('method_not_allowed');
  });
  serveDescription(api, options);

  const signIn = new Authenticator(options);
  const repeats = new IdempotencyCache<OperationResult>(options.clock);
  const callers = new WeakMap<FastifyRequest, Caller>();
  for (const one of operations) {
    const read = inputParser(one);
    api.route({
      method: one.method,
      url: API_ROOT + one.path,
      // Before the body is looked at.
      onRequest: async (request, reply) => {
        try {
          callers.set(request, signIn.authenticate(request.headers.authorization, request.ip, one.role));
        } catch (error) {
          challenge(error, reply);
          throw error;
        }
      },
      handler: async (request, reply) => {
        const { name } = callers.get(request)!;
        const { status, text, tag, stream } = await runOperation(one, { request, read, by: name, repeats });
        if (stream !== undefined) {
          attachStream(reply.raw, stream);
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
function servedPaths(operations: readonly ApiOperation[]) {
  const routes = [
    ...operations.map(({ method, path }) => ({ method, path: API_ROOT + path })),
    { method: 'GET', path: DESCRIPTION_PATH },
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

interface OperationCall {
  readonly request: FastifyRequest;
  readonly read: ReturnType<typeof inputParser>;
  readonly by: string;
  readonly repeats: IdempotencyCache<OperationResult>;
}

async function runOperation(
  one: ApiOperation,
  { request, read, by, repeats }: OperationCall,
): Promise<OperationResult> {
  const body = typeof request.body === 'string' ? request.body : '';
  const run = async (): Promise<OperationResult> => {
    const names = request.params as Record<string, string>;
    const input = { names, ...read({ query: request.query, body }), by };
    const value = await one.run({ ...input, ifMatch: request.headers['if-match'] });
    if (value === undefined) return { status: 204, text: undefined, tag: undefined };
    if (value instanceof StreamResult) return { status: 200, text: '', tag: undefined, stream: value.body };
    if (value instanceof DryRunResult)
      return { status: 200, text: JSON.stringify(value.value), tag: undefined };
    const { value: shown, tag } = value instanceof TaggedResult ? value : { value, tag: undefined };
    return { status: one.status ?? 200, text: JSON.stringify(shown), tag };
  };
  const key = request.headers['idempotency-key'];
  if (one.method !== 'POST' || typeof key !== 'string' || key === '') return await run();
  return await repeats.runOnce(JSON.stringify([by, request.url, key]), body, run);
}

/** Both APIs in one document, for everybody: it says what there is and nothing about what is in it. */
function serveDescription(api: FastifyInstance, { operations, version }: ControlApiOptions): void {
  let text: string | undefined;
  api.get(DESCRIPTION_PATH, async (_request, reply) => {
    text ??= JSON.stringify(openApi(operations, version));
    return reply.type('application/json').send(text);
  });
}

function pathOf({ url, method }: FastifyRequest): { path: string; method: string } {
  return { path: url.split('?')[0]!, method };
}

/**
 * The control API (spec/contract.md, "Control API"), complete before anything is asked: to load it later would hold up every
 * call for a tenth of a second.
 */
export async function createControlApi(options: ControlApiOptions): Promise<ControlHandler> {
  const api = await createFastifyApi(options);
  return async ({ method, path, query, body, address, ...headers }) => {
    try {
      if (body === 'too_large') throw new Problem('body_too_large');
      const answer = await api.inject({
        method: methodFor(method),
        url: query === '' ? path : `${path}?${query}`,
        remoteAddress: address,
        headers: {
          ...optionalHeader('authorization', headers.authorization),
          ...optionalHeader('if-match', headers.ifMatch),
          ...optionalHeader('idempotency-key', headers.idempotencyKey),
          ...(body === '' ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === '' ? {} : { payload: body }),
      });
      const stream = attachedStream(answer.raw.res);
      const said = responseHeaders(answer.headers);
      return stream === undefined
        ? { status: answer.statusCode, headers: said, body: answer.body }
        : { status: answer.statusCode, headers: { ...said, ...UNBUFFERED }, body: stream };
    } catch (error) {
      return problemResponse(error, { path, method }, options.logger);
    }
  };
}

/**
 * The method as the framework is asked: it answers 500 to those that it does not know, such as QUERY, so they go as one that no
 * operation has. HEAD is GET without the body, which the listener leaves out, so the length is that of the body.
 */
function methodFor(method: string): 'GET' {
  if (method === 'HEAD') return 'GET';
  return (KNOWN_METHODS.includes(method) ? method : 'OPTIONS') as 'GET';
}

const KNOWN_METHODS: readonly string[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** nginx and those who learned from it would keep the lines back until there are many. */
const UNBUFFERED = { 'X-Accel-Buffering': 'no' };

/** Those that say something; lengths and connections are the listener's. JSON is UTF-8 and its type has no parameters. */
function responseHeaders(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const type = headers['content-type'];
  const answer: Record<string, string> = {
    ...(typeof type === 'string' ? { 'Content-Type': type.replace(/;.*/, '') } : {}),
    'Cache-Control': 'no-store',
  };
  for (const name of ['Allow', 'WWW-Authenticate', 'ETag', 'Retry-After']) {
    const value = headers[name.toLowerCase()];
    if (typeof value === 'string') answer[name] = value;
  }
  return answer;
}

function optionalHeader(name: string, value: string | undefined): Record<string, string> {
  return value === undefined ? {} : { [name]: value };
}

export interface MetricsHandlerOptions extends AuthenticatorDependencies {
  readonly logger: Logger;
  /** Nobody needs a token. */
  readonly isPublic: boolean;
  readonly contentType: string;
  readonly text: () => Promise<string>;
}

/**
 * `/metrics`, for any token there is, whatever its role. spec/contract.md, "Paths of the server". It goes without the
 * framework of the control API: whoever is only scraped every 15 seconds need not load it.
 */
export function createMetricsHandler(options: MetricsHandlerOptions): ControlHandler {
  // Whoever guesses tokens here is counted apart from the control API; both counts are small.
  const signIn = new Authenticator(options);
  return async (request) => {
    try {
      return await metricsResponse(request, signIn, options);
    } catch (error) {
      const { status, headers, body } = problemResponse(error, request, options.logger);
      const more = error instanceof Problem ? problemHeaders(error) : {};
      return { status, headers: { ...headers, ...more }, body };
    }
  };
}

async function metricsResponse(
  { method, authorization, address }: ControlRequest,
  signIn: Authenticator,
  { isPublic, contentType, text }: MetricsHandlerOptions,
): Promise<ControlResponse> {
  if (method !== 'GET' && method !== 'HEAD') throw new Problem('method_not_allowed');
  if (!isPublic) signIn.authenticate(authorization, address, 'viewer');
  const headers = { 'Content-Type': contentType, 'Cache-Control': 'no-store' };
  return { status: 200, headers, body: await text() };
}

function problemHeaders({ status }: Problem): Record<string, string> {
  if (status === 405) return { Allow: 'GET, HEAD' };
  return status === 401 ? { 'WWW-Authenticate': 'Bearer realm="millrace"' } : {};
}
