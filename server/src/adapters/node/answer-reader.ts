import { AnswerHead, INCOMPLETE, MALFORMED } from './answer-head.ts';
import { Chunks, type TakeBody } from './chunks.ts';

/** Longer heads are refused; Node's own limit. */
const LONGEST_HEAD = 16 * 1024;

const NOTHING = Buffer.alloc(0);

/** Hears an answer as it is read. */
export interface Hearer {
  /** Once, and not for interim answers. */
  head(status: number, retryAfter: string | undefined): void;
  body: TakeBody;
}

/** How far an answer has come: there is more of it to come, it is complete, or it is not HTTP. */
export type Progress = 'more' | 'complete' | 'malformed';

/**
 * Reads the answers of one connection, one after the other, from whatever pieces the network makes of them.
 *
 * ```
 *   head ──▶ counted ──▶ complete          interim answers (100, 103 …) are passed over: head ──▶ head
 *     ├────▶ chunked ──▶ complete
 *     ├────▶ rest, which ends with the connection
 *     └────▶ complete                      without a body
 * ```
 */
export class AnswerReader {
  readonly #head = new AnswerHead();
  #state: 'head' | 'counted' | 'chunked' | 'rest' | 'complete' = 'head';
  /** The beginning of a head whose end is not here yet. */
  #held: Buffer = NOTHING;
  #left = 0;
  #chunks: Chunks | undefined;
  #keeps = false;
  #problem = '';

  /** The next answer is that to a request which is sent now. */
  begin(): void {
    this.#state = 'head';
    this.#keeps = false;
  }

  /** Whether the connection may carry another request; true only when the answer is complete, and nothing came behind it. */
  get keeps(): boolean {
    return this.#keeps;
  }

  /** How long the receiver says it keeps the idle connection, in seconds; `NaN` when it says nothing. */
  get keepsFor(): number {
    return this.#head.keepsFor;
  }

  /** Whether the end of the connection is the end of the answer. */
  get endsWithConnection(): boolean {
    return this.#state === 'rest';
  }

  /** What is wrong with a malformed answer, as the end of a sentence. */
  get problem(): string {
    return this.#problem;
  }

  /** Reads the first `length` bytes of a buffer, which belongs to somebody else again when this returns. */
  read(bytes: Buffer, length: number, hearer: Hearer): Progress {
    if (this.#state !== 'head') return this.#readBody(bytes, 0, length, hearer);
    if (this.#held.length === 0) return this.#readHead(bytes, length, hearer);
    const all = Buffer.concat([this.#held, bytes.subarray(0, length)]);
    this.#held = NOTHING;
    return this.#readHead(all, all.length, hearer);
  }

  #readHead(bytes: Buffer, length: number, hearer: Hearer): Progress {
    const head = this.#head;
    let at = 0;
    for (;;) {
      const next = head.read(bytes, at, length);
      if (next === MALFORMED) return this.#malformed(head.problem);
      if (next === INCOMPLETE) {
        if (length - at > LONGEST_HEAD) return this.#malformed('its head is longer than 16 KB');
        // A copy: the buffer is read into again.
        this.#held = Buffer.from(bytes.subarray(at, length));
        return 'more';
      }
      at = next;
      if (!head.isInterim) break;
      if (at === length) return 'more';
    }
    this.#state = this.#kindOfBody();
    hearer.head(head.status, head.retryAfter);
    return this.#readBody(bytes, at, length, hearer);
  }

  #kindOfBody(): 'counted' | 'chunked' | 'rest' {
    const { isChunked, length } = this.#head;
    if (isChunked) {
      this.#chunks ??= new Chunks();
      this.#chunks.begin();
      return 'chunked';
    }
    if (Number.isNaN(length)) return 'rest';
    this.#left = length;
    return 'counted';
  }

  #readBody(bytes: Buffer, from: number, end: number, hearer: Hearer): Progress {
    let at = from;
    switch (this.#state) {
      case 'counted':
        at = Math.min(from + this.#left, end);
        this.#left -= at - from;
        if (at > from) hearer.body(bytes, from, at);
        return this.#left > 0 ? 'more' : this.#complete(at === end);
      case 'chunked': {
        const chunks = this.#chunks!;
        at = chunks.read(bytes, from, end, (...piece) => hearer.body(...piece));
        if (at === MALFORMED) return this.#malformed('its body is not in chunks as its head says');
        return chunks.isOver ? this.#complete(at === end) : 'more';
      }
      default:
        if (end > from) hearer.body(bytes, from, end);
        return 'more';
    }
  }

  /** Bytes behind an answer are none that anybody asked for: they must not become the answer to the next request. */
  #complete(isLast: boolean): Progress {
    this.#state = 'complete';
    this.#keeps = isLast && this.#head.keeps;
    return 'complete';
  }

  #malformed(problem: string): Progress {
    this.#problem = problem;
    return 'malformed';
  }
}
