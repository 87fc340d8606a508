import { gunzipSync } from 'node:zlib';
import type { LinkedList } from '../model/containers.ts';
import type { Monotonic, Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { IngestHandler, IngestRequest, IngestResult } from '../ports/ingest.ts';
import type { Logger } from '../ports/logger.ts';
import type { IngestCounters } from '../ports/telemetry.ts';
import type { AdmissionController, InFlightRequest, OverloadLog, TurnScheduler } from './admission.ts';
import {
  type ErrorCode,
  errorResponse,
  type HttpExchange,
  INCOMING_BODY,
  ingestResponse,
  MAX_DRAINED_BYTES,
  type NodeHttpExchange,
  type TrackedSocket,
} from './exchange.ts';
import type { CallAction } from './routes.ts';
import type { ClientPeer, TrustedProxies } from './trusted-proxies.ts';

/** The parts that requests of the receiving API are handled with. */
export interface RequestDependencies {
  readonly receiver: IngestHandler;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Counts requests that are refused here, before the receiver sees them. */
  readonly discards: IngestCounters | undefined;
  readonly admission: AdmissionController;
  readonly overload: OverloadLog;
  readonly turns: TurnScheduler;
  /** Absent when no proxy is trusted. */
  readonly proxies: TrustedProxies | undefined;
}

/** Collects the body of a call within the bounds, hands it to the receiver, and answers with the result. */
export function handleCall(
  exchange: NodeHttpExchange,
  action: CallAction,
  dependencies: RequestDependencies,
): void {
  const { request } = exchange;
  const call = admitCall(exchange, action, dependencies);
  if (call === undefined) {
    drainRequest(exchange);
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

/**
 * Admits a call. Undefined when it was refused: then it is answered already, and its body is to be drained.
 */
export function admitCall(
  exchange: HttpExchange,
  action: CallAction,
  dependencies: RequestDependencies,
): IncomingCall | undefined {
  const body = createRequestBody(exchange, action.limit);
  if (typeof body === 'string') {
    const detail = body === 'too_large' ? declaredSizeDetail(exchange, action) : undefined;
    rejectCall(exchange, errorCodeOf(body, action), action, { ...dependencies, detail });
    return undefined;
  }
  const call = new IncomingCall(exchange, action, body, dependencies);
  if (dependencies.admission.admit(call)) return call;
  rejectCall(exchange, 'overloaded', action, dependencies);
  return undefined;
}

/**
 * An admitted call, from its head to its answer.
 *
 * ```
 * uploading ──body complete──▶ waiting ──result of the receiver──▶ done
 *     └─── refused, evicted, client disconnected ──▶ done
 * ```
 * It keeps its slot until it is done, also when its client disconnects while it waits: the receiver still
 * holds the body.
 */
export class IncomingCall implements InFlightRequest {
  bytes = 0;
  list: LinkedList<InFlightRequest> | undefined;
  previous: InFlightRequest | undefined;
  next: InFlightRequest | undefined;
  readonly startedAt: Monotonic;
  readonly #receivedAt: Time;
  readonly #exchange: HttpExchange;
  readonly #action: CallAction;
  readonly #body: RequestBody;
  readonly #dependencies: RequestDependencies;
  #state: 'uploading' | 'waiting' | 'done' = 'uploading';
  #drained: DrainedBody | undefined;

  constructor(
    exchange: HttpExchange,
    action: CallAction,
    body: RequestBody,
    dependencies: RequestDependencies,
  ) {
    // Client timestamps are corrected with the time at which the head arrived, not the end of the body.
    this.#receivedAt = dependencies.clock.now();
    this.startedAt = dependencies.clock.monotonic();
    this.#exchange = exchange;
    this.#action = action;
    this.#body = body;
    this.#dependencies = dependencies;
  }

  /** The client disconnected. */
  onDisconnect(): void {
    if (this.#state === 'uploading') this.#release();
  }

  evict(): void {
    this.#exchange.closeAfterResponse();
    this.#reject('overloaded');
  }

  /** Adds a piece of the body. */
  append(piece: Buffer): void {
    if (this.#state !== 'uploading') {
      this.#drained ??= new DrainedBody();
      if (this.#drained.exceedsLimit(piece)) this.#exchange.closeWhileReceiving();
      return;
    }
    if (this.#body.size + piece.length > this.#body.maxBytes)
      this.#reject(this.#action.tooLarge, sizeLimitDetail(this.#action));
    else if (!this.#dependencies.admission.reserve(this, piece.length)) this.#reject('overloaded');
    else if (!this.#body.append(piece)) {
      this.#exchange.closeAfterResponse();
      this.#reject('malformed_request', TINY_CHUNKS_DETAIL);
    }
  }

  /** The body is complete. */
  finish(): void {
    if (this.#state !== 'uploading') return;
    const { admission } = this.#dependencies;
    admission.bodyReceived(this);
    const body = this.#body.decode(this.#action.limit);
    if (body === 'too_large') this.#reject(this.#action.tooLarge, sizeLimitDetail(this.#action));
    else if (typeof body === 'string') this.#reject(errorCodeOf(body, this.#action));
    else if (body.length > this.bytes && !admission.reserve(this, body.length - this.bytes)) {
      this.#reject('overloaded');
    } else this.#dispatch(body);
  }

  #dispatch(body: Buffer): void {
    this.#state = 'waiting';
    this.#inTurn(() => {
      const { type, isImport, keyHeader, signature } = this.#action;
      const { receiver } = this.#dependencies;
      const writeKey =
        this.#action.writeKey ?? (keyHeader === undefined ? this.#exchange.writeKey : undefined);
      const given = { type, body, receivedAt: this.#receivedAt, writeKey };
      const built = buildIngestRequest(this.#exchange, given, this.#dependencies);
      const keyed = keyHeader === undefined ? built : { ...built, ignoresBodyKeys: true as const };
      const request = signature === undefined ? keyed : { ...keyed, signature };
      receiver(isImport ? { ...request, passesOn: true } : request, (result) =>
        this.#inTurn(() => this.#onResult(result)),
      );
    });
  }

  #inTurn(work: () => void): void {
    this.#dependencies.turns.run(() => {
      try {
        work();
      } catch (error) {
        // A bug of ours. One request must not end the process.
        this.#dependencies.logger.error({ error, type: this.#action.type }, 'request.failed');
        if (this.#isDone()) return;
        this.#release();
        this.#exchange.reply(errorResponse('internal_error'));
      }
    });
  }

  #onResult(result: IngestResult): void {
    if (this.#state === 'done') return;
    this.#release();
    this.#exchange.reply(ingestResponse(result, this.#action.type === 'forwarded'));
  }

  #reject(code: ErrorCode, detail?: string): void {
    this.#release();
    rejectCall(this.#exchange, code, this.#action, { ...this.#dependencies, detail });
  }

  /** The receiver may have answered before it threw. */
  #isDone(): boolean {
    return this.#state === 'done';
  }

  #release(): void {
    this.#state = 'done';
    this.#dependencies.admission.release(this);
  }
}

interface RequestParts extends Pick<IngestRequest, 'type' | 'body' | 'receivedAt'> {
  readonly writeKey: string | undefined;
}

/** Builds the request that the receiver gets. */
export function buildIngestRequest(
  exchange: HttpExchange,
  { type, body, receivedAt, writeKey }: RequestParts,
  { proxies }: Pick<RequestDependencies, 'proxies'>,
): IngestRequest {
  const { traceparent, hasOrigin } = exchange;
  const peer = clientOf(exchange, proxies);
  const call =
    writeKey === undefined
      ? { type, body, receivedAt, peer, hasOrigin }
      : { type, writeKey, body, receivedAt, peer, hasOrigin };
  // Few clients send one; the regular expression runs for these only.
  const trace = traceparent === undefined ? undefined : parseTraceparent(traceparent);
  return trace === undefined ? call : { ...call, traceparent: trace };
}

/** The sender of the request, as far as its address can be trusted. */
export function clientOf(
  { peer, forwardedFor }: Pick<HttpExchange, 'peer' | 'forwardedFor'>,
  proxies: TrustedProxies | undefined,
): ClientPeer {
  return proxies === undefined ? peer : proxies.clientBehind(peer, forwardedFor);
}

/** Asks the client to try again later. */
export function rejectOverloaded(
  exchange: HttpExchange,
  { discards, overload }: RequestDependencies,
  isForwarded: boolean,
): void {
  discards?.refused('overloaded');
  overload.rejected();
  exchange.reply(ingestResponse(OVERLOADED_RESULT, isForwarded));
}

/** Refuses with this code. `detail` is a sentence that says more than the code. */
function rejectCall(
  exchange: HttpExchange,
  code: ErrorCode,
  action: CallAction,
  dependencies: RequestDependencies & { readonly detail?: string | undefined },
): void {
  const { detail } = dependencies;
  if (code === 'overloaded') {
    rejectOverloaded(exchange, dependencies, action.type === 'forwarded');
    return;
  }
  dependencies.discards?.refused(code, { writeKey: action.writeKey ?? exchange.writeKey, detail });
  exchange.reply(errorResponse(code, detail));
}

const TINY_CHUNKS_DETAIL = 'Its body comes in pieces of a few bytes.';

/** The detail for a body that was refused by its head: its announced size. */
function declaredSizeDetail({ contentLength, contentEncoding }: HttpExchange, { limit }: CallAction): string {
  const [size, most] = [contentLength, limit].map((bytes) => bytes.toLocaleString('en-US'));
  return contentEncoding === undefined
    ? `It has ${size} bytes, the limit is ${most}.`
    : `It has ${size} bytes before it is inflated, the limit is ${most} after it.`;
}

/** The detail for a body that was not read to its end: its least size. */
function sizeLimitDetail({ limit }: CallAction): string {
  return `It has more than ${limit.toLocaleString('en-US')} bytes, which is the limit.`;
}

/** Slots are free again after one commit, so a second is long enough. */
const OVERLOADED_RESULT: IngestResult = { kind: 'unavailable', code: 'overloaded', retryAfter: 1 };

function errorCodeOf(refusal: BodyError, action: CallAction): ErrorCode {
  return refusal === 'too_large' ? action.tooLarge : refusal;
}

/** The longest `traceparent` accepted; no known version has a longer one. */
const MAX_TRACEPARENT_LENGTH = 256;

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-[!-~]*)?$/;

/**
 * The value of a valid `traceparent` header. An invalid one must be ignored (W3C Trace Context, section 3.2).
 * Later versions begin in the same way and may add fields at the end; version ff is forbidden.
 */
export function parseTraceparent(header: unknown): string | undefined {
  if (typeof header !== 'string' || header.length > MAX_TRACEPARENT_LENGTH) return undefined;
  const [, version, trace, parent, more] = TRACEPARENT.exec(header) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  return isZero(trace) || isZero(parent) ? undefined : header;
}

function isZero(id: string | undefined): boolean {
  return id === undefined || /^0+$/.test(id);
}

/** The reason why there is no body. */
type BodyError = 'too_large' | 'unsupported_encoding' | 'invalid_encoding';

/**
 * The limit on tiny chunks. Each chunk costs time, and networks do not deliver chunks of less than some
 * hundred bytes. After so many chunks with so few bytes each, the client is taken for an attacker.
 */
const TINY_CHUNK_COUNT = 1000;
const TINY_CHUNK_BYTES = 16;

function isTinyChunks(pieces: number, bytes: number): boolean {
  return pieces > TINY_CHUNK_COUNT && bytes < pieces * TINY_CHUNK_BYTES;
}

/**
 * The bytes that gzip may add to incompressible text: a head, a tail, and 5 bytes for each block of 32 KB.
 */
const GZIP_OVERHEAD = 256;

/** Names of clients for a body that is not compressed. */
const PLAIN_ENCODINGS = ['', 'identity', 'utf-8', 'utf8', 'none'];

type BodyHeaders = Pick<HttpExchange, 'contentLength' | 'contentEncoding'>;

/** Looks at the head of a request; `limit` is in bytes of the inflated body. */
function createRequestBody(head: BodyHeaders, limit: number): RequestBody | BodyError {
  const encoding = head.contentEncoding?.trim().toLowerCase() ?? '';
  const isGzip = encoding === 'gzip' || encoding === 'x-gzip';
  const length = head.contentLength;
  const most = isGzip ? limit + GZIP_OVERHEAD : limit;
  if (length > most) return 'too_large';
  if (!isGzip && !PLAIN_ENCODINGS.includes(encoding)) return 'unsupported_encoding';
  return new RequestBody(isGzip, length, most);
}

/**
 * A body as announced, and the bytes received so far. It uses at most twice its bytes of memory: a client
 * that sends half a megabyte in chunks of one byte would otherwise make half a million buffers.
 */
export class RequestBody {
  /** The most bytes as received, before they are inflated. */
  readonly maxBytes: number;
  readonly #isGzip: boolean;
  /** NaN when no length is announced. */
  readonly #length: number;
  #bytes: Buffer = EMPTY;
  /**
   * Whether `#bytes` is our own buffer. A body of one chunk keeps the chunk itself, which must not be written
   * to.
   */
  #ownsBuffer = false;
  #size = 0;
  #chunks = 0;

  constructor(isGzip: boolean, length: number, most: number) {
    this.#isGzip = isGzip;
    this.#length = length;
    this.maxBytes = most;
  }

  get size(): number {
    return this.#size;
  }

  /** Adds a chunk. False when the body arrives in too many tiny chunks. */
  append(piece: Buffer): boolean {
    const size = this.#size + piece.length;
    if (this.#size === 0) this.#bytes = piece;
    else {
      if (!this.#ownsBuffer || size > this.#bytes.length) this.#grow(size);
      piece.copy(this.#bytes, this.#size);
    }
    this.#size = size;
    return !isTinyChunks(++this.#chunks, size);
  }

  /** The complete body, as it came. */
  received(): Buffer {
    return this.#bytes.subarray(0, this.#size);
  }

  /** The complete body, inflated, as it is parsed. `limit` bounds the memory of inflating. */
  decode(limit: number): Buffer | BodyError {
    const body = this.#ownsBuffer ? this.#bytes.subarray(0, this.#size) : this.#bytes;
    if (looksLikeGzip(body)) return inflate(body, limit);
    return this.#isGzip && !looksLikeJson(body) ? 'invalid_encoding' : body;
  }

  /**
   * Grows to Content-Length only after a good part of the body has arrived, so that a false header reserves
   * no memory.
   */
  #grow(size: number): void {
    const length = this.#length;
    const room = length >= size && length <= size * 4 ? length : Math.min(size * 2, this.maxBytes);
    const larger = Buffer.allocUnsafeSlow(Math.max(room, size));
    this.#bytes.copy(larger, 0, 0, this.#size);
    this.#bytes = larger;
    this.#ownsBuffer = true;
  }
}

const EMPTY = Buffer.alloc(0);

/** The rest of a refused request. It is read and dropped. */
export class DrainedBody {
  #size = 0;
  #chunks = 0;

  /** True when the connection should be closed. */
  exceedsLimit(piece: Buffer): boolean {
    this.#size += piece.length;
    return this.#size > MAX_DRAINED_BYTES || isTinyChunks(++this.#chunks, this.#size);
  }
}

/** Reads and drops the rest of a refused request, up to a limit; beyond it the connection is closed. */
export function drainRequest(exchange: NodeHttpExchange): void {
  let drained: DrainedBody | undefined;
  exchange.request.on('data', (piece: Buffer) => {
    drained ??= new DrainedBody();
    if (drained.exceedsLimit(piece)) exchange.closeWhileReceiving();
  });
}

/** Some clients announce gzip and send the JSON as it is. */
function looksLikeJson(body: Buffer): boolean {
  return /^(?:\u00ef\u00bb\u00bf)?\s*[{[]/.test(body.toString('latin1', 0, 64));
}

/** JSON never begins with these two bytes, so gzip is recognised even where the header was forgotten. */
function looksLikeGzip(body: Buffer): boolean {
  return body[0] === 0x1f && body[1] === 0x8b;
}

/**
 * Inflating at once costs a third less than on zlib's threads, and the limit keeps it below a few
 * milliseconds.
 */
function inflate(body: Buffer, limit: number): Buffer | BodyError {
  try {
    return gunzipSync(body, { maxOutputLength: limit });
  } catch (error) {
    const tooLarge = error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE';
    return tooLarge ? 'too_large' : 'invalid_encoding';
  }
}
