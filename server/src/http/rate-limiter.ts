import type { Source } from '../model/settings.ts';
import { type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { SourceCalls } from '../ports/ingest.ts';

/** One bucket for each source that has a limit. */
export class SourceRateLimiter {
  readonly #clock: Clock;
  readonly #perSecond = new Map<number, number>();
  readonly #buckets = new Map<number, TokenBucket>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** From now on these limits hold. A bucket keeps what is in it, so that saving a source opens no gap. */
  configure(sources: readonly Source[]): void {
    this.#perSecond.clear();
    for (const { id, rateLimit } of sources) if (rateLimit !== undefined) this.#perSecond.set(id, rateLimit);
    for (const id of this.#buckets.keys()) if (!this.#perSecond.has(id)) this.#buckets.delete(id);
  }

  /** An `Admission` of ports/ingest.ts: all sources of a request, or none. */
  readonly admit = (calls: readonly SourceCalls[]): number => {
    if (this.#perSecond.size === 0) return 0;
    for (let nth = 0; nth < calls.length; nth++) {
      const wait = this.#take(calls[nth]!);
      if (wait === 0) continue;
      for (const taken of calls.slice(0, nth)) this.#refund(taken);
      return wait;
    }
    return 0;
  };

  #take({ source, calls }: SourceCalls): number {
    const perSecond = this.#perSecond.get(source);
    if (perSecond === undefined) return 0;
    const now = this.#clock.monotonic();
    const { bucket, wait } = takeTokens(this.#buckets.get(source) ?? fullBucket(perSecond, now), calls, {
      perSecond,
      now,
    });
    this.#buckets.set(source, bucket);
    return wait;
  }

  #refund({ source, calls }: SourceCalls): void {
    const bucket = this.#buckets.get(source);
    if (bucket !== undefined) this.#buckets.set(source, refundTokens(bucket, calls));
  }
}

/**
 * What may still be taken, and since when. `tokens` is negative after a batch larger than the bucket: it passes whole,
 * and what follows waits the longer.
 */
export interface TokenBucket {
  readonly tokens: number;
  readonly at: Monotonic;
}

export interface TakeResult {
  readonly bucket: TokenBucket;
  /** Whole seconds until the same may be asked again; 0 when it was taken. */
  readonly wait: number;
}

/** A full bucket: one second's worth. */
export function fullBucket(perSecond: number, now: Monotonic): TokenBucket {
  return { tokens: perSecond, at: now };
}

/**
 * Takes `wanted` tokens from a bucket that fills with `perSecond` and holds one second's worth. More than it ever holds is
 * given when it is full, so that no batch waits for ever; on average the rate is kept all the same.
 */
export function takeTokens(bucket: TokenBucket, wanted: number, { perSecond, now }: RefillRate): TakeResult {
  const passed = now - bucket.at;
  const tokens = Math.min(perSecond, bucket.tokens + (passed * perSecond) / SECOND);
  const needed = Math.min(wanted, perSecond);
  if (tokens >= needed) return { bucket: { tokens: tokens - wanted, at: now }, wait: 0 };
  const wait = Math.ceil((needed - tokens) / perSecond);
  return { bucket: { tokens, at: now }, wait: Math.max(wait, 1) };
}

interface RefillRate {
  readonly perSecond: number;
  readonly now: Monotonic;
}

/** Gives back what was taken for a request that was not stored after all. */
export function refundTokens({ tokens, at }: TokenBucket, given: number): TokenBucket {
  return { tokens: tokens + given, at };
}
