import type { Monotonic, Time } from '../model/time.ts';
import { traceparentIn } from '../model/traceparent.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import type { CallRequest, Receiver, Verdict } from '../ports/receiver.ts';
import type { Tallies } from '../ports/tallies.ts';
import { announcedBy, type Body, type BodyRefusal, drain, Waste } from './body.ts';
import type { CallExchange } from './call-exchange.ts';
import { ARRIVING, type Carrier } from './connections.ts';
import type { ErrorCode } from './errors.ts';
import type { Exchange } from './exchange.ts';
import type { InFlight, Place } from './in-flight.ts';
import type { Overload } from './overload.ts';
import { answerTo, failure } from './respond.ts';
import type { CallAction } from './routes.ts';
import type { Peer, TrustedProxies } from './trusted-proxies.ts';

/** What calls need on their way in. */
export interface Means {
  readonly receiver: Receiver;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Gets what is refused here, before a receiver sees it. */
  readonly tallies: Tallies | undefined;
  readonly inFlight: InFlight;
  readonly overload: Overload;
  /** Absent when nobody's `X-Forwarded-For` is believed. */
  readonly proxies: TrustedProxies | undefined;
}

/** Collects the body of a call within the bounds, hands it to the receiver, and answers with its verdict. */
export function takeCall(exchange: Exchange, action: CallAction, means: Means): void {
  const { request } = exchange;
  const call = admitCall(exchange, action, means);
  if (call === undefined) {
    drain(request);
    return;
  }
  exchange.invite();
  request.on('data', (piece: Buffer) => call.take(piece));
  request.on('end', () => {
    (request.socket as Carrier)[ARRIVING] = undefined;
    call.end();
  });
  (request.socket as Carrier)[ARRIVING] = call;
}

/** A call that has a place. Otherwise it has its answer already; what is still to come of its body is to be thrown away. */
export function admitCall(
  exchange: CallExchange,
  action: CallAction,
  means: Means,
): IncomingCall | undefined {
  const body = announcedBy(exchange, action.limit);
  if (typeof body === 'string') {
    refuse(
      exchange,
      codeOf(body, action),
      means,
      body === 'too_large' ? announcedSize(exchange, action) : undefined,
    );
    return undefined;
  }
  const call = new IncomingCall(exchange, action, body, means);
  if (means.inFlight.enter(call)) return call;
  refuse(exchange, 'overloaded', means);
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
export class IncomingCall implements Place {
  bytes = 0;
  isArriving = false;
  older: Place | undefined;
  younger: Place | undefined;
  readonly since: Monotonic;
  readonly #receivedAt: Time;
  readonly #exchange: CallExchange;
  readonly #action: CallAction;
  readonly #body: Body;
  readonly #means: Means;
  #state: 'arriving' | 'waiting' | 'over' = 'arriving';
  #waste: Waste | undefined;

  constructor(exchange: CallExchange, action: CallAction, body: Body, means: Means) {
    // A client's clock is corrected by the time between sending and arriving, so arriving is now and not after the body.
    this.#receivedAt = means.clock.now();
    this.since = means.clock.monotonic();
    this.#exchange = exchange;
    this.#action = action;
    this.#body = body;
    this.#means = means;
  }

  /** The client went away before its body was here. */
  gone(): void {
    if (this.#state === 'arriving') this.#leave();
  }

  cutOff(): void {
    this.#exchange.closeAfter();
    this.#refuse('overloaded');
  }

  /** More of its body. */
  take(piece: Buffer): void {
    if (this.#state !== 'arriving') {
      this.#waste ??= new Waste();
      if (this.#waste.isTooMuch(piece)) this.#exchange.abandon();
      return;
    }
    if (this.#body.size + piece.length > this.#body.most)
      this.#refuse(this.#action.tooLarge, sizeBeyond(this.#action));
    else if (!this.#means.inFlight.grow(this, piece.length)) this.#refuse('overloaded');
    else if (!this.#body.add(piece)) {
      this.#exchange.closeAfter();
      this.#refuse('malformed_request', DUST);
    }
  }

  /** Its body is complete. */
  end(): void {
    if (this.#state !== 'arriving') return;
    const { inFlight } = this.#means;
    inFlight.arrived(this);
    const body = this.#body.inflated(this.#action.limit);
    if (body === 'too_large') this.#refuse(this.#action.tooLarge, sizeBeyond(this.#action));
    else if (typeof body === 'string') this.#refuse(codeOf(body, this.#action));
    else if (body.length > this.bytes && !inFlight.grow(this, body.length - this.bytes)) {
      this.#refuse('overloaded');
    } else this.#handOver(body);
  }

  #handOver(body: Buffer): void {
    this.#state = 'waiting';
    const { type } = this.#action;
    try {
      const call = callRequest(this.#exchange, { type, body, receivedAt: this.#receivedAt }, this.#means);
      this.#means.receiver(call, (verdict) => this.#answer(verdict));
    } catch (error) {
      // An error of ours: one request may not end the process and everybody else's with it.
      this.#means.logger.error({ error, type }, 'request.failed');
      if (this.#isOver()) return;
      this.#leave();
      this.#exchange.reply(failure('internal_error'));
    }
  }

  #answer(verdict: Verdict): void {
    if (this.#state === 'over') return;
    this.#leave();
    this.#exchange.reply(answerTo(verdict));
  }

  #refuse(code: ErrorCode, detail?: string): void {
    this.#leave();
    refuse(this.#exchange, code, this.#means, detail);
  }

  /** The receiver may have answered before it threw. */
  #isOver(): boolean {
    return this.#state === 'over';
  }

  #leave(): void {
    this.#state = 'over';
    this.#means.inFlight.leave(this);
  }
}

/** What the receiver is given. */
export function callRequest(
  exchange: CallExchange,
  { type, body, receivedAt }: Pick<CallRequest, 'type' | 'body' | 'receivedAt'>,
  { proxies }: Pick<Means, 'proxies'>,
): CallRequest {
  const { writeKey, traceparent } = exchange;
  const peer = senderOf(exchange, proxies);
  const call =
    writeKey === undefined ? { type, body, receivedAt, peer } : { type, writeKey, body, receivedAt, peer };
  // Few clients send one, so the others are spared the look at it.
  const trace = traceparent === undefined ? undefined : traceparentIn(traceparent);
  return trace === undefined ? call : { ...call, traceparent: trace };
}

/** Who sent the request, as far as it can be believed. */
export function senderOf(
  { peer, forwardedFor }: Pick<CallExchange, 'peer' | 'forwardedFor'>,
  proxies: TrustedProxies | undefined,
): Peer {
  return proxies === undefined ? peer : proxies.senderBehind(peer, forwardedFor);
}

/** Asks the client to come again. */
export function turnAway(exchange: CallExchange, { tallies, overload }: Means): void {
  tallies?.refused('overloaded');
  overload.turnedAway();
  exchange.reply(answerTo(OVERLOADED));
}

/** `detail`: a sentence that says more than the code. */
function refuse(exchange: CallExchange, code: ErrorCode, means: Means, detail?: string): void {
  if (code === 'overloaded') {
    turnAway(exchange, means);
    return;
  }
  means.tallies?.refused(code, { writeKey: exchange.writeKey, detail });
  exchange.reply(failure(code, detail));
}

const DUST = 'Its body comes in pieces of a few bytes.';

/** How large a body is that was refused by its head. */
function announcedSize({ contentLength, contentEncoding }: CallExchange, { limit }: CallAction): string {
  const [size, most] = [contentLength, limit].map((bytes) => bytes.toLocaleString('en-US'));
  return contentEncoding === undefined
    ? `It has ${size} bytes, the limit is ${most}.`
    : `It has ${size} bytes before it is inflated, the limit is ${most} after it.`;
}

/** How large a body is at least that was not read to its end. */
function sizeBeyond({ limit }: CallAction): string {
  return `It has more than ${limit.toLocaleString('en-US')} bytes, which is the limit.`;
}

/** A place is free again as soon as one commit is done, so a second is long enough. */
const OVERLOADED: Verdict = { kind: 'unavailable', code: 'overloaded', retryAfter: 1 };

function codeOf(refusal: BodyRefusal, action: CallAction): ErrorCode {
  return refusal === 'too_large' ? action.tooLarge : refusal;
}
