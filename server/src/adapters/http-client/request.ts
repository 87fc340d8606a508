import type { Duration } from '../../model/time.ts';
import type { HttpResult, OutboundRequest } from '../../ports/http-client.ts';
import { failureOf, type RequestFailure } from './errors.ts';
import type { ResponseHandler } from './response-parser.ts';
import type { TimeoutEntry, TimeoutList, TimeoutQueue } from './timeouts.ts';

/** The connection an exchange goes over. */
export interface RequestConnection {
  /** Has it carried an exchange before, without being closed since? */
  readonly reused: boolean;
  /** The answer is complete: it may carry the next one. */
  release(): void;
  /** It is of no use any more. */
  discard(): void;
  /** It was dead before it was used: discards it and carries the same exchange over a new one. */
  replace(exchange: PendingRequest): void;
}

/** Kept of the body of an answer that is not 2xx. spec/specification.md, "Timeout". */
export const MAX_KEPT_BODY = 4096;

/** A connection is worth reading this much, for this long, of what nobody wants; then opening another one is cheaper. */
const MAX_DRAINED_BODY = 64 * 1024;
const DRAIN_TIME: Duration = 1000;

/**
 * One request and what comes back. What hears the answer, the entry in the time limits and the state are one object, because
 * each object more is paid once per request.
 *
 * ```
 *   waiting ──▶ carried ──▶ sent ──▶ head ──▶ ended          settled (`done` called) at the head of a 2xx, else when
 *   for a         ▲          │                                the body ended, 4 KB of it were read or the limit struck;
 *   connection    └──────────┘ once, on a dead connection     what comes after that is drained
 * ```
 */
export class PendingRequest implements ResponseHandler, TimeoutEntry {
  readonly request: OutboundRequest;
  /** Of the request, ready to be written. */
  readonly requestHead: string;
  readonly startedAt = performance.now();
  /** The next one in the row of those that wait for a connection. */
  nextWaiting: PendingRequest | undefined = undefined;

  deadline = 0;
  row: TimeoutList | undefined = undefined;
  before: TimeoutEntry | undefined = undefined;
  after: TimeoutEntry | undefined = undefined;

  readonly #done: (answer: HttpResult) => void;
  readonly #limits: TimeoutQueue;
  #connection: RequestConnection | undefined = undefined;
  #inSend = true;
  #written = false;
  #heard = false;
  #isReported = false;
  #ended = false;
  #status = 0;
  #retryAfter: string | undefined = undefined;
  #latencyMs = 0;
  #received = 0;
  #kept: Buffer[] | undefined = undefined;

  constructor(
    request: OutboundRequest,
    requestHead: string,
    limits: TimeoutQueue,
    done: (answer: HttpResult) => void,
  ) {
    this.request = request;
    this.requestHead = requestHead;
    this.#limits = limits;
    this.#done = done;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** `send` has returned: from now on `done` may be called directly. */
  sendReturned(): void {
    this.#inSend = false;
  }

  assignTo(carrier: RequestConnection): void {
    this.#connection = carrier;
    this.#written = false;
  }

  /** Ends it for good: with what was read of the answer if its head was there, with `failure` if it was not. */
  end(failure: RequestFailure): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#limits.remove(this);
    this.#connection?.discard();
    if (this.#status === 0) this.#fail(failure);
    else this.#answer();
  }

  expire(): void {
    const limit = `${this.request.timeout} ms`;
    let detail = `no answer within ${limit}`;
    if (this.#connection === undefined) detail = `no connection was free within ${limit}`;
    else if (!this.#written) detail = `not connected within ${limit}`;
    this.end({ reason: 'timeout', detail });
  }

  /** It is being written to a connection. */
  markWritten(): void {
    this.#written = true;
  }

  head(status: number, retryAfter: string | undefined): void {
    this.#status = status;
    this.#latencyMs = this.#elapsed();
    this.#retryAfter = retryAfter;
  }

  body(bytes: Buffer, from: number, to: number): void {
    if (this.#ended) return;
    const before = this.#received;
    this.#received += to - from;
    if (!this.#isReported && !isSuccess(this.#status)) {
      // A copy: the buffer is read into again.
      this.#kept ??= [];
      this.#kept.push(Buffer.from(bytes.subarray(from, Math.min(to, from + MAX_KEPT_BODY - before))));
      if (this.#received >= MAX_KEPT_BODY) this.reportEarly();
    }
    if (this.#received > MAX_DRAINED_BODY) this.end(TOO_LONG);
  }

  /**
   * Some of the answer is here, and more is to come. A 2xx counts with its head; most are complete by now, so that the
   * connection is free again when `done` asks for one.
   */
  heard(): void {
    this.#heard = true;
    if (isSuccess(this.#status)) this.reportEarly();
  }

  /** The answer is complete. */
  complete(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#limits.remove(this);
    this.#connection?.release();
    this.#answer();
  }

  /**
   * A connection that was kept open may be closed by the other side at any moment, and a request written just then is
   * lost through nobody's fault. It goes out again on a new connection, and so no more than once, if not one byte of an
   * answer was seen. The receiver may have got it all the same; delivery is at least once, and the next round would do
   * nothing else.
   */
  failed(error: Error): void {
    if (this.#ended) return;
    const failure = failureOf(error);
    const carrier = this.#connection;
    if (failure.reason === 'connection_closed' && carrier?.reused && !this.#heard) {
      carrier.replace(this);
    } else {
      this.end(failure);
    }
  }

  /** Answers with what there is, and gives the rest of the body a moment to pass. */
  reportEarly(): void {
    if (this.#ended || this.#isReported) return;
    this.#limits.remove(this);
    this.#limits.add(this, performance.now(), DRAIN_TIME);
    this.#answer();
  }

  #answer(): void {
    if (this.#isReported) return;
    this.#report({
      kind: 'answered',
      status: this.#status,
      ...(this.#retryAfter === undefined ? undefined : { retryAfter: this.#retryAfter }),
      body: this.#kept === undefined ? '' : decodeBody(this.#kept),
      latencyMs: this.#latencyMs,
    });
  }

  #fail({ reason, detail }: RequestFailure): void {
    this.#report({ kind: 'failed', reason, detail, latencyMs: this.#elapsed() });
  }

  #report(answer: HttpResult): void {
    this.#isReported = true;
    this.#kept = undefined;
    if (this.#inSend) process.nextTick(callDone, this.#done, answer);
    else callDone(this.#done, answer);
  }

  #elapsed(): number {
    return Math.round((performance.now() - this.startedAt) * 100) / 100;
  }
}

const TOO_LONG: RequestFailure = {
  reason: 'connection_closed',
  detail: 'the answer is longer than anyone reads',
};

/** What `done` throws is a bug: it must be seen, and must not stop the reading of this connection half-way. */
function callDone(done: (answer: HttpResult) => void, answer: HttpResult): void {
  try {
    done(answer);
  } catch (bug) {
    process.nextTick(() => {
      throw bug;
    });
  }
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** `stream` leaves out a character that was cut in two at the end. */
function decodeBody(kept: readonly Buffer[]): string {
  return new TextDecoder().decode(Buffer.concat(kept), { stream: true });
}

/** A token of RFC 9110. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** One byte per character on the wire; a line break would let a value add headers of its own. */
const HEADER_VALUE = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;

/** Headers that say where the request ends and what becomes of the connection: they are ours, whoever names them. */
const CONNECTION_HEADERS: ReadonlySet<string> = new Set([
  ...['connection', 'content-length', 'expect', 'keep-alive'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
]);

const HOST = 'host';

/** Names that were looked at and are good; their number is bounded because endpoints are. */
const validNames = new Set<string>();
const MAX_REMEMBERED_NAMES = 1000;

/** What a URL says of the head of every request to it. */
export interface RequestTarget {
  /** With the query. */
  readonly path: string;
  /** As in the URL; a header of that name replaces it. */
  readonly host: string;
}

/** The whole head of a request with so many bytes of body, in Latin-1; or why it cannot be sent. */
export function serializeRequestHead(
  { path, host }: RequestTarget,
  headers: Readonly<Record<string, string>>,
  length: number,
): string | RequestFailure {
  let named = host;
  let fields = '';
  for (const name in headers) {
    const value = headers[name]!;
    const problem = validNames.has(name) ? undefined : nameProblem(name);
    if (problem !== undefined) return problem;
    if (!HEADER_VALUE.test(value)) {
      return invalidRequest(`the value of the header ${name} has characters that cannot be sent`);
    }
    if (name.length === HOST.length && name.toLowerCase() === HOST) named = value;
    else fields += `${name}: ${value}\r\n`;
  }
  return (
    `POST ${path} HTTP/1.1\r\nhost: ${named}\r\nconnection: keep-alive\r\n` +
    `${fields}content-length: ${length}\r\n\r\n`
  );
}

function nameProblem(name: string): RequestFailure | undefined {
  if (!HEADER_NAME.test(name)) return invalidRequest(`${JSON.stringify(name)} is not the name of a header`);
  if (CONNECTION_HEADERS.has(name.toLowerCase()))
    return invalidRequest(`the header ${name} is set by the connection and by nobody else`);
  if (validNames.size >= MAX_REMEMBERED_NAMES) validNames.clear();
  validNames.add(name);
  return undefined;
}

function invalidRequest(detail: string): RequestFailure {
  return { reason: 'invalid_request', detail };
}
