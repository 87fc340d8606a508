import { RecentPairs } from '../model/containers.ts';
import { rateLimitPerAddressOf, type Source } from '../model/settings.ts';
import { type Duration, MINUTE, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { IngestRequest, OverRateLimit, RateLimitCheck, SourceCalls } from '../ports/ingest.ts';
import type { Logger } from '../ports/logger.ts';
import { publicNetworkOf } from './address.ts';

/**
 * Time that an address can save up: a shop behind one address may send its calls of a night without a network
 * at once.
 */
const SAVED_UP: Duration = 50 * SECOND;

/**
 * Addresses that are remembered, over all sources. Those heard of longest ago are forgotten, and have all
 * they may have.
 */
const MAX_ADDRESSES = 100_000;

/** Texts of addresses whose network is known, so that it is not asked for every request. */
const MAX_KNOWN_TEXTS = 10_000;

const LOG_INTERVAL: Duration = MINUTE;

interface SourceRateLimiterOptions {
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'warn'>;
}

/**
 * One bucket for each source that has a limit, and one for each address that sends to a source which limits
 * these.
 */
export class SourceRateLimiter {
  readonly #options: SourceRateLimiterOptions;
  readonly #perSecond = new Map<number, number>();
  readonly #buckets = new Map<number, TokenBucket>();
  /** By source. */
  readonly #perAddress = new Map<number, number>();
  readonly #addressBuckets = new RecentPairs<number, string, TokenBucket>(MAX_ADDRESSES);
  /** By address as it is written. */
  readonly #networks = new Map<string, string | undefined>();
  readonly #names = new Map<number, string>();
  /** Requests that were turned away for their address since the last line of the log, by source. */
  readonly #turnedAway = new Map<number, { requests: number; nextLineAt: Monotonic }>();

  constructor(options: SourceRateLimiterOptions) {
    this.#options = options;
  }

  /** Replaces the limits. A bucket keeps its tokens, so that saving a source opens no gap. */
  configure(sources: readonly Source[]): void {
    for (const map of [this.#perSecond, this.#perAddress, this.#names]) map.clear();
    for (const source of sources) {
      const { id, name, rateLimit } = source;
      const perAddress = rateLimitPerAddressOf(source);
      this.#names.set(id, name);
      if (rateLimit !== undefined) this.#perSecond.set(id, rateLimit);
      if (perAddress > 0) this.#perAddress.set(id, perAddress);
    }
    for (const id of this.#buckets.keys()) if (!this.#perSecond.has(id)) this.#buckets.delete(id);
    for (const id of this.#turnedAway.keys()) if (!this.#perAddress.has(id)) this.#turnedAway.delete(id);
  }

  /** All sources of a request, or none. */
  readonly admit: RateLimitCheck = (calls, peer) => {
    if (this.#perSecond.size === 0 && this.#perAddress.size === 0) return undefined;
    const network = this.#perAddress.size === 0 ? undefined : this.#networkOf(peer);
    for (let nth = 0; nth < calls.length; nth++) {
      const over = this.#take(calls[nth]!, network);
      if (over === undefined) continue;
      for (const taken of calls.slice(0, nth)) this.#refund(taken, network);
      return over;
    }
    return undefined;
  };

  /** Takes from the source and from the address, or from neither. */
  #take(calls: SourceCalls, network: string | undefined): OverRateLimit | undefined {
    const { source } = calls;
    const ofSource = this.#takeOfSource(calls);
    if (ofSource > 0) return { source, retryAfter: ofSource };
    const ofAddress = network === undefined ? 0 : this.#takeOfAddress(calls, network);
    if (ofAddress === 0) return undefined;
    this.#refund(calls, undefined);
    this.#note(source);
    return { source, retryAfter: ofAddress };
  }

  #takeOfSource({ source, calls }: SourceCalls): number {
    const perSecond = this.#perSecond.get(source);
    if (perSecond === undefined) return 0;
    const now = this.#options.clock.monotonic();
    const known = this.#buckets.get(source) ?? fullBucket(perSecond, now);
    const { bucket, wait } = takeTokens(known, calls, { perSecond, capacity: perSecond, now });
    this.#buckets.set(source, bucket);
    return wait;
  }

  #takeOfAddress({ source, calls }: SourceCalls, network: string): number {
    const perSecond = this.#perAddress.get(source);
    if (perSecond === undefined) return 0;
    const now = this.#options.clock.monotonic();
    const capacity = (perSecond * SAVED_UP) / SECOND;
    const known = this.#addressBuckets.get(source, network) ?? fullBucket(capacity, now);
    const { bucket, wait } = takeTokens(known, calls, { perSecond, capacity, now });
    this.#addressBuckets.set(source, network, bucket);
    return wait;
  }

  #refund({ source, calls }: SourceCalls, network: string | undefined): void {
    const bucket = this.#buckets.get(source);
    if (bucket !== undefined) this.#buckets.set(source, refundTokens(bucket, calls));
    const ofAddress = network === undefined ? undefined : this.#addressBuckets.get(source, network);
    if (ofAddress !== undefined) this.#addressBuckets.set(source, network!, refundTokens(ofAddress, calls));
  }

  #networkOf(peer: IngestRequest['peer']): string | undefined {
    const text = peer?.remoteAddress;
    if (text === undefined) return undefined;
    if (this.#networks.has(text)) return this.#networks.get(text);
    const network = publicNetworkOf(text);
    if (this.#networks.size >= MAX_KNOWN_TEXTS) this.#networks.clear();
    this.#networks.set(text, network);
    return network;
  }

  /**
   * One line a minute and source: a proxy that nobody has named looks like one caller, and its operator has
   * to know.
   */
  #note(source: number): void {
    const { clock, logger } = this.#options;
    const now = clock.monotonic();
    const noted = this.#turnedAway.get(source) ?? { requests: 0, nextLineAt: now };
    this.#turnedAway.set(source, noted);
    noted.requests++;
    if (now < noted.nextLineAt) return;
    logger.warn(
      {
        source: this.#names.get(source),
        requests: noted.requests,
        rateLimitPerAddress: this.#perAddress.get(source),
        advice: PROXY_ADVICE,
      },
      'source.address_over_limit',
    );
    noted.requests = 0;
    noted.nextLineAt = now + LOG_INTERVAL;
  }
}

const PROXY_ADVICE =
  'one address sends more than it may; if it is that of a proxy, name it in trustedProxies, or raise rateLimitPerAddress of the source (0: no limit)';

/**
 * The tokens left, and since when. `tokens` is negative after a batch larger than the bucket: the batch
 * passes whole, and the requests after it wait longer.
 */
export interface TokenBucket {
  readonly tokens: number;
  readonly at: Monotonic;
}

export interface TakeResult {
  readonly bucket: TokenBucket;
  /** Whole seconds until the same request may be tried again; 0 when the tokens were taken. */
  readonly wait: number;
}

export function fullBucket(capacity: number, now: Monotonic): TokenBucket {
  return { tokens: capacity, at: now };
}

/**
 * Takes `wanted` tokens from a bucket that fills with `perSecond` and holds `capacity`. A larger batch passes
 * when the bucket is full, so that no batch waits for ever; on average the rate is still kept.
 */
export function takeTokens(bucket: TokenBucket, wanted: number, rate: RefillRate): TakeResult {
  const { perSecond, capacity, now } = rate;
  const passed = now - bucket.at;
  const tokens = Math.min(capacity, bucket.tokens + (passed * perSecond) / SECOND);
  const needed = Math.min(wanted, capacity);
  if (tokens >= needed) return { bucket: { tokens: tokens - wanted, at: now }, wait: 0 };
  const wait = Math.ceil((needed - tokens) / perSecond);
  return { bucket: { tokens, at: now }, wait: Math.max(wait, 1) };
}

interface RefillRate {
  readonly perSecond: number;
  /** The most tokens that the bucket holds. */
  readonly capacity: number;
  readonly now: Monotonic;
}

/** Gives back the tokens of a request that was not stored. */
export function refundTokens({ tokens, at }: TokenBucket, given: number): TokenBucket {
  return { tokens: tokens + given, at };
}
