import { createHash } from 'node:crypto';
import { DAY, type Monotonic } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import { Problem } from './problem.ts';

/** What is remembered at most; the oldest is forgotten. Of a body, which may be large, only its digest. */
const MAX_KEYS = 1000;
const KEY_LIFETIME = DAY;

interface CachedAnswer<Answer> {
  readonly digest: string;
  readonly at: Monotonic;
  readonly answer: Promise<Answer>;
}

/**
 * Requests with an Idempotency-Key, so that one sent twice is done once and answered twice. In memory: after a restart a
 * key is new, and a repetition meets what the first request left (a name that is taken, nothing left to redeliver).
 */
export class IdempotencyCache<Answer> {
  readonly #clock: Clock;
  readonly #entries = new Map<string, CachedAnswer<Answer>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `key`: who asks, for what, and the header. Also the second of two at the same time waits for the first. */
  async runOnce(key: string, body: string, make: () => Promise<Answer>): Promise<Answer> {
    const now = this.#clock.monotonic();
    const digest = createHash('sha256').update(body).digest('base64');
    const known = this.#entries.get(key);
    if (known !== undefined && now - known.at < KEY_LIFETIME) {
      if (known.digest !== digest) throw new Problem('idempotency_key_reused');
      return await known.answer;
    }
    const made = { digest, at: now, answer: make() };
    // Deleted first, so that the order of the map is that of the requests.
    this.#entries.delete(key);
    this.#entries.set(key, made);
    if (this.#entries.size > MAX_KEYS) {
      const [oldest] = this.#entries.keys();
      if (oldest !== undefined) this.#entries.delete(oldest);
    }
    try {
      return await made.answer;
    } catch (error) {
      // Nothing was done, so the same request may succeed another time.
      if (this.#entries.get(key) === made) this.#entries.delete(key);
      throw error;
    }
  }
}
