import type { AnswerStream, StreamClient } from '../ports/control.ts';
import type { TailFilter } from './tail-filter.ts';
import { lostLine } from './tail-line.ts';

/**
 * Characters that may wait for one viewer, while what was written before is on its way: some thousand lines, so that a
 * viewer who reads loses nothing when a large batch is stored.
 */
const MOST_WAITING = 512 * 1024;

/** What somebody wants to see. */
export interface TailWish extends TailFilter {
  /** Events whole, and not only what names them. */
  readonly body: boolean;
  /** Asked with every heartbeat: a viewer whose token was revoked sees nothing more. */
  readonly mayWatch: () => boolean;
}

const GREETING = ': watching\n\n';
const HEARTBEAT = ': still here\n\n';

/**
 * Somebody who watches over one connection, and is never waited for.
 *
 * ```
 *            flush                    write is false
 *   reading ───────▶ text is written ───────────────▶ behind ──drained──▶ reading
 *                                                       │ lines wait, up to a bound; beyond it they are counted,
 *                                                       └ and the viewer is told how many, at the place they are missing
 * ```
 * A viewer who reads nothing at all for a minute is cut off by the listener.
 */
export class Viewer implements AnswerStream {
  readonly wish: TailWish;
  readonly #left: () => void;
  #client: StreamClient | undefined;
  #waiting = '';
  #lost = 0;
  #isBehind = false;
  #isOver = false;

  constructor(wish: TailWish, left: () => void) {
    this.wish = wish;
    this.#left = left;
  }

  /** Once something is lost, everything is until the viewer has been told: what is missing is missing in one place. */
  get hasRoom(): boolean {
    return this.#lost === 0 && this.#waiting.length < MOST_WAITING;
  }

  add(line: string): void {
    this.#waiting += line;
  }

  lose(): void {
    this.#lost++;
  }

  flush(): void {
    // Before the head is on its way, lines wait.
    if (this.#client === undefined || this.#isBehind) return;
    if (this.#waiting === '' && this.#lost === 0) return;
    const text = this.#lost === 0 ? this.#waiting : this.#waiting + lostLine(this.#lost);
    this.#waiting = '';
    this.#lost = 0;
    this.#write(text);
  }

  /** A viewer that is behind needs no sign of life, and its silence is what tells the listener that it does not read. */
  beat(): void {
    if (!this.wish.mayWatch()) this.end();
    else if (!this.#isBehind) this.#write(HEARTBEAT);
  }

  end(): void {
    this.#isOver = true;
    this.#client?.end();
  }

  begin(client: StreamClient): void {
    this.#client = client;
    if (this.#isOver) client.end();
    else this.#write(GREETING);
    this.flush();
  }

  drained(): void {
    this.#isBehind = false;
    this.flush();
  }

  gone(): void {
    this.#isOver = true;
    this.#client = undefined;
    this.#waiting = '';
    this.#left();
  }

  #write(text: string): void {
    if (this.#client === undefined || this.#isOver) return;
    if (!this.#client.write(text)) this.#isBehind = true;
  }
}
