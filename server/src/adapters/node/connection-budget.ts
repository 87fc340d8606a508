import type { TimeLimits } from './time-limits.ts';

/** However many endpoints there are, each may have so many connections. */
const FEW = 8;

/** Connections that are open, over all pools, and a bound on them. */
export class ConnectionBudget {
  readonly #maximum: number;
  readonly #idle: TimeLimits;
  #open = 0;
  #pools = 0;

  /** `idle` holds the idle connections of all pools, and nothing else. */
  constructor(maximum: number, idle: TimeLimits) {
    this.#maximum = maximum;
    this.#idle = idle;
  }

  /**
   * Whether a pool that has `own` connections may open another one. At the bound the oldest idle connection is closed for it.
   * When all are busy, a pool may still have its share: endpoints that take long to answer must not keep the others
   * from being asked. So there are twice as many connections as the bound says at most.
   */
  mayOpen(own: number): boolean {
    if (this.#open < this.#maximum) return true;
    const oldest = this.#idle.first;
    if (oldest === undefined) return own < Math.max(FEW, this.#maximum / Math.max(1, this.#pools));
    this.#idle.remove(oldest);
    oldest.expire();
    return true;
  }

  /** `isFirst`: its pool had none before. */
  opened(isFirst: boolean): void {
    this.#open++;
    if (isFirst) this.#pools++;
  }

  /** `isLast`: its pool has none any more. */
  closed(isLast: boolean): void {
    this.#open--;
    if (isLast) this.#pools--;
  }
}
