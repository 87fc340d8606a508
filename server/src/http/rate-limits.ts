import type { Source } from '../model/source.ts';
import type { Clock } from '../ports/clock.ts';
import type { CallsOfSource } from '../ports/receiver.ts';
import { type Bucket, fullBucket, giveBack, take } from './token-bucket.ts';

/** One bucket for each source that has a limit. */
export class RateLimits {
  readonly #clock: Clock;
  readonly #perSecond = new Map<number, number>();
  readonly #buckets = new Map<number, Bucket>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** From now on these limits hold. A bucket keeps what is in it, so that saving a source opens no gap. */
  configure(sources: readonly Source[]): void {
    this.#perSecond.clear();
    for (const { id, rateLimit } of sources) if (rateLimit !== undefined) this.#perSecond.set(id, rateLimit);
    for (const id of this.#buckets.keys()) if (!this.#perSecond.has(id)) this.#buckets.delete(id);
  }

  /** An `Admission` of ports/receiver.ts: all sources of a request, or none. */
  readonly admit = (calls: readonly CallsOfSource[]): number => {
    if (this.#perSecond.size === 0) return 0;
    for (let nth = 0; nth < calls.length; nth++) {
      const wait = this.#take(calls[nth]!);
      if (wait === 0) continue;
      for (const taken of calls.slice(0, nth)) this.#giveBack(taken);
      return wait;
    }
    return 0;
  };

  #take({ source, calls }: CallsOfSource): number {
    const perSecond = this.#perSecond.get(source);
    if (perSecond === undefined) return 0;
    const now = this.#clock.monotonic();
    const { bucket, wait } = take(this.#buckets.get(source) ?? fullBucket(perSecond, now), calls, {
      perSecond,
      now,
    });
    this.#buckets.set(source, bucket);
    return wait;
  }

  #giveBack({ source, calls }: CallsOfSource): void {
    const bucket = this.#buckets.get(source);
    if (bucket !== undefined) this.#buckets.set(source, giveBack(bucket, calls));
  }
}
