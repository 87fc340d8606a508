import type { Socket } from 'node:net';
import type { Duration } from '../model/time.ts';
import type { Measures } from '../ports/measures.ts';
import type { AnswerText } from './answer-text.ts';
import { writeKeyIn } from './authorization.ts';
import { Waste } from './body.ts';
import type { CallExchange } from './call-exchange.ts';
import { forBrowsers } from './cors.ts';
import type { Closing } from './exchange.ts';
import { admitCall, type IncomingCall, type Means } from './incoming-call.ts';
import { type PlainRequest, plainRequestIn } from './plain-request.ts';
import type { Answer } from './respond.ts';
import { answerUnreadable } from './unreadable.ts';

/** What all plain connections share. */
export interface PlainTools {
  readonly means: Means;
  readonly texts: AnswerText;
  readonly closing: Closing;
  readonly measures: Measures | undefined;
  /** Begins to read the connection with `node:http`. */
  readonly attend: (socket: Socket) => void;
  /** It is none of the plain connections any more. */
  readonly left: (connection: PlainConnection) => void;
}

/** How long a connection may be in a state; in milliseconds, as in `TimeLimits`. */
export interface PlainLimits {
  readonly head: Duration;
  readonly request: Duration;
  readonly idle: Duration;
}

/** Idle since the last look at the time; the next one writes down when that was, so that no request asks for it. */
const UNSEEN = Number.NaN;

const NOTHING = Buffer.alloc(0);

/**
 * A connection whose requests have all been plain so far, read without `node:http`.
 *
 * ```
 * silent ──plain request──▶ asking ──its body here, answered──▶ idle ──plain request──▶ asking
 *    │                        └── last answer, too slow, broken off, client gone ──▶ over
 *    └── anything else (the same from idle) ──▶ over here: node:http goes on, from the first byte that was not answered
 * ```
 * A plain request is alone: whoever sends more bytes right behind it is handed over with both, as only `node:http` takes
 * requests before the one in front of them is answered. What comes while one is waiting for its verdict is left unread until
 * then. So there is one request at a time, the connection itself is its exchange, and a call costs no closure, listener
 * or timer here.
 */
export class PlainConnection implements CallExchange {
  readonly peer: Socket;
  readonly #tools: PlainTools;
  #state: 'silent' | 'asking' | 'idle' | 'over' = 'silent';
  /** When the state began that has a limit, on the clock of `performance`. */
  #since = performance.now();
  /** While asking. */
  #request: PlainRequest | undefined;
  /** While asking, unless it was refused by its head. It must know when the client goes before its body is here. */
  #call: IncomingCall | undefined;
  #waste: Waste | undefined;
  /** Bytes of the body that are still to come. */
  #missing = 0;
  #isAnswered = false;
  #closesAfter = false;
  /** Whether the client will send nothing more. */
  #isEnded = false;
  /** Whether nothing is read because something has to come first. */
  #isHeld = false;
  /** Clients send the same header with every request of a connection. */
  #authorization = '';
  #writeKey: string | undefined;

  constructor(peer: Socket, tools: PlainTools) {
    this.peer = peer;
    this.#tools = tools;
    peer.on('data', this.#onData);
    peer.on('end', this.#onEnd);
    peer.on('close', this.#onClose);
    peer.on('error', ignore);
  }

  get contentLength(): number {
    return this.#request!.contentLength;
  }

  get contentEncoding(): string | undefined {
    return this.#request!.contentEncoding;
  }

  get traceparent(): string | undefined {
    return this.#request!.traceparent;
  }

  get forwardedFor(): string | undefined {
    return this.#request!.forwardedFor;
  }

  get writeKey(): string | undefined {
    const { authorization } = this.#request!;
    if (authorization === undefined) return undefined;
    if (authorization !== this.#authorization) {
      this.#writeKey = writeKeyIn(authorization);
      this.#authorization = authorization;
    }
    return this.#writeKey;
  }

  closeAfter(): void {
    this.#closesAfter = true;
  }

  abandon(): void {
    this.#state = 'over';
    this.peer.destroy();
  }

  reply(answer: Answer): void {
    const { measures, closing, texts } = this.#tools;
    measures?.answered(answer.status, answer.code);
    if (this.#state === 'over') return;
    this.#isAnswered = true;
    const full = this.#request!.hasOrigin ? forBrowsers(answer) : answer;
    if (this.#closesAfter || closing.isClosing) {
      this.#state = 'over';
      this.peer.end(texts.ofLast(full), () => this.peer.destroy());
      return;
    }
    if (!this.peer.write(texts.of(full))) this.#holdUntilRead();
    this.#settle();
  }

  /** Cuts off what takes too long, as `node:http` does; `now` is on the clock of `performance`. */
  checkTime(now: number, limits: PlainLimits): void {
    if (Number.isNaN(this.#since)) {
      this.#since = now;
      return;
    }
    const lasted = now - this.#since;
    if (this.#state === 'idle') {
      if (lasted >= limits.idle) this.abandon();
    } else if (this.#state === 'silent') {
      if (lasted >= limits.head) this.#break('ERR_HTTP_REQUEST_TIMEOUT');
    } else if (this.#state === 'asking' && this.#missing > 0) {
      if (lasted >= limits.request) this.#break('ERR_HTTP_REQUEST_TIMEOUT');
    }
  }

  /** The server is about to stop: closes it unless a client waits here for an answer. */
  closeIfIdle(): void {
    if (this.#state === 'idle' || (this.#state === 'asking' && this.#isEnded)) this.abandon();
  }

  readonly #onData = (piece: Buffer): void => {
    switch (this.#state) {
      case 'over':
        return;
      case 'asking':
        if (this.#missing > 0) this.#takeBody(piece);
        else this.#keep(piece);
        return;
      default:
        this.#begin(piece);
    }
  };

  #begin(piece: Buffer): void {
    const request = plainRequestIn(piece);
    if (request === undefined || piece.length > request.bodyAt + request.contentLength) {
      this.#handOver(piece);
      return;
    }
    this.#state = 'asking';
    this.#request = request;
    this.#isAnswered = false;
    this.#missing = request.contentLength;
    if (piece.length < request.bodyAt + request.contentLength) this.#since = performance.now();
    this.#call = admitCall(this, request.action, this.#tools.means);
    this.#takeBody(piece.length === request.bodyAt ? NOTHING : piece.subarray(request.bodyAt));
  }

  #takeBody(piece: Buffer): void {
    const isMore = piece.length > this.#missing;
    const part = isMore ? piece.subarray(0, this.#missing) : piece;
    this.#missing -= part.length;
    if (part.length > 0) this.#takePart(part);
    if (this.#missing > 0) return;
    this.#call?.end();
    this.#settle();
    if (!isMore) return;
    const rest = piece.subarray(part.length);
    if (this.#isHeld) this.#keep(rest);
    else this.#onData(rest);
  }

  #takePart(part: Buffer): void {
    if (this.#call !== undefined) this.#call.take(part);
    else {
      this.#waste ??= new Waste();
      if (this.#waste.isTooMuch(part)) this.abandon();
    }
  }

  /** Ready for the next request when there is nothing more to read or write of this one. */
  #settle(): void {
    if (this.#state !== 'asking' || !this.#isAnswered || this.#missing > 0) return;
    if (this.#tools.closing.isClosing) {
      // Answered before, and only now rid of its body.
      this.abandon();
      return;
    }
    this.#state = 'idle';
    this.#since = UNSEEN;
    // A head may hold on to all the bytes that were read with it.
    this.#request = undefined;
    this.#call = undefined;
    this.#waste = undefined;
    if (this.#isHeld) this.#readOn();
  }

  /** It came behind a request that waits for its verdict. */
  #keep(piece: Buffer): void {
    this.#isHeld = true;
    this.peer.pause();
    this.peer.unshift(piece);
  }

  /** A client that does not read its answers is not asked for more requests. */
  #holdUntilRead(): void {
    this.#isHeld = true;
    this.peer.pause();
    this.peer.once('drain', () => this.#readOn());
  }

  #readOn(): void {
    const isWaiting = this.#state === 'asking' && this.#missing === 0;
    if (isWaiting || this.#state === 'over' || this.peer.writableNeedDrain) return;
    this.#isHeld = false;
    this.peer.resume();
  }

  /**
   * From here on `node:http` reads the connection, beginning with these bytes. They are put back, and read again before
   * anything else can happen: from then on `node:http` takes what arrives right from the system, past what was put back.
   */
  #handOver(bytes: Buffer): void {
    this.#state = 'over';
    const { peer } = this;
    peer.off('data', this.#onData);
    peer.off('end', this.#onEnd);
    peer.off('close', this.#onClose);
    peer.off('error', ignore);
    this.#tools.left(this);
    peer.unshift(bytes);
    this.#tools.attend(peer);
    peer.read();
  }

  /**
   * The client will send nothing more. It may still read, and gets its answer; or it may be gone, which looks the same, and
   * a stop does not wait for it.
   */
  readonly #onEnd = (): void => {
    if (this.#state === 'over') return;
    this.#isEnded = true;
    if (this.#state !== 'asking') {
      this.#state = 'over';
      this.peer.end();
    } else if (this.#missing > 0) this.#break('HPE_INVALID_EOF_STATE');
    else if (this.#tools.closing.isClosing) this.abandon();
    else this.#closesAfter = true;
  };

  /** What is here is no whole request. One that was refused by its head has its answer, and gets no second one. */
  #break(code: string): void {
    this.#state = 'over';
    if (this.#isAnswered) this.peer.end(() => this.peer.destroy());
    else answerUnreadable(code, this.peer, this.#tools.measures);
  }

  readonly #onClose = (): void => {
    this.#state = 'over';
    this.#tools.left(this);
    this.#call?.gone();
  };
}

/** The close that follows is all there is to know of an error. */
function ignore(): void {}
