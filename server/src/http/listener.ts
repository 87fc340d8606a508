import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { type Duration, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Control } from '../ports/control.ts';
import type { Logger } from '../ports/logger.ts';
import type { Receiver } from '../ports/receiver.ts';
import { writeKeyIn } from './authorization.ts';
import { drain, readBody } from './body.ts';
import type { ErrorCode } from './errors.ts';
import { type Answer, answerOf, answerTo, asText, failure, respond, success } from './respond.ts';
import { type CallAction, isControlPath, pathIn, pathsOf, queryIn, ROUTES } from './routes.ts';

export interface TimeLimits {
  /** A client whose head or body arrives more slowly is cut off with 408. */
  readonly head: Duration;
  readonly request: Duration;
  /** How long a connection may be idle between two requests. */
  readonly idle: Duration;
  /** How often the limits of head and request are looked at. */
  readonly checked: Duration;
  /** How long `stop` lets requests under way finish. */
  readonly grace: Duration;
}

/** Idle is longer than common clients and load balancers wait (60 s): they close first, never we into their next request. */
const TIME_LIMITS: TimeLimits = {
  head: 15 * SECOND,
  request: 60 * SECOND,
  idle: 72 * SECOND,
  checked: 5 * SECOND,
  grace: 5 * SECOND,
};

export interface ListenerOptions {
  readonly receiver: Receiver;
  /** Answers everything below `/api`; without it there is nothing. */
  readonly control?: Control;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Why calls cannot be accepted now; empty when they can. */
  readonly readiness: () => readonly string[];
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly timeLimits?: Partial<TimeLimits>;
}

export interface Listener {
  /** Resolves to where it listens. Rejects with an error whose message is one line that says what to do. */
  start(): Promise<{ readonly host: string; readonly port: number }>;
  /** Takes no more connections, lets requests under way finish for some seconds, then closes what is left. Idempotent. */
  stop(): Promise<void>;
}

/** The one port: the receiving API, and the control API behind it. */
export function createListener(options: ListenerOptions): Listener {
  const limits = { ...TIME_LIMITS, ...options.timeLimits };
  const server = createServer({
    headersTimeout: limits.head,
    requestTimeout: limits.request,
    keepAliveTimeout: limits.idle,
    connectionsCheckingInterval: limits.checked,
  });
  let stopped: Promise<void> | undefined;
  const reply: Reply = (response, answer) => {
    // The client learns that it must not send another request here.
    if (stopped !== undefined) response.shouldKeepAlive = false;
    respond(response, answer);
  };
  server.on('request', (request, response) => handle({ request, response, reply }, options));
  server.on('clientError', answerUnreadable);
  return {
    async start() {
      await listen(server, options);
      server.on('error', (error) => options.logger.error({ error }, 'listener.failed'));
      const { address, port } = server.address() as AddressInfo;
      return { host: address, port };
    },
    stop() {
      stopped ??= close(server, options.clock, limits.grace);
      return stopped;
    },
  };
}

const PATHS = pathsOf(ROUTES);
const ALIVE = answerOf(200, '{"status":"alive"}');
const READY = answerOf(200, '{"status":"ready"}');

type Reply = (response: ServerResponse, answer: Answer) => void;

/** One request and the way to answer it. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly reply: Reply;
}

function handle(exchange: Exchange, options: ListenerOptions): void {
  const { request, response, reply } = exchange;
  const path = PATHS.get(pathIn(request.url ?? ''));
  const action = path?.actions.get(request.method ?? '');
  if (action?.kind === 'call') {
    takeCall(exchange, action, options);
    return;
  }
  drain(request);
  if (path === undefined && options.control !== undefined && isControlPath(request.url ?? '')) {
    askControl(exchange, options.control, options.logger);
  } else if (path === undefined) reply(response, failure('not_found'));
  else if (action === undefined) reply(response, notAllowed(path.allow));
  else if (action.kind === 'swallow') reply(response, success());
  else if (action.kind === 'alive') reply(response, ALIVE);
  else reply(response, readinessAnswer(options.readiness()));
}

function takeCall(
  { request, response, reply }: Exchange,
  action: CallAction,
  options: ListenerOptions,
): void {
  const { type, limit, tooLarge } = action;
  // A client's clock is corrected by the time between sending and arriving, so arriving is now and not after the body.
  const receivedAt = options.clock.now();
  readBody(request, limit, (body) => {
    if (typeof body === 'string') {
      reply(response, failure(body === 'too_large' ? tooLarge : body));
      return;
    }
    const { authorization } = request.headers;
    const writeKey = authorization === undefined ? undefined : writeKeyIn(authorization);
    const call = writeKey === undefined ? { type, body, receivedAt } : { type, writeKey, body, receivedAt };
    try {
      options.receiver(call, (verdict) => reply(response, answerTo(verdict)));
    } catch (error) {
      // An error of ours: one request may not end the process and everybody else's with it.
      options.logger.error({ error, type }, 'request.failed');
      if (!response.headersSent) reply(response, failure('internal_error'));
    }
  });
}

/** Not on the hot path, so a promise does no harm here. */
function askControl({ request, response, reply }: Exchange, control: Control, logger: Logger): void {
  const { method = '', url = '', headers } = request;
  const path = pathIn(url);
  control({ method, path, query: queryIn(url), authorization: headers.authorization })
    .then((answer) => {
      const length = String(Buffer.byteLength(answer.body));
      const flat = [...Object.entries(answer.headers).flat(), 'Content-Length', length];
      reply(response, { status: answer.status, headers: flat, body: answer.body });
    })
    .catch((error: unknown) => {
      logger.error({ error, path }, 'request.failed');
      if (!response.headersSent) reply(response, failure('internal_error'));
    });
}

function notAllowed(allow: string): Answer {
  const { status, headers, body } = failure('method_not_allowed');
  return { status, headers: [...headers, 'Allow', allow], body };
}

function readinessAnswer(reasons: readonly string[]): Answer {
  return reasons.length === 0 ? READY : answerOf(503, JSON.stringify({ status: 'not_ready', reasons }));
}

/** Node could not read a request on this connection, or waited too long for it. */
function answerUnreadable(error: NodeJS.ErrnoException, socket: Duplex): void {
  const codes: Readonly<Record<string, ErrorCode>> = {
    HPE_HEADER_OVERFLOW: 'headers_too_large',
    ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
  };
  if (error.code !== 'ECONNRESET' && socket.writable) {
    socket.end(asText(failure(codes[error.code ?? ''] ?? 'malformed_request')), () => socket.destroy());
  } else socket.destroy();
}

function listen(server: Server, { host, port }: ListenerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) =>
      reject(new Error(whyNot(error, host, port), { cause: error }));
    server.once('error', fail);
    server.listen({ host, port }, () => {
      server.off('error', fail);
      resolve();
    });
  });
}

/** What an operator can do about a failed start. */
function whyNot(error: NodeJS.ErrnoException, host: string, port: number): string {
  switch (error.code) {
    case 'EADDRINUSE':
      return `port ${port} on ${host} is already in use: stop the other program or choose another port with --port`;
    case 'EACCES':
      return `port ${port} on ${host} needs rights this program does not have: choose a port above 1023 with --port`;
    case 'EADDRNOTAVAIL':
      return `${host} is not an address of this machine: choose another with --host, such as 127.0.0.1 or 0.0.0.0`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the host name ${host} has no address: choose another with --host, such as 127.0.0.1 or 0.0.0.0`;
    default:
      return `cannot listen on port ${port} of ${host} (${error.message}): choose others with --host and --port`;
  }
}

/** Idle connections go at once; the others when their answer is written, or when the grace is over. */
async function close(server: Server, clock: Clock, grace: Duration): Promise<void> {
  if (!server.listening) return;
  const cancel = clock.at(clock.now() + grace, () => server.closeAllConnections());
  await new Promise<void>((resolve) => server.close(() => resolve()));
  cancel();
}
