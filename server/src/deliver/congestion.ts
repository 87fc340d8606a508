import { type Duration, type Monotonic, SECOND } from '../model/time.ts';

/** How long it is remembered how quick an endpoint can be: it may become slower for good, by more data or a move. */
const WINDOW: Duration = 30 * SECOND;

/** Answers are that much slower than the quickest, and half of the requests are waiting for the others. */
const FACTOR = 2;

/** Milliseconds. Below it differences are those of the clock and of this program. */
const SLACK = 0.5;

/**
 * Whether an endpoint lets requests wait for each other. Then more of them at once are not answered sooner: they wait
 * longer, and cost both sides memory and time. Told by the quickest of many answers, because how the others are spread
 * says nothing: where nothing queues, one of them is as quick as it ever was.
 */
export class Congestion {
  /** Since the last turn. */
  #quickest = Number.POSITIVE_INFINITY;
  /** Of this window and of the one before. */
  #fastest = Number.POSITIVE_INFINITY;
  #before = Number.POSITIVE_INFINITY;
  #since: Monotonic = 0;

  /** Runs for every answer. */
  note(latencyMs: number): void {
    if (latencyMs < this.#quickest) this.#quickest = latencyMs;
  }

  /** Of the answers since the last turn. */
  get isFelt(): boolean {
    return this.#quickest > FACTOR * Math.min(this.#fastest, this.#before) + SLACK;
  }

  /** Looks at the next answers by themselves. */
  turn(now: Monotonic): void {
    if (now - this.#since >= WINDOW) {
      this.#before = this.#fastest;
      this.#fastest = Number.POSITIVE_INFINITY;
      this.#since = now;
    }
    this.#fastest = Math.min(this.#fastest, this.#quickest);
    this.#quickest = Number.POSITIVE_INFINITY;
  }
}
