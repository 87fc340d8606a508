import { type Duration, MINUTE, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import { Problem } from './problem.ts';

/**
 * Tests of alerts that this node sends in any minute, whoever asks and whichever alert it is: each is a mail
 * to somebody.
 */
const MAX_TESTS = 10;
const WINDOW: Duration = MINUTE;

/** Bounds how often a test message is sent. A mailbox that is flooded with tests is one that nobody reads. */
export class TestLimit {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** When the last tests were sent, the oldest first. */
  readonly #sent: Monotonic[] = [];

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Counts a test. Throws a `Problem` that says when the next one may be sent. */
  take(): void {
    const now = this.#clock.monotonic();
    while (this.#sent.length > 0 && now - this.#sent[0]! >= WINDOW) this.#sent.shift();
    if (this.#sent.length >= MAX_TESTS) {
      const retryAfter = Math.ceil((this.#sent[0]! + WINDOW - now) / SECOND);
      const hint = `The next one may be sent in ${retryAfter} s; the answers of those before say how they fared.`;
      throw new Problem('too_many_tests', { hint, retryAfter });
    }
    this.#sent.push(now);
  }
}
