import { STATUS_TEXT } from '../model/status-text.ts';
import { type Duration, SECOND } from '../model/time.ts';
import type { Answer } from './respond.ts';

/**
 * Answers as text, byte for byte as `node:http` writes them: a client cannot tell which of the two has read its request. What
 * was asked for last is kept until the second is over, since nearly every answer is the same.
 */
export class AnswerText {
  readonly #keepAlive: string;
  #date: string | undefined;
  #last: Answer | undefined;
  #lastText = '';

  /** `idle` is how long a connection may be idle. */
  constructor(idle: Duration) {
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(idle / SECOND)}\r\n`;
  }

  of(answer: Answer): string {
    if (answer === this.#last) return this.#lastText;
    this.#lastText = this.#textOf(answer, this.#keepAlive);
    this.#last = answer;
    return this.#lastText;
  }

  /** Of an answer that is the last of its connection. */
  ofLast(answer: Answer): string {
    return this.#textOf(answer, 'Connection: close\r\n');
  }

  #textOf({ status, headers, body }: Answer, connection: string): string {
    let head = `HTTP/1.1 ${status} ${STATUS_TEXT[status]}\r\n`;
    for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
    return `${head}Date: ${this.#now()}\r\n${connection}\r\n${body}`;
  }

  /** On the clock that `node:http` uses for this header. */
  #now(): string {
    if (this.#date !== undefined) return this.#date;
    const now = new Date();
    setTimeout(() => this.#forget(), SECOND - now.getMilliseconds()).unref();
    this.#date = now.toUTCString();
    return this.#date;
  }

  #forget(): void {
    this.#date = undefined;
    this.#last = undefined;
  }
}
