import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Facts, Logger } from '../ports/logger.ts';

/** Whoever turns away ten thousand calls a second must not write ten thousand lines. */
const LINE_EVERY: Duration = 10 * SECOND;

export interface OverloadTools {
  /** What is under way now, for the log. */
  readonly measured: () => Facts;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Says in the log that calls are turned away, in one line for all of the last seconds. */
export class Overload {
  readonly #tools: OverloadTools;
  #turnedAway = 0;
  #nextLineAt: Monotonic = Number.NEGATIVE_INFINITY;

  constructor(tools: OverloadTools) {
    this.#tools = tools;
  }

  turnedAway(): void {
    this.#turnedAway++;
    const { clock, logger, measured } = this.#tools;
    const now = clock.monotonic();
    if (now < this.#nextLineAt) return;
    this.#nextLineAt = now + LINE_EVERY;
    logger.warn({ turnedAway: this.#turnedAway, ...measured() }, 'listener.overloaded');
    this.#turnedAway = 0;
  }
}
