import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import catalogue from '../../../spec/errors.json' with { type: 'json' };
import { STATUS_TEXT } from '../model/http-syntax.ts';
import type { IngestResult } from '../ports/ingest.ts';
import type { MetricsRecorder } from '../ports/telemetry.ts';
import { type LingeringConnections, MAX_LINGER_BYTES } from './lingering-close.ts';
import { isReceivingPath, requestTarget } from './routes.ts';

/**
 * A request of the receiving API and the way to answer it. `NodeHttpExchange` has its request from
 * `node:http`; `FastPathConnection` reads it itself.
 */
export interface HttpExchange {
  /** Bytes of the body as announced; NaN when no length is. */
  readonly contentLength: number;
  readonly contentEncoding: string | undefined;
  /** From the Authorization header; see `parseWriteKey`. */
  readonly writeKey: string | undefined;
  /** As the client sent it, unchecked. */
  readonly traceparent: string | undefined;
  /** The `X-Forwarded-For` headers, joined with commas. Untrusted: any client can send it. */
  readonly forwardedFor: string | undefined;
  /** True when the request has an `Origin`, as requests of pages have. */
  readonly hasOrigin: boolean;
  /** The connection it came over. */
  readonly peer: Socket;
  /** Makes the answer the last of its connection, and tells the client. */
  closeAfterResponse(): void;
  reply(answer: PreparedResponse): void;
  /** Closes the connection although the client still sends; its answer, if it has one, reaches it. */
  closeWhileReceiving(): void;
}

/**
 * Bytes of a refused body that are read and dropped before the connection is closed. Many clients read the
 * answer only after they have sent everything, and a body within this limit does not cost them the
 * connection.
 */
export const MAX_DRAINED_BYTES = 4 * 1024 * 1024;

/** The parts of a server that every exchange needs. */
export interface ExchangeContext {
  readonly shutdown: ServerShutdown;
  readonly lingering: LingeringConnections;
  readonly recorder: MetricsRecorder | undefined;
}

/** Whether the server is stopping. While it is, every answer is the last of its connection. */
export class ServerShutdown {
  readonly #delegated = new Set<ServerResponse>();
  #isClosing = false;

  get isClosing(): boolean {
    return this.#isClosing;
  }

  begin(): void {
    this.#isClosing = true;
    for (const response of this.#delegated) response.shouldKeepAlive = false;
  }

  /** Adds a response that another part writes, before or during the stop. */
  delegate(response: ServerResponse): void {
    if (this.#isClosing) response.shouldKeepAlive = false;
    else {
      this.#delegated.add(response);
      response.once('close', () => this.#delegated.delete(response));
    }
  }
}

/** The request whose body is being received on a connection. It is told when the client disconnects. */
export const INCOMING_BODY = Symbol('incomingBody');

/** The last request on a connection whose head `node:http` has read. */
export const CURRENT_REQUEST = Symbol('currentRequest');

/**
 * Both are properties of the socket: a listener for every request would cost as much as the rest of this
 * folder.
 */
export type TrackedSocket = Socket & {
  [INCOMING_BODY]?: { onDisconnect(): void } | undefined;
  [CURRENT_REQUEST]?: NodeHttpExchange | undefined;
};

/** A request that `node:http` has read, and the way to answer it. */
export class NodeHttpExchange implements HttpExchange {
  readonly request: IncomingMessage;
  /** The path and its query, also where the request line has a whole URL. */
  readonly target: string;
  readonly #response: ServerResponse;
  readonly #context: ExchangeContext;
  #awaitsContinue = false;
  /** Bytes of the connection that were read when it was decided to close it; NaN before. */
  #closesSince = Number.NaN;

  constructor(request: IncomingMessage, response: ServerResponse, context: ExchangeContext) {
    this.request = request;
    this.target = requestTarget(request.url ?? '');
    this.#response = response;
    this.#context = context;
    (request.socket as TrackedSocket)[CURRENT_REQUEST] = this;
    // Node calls it behind the last answer of a connection.
    request.socket.destroySoon = closeAfterLastResponse;
  }

  get contentLength(): number {
    return Number(this.request.headers['content-length']);
  }

  get contentEncoding(): string | undefined {
    return this.request.headers['content-encoding'];
  }

  get writeKey(): string | undefined {
    const { authorization } = this.request.headers;
    return authorization === undefined ? undefined : parseWriteKey(authorization);
  }

  get traceparent(): string | undefined {
    // Node joins repeated headers, and gives a list for cookies only.
    return this.request.headers['traceparent'] as string | undefined;
  }

  get forwardedFor(): string | undefined {
    return this.request.headers['x-forwarded-for'] as string | undefined;
  }

  get hasOrigin(): boolean {
    return this.request.headers.origin !== undefined;
  }

  get peer(): Socket {
    return this.request.socket;
  }

  /** The client waits for `100 Continue` before it sends the body. */
  expectContinue(): void {
    this.#awaitsContinue = true;
  }

  /** Lets the client send the body. A request that is refused by its head alone needs no body. */
  writeContinue(): void {
    if (this.#awaitsContinue) this.#response.writeContinue();
  }

  closeAfterResponse(): void {
    this.#response.shouldKeepAlive = false;
  }

  /** Adds a header to the answer, whoever makes it. */
  addHeader(name: string, value: string): void {
    this.#response.setHeader(name, value);
  }

  closeWhileReceiving(): void {
    if (this.#response.writableFinished) this.onLastResponse();
    else this.#closeWhileAnswering();
  }

  /**
   * Another part of the server makes the answer. Each piece that comes meanwhile leads here, and the bound is
   * the same as behind it.
   */
  #closeWhileAnswering(): void {
    const { bytesRead } = this.request.socket;
    if (Number.isNaN(this.#closesSince)) {
      this.#closesSince = bytesRead;
      this.closeAfterResponse();
      this.#response.once('finish', () => this.onLastResponse());
    } else if (bytesRead - this.#closesSince > MAX_LINGER_BYTES) this.request.socket.destroy();
  }

  /** The last answer of the connection was written, and its client may still be sending. */
  onLastResponse(): void {
    this.#context.lingering.close(this.request.socket);
  }

  get isResponseSent(): boolean {
    return this.#response.headersSent;
  }

  /**
   * Whether the answer was sent before the whole request had arrived. An error in the rest gets no second
   * answer.
   */
  get hasEarlyResponse(): boolean {
    return this.isResponseSent && !this.request.complete;
  }

  /**
   * Sends the answer. Requests of browsers to the receiving API get CORS headers, so that pages can read
   * refusals too.
   */
  reply(answer: PreparedResponse): void {
    const { shutdown, recorder } = this.#context;
    if (shutdown.isClosing || this.contentLength > MAX_DRAINED_BYTES) this.closeAfterResponse();
    const isReceiving = isReceivingPath(this.target);
    if (isReceiving) recorder?.requestAnswered(answer.status, answer.code);
    const { origin } = this.request.headers;
    const isToPage = isReceiving && origin !== undefined;
    writeResponse(this.#response, isToPage ? withCorsHeaders(answer, origin) : answer);
  }

  /** Lets another part write the response. `target` replaces the target of the request. */
  delegate(handler: (request: IncomingMessage, response: ServerResponse) => void): void {
    this.request.url = this.target;
    this.#context.shutdown.delegate(this.#response);
    if (this.contentLength > MAX_DRAINED_BYTES) this.closeAfterResponse();
    handler(this.request, this.#response);
  }
}

/** Takes the place of `destroySoon` of a socket, which would close it although the client still sends. */
function closeAfterLastResponse(this: Socket): void {
  const exchange = (this as TrackedSocket)[CURRENT_REQUEST];
  if (exchange === undefined || exchange.request.complete) Socket.prototype.destroySoon.call(this);
  else exchange.onLastResponse();
}

const BASIC_CREDENTIALS = /^basic +([\w+/-]+={0,2}) *$/i;

/**
 * The write key in an Authorization header: the user name of Basic authorization, with or without a colon
 * behind it. The password is ignored. Other schemes carry no key; with `Bearer` it is in the body.
 * spec/specification.md, "Write key".
 */
export function parseWriteKey(header: string): string | undefined {
  const encoded = BASIC_CREDENTIALS.exec(header)?.[1];
  if (encoded === undefined) return undefined;
  const credentials = Buffer.from(encoded, 'base64').toString();
  const colon = credentials.indexOf(':');
  const user = colon < 0 ? credentials : credentials.slice(0, colon);
  return user === '' ? undefined : user;
}

/** The codes that the receiving API can answer with. A wrong one does not compile. */
export type ErrorCode = keyof typeof catalogue.request | keyof typeof catalogue.discard;

interface CatalogueEntry {
  readonly status: number;
  /** One sentence for the client. */
  readonly message: string;
}

interface CatalogueRow {
  readonly status?: number;
  readonly message: string;
}

/**
 * Status and message of every code. Discards that are never an answer have no status in the catalogue; they
 * get 400.
 */
export const ERRORS: ReadonlyMap<string, CatalogueEntry> = new Map(
  Object.entries<CatalogueRow>({ ...catalogue.request, ...catalogue.discard }).map(
    ([code, { status = 400, message }]) => [code, { status, message }],
  ),
);

export function isErrorCode(code: string): code is ErrorCode {
  return ERRORS.has(code);
}

export function errorEntry(code: ErrorCode): CatalogueEntry {
  return ERRORS.get(code)!;
}

type UnavailableResult = Extract<IngestResult, { kind: 'unavailable' }>;
type RefusedResult = Extract<IngestResult, { kind: 'refused' }>;

/** A complete answer that can be written any number of times. */
export interface PreparedResponse {
  readonly status: number;
  /** Names and values in turn, as `writeHead` takes them. */
  readonly headers: string[];
  readonly body: string | Buffer;
  /** The error code of the catalogue; absent for a success. */
  readonly code?: string;
}

/** Clients wait no longer than this, whatever the header says. spec/specification.md, "Overload". */
const MAX_RETRY_AFTER_SECONDS = 300;

/** A browser takes an answer for what its Content-Type says. */
export const NO_SNIFFING = ['X-Content-Type-Options', 'nosniff'] as const;

/**
 * Every client takes these exact bytes with status 200, and only these, for success. spec/specification.md,
 * "Facts about unmodified clients", rule 1.
 */
const SUCCESS_RESPONSE = plainJson(200, '{"success":true}');

/** Error answers without detail, by code. */
const ERROR_RESPONSES: ReadonlyMap<string, PreparedResponse> = new Map(
  Array.from(ERRORS, ([code, { status, message }]) => [code, buildErrorResponse(status, code, message)]),
);

export function successResponse(): PreparedResponse {
  return SUCCESS_RESPONSE;
}

/**
 * The answer to a call. A code that is not in the catalogue is a bug of ours and answered with 500.
 * `isForwarded`: from a service that takes 429 for final, and tries again after 503.
 */
export function ingestResponse(verdict: IngestResult, isForwarded = false): PreparedResponse {
  switch (verdict.kind) {
    case 'stored':
      return SUCCESS_RESPONSE;
    case 'refused':
      return refusedResponse(verdict);
    case 'unavailable':
      return isForwarded ? { ...retryLaterResponse(verdict), status: 503 } : retryLaterResponse(verdict);
  }
}

/** A batch that was refused for some of its calls is answered with a list of them. */
function refusedResponse({ code, detail, invalid }: RefusedResult): PreparedResponse {
  const known = isErrorCode(code) ? code : 'internal_error';
  if (invalid === undefined) return errorResponse(known, detail);
  const { status, message } = errorEntry(known);
  const errors = invalid.map((call) => ({ ...call, message: ERRORS.get(call.code)?.message ?? '' }));
  return {
    ...jsonResponse(status, JSON.stringify({ success: false, code: known, message, errors })),
    code: known,
  };
}

/**
 * An error answer. It always has `success`, `code` and `message`, because some clients read all three.
 * `detail` is a sentence that is added to the catalogue's message.
 */
export function errorResponse(code: ErrorCode, detail?: string): PreparedResponse {
  if (detail === undefined) return ERROR_RESPONSES.get(code)!;
  const { status, message } = errorEntry(code);
  return buildErrorResponse(status, code, `${message} ${detail}`);
}

/** 429 and 503 say when to try again, in both headers that clients read. */
function retryLaterResponse({ code, retryAfter }: UnavailableResult): PreparedResponse {
  const seconds = String(Math.min(Math.max(Math.ceil(retryAfter), 1), MAX_RETRY_AFTER_SECONDS));
  const answer = errorResponse(code);
  return { ...answer, headers: [...answer.headers, 'Retry-After', seconds, 'X-RateLimit-Reset', seconds] };
}

function buildErrorResponse(status: number, code: string, message: string): PreparedResponse {
  return { ...jsonResponse(status, JSON.stringify({ success: false, code, message })), code };
}

/** JSON that may hold words of the request. No browser takes it for a page. */
export function jsonResponse(status: number, text: string): PreparedResponse {
  const { headers, body } = plainJson(status, text);
  return { status, headers: [...headers, ...NO_SNIFFING], body };
}

function plainJson(status: number, body: string): PreparedResponse {
  const length = String(Buffer.byteLength(body));
  return { status, headers: ['Content-Type', 'application/json', 'Content-Length', length], body };
}

/** Writes the answer, unless the client is gone. */
export function writeResponse(response: ServerResponse, { status, headers, body }: PreparedResponse): void {
  if (response.destroyed) return;
  response.writeHead(status, headers);
  response.end(body);
}

/** The header with which an answer is the last of its connection. */
export const CONNECTION_CLOSE = 'Connection: close\r\n';

/**
 * An answer for a connection on which no request could be read, so that there is no `ServerResponse` to write
 * it to.
 */
export function serializeClosingResponse(answer: PreparedResponse): string {
  return serializeResponse(answer, CONNECTION_CLOSE, '');
}

/** The bytes of an answer. `before` and `after` are whole header lines, put around those of the answer. */
export function serializeResponse(
  { status, headers, body }: PreparedResponse,
  before: string,
  after: string,
): string {
  let head = `HTTP/1.1 ${status} ${STATUS_TEXT[status]}\r\n${before}`;
  for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${head}${after}\r\n${body}`;
}

/** The answers of one address differ by these, where caches may keep them. */
export const VARY = ['Vary', 'Origin, Host, Access-Control-Request-Headers'];

const TOKENS = /^[\w!#$%&'*+.^`|~-]+( *, *[\w!#$%&'*+.^`|~-]+)*$/;

/**
 * A preflight that asks for no headers, or in a way that no browser does, gets those that client libraries
 * send.
 */
const USUAL_HEADERS = 'Authorization, Content-Type, X-Retry-Count, traceparent';

/**
 * The answer with the CORS headers that let a script of this origin read it. Any page may send events, also
 * with credentials, which `sendBeacon` cannot leave out: no cookie is read here that another site could
 * abuse. spec/specification.md, "Browsers".
 */
export function withCorsHeaders(
  { status, headers, body }: PreparedResponse,
  origin: string,
): PreparedResponse {
  const more = [
    ...['Access-Control-Allow-Origin', origin, 'Access-Control-Allow-Credentials', 'true'],
    ...['Access-Control-Expose-Headers', 'Retry-After, X-RateLimit-Reset'],
    ...(headers.includes('Vary') ? [] : ['Vary', 'Origin']),
  ];
  return { status, headers: [...headers, ...more], body };
}

/**
 * The answer to OPTIONS: preflights of browsers, and any other client that asks for the methods. `wanted`:
 * the headers that a preflight asks for; undefined where no calls are taken. They are allowed by name, as a *
 * covers neither Authorization nor requests with credentials.
 */
export function optionsResponse(allow: string, wanted: string | undefined): PreparedResponse {
  if (wanted === undefined) return { status: 204, headers: ['Allow', allow], body: '' };
  const preflight = [
    ...['Access-Control-Allow-Methods', allow],
    ...['Access-Control-Allow-Headers', TOKENS.test(wanted) ? wanted : USUAL_HEADERS],
    // A day, so that a page asks once and not before every call; browsers cut it to what they allow.
    ...['Access-Control-Max-Age', '86400'],
    ...VARY,
  ];
  return { status: 204, headers: ['Allow', allow, ...preflight], body: '' };
}
