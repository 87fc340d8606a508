import type { Duration } from '../model/time.ts';
import { type Clock, nextTurn } from '../ports/clock.ts';

/** Milliseconds of one turn on the main thread: calls and deliveries wait meanwhile. */
const SLICE: Duration = 5;

/** Divides long work of the main thread into turns: `if (turns.isOver()) await turns.next()`. */
export class Turns {
  readonly #clock: Pick<Clock, 'monotonic' | 'turn'>;
  #end: Duration;

  constructor(clock: Pick<Clock, 'monotonic' | 'turn'>) {
    this.#clock = clock;
    this.#end = clock.monotonic() + SLICE;
  }

  isOver(): boolean {
    return this.#clock.monotonic() >= this.#end;
  }

  async next(): Promise<void> {
    await nextTurn(this.#clock);
    this.#end = this.#clock.monotonic() + SLICE;
  }
}
