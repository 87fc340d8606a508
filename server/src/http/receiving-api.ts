import type { Monotonic, Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { IngestHandler, IngestRequest, IngestResult } from '../ports/ingest.ts';
import type { Logger } from '../ports/logger.ts';
import type { DiscardCounters } from '../ports/telemetry.ts';
import type { AdmissionController, InFlightRequest, OverloadLog } from './admission.ts';
import { INCOMING_BODY, type TrackedSocket } from './connections.ts';
import type { HttpExchange, NodeHttpExchange } from './exchange.ts';
import {
  type BodyError,
  createRequestBody,
  DrainedBody,
  drainRequest,
  type RequestBody,
} from './request-body.ts';
import {
  type ErrorCode,
  errorResponse,
  ingestResponse,
  jsonResponse,
  type PreparedResponse,
} from './responses.ts';
import type { CallAction } from './routes.ts';
import { parseTraceparent } from './traceparent.ts';
import type { ClientPeer, TrustedProxies } from './trusted-proxies.ts';

/** What calls need on their way in. */
export interface RequestDependencies {
  readonly receiver: IngestHandler;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Gets what is refused here, before a receiver sees it. */
  readonly tallies: DiscardCounters | undefined;
  readonly inFlight: AdmissionController;
  readonly overload: OverloadLog;
  /** Absent when nobody's `X-Forwarded-For` is believed. */
  readonly proxies: TrustedProxies | undefined;
}

/** Collects the body of a call within the bounds, hands it to the receiver, and answers with its verdict. */
export function handleCall(exchange: NodeHttpExchange, action: CallAction, means: RequestDependencies): void {
  const { request } = exchange;
  const call = admitCall(exchange, action, means);
  if (call === undefined) {
    drainRequest(request);
    return;
  }
  exchange.writeContinue();
  request.on('data', (piece: Buffer) => call.append(piece));
  request.on('end', () => {
    (request.socket as TrackedSocket)[INCOMING_BODY] = undefined;
    call.finish();
  });
  (request.socket as TrackedSocket)[INCOMING_BODY] = call;
}

/** A call that has a place. Otherwise it has its answer already; what is still to come of its body is to be thrown away. */
export function admitCall(
  exchange: HttpExchange,
  action: CallAction,
  means: RequestDependencies,
): IncomingCall | undefined {
  const body = createRequestBody(exchange, action.limit);
  if (typeof body === 'string') {
    rejectCall(
      exchange,
      errorCodeOf(body, action),
      means,
      body === 'too_large' ? declaredSizeDetail(exchange, action) : undefined,
    );
    return undefined;
  }
  const call = new IncomingCall(exchange, action, body, means);
  if (means.inFlight.admit(call)) return call;
  rejectCall(exchange, 'overloaded', means);
  return undefined;
}

/**
 * ```
 * arriving ──end──▶ waiting ──verdict──▶ over
 *    └─── refused, cut off, client gone ──▶ over
 * ```
 * It has a place in flight until it is over, also when its client is gone before the verdict: the receiver still holds
 * the body then.
 */
export class IncomingCall implements InFlightRequest {
  bytes = 0;
  isUploading = false;
  older: InFlightRequest | undefined;
  younger: InFlightRequest | undefined;
  readonly startedAt: Monotonic;
  readonly #receivedAt: Time;
  readonly #exchange: HttpExchange;
  readonly #action: CallAction;
  readonly #body: RequestBody;
  readonly #dependencies: RequestDependencies;
  #state: 'arriving' | 'waiting' | 'over' = 'arriving';
  #drained: DrainedBody | undefined;

  constructor(exchange: HttpExchange, action: CallAction, body: RequestBody, means: RequestDependencies) {
    // A client's clock is corrected by the time between sending and arriving, so arriving is now and not after the body.
    this.#receivedAt = means.clock.now();
    this.startedAt = means.clock.monotonic();
    this.#exchange = exchange;
    this.#action = action;
    this.#body = body;
    this.#dependencies = means;
  }

  /** The client went away before its body was here. */
  onDisconnect(): void {
    if (this.#state === 'arriving') this.#release();
  }

  evict(): void {
    this.#exchange.closeAfterResponse();
    this.#reject('overloaded');
  }

  /** More of its body. */
  append(piece: Buffer): void {
    if (this.#state !== 'arriving') {
      this.#drained ??= new DrainedBody();
      if (this.#drained.exceedsLimit(piece)) this.#exchange.abort();
      return;
    }
    if (this.#body.size + piece.length > this.#body.maxBytes)
      this.#reject(this.#action.tooLarge, sizeLimitDetail(this.#action));
    else if (!this.#dependencies.inFlight.reserve(this, piece.length)) this.#reject('overloaded');
    else if (!this.#body.append(piece)) {
      this.#exchange.closeAfterResponse();
      this.#reject('malformed_request', TINY_CHUNKS_DETAIL);
    }
  }

  /** Its body is complete. */
  finish(): void {
    if (this.#state !== 'arriving') return;
    const { inFlight } = this.#dependencies;
    inFlight.bodyReceived(this);
    const body = this.#body.decode(this.#action.limit);
    if (body === 'too_large') this.#reject(this.#action.tooLarge, sizeLimitDetail(this.#action));
    else if (typeof body === 'string') this.#reject(errorCodeOf(body, this.#action));
    else if (body.length > this.bytes && !inFlight.reserve(this, body.length - this.bytes)) {
      this.#reject('overloaded');
    } else this.#dispatch(body);
  }

  #dispatch(body: Buffer): void {
    this.#state = 'waiting';
    const { type } = this.#action;
    try {
      const call = buildIngestRequest(
        this.#exchange,
        { type, body, receivedAt: this.#receivedAt },
        this.#dependencies,
      );
      this.#dependencies.receiver(call, (verdict) => this.#onResult(verdict));
    } catch (error) {
      // An error of ours: one request may not end the process and everybody else's with it.
      this.#dependencies.logger.error({ error, type }, 'request.failed');
      if (this.#isOver()) return;
      this.#release();
      this.#exchange.reply(errorResponse('internal_error'));
    }
  }

  #onResult(verdict: IngestResult): void {
    if (this.#state === 'over') return;
    this.#release();
    this.#exchange.reply(ingestResponse(verdict));
  }

  #reject(code: ErrorCode, detail?: string): void {
    this.#release();
    rejectCall(this.#exchange, code, this.#dependencies, detail);
  }

  /** The receiver may have answered before it threw. */
  #isOver(): boolean {
    return this.#state === 'over';
  }

  #release(): void {
    this.#state = 'over';
    this.#dependencies.inFlight.release(this);
  }
}

/** What the receiver is given. */
export function buildIngestRequest(
  exchange: HttpExchange,
  { type, body, receivedAt }: Pick<IngestRequest, 'type' | 'body' | 'receivedAt'>,
  { proxies }: Pick<RequestDependencies, 'proxies'>,
): IngestRequest {
  const { writeKey, traceparent } = exchange;
  const peer = clientOf(exchange, proxies);
  const call =
    writeKey === undefined ? { type, body, receivedAt, peer } : { type, writeKey, body, receivedAt, peer };
  // Few clients send one, so the others are spared the look at it.
  const trace = traceparent === undefined ? undefined : parseTraceparent(traceparent);
  return trace === undefined ? call : { ...call, traceparent: trace };
}

/** Who sent the request, as far as it can be believed. */
export function clientOf(
  { peer, forwardedFor }: Pick<HttpExchange, 'peer' | 'forwardedFor'>,
  proxies: TrustedProxies | undefined,
): ClientPeer {
  return proxies === undefined ? peer : proxies.clientBehind(peer, forwardedFor);
}

/** Asks the client to come again. */
export function rejectOverloaded(exchange: HttpExchange, { tallies, overload }: RequestDependencies): void {
  tallies?.refused('overloaded');
  overload.rejected();
  exchange.reply(ingestResponse(OVERLOADED_RESULT));
}

/** `detail`: a sentence that says more than the code. */
function rejectCall(
  exchange: HttpExchange,
  code: ErrorCode,
  means: RequestDependencies,
  detail?: string,
): void {
  if (code === 'overloaded') {
    rejectOverloaded(exchange, means);
    return;
  }
  means.tallies?.refused(code, { writeKey: exchange.writeKey, detail });
  exchange.reply(errorResponse(code, detail));
}

const TINY_CHUNKS_DETAIL = 'Its body comes in pieces of a few bytes.';

/** How large a body is that was refused by its head. */
function declaredSizeDetail({ contentLength, contentEncoding }: HttpExchange, { limit }: CallAction): string {
  const [size, most] = [contentLength, limit].map((bytes) => bytes.toLocaleString('en-US'));
  return contentEncoding === undefined
    ? `It has ${size} bytes, the limit is ${most}.`
    : `It has ${size} bytes before it is inflated, the limit is ${most} after it.`;
}

/** How large a body is at least that was not read to its end. */
function sizeLimitDetail({ limit }: CallAction): string {
  return `It has more than ${limit.toLocaleString('en-US')} bytes, which is the limit.`;
}

/** A place is free again as soon as one commit is done, so a second is long enough. */
const OVERLOADED_RESULT: IngestResult = { kind: 'unavailable', code: 'overloaded', retryAfter: 1 };

function errorCodeOf(refusal: BodyError, action: CallAction): ErrorCode {
  return refusal === 'too_large' ? action.tooLarge : refusal;
}

/** Browsers ask at every page load; a change of the public address reaches them within this time. */
const CACHE_HEADERS = ['Cache-Control', 'public, max-age=300', 'Access-Control-Allow-Origin', '*'];

/**
 * What browsers and mobile clients want to know before they send. Exactly one integration: without it a client accepts
 * calls and sends none, with a second one it loads code from elsewhere (spec/specification.md, "Project settings"). The same
 * for every key, so that nobody can find out which exist; a wrong one is refused with the first call.
 *
 * `publicUrl` is where clients reach this server. Without it they send where their own settings say: guessing it from the
 * request would announce the name a proxy uses.
 */
export function projectSettingsResponse(writeKey: string, publicUrl: string | undefined): PreparedResponse {
  const own = { apiKey: writeKey, ...(publicUrl === undefined ? {} : apiAddress(publicUrl)) };
  const settings = {
    integrations: { 'Segment.io': own },
    plan: { track: { __default: { enabled: true, integrations: {} } } },
    // No reports about themselves: nobody here would read them.
    metrics: { sampleRate: 0 },
  };
  const { status, headers, body } = jsonResponse(200, JSON.stringify(settings));
  return { status, headers: [...headers, ...CACHE_HEADERS], body };
}

function apiAddress(publicUrl: string): { apiHost: string; protocol: string } {
  const { protocol, host, pathname } = new URL(publicUrl);
  const path = pathname.replace(/\/+$/, '');
  return { apiHost: `${host}${path}/v1`, protocol: protocol.slice(0, -1) };
}
