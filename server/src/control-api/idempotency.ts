import { createHash } from 'node:crypto';
import { DAY, type Duration, type Monotonic } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { IdempotencyStore } from '../ports/idempotency-store.ts';
import { Problem } from './problem.ts';

/**
 * Keys that are remembered; the oldest is forgotten first. Of a body, which may be large, only the digest is
 * kept.
 */
const MAX_KEYS = 1000;
const KEY_LIFETIME = DAY;

/** Pause before a request of another node with the same key is asked for again. */
const LOOK_AGAIN: Duration = 100;

interface CachedAnswer<Answer> {
  readonly digest: string;
  readonly at: Monotonic;
  readonly answer: Promise<Answer>;
}

/**
 * Answers to requests with an Idempotency-Key. A request that is sent twice runs once and is answered twice.
 * The cache is in memory: after a restart a repeated request runs again and finds the effect of the first,
 * such as a name that is taken, or the regulation that it has made. Where several nodes answer, shared
 * answers are kept in their store too.
 */
export class IdempotencyCache<Answer> {
  readonly #clock: Clock;
  readonly #store: IdempotencyStore | undefined;
  readonly #entries = new Map<string, CachedAnswer<Answer>>();

  constructor(clock: Clock, store?: IdempotencyStore) {
    this.#clock = clock;
    this.#store = store;
  }

  /**
   * `key` holds the caller, the target and the header. The second of two simultaneous requests waits for the
   * first. A shared answer survives as JSON.
   */
  async runOnce(
    key: string,
    body: string,
    make: () => Promise<Answer>,
    { isShared = false }: { readonly isShared?: boolean } = {},
  ): Promise<Answer> {
    const now = this.#clock.monotonic();
    const digest = createHash('sha256').update(body).digest('base64');
    const known = this.#entries.get(key);
    if (known !== undefined && now - known.at < KEY_LIFETIME) {
      if (known.digest !== digest) throw new Problem('idempotency_key_reused');
      return await known.answer;
    }
    const store = isShared ? this.#store : undefined;
    const answer = store === undefined ? make() : this.#runOnceOfAll(store, { key, digest }, make);
    const made = { digest, at: now, answer };
    // A deleted key goes to the end of the map, which is in the order of the requests.
    this.#entries.delete(key);
    this.#entries.set(key, made);
    if (this.#entries.size > MAX_KEYS) {
      const [oldest] = this.#entries.keys();
      if (oldest !== undefined) this.#entries.delete(oldest);
    }
    try {
      return await made.answer;
    } catch (error) {
      // A request that failed has done nothing and may succeed the next time.
      if (this.#entries.get(key) === made) this.#entries.delete(key);
      throw error;
    }
  }

  /**
   * The same for all nodes. The store has digests alone: the header may be a secret to whoever reads the
   * database.
   */
  async #runOnceOfAll(
    store: IdempotencyStore,
    { key, digest }: { readonly key: string; readonly digest: string },
    make: () => Promise<Answer>,
  ): Promise<Answer> {
    const hash = createHash('sha256').update(key).digest('base64');
    for (;;) {
      const earlier = await store.take(hash, digest);
      if (earlier === undefined) break;
      if (earlier.digest !== digest) throw new Problem('idempotency_key_reused');
      if (earlier.answer !== undefined) return JSON.parse(earlier.answer) as Answer;
      await new Promise<void>((resolve) => this.#clock.after(LOOK_AGAIN, resolve));
    }
    let answer: Answer;
    try {
      answer = await make();
    } catch (error) {
      await store.free(hash).catch(() => undefined);
      throw error;
    }
    // It is done and is answered, also where that cannot be kept.
    await store.keep(hash, JSON.stringify(answer)).catch(() => undefined);
    return answer;
  }
}
