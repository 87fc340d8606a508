import { type Monotonic, SECOND } from '../model/time.ts';

/**
 * What may still be taken, and since when. `tokens` is negative after a batch larger than the bucket: it passes whole,
 * and what follows waits the longer.
 */
export interface Bucket {
  readonly tokens: number;
  readonly at: Monotonic;
}

export interface Taken {
  readonly bucket: Bucket;
  /** Whole seconds until the same may be asked again; 0 when it was taken. */
  readonly wait: number;
}

/** A full bucket: one second's worth. */
export function fullBucket(perSecond: number, now: Monotonic): Bucket {
  return { tokens: perSecond, at: now };
}

/**
 * Takes `wanted` tokens from a bucket that fills with `perSecond` and holds one second's worth. More than it ever holds is
 * given when it is full, so that no batch waits for ever; on average the rate is kept all the same.
 */
export function take(bucket: Bucket, wanted: number, { perSecond, now }: Filling): Taken {
  const passed = now - bucket.at;
  const tokens = Math.min(perSecond, bucket.tokens + (passed * perSecond) / SECOND);
  const needed = Math.min(wanted, perSecond);
  if (tokens >= needed) return { bucket: { tokens: tokens - wanted, at: now }, wait: 0 };
  const wait = Math.ceil((needed - tokens) / perSecond);
  return { bucket: { tokens, at: now }, wait: Math.max(wait, 1) };
}

interface Filling {
  readonly perSecond: number;
  readonly now: Monotonic;
}

/** Gives back what was taken for a request that was not stored after all. */
export function giveBack({ tokens, at }: Bucket, given: number): Bucket {
  return { tokens: tokens + given, at };
}
