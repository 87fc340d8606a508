import type { Duration } from '../../model/time.ts';
import type { Answer, OutboundRequest } from '../../ports/transport.ts';
import type { Hearer } from './answer-reader.ts';
import { type Failure, failureOf } from './failure.ts';
import type { Limited, Row, TimeLimits } from './time-limits.ts';

/** The connection an exchange goes over. */
export interface Carrier {
  /** Has it carried an exchange before, without being closed since? */
  readonly reused: boolean;
  /** The answer is complete: it may carry the next one. */
  release(): void;
  /** It is of no use any more. */
  discard(): void;
  /** It was dead before it was used: discards it and carries the same exchange over a new one. */
  replace(exchange: Exchange): void;
}

/** Kept of the body of an answer that is not 2xx. decisions.md section 2, "network safety". */
export const KEPT_BODY = 4096;

/** A connection is worth reading this much, for this long, of what nobody wants; then opening another one is cheaper. */
const DRAINED_BODY = 64 * 1024;
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
export class Exchange implements Hearer, Limited {
  readonly request: OutboundRequest;
  /** Of the request, ready to be written. */
  readonly requestHead: string;
  readonly startedAt = performance.now();
  /** The next one in the row of those that wait for a connection. */
  behind: Exchange | undefined = undefined;

  deadline = 0;
  row: Row | undefined = undefined;
  before: Limited | undefined = undefined;
  after: Limited | undefined = undefined;

  readonly #done: (answer: Answer) => void;
  readonly #limits: TimeLimits;
  #carrier: Carrier | undefined = undefined;
  #inSend = true;
  #written = false;
  #heard = false;
  #settled = false;
  #ended = false;
  #status = 0;
  #retryAfter: string | undefined = undefined;
  #latencyMs = 0;
  #received = 0;
  #kept: Buffer[] | undefined = undefined;

  constructor(
    request: OutboundRequest,
    requestHead: string,
    limits: TimeLimits,
    done: (answer: Answer) => void,
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
  begun(): void {
    this.#inSend = false;
  }

  carriedBy(carrier: Carrier): void {
    this.#carrier = carrier;
    this.#written = false;
  }

  /** Ends it for good: with what was read of the answer if its head was there, with `failure` if it was not. */
  end(failure: Failure): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#limits.remove(this);
    this.#carrier?.discard();
    if (this.#status === 0) this.#fail(failure);
    else this.#answer();
  }

  expire(): void {
    const limit = `${this.request.timeout} ms`;
    let detail = `no answer within ${limit}`;
    if (this.#carrier === undefined) detail = `no connection was free within ${limit}`;
    else if (!this.#written) detail = `not connected within ${limit}`;
    this.end({ reason: 'timeout', detail });
  }

  /** It is being written to a connection. */
  sent(): void {
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
    if (!this.#settled && !isSuccess(this.#status)) {
      // A copy: the buffer is read into again.
      this.#kept ??= [];
      this.#kept.push(Buffer.from(bytes.subarray(from, Math.min(to, from + KEPT_BODY - before))));
      if (this.#received >= KEPT_BODY) this.settle();
    }
    if (this.#received > DRAINED_BODY) this.end(UNREAD);
  }

  /**
   * Some of the answer is here, and more is to come. A 2xx counts with its head; most are complete by now, so that the
   * connection is free again when `done` asks for one.
   */
  heard(): void {
    this.#heard = true;
    if (isSuccess(this.#status)) this.settle();
  }

  /** The answer is complete. */
  complete(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#limits.remove(this);
    this.#carrier?.release();
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
    const carrier = this.#carrier;
    if (failure.reason === 'connection_closed' && carrier?.reused && !this.#heard) {
      carrier.replace(this);
    } else {
      this.end(failure);
    }
  }

  /** Answers with what there is, and gives the rest of the body a moment to pass. */
  settle(): void {
    if (this.#ended || this.#settled) return;
    this.#limits.remove(this);
    this.#limits.add(this, performance.now(), DRAIN_TIME);
    this.#answer();
  }

  #answer(): void {
    if (this.#settled) return;
    this.#report({
      kind: 'answered',
      status: this.#status,
      ...(this.#retryAfter === undefined ? undefined : { retryAfter: this.#retryAfter }),
      body: this.#kept === undefined ? '' : textOf(this.#kept),
      latencyMs: this.#latencyMs,
    });
  }

  #fail({ reason, detail }: Failure): void {
    this.#report({ kind: 'failed', reason, detail, latencyMs: this.#elapsed() });
  }

  #report(answer: Answer): void {
    this.#settled = true;
    this.#kept = undefined;
    if (this.#inSend) process.nextTick(report, this.#done, answer);
    else report(this.#done, answer);
  }

  #elapsed(): number {
    return Math.round((performance.now() - this.startedAt) * 100) / 100;
  }
}

const UNREAD: Failure = { reason: 'connection_closed', detail: 'the answer is longer than anyone reads' };

/** What `done` throws is a bug: it must be seen, and must not stop the reading of this connection half-way. */
function report(done: (answer: Answer) => void, answer: Answer): void {
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
function textOf(kept: readonly Buffer[]): string {
  return new TextDecoder().decode(Buffer.concat(kept), { stream: true });
}
