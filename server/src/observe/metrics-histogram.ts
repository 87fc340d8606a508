import type { Duration } from '../model/time.ts';
import type { Distribution, Labels } from './metrics-text.ts';

const SECONDS = 1000;

/** Counts durations by how long they are: one addition each, whatever their number. */
export class Histogram {
  readonly #bounds: readonly Duration[];
  /** One more than there are bounds: the last is for what is above all of them. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** `bounds` in milliseconds, rising. */
  constructor(bounds: readonly Duration[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  add(duration: Duration): void {
    const bounds = this.#bounds;
    let place = 0;
    while (place < bounds.length && duration > bounds[place]!) place++;
    this.#counts[place]!++;
    this.#sum += duration;
  }

  /** In seconds, as Prometheus wants all times. */
  read(labels: Labels): Distribution {
    let count = 0;
    const buckets = this.#bounds.map((bound, place) => {
      count += this.#counts[place]!;
      return { atMost: bound / SECONDS, n: count };
    });
    count += this.#counts[this.#bounds.length]!;
    return { labels, buckets, sum: this.#sum / SECONDS, count };
  }
}
