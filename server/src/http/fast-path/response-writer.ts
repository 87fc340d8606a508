import { type Duration, SECOND } from '../../model/time.ts';
import { CONNECTION_CLOSE, type PreparedResponse, serializeResponse } from '../responses.ts';

/**
 * Makes answers byte for byte as `node:http` writes them, so that a client cannot tell which of the two has read its
 * request. The last answer is cached until the second is over, because nearly every answer is the same.
 */
export class ResponseWriter {
  readonly #keepAliveHeaders: string;
  #date: string | undefined;
  #lastResponse: PreparedResponse | undefined;
  #lastText = '';

  /** `idle` is announced to clients as the time that a connection may be idle. */
  constructor(idle: Duration) {
    this.#keepAliveHeaders = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(idle / SECOND)}\r\n`;
  }

  serialize(answer: PreparedResponse): string {
    if (answer === this.#lastResponse) return this.#lastText;
    this.#lastText = serializeResponse(answer, '', this.#dateHeader() + this.#keepAliveHeaders);
    this.#lastResponse = answer;
    return this.#lastText;
  }

  /** Like `serialize`, for an answer that is the last of its connection. */
  serializeLast(answer: PreparedResponse): string {
    return serializeResponse(answer, '', this.#dateHeader() + CONNECTION_CLOSE);
  }

  /** The wall clock of the process, as `node:http` uses it for this header. */
  #dateHeader(): string {
    if (this.#date !== undefined) return this.#date;
    const now = new Date();
    setTimeout(() => this.#clear(), SECOND - now.getMilliseconds()).unref();
    this.#date = `Date: ${now.toUTCString()}\r\n`;
    return this.#date;
  }

  #clear(): void {
    this.#date = undefined;
    this.#lastResponse = undefined;
  }
}
