import { STATUS_TEXT } from '../../model/http-syntax.ts';
import { type Duration, SECOND } from '../../model/time.ts';
import type { PreparedResponse } from '../responses.ts';

/**
 * Answers as text, byte for byte as `node:http` writes them: a client cannot tell which of the two has read its request. What
 * was asked for last is kept until the second is over, since nearly every answer is the same.
 */
export class ResponseWriter {
  readonly #keepAliveHeaders: string;
  #date: string | undefined;
  #lastResponse: PreparedResponse | undefined;
  #lastText = '';

  /** `idle` is how long a connection may be idle. */
  constructor(idle: Duration) {
    this.#keepAliveHeaders = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(idle / SECOND)}\r\n`;
  }

  serialize(answer: PreparedResponse): string {
    if (answer === this.#lastResponse) return this.#lastText;
    this.#lastText = this.#format(answer, this.#keepAliveHeaders);
    this.#lastResponse = answer;
    return this.#lastText;
  }

  /** Of an answer that is the last of its connection. */
  serializeLast(answer: PreparedResponse): string {
    return this.#format(answer, 'Connection: close\r\n');
  }

  #format({ status, headers, body }: PreparedResponse, connection: string): string {
    let head = `HTTP/1.1 ${status} ${STATUS_TEXT[status]}\r\n`;
    for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
    return `${head}Date: ${this.#currentDate()}\r\n${connection}\r\n${body}`;
  }

  /** On the clock that `node:http` uses for this header. */
  #currentDate(): string {
    if (this.#date !== undefined) return this.#date;
    const now = new Date();
    setTimeout(() => this.#clear(), SECOND - now.getMilliseconds()).unref();
    this.#date = now.toUTCString();
    return this.#date;
  }

  #clear(): void {
    this.#date = undefined;
    this.#lastResponse = undefined;
  }
}
