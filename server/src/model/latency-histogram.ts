import type { Duration } from './time.ts';

const BUCKETS_PER_DOUBLING = 8;
const BUCKETS = 31 * BUCKETS_PER_DOUBLING;
/** A hundredth of a millisecond. */
const UNITS_PER_MS = 100;
const MAX_UNITS = 2 ** 31 - 1;

/** Counts by bucket. Histograms of any times can be added up. */
export type LatencyCounts = ReadonlyMap<number, number>;

/**
 * A histogram from 10 µs to five hours, in which a quantile is off by a sixteenth at most. Adding costs no
 * allocation.
 */
export class LatencyHistogram {
  readonly #counts = new Float64Array(BUCKETS);

  add(duration: Duration, times = 1): void {
    this.#counts[latencyBucket(duration)]! += times;
  }

  /** The counts that are not zero. */
  read(): Map<number, number> {
    const counts = new Map<number, number>();
    this.#counts.forEach((n, bucket) => {
      if (n > 0) counts.set(bucket, n);
    });
    return counts;
  }
}

export function latencyBucket(duration: Duration): number {
  const units = Math.max(1, Math.min(duration * UNITS_PER_MS, MAX_UNITS)) | 0;
  const doublings = 31 - Math.clz32(units);
  const rest = doublings >= 3 ? units >> (doublings - 3) : units << (3 - doublings);
  return doublings * BUCKETS_PER_DOUBLING + (rest & (BUCKETS_PER_DOUBLING - 1));
}

/** The duration that this share of all, from 0 to 1, is not above; undefined without any. */
export function latencyQuantile(counts: LatencyCounts, share: number): Duration | undefined {
  const total = [...counts.values()].reduce((sum, n) => sum + n, 0);
  let below = 0;
  for (const [bucket, n] of [...counts].sort(([one], [other]) => one - other)) {
    below += n;
    if (below >= total * share) return middleOf(bucket);
  }
  return undefined;
}

function middleOf(bucket: number): Duration {
  const doublings = Math.floor(bucket / BUCKETS_PER_DOUBLING);
  const rest = (bucket % BUCKETS_PER_DOUBLING) + 0.5;
  return (2 ** doublings * (1 + rest / BUCKETS_PER_DOUBLING)) / UNITS_PER_MS;
}
