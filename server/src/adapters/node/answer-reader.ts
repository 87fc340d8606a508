import { AnswerHead, INCOMPLETE, MALFORMED } from './answer-head.ts';
import { Chunks, type TakeBody } from './chunks.ts';

/** Longer heads are refused; Node's own limit. */
const LONGEST_HEAD = 16 * 1024;

/** Interim answers to one request, and bytes of them: an endpoint could send nothing else, as fast as they are read. */
export const MOST_INTERIM = 10;
const MOST_INTERIM_BYTES = 64 * 1024;

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
  /** The beginning of a head whose end is not here yet, in its first `#heldLength` bytes. */
  #held: Buffer = NOTHING;
  #heldLength = 0;
  #interim = 0;
  #interimBytes = 0;
  #left = 0;
  #chunks: Chunks | undefined;
  #keeps = false;
  #problem = '';

  /** The next answer is that to a request which is sent now. */
  begin(): void {
    this.#state = 'head';
    this.#keeps = false;
    this.#interim = 0;
    this.#interimBytes = 0;
    this.#head.begin();
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
    if (this.#heldLength === 0) return this.#readHead(bytes, length, hearer);
    this.#addToHeld(bytes, length);
    return this.#readHead(this.#held, this.#heldLength, hearer);
  }

  #readHead(bytes: Buffer, length: number, hearer: Hearer): Progress {
    const head = this.#head;
    let at = 0;
    for (;;) {
      const next = head.read(bytes, at, length);
      if (next === MALFORMED) return this.#malformed(head.problem);
      const size = (next === INCOMPLETE ? length : next) - at;
      if (size > LONGEST_HEAD) return this.#malformed('its head is longer than 16 KB');
      if (next === INCOMPLETE) {
        this.#hold(bytes, at, length);
        return 'more';
      }
      at = next;
      if (!head.isInterim) break;
      this.#interimBytes += size;
      if (++this.#interim > MOST_INTERIM || this.#interimBytes > MOST_INTERIM_BYTES) {
        return this.#malformed('more than 10 interim answers come before it, or 64 KB of them');
      }
      head.begin();
    }
    this.#letGo();
    this.#state = this.#kindOfBody();
    hearer.head(head.status, head.retryAfter);
    return this.#readBody(bytes, at, length, hearer);
  }

  /** A copy of the beginning of a head, from `at` to `length`: the buffer is read into again. */
  #hold(bytes: Buffer, at: number, length: number): void {
    if (at === length) this.#letGo();
    else if (bytes !== this.#held) this.#held = Buffer.from(bytes.subarray(at, length));
    else if (at > 0) this.#held.copyWithin(0, at, length);
    this.#heldLength = length - at;
  }

  /** Twice the room whenever it runs out, so that no byte is copied more than a few times, however small the pieces are. */
  #addToHeld(bytes: Buffer, length: number): void {
    const size = this.#heldLength + length;
    if (size > this.#held.length) {
      const larger = Buffer.allocUnsafe(Math.max(size, 2 * this.#held.length));
      this.#held.copy(larger, 0, 0, this.#heldLength);
      this.#held = larger;
    }
    bytes.copy(this.#held, this.#heldLength, 0, length);
    this.#heldLength = size;
  }

  #letGo(): void {
    this.#held = NOTHING;
    this.#heldLength = 0;
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
