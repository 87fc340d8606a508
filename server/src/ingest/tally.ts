import type { Received } from '../ports/event-log.ts';

/** Sums of calls and discards per source that wait to be written to the ledger. */
export class Tally {
  readonly #bySource = new Map<number, { calls: number; discarded: Record<string, number> }>();

  get isEmpty(): boolean {
    return this.#bySource.size === 0;
  }

  add(counts: readonly Received[]): void {
    for (const { source, calls, discarded } of counts) {
      let sums = this.#bySource.get(source);
      if (sums === undefined) {
        sums = { calls: 0, discarded: {} };
        this.#bySource.set(source, sums);
      }
      sums.calls += calls;
      for (const [reason, n] of Object.entries(discarded))
        sums.discarded[reason] = (sums.discarded[reason] ?? 0) + n;
    }
  }

  /** Everything added since the last time. */
  take(): Received[] {
    const all = Array.from(this.#bySource, ([source, { calls, discarded }]) => ({
      source,
      calls,
      discarded,
    }));
    this.#bySource.clear();
    return all;
  }
}
