import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { Clock } from '../ports/clock.ts';
import type { ResponseStream } from '../ports/control-api.ts';
import type { IdempotencyStore } from '../ports/idempotency-store.ts';
import type { Logger } from '../ports/logger.ts';
import type { Authenticator } from './auth.ts';
import type { ControlHandler, ReceivedRequest } from './contract.ts';
import { EventStream } from './event-stream.ts';
import { IdempotencyCache } from './idempotency.ts';
import { openApi } from './openapi.ts';
import {
  type ApiOperation,
  CookieResult,
  DryRunResult,
  inputParser,
  isRepeatable,
  type OperationClient,
  StreamResult,
  TaggedResult,
} from './operation.ts';
import { compatResponse, Problem, problemResponse } from './problem.ts';
import type { BrowserRequest } from './sessions.ts';
import { outsideToken, refuseOutside } from './token-limits.ts';

export interface ControlApiOptions {
  readonly authenticator: Authenticator;
  readonly clock: Clock;
  readonly operations: readonly ApiOperation[];
  /** Operations below `/compat/`, whose errors have the shape of the API that they stand for. */
  readonly compat?: readonly ApiOperation[];
  /** The page at `/metrics`; without it there is none. */
  readonly metrics?: MetricsRoute;
  /** Present where several nodes answer. */
  readonly idempotency?: IdempotencyStore | undefined;
  readonly logger: Logger;
  /** The version of the program, for the description of the API. */
  readonly version: string;
}

export interface MetricsRoute {
  /** No token is needed. */
  readonly isPublic: boolean;
  readonly contentType: string;
  readonly text: () => Promise<string>;
}

const API_ROOT = '/api/v1/';
const COMPAT_ROOT = '/compat/';
const DESCRIPTION_PATH = '/api/openapi.json';
const METRICS_PATH = '/metrics';

/** The listener limits the length of paths. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER;

/**
 * Operations check their input themselves. Without this the framework loads two schema compilers at each
 * start.
 */
const NO_SCHEMAS = { compilersFactory: { buildValidator: refuseSchema, buildSerializer: refuseSchema } };

function refuseSchema(): never {
  throw new Error('routes of the control API have no schemas');
}

/** The response of an operation. Repeated requests get it again. */
interface OperationResult {
  readonly status: number;
  /** Text of the body; absent for 204. */
  readonly text?: string;
  /** The ETag. */
  readonly tag?: string | undefined;
  /** The value of Set-Cookie. */
  readonly cookie?: string;
  readonly stream?: ResponseStream;
}

/**
 * The control API (spec/contract.md, "Control API") and the metrics page. It is complete before the first
 * request: to load it later would hold up every call for a tenth of a second.
 */
export async function createControlApi(options: ControlApiOptions): Promise<ControlHandler> {
  const received: ReceivedRequests = new WeakMap();
  const api = createRoutes(options, received);
  await api.ready();
  return (request, response, parts) => {
    received.set(request, parts);
    // A body is JSON, whatever the client calls it.
    request.headers['content-type'] = 'application/json';
    api.routing(request, response);
  };
}

/** The listener's part of each request that is under way. */
type ReceivedRequests = WeakMap<IncomingMessage, ReceivedRequest>;

/** The routes of an instance that listens to nothing: the listener hands requests to its `routing`. */
function createRoutes(options: ControlApiOptions, received: ReceivedRequests): FastifyInstance {
  const { logger } = options;
  const fail = (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const { status, headers, body } = problemResponse(error, pathOf(request), logger);
    return reply.status(status).headers(headers).send(responseBody(body, reply));
  };
  const api = fastify({
    schemaController: NO_SCHEMAS,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: NO_LIMIT },
    // A path that cannot be decoded, such as /%zz.
    frameworkErrors: (_error, request, reply) => void fail(new Problem('not_found'), request, reply),
  });
  // The listener has read the body. An operation that takes one parses it; the others do not look at it.
  api.removeAllContentTypeParsers();
  api.addContentTypeParser('*', (request, _payload, done) => done(null, received.get(request.raw)!.body));
  api.setErrorHandler(fail);
  const refuseLargeBody = async ({ raw }: FastifyRequest) => {
    if (received.get(raw)!.body === 'too_large') throw new Problem('body_too_large');
  };
  const routes = { api, received, refuseLargeBody };
  handleUnknownPaths(routes, options);
  serveDescription(routes, options);
  serveOperations(routes, options);
  if (options.metrics !== undefined) serveMetrics(routes, options.metrics, options.authenticator);
  return api;
}

/** The instance and the hooks that every group of routes uses. */
interface Routes {
  readonly api: FastifyInstance;
  readonly received: ReceivedRequests;
  readonly refuseLargeBody: (request: FastifyRequest) => Promise<void>;
}

function serveOperations(
  { api, received, refuseLargeBody }: Routes,
  { authenticator, clock, idempotency, logger, ...options }: ControlApiOptions,
): void {
  const repeats = new IdempotencyCache<OperationResult>(clock, idempotency);
  const clients = new WeakMap<FastifyRequest, OperationClient>();
  for (const { one, path, isCompat } of servedBy(options)) {
    const read = inputParser(one);
    api.route({
      method: one.method,
      url: path,
      ...(isCompat ? { errorHandler: compatErrors(logger) } : {}),
      onRequest: [
        refuseLargeBody,
        async (request, reply) => {
          const { address } = received.get(request.raw)!;
          const browser = browserRequest(request);
          const ended = new AbortController();
          reply.raw.once('close', () => ended.abort());
          const client = { address, request: browser, isSignedIn: () => false, gone: ended.signal };
          if (one.isSignIn === true) {
            clients.set(request, client);
            return;
          }
          await authenticator.prepare(browser);
          const caller = authenticator.authenticate(browser, address, one.role, one.takesCookieAlone);
          clients.set(request, { ...client, caller, isSignedIn: () => authenticator.isSignedIn(caller) });
        },
      ],
      handler: async (request, reply) => {
        const client = clients.get(request)!;
        refuseUnreadable(one, request, received.get(request.raw)!);
        return sendResult(await runOperation(one, { request, read, client, repeats }), reply);
      },
    });
  }
}

/** Operations with their paths. */
function servedBy({ operations, compat = [] }: Pick<ControlApiOptions, 'operations' | 'compat'>) {
  const below = (root: string, isCompat: boolean) => (one: ApiOperation) => ({
    one,
    path: root + one.path,
    isCompat,
  });
  return [...operations.map(below(API_ROOT, false)), ...compat.map(below(COMPAT_ROOT, true))];
}

/** Answers an error as the API does that these operations stand for. */
function compatErrors(logger: Logger) {
  return (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const { status, headers, body } = compatResponse(error, pathOf(request), logger);
    return reply.status(status).headers(headers).send(responseBody(body, reply));
  };
}

/**
 * Refuses a body and a query whose bytes are no UTF-8. They would be read as other texts than were sent, and
 * the id in them as that of somebody else.
 */
function refuseUnreadable(
  { body }: ApiOperation,
  { url }: FastifyRequest,
  { invalidAt }: ReceivedRequest,
): void {
  if (body !== undefined && invalidAt !== undefined) {
    const place = invalidAt.toLocaleString('en-US');
    throw new Problem('body_not_json', {
      hint: `Byte ${place} of it belongs to no character of UTF-8: encode it.`,
    });
  }
  if (isReadable(url)) return;
  const message = 'must be UTF-8 in percent-encoding (ü is %C3%BC, and % is %25)';
  throw new Problem('invalid_parameters', { errors: [{ path: 'query', message }] });
}

/** The framework leaves an escape that is none as it stands. Of the path it has refused one already. */
function isReadable(url: string): boolean {
  try {
    decodeURIComponent(url);
    return true;
  } catch {
    return false;
  }
}

function browserRequest({ method, headers, raw }: FastifyRequest): BrowserRequest {
  return { method, headers, isEncrypted: 'encrypted' in raw.socket };
}
/**
 * A path that does not exist is 404 even without a token: the paths are public, and a mistake in one must not
 * look like a mistake in the token.
 */
function handleUnknownPaths(
  { api, refuseLargeBody }: Routes,
  options: Pick<ControlApiOptions, 'operations' | 'compat'>,
): void {
  const { operations } = options;
  const paths = servedPaths(options);
  const served = `The control API serves ${paths.map(({ path }) => path).join(', ')}.`;
  const all = [
    ...paths,
    { path: METRICS_PATH, pattern: new RegExp(`^${METRICS_PATH}/?$`), allow: 'GET, HEAD' },
  ];
  api.setNotFoundHandler(async (request, reply) => {
    await refuseLargeBody(request);
    if (operations.length === 0 && pathOf(request).path.startsWith(API_ROOT))
      throw new Problem('no_control_api');
    const found = all.find(({ pattern }) => pattern.test(pathOf(request).path));
    if (found === undefined) throw new Problem('not_found', { hint: served });
    reply.header('Allow', found.allow);
    throw new Problem('method_not_allowed');
  });
}

/** Every path with the methods it takes; `pattern` finds it in a request. */
function servedPaths(options: Pick<ControlApiOptions, 'operations' | 'compat'>) {
  const routes = [
    ...servedBy(options).map(({ one, path }) => ({ method: one.method, path })),
    { method: 'GET', path: DESCRIPTION_PATH },
  ];
  return [...Map.groupBy(routes, ({ path }) => path)].map(([path, those]) => ({
    path,
    pattern: new RegExp(`^${path.replaceAll('.', '\\.').replace(/:\w+/g, '[^/]+')}/?$`),
    allow: those.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', '),
  }));
}

interface OperationCall {
  readonly request: FastifyRequest;
  readonly read: ReturnType<typeof inputParser>;
  readonly client: OperationClient;
  readonly repeats: IdempotencyCache<OperationResult>;
}

async function runOperation(
  one: ApiOperation,
  { request, read, client, repeats }: OperationCall,
): Promise<OperationResult> {
  const body = typeof request.body === 'string' ? request.body : '';
  const by = client.caller?.name ?? '';
  const header = request.headers['idempotency-key'];
  const isRepeated = isRepeatable(one) && typeof header === 'string' && header !== '';
  // By the digest: a token of the same name that is made later is somebody else's.
  const key = JSON.stringify([client.caller?.digest, request.url, header]);
  const repeat = isRepeated ? { repeat: { key, body } } : {};
  const run = async (): Promise<OperationResult> => {
    const names = request.params as Record<string, string>;
    const input = { names, ...read({ query: request.query, body }), by, client };
    if (client.caller !== undefined) refuseOutside(one, client.caller, input);
    const value = await one.run({ ...input, ...repeat, ifMatch: request.headers['if-match'] });
    if (value === undefined) return { status: 204 };
    if (value instanceof StreamResult) return { status: 200, stream: value.body };
    if (value instanceof CookieResult) return cookieResult(one, value);
    if (value instanceof DryRunResult) return { status: 200, text: JSON.stringify(value.value) };
    const { value: shown, tag } = value instanceof TaggedResult ? value : { value, tag: undefined };
    return { status: one.status ?? 200, text: JSON.stringify(shown), tag };
  };
  if (!isRepeated) return await run();
  return await repeats.runOnce(key, body, run, { isShared: one.sharesAnswer === true });
}

function cookieResult({ status = 200 }: ApiOperation, { value, cookie }: CookieResult): OperationResult {
  return value === undefined ? { status: 204, cookie } : { status, text: JSON.stringify(value), cookie };
}

function sendResult(
  { status, text, tag, cookie, stream }: OperationResult,
  reply: FastifyReply,
): FastifyReply {
  if (stream !== undefined) return sendEvents(stream, reply);
  if (tag !== undefined) reply.header('ETag', tag);
  if (cookie !== undefined) reply.header('Set-Cookie', cookie);
  reply.status(status).header('Cache-Control', 'no-store');
  if (text === undefined) return reply.send();
  return reply.header('Content-Type', 'application/json').send(responseBody(text, reply));
}

/**
 * Server-sent events. The response is the last of its connection, so that nothing is left open when the
 * server stops.
 */
function sendEvents(stream: ResponseStream, reply: FastifyReply): FastifyReply {
  const events = new EventStream(stream);
  // The framework would read the stream to its end, which never comes.
  if (reply.request.method === 'HEAD') events.destroy();
  return reply
    .headers({
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
      // nginx would keep the lines back until there are many.
      'X-Accel-Buffering': 'no',
      Connection: 'close',
    })
    .send(events);
}

/**
 * A longer body is written piece by piece: only then does the listener see whether a slow client takes any of
 * it.
 */
const PIECE_BYTES = 64 * 1024;

/** A text as the framework sends it unchanged: to the type of a string it would add a charset. */
function responseBody(text: string, reply: FastifyReply): Buffer | Readable {
  const bytes = Buffer.from(text);
  if (bytes.length <= PIECE_BYTES || reply.request.method === 'HEAD') return bytes;
  reply.header('Content-Length', bytes.length);
  return Readable.from(piecesOf(bytes));
}

function* piecesOf(bytes: Buffer): Iterable<Buffer> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
}

/** Describes both APIs in one document. Everybody may read it, because it holds no data. */
function serveDescription(
  { api, refuseLargeBody }: Routes,
  { operations, version }: ControlApiOptions,
): void {
  let text: string | undefined;
  api.get(DESCRIPTION_PATH, { onRequest: refuseLargeBody }, async (_request, reply) => {
    text ??= JSON.stringify(openApi(operations, version));
    return sendResult({ status: 200, text }, reply);
  });
}

/** The metrics page, for a token of any role. spec/contract.md, "Paths of the server". */
function serveMetrics(
  { api, received }: Routes,
  { isPublic, contentType, text }: MetricsRoute,
  authenticator: Authenticator,
): void {
  api.get(METRICS_PATH, async (request, reply) => {
    const { address } = received.get(request.raw)!;
    const browser = browserRequest(request);
    if (!isPublic) {
      await authenticator.prepare(browser);
      const { limits } = authenticator.authenticate(browser, address, 'metrics');
      // The page is about all of them.
      if (limits !== undefined) throw outsideToken(limits);
    }
    reply.headers({ 'Content-Type': contentType, 'Cache-Control': 'no-store' });
    return reply.send(responseBody(await text(), reply));
  });
}

function pathOf({ url, method }: FastifyRequest): { path: string; method: string } {
  return { path: url.split('?')[0]!, method };
}
