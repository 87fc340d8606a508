import { Readable } from 'node:stream';
import type { ResponseStream } from '../ports/control-api.ts';

/**
 * A `ResponseStream` as the body of an ordinary reply. Backpressure is that of Node: the pipe pauses this
 * stream while the client reads nothing, so that `write` returns false, and reads on when the client has
 * caught up.
 */
export class EventStream extends Readable {
  readonly #body: ResponseStream;
  #hasBegun = false;
  #isBehind = false;

  constructor(body: ResponseStream) {
    super();
    this.#body = body;
  }

  override _read(): void {
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      this.#body.begin({ write: (text) => this.#write(text), end: () => this.#end() });
    } else if (this.#isBehind) {
      this.#isBehind = false;
      this.#body.drained();
    }
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#body.gone();
    done(error);
  }

  #write(text: string): boolean {
    if (this.destroyed) return false;
    const hasRoom = this.push(text);
    this.#isBehind = !hasRoom || this.isPaused();
    return !this.#isBehind;
  }

  /**
   * Unread text would hold up a stop. A stream has no end that could be missing, so the connection is cut
   * instead.
   */
  #end(): void {
    if (this.isPaused() || this.readableLength > 0) this.destroy();
    else this.push(null);
  }
}
