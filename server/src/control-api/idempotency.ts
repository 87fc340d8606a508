import { createHash } from 'node:crypto';
import { DAY, type Monotonic } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import { Problem } from './problem.ts';

/** Keys that are remembered; the oldest is forgotten first. Of a body, which may be large, only the digest is kept. */
const MAX_KEYS = 1000;
const KEY_LIFETIME = DAY;

interface CachedAnswer<Answer> {
  readonly digest: string;
  readonly at: Monotonic;
  readonly answer: Promise<Answer>;
}

/**
 * Answers to requests with an Idempotency-Key. A request that is sent twice runs once and is answered twice. The cache is in
 * memory: after a restart a repeated request runs again and finds the effect of the first, such as a name that is taken, or the regulation
 * that it has made.
 */
export class IdempotencyCache<Answer> {
  readonly #clock: Clock;
  readonly #entries = new Map<string, CachedAnswer<Answer>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `key` holds the caller, the target and the header. The second of two simultaneous requests waits for the first. */
  async runOnce(key: string, body: string, make: () => Promise<Answer>): Promise<Answer> {
    const now = this.#clock.monotonic();
    const digest = createHash('sha256').update(body).digest('base64');
    const known = this.#entries.get(key);
    if (known !== undefined && now - known.at < KEY_LIFETIME) {
      if (known.digest !== digest) throw new Problem('idempotency_key_reused');
      return await known.answer;
    }
    const made = { digest, at: now, answer: make() };
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
}
