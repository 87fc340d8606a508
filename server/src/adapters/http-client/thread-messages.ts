import type { Duration } from '../../model/time.ts';
import type { HttpResult, OutboundRequest, RequestHeaders } from '../../ports/http-client.ts';

/**
 * Messages between the main thread and a sender thread: many requests in one message, and many answers in
 * one. A message costs some ten microseconds on both sides, as much as the rest of a handover, so requests
 * share it.
 */

/** Start data of a sender thread: the options of an HTTP client as far as they can cross threads. */
export interface SenderOptions {
  /** Address ranges that requests may go to beside public ones. */
  readonly allow: readonly string[];
  readonly proxy?: string;
  readonly ca?: string;
  readonly maxConnections?: number;
}

export type ToSender =
  | {
      readonly kind: 'send';
      /** JSON: an object of `BatchFields`. */
      readonly fields: string;
      readonly bodies: ArrayBuffer;
      /** Time of its first request, in milliseconds on a clock that all threads share. */
      readonly at: number;
    }
  /** Collects garbage. */
  | { readonly kind: 'release' }
  | { readonly kind: 'stop' };

/**
 * `answered` has three numbers for each request that was answered with 2xx and nothing else to tell: id,
 * status, latency in ms.
 */
export interface FromSender {
  readonly answered: Float64Array<ArrayBuffer>;
  readonly others: readonly (readonly [id: number, HttpResult])[];
}

/**
 * As JSON, because that is the cheapest way for objects to cross: a copy of them costs three times as much.
 */
interface BatchFields {
  /** Each object once, as most requests of a batch share theirs with others. */
  readonly fixedHeaders: readonly RequestHeaders[];
  readonly requests: readonly RequestFields[];
}

type RequestFields = readonly [
  id: number,
  url: string,
  /** Place among the fixed headers of the batch; -1 for none. */
  fixedHeaders: number,
  headers: RequestHeaders,
  timeout: Duration,
  pool: number,
  bodyLength: number,
];

/** Requests that wait to cross. */
export class RequestBatch {
  #fixedHeaders = new Map<RequestHeaders, number>();
  #fields: RequestFields[] = [];
  #bodies: Buffer[] = [];
  /** Bytes of bodies. */
  bytes = 0;
  #since = 0;

  get size(): number {
    return this.#fields.length;
  }

  add(id: number, { url, fixedHeaders, headers, timeout, pool, body }: OutboundRequest): void {
    if (this.size === 0) this.#since = sharedClock();
    const place = fixedHeaders === undefined ? -1 : this.#placeOf(fixedHeaders);
    this.#fields.push([id, url, place, headers, timeout, pool, body.length]);
    this.#bodies.push(body);
    this.bytes += body.length;
  }

  /** The message, whose `bodies` may be moved to the other thread. The batch is empty then. */
  take(): Extract<ToSender, { kind: 'send' }> {
    // Not from Buffer's pool, whose memory is shared with others and cannot be moved.
    const bodies = Buffer.allocUnsafeSlow(this.bytes);
    let end = 0;
    for (const body of this.#bodies) end += body.copy(bodies, end);
    const fields: BatchFields = { fixedHeaders: [...this.#fixedHeaders.keys()], requests: this.#fields };
    this.#fixedHeaders = new Map();
    this.#fields = [];
    this.#bodies = [];
    this.bytes = 0;
    return { kind: 'send', fields: JSON.stringify(fields), bodies: bodies.buffer, at: this.#since };
  }

  #placeOf(fixedHeaders: RequestHeaders): number {
    let place = this.#fixedHeaders.get(fixedHeaders);
    if (place === undefined) {
      place = this.#fixedHeaders.size;
      this.#fixedHeaders.set(fixedHeaders, place);
    }
    return place;
  }
}

/** Calls `send` for each request of the message, in their order. */
export function readRequests(
  { fields, bodies, at }: Extract<ToSender, { kind: 'send' }>,
  send: (id: number, request: OutboundRequest) => void,
): void {
  let from = 0;
  // Much only when this process has stood still or has more to do than it can.
  const waited = Math.max(0, sharedClock() - at);
  const { fixedHeaders, requests } = JSON.parse(fields) as BatchFields;
  for (const [id, url, place, headers, timeout, pool, length] of requests) {
    const body = Buffer.from(bodies, from, length);
    const fixed = place === -1 ? undefined : { fixedHeaders: fixedHeaders[place]! };
    send(id, { url, ...fixed, headers, timeout, waited, pool, body });
    from += length;
  }
}

/** Answers that wait to cross. */
export class AnswerBatch {
  #answered: number[] = [];
  #others: [number, HttpResult][] = [];

  get size(): number {
    return this.#answered.length + this.#others.length;
  }

  add(id: number, answer: HttpResult): void {
    if (isPlain(answer)) this.#answered.push(id, answer.status, answer.latencyMs);
    else this.#others.push([id, answer]);
  }

  take(): FromSender {
    const message = { answered: Float64Array.from(this.#answered), others: this.#others };
    this.#answered = [];
    this.#others = [];
    return message;
  }
}

function isPlain(answer: HttpResult): answer is Extract<HttpResult, { kind: 'answered' }> {
  return answer.kind === 'answered' && answer.body === '' && answer.retryAfter === undefined;
}

/** Calls `done` for each answer of the message. */
export function readAnswers(
  { answered, others }: FromSender,
  done: (id: number, answer: HttpResult) => void,
): void {
  for (let at = 0; at < answered.length; at += 3) {
    const [id, status, latencyMs] = [answered[at]!, answered[at + 1]!, answered[at + 2]!];
    done(id, { kind: 'answered', status, body: '', latencyMs });
  }
  for (const [id, answer] of others) done(id, answer);
}

/** `performance.now` begins anew in each thread. */
function sharedClock(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1000 + nanoseconds / 1e6;
}
