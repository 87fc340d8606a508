import type { Chance } from '../support/disk-faults/random.ts';

/** One request to the receiving API, and the calls in it. */
export interface Request {
  readonly path: string;
  readonly body: string;
  /** The events in it that must be stored when it is answered 200. */
  readonly ids: readonly string[];
}

/** Ids that end like this are refused for good by the endpoint: their deliveries end as dead letters. */
const REFUSED = '-refused';
export const isRefused = (id: string) => id.endsWith(REFUSED);

/**
 * Every event a test has made up, with the answers to it. An event without an acknowledgement is sent again
 * under the same id until it has one. In the end each is stored exactly once, whatever happened in between.
 */
export class Calls {
  /** Events answered 200, which may never be lost. */
  readonly acknowledged = new Set<string>();
  /** Events answered only 429 or 503 so far, which may not be stored. */
  readonly turnedAway = new Set<string>();
  /** Requests with new events that were answered 200: a measure of time that a slow machine stretches. */
  answered = 0;
  /** Number of times an acknowledged event was sent once more on purpose. */
  repeated = 0;
  /** Called with every event when its first 200 arrives. */
  onAcknowledged: (id: string) => void = () => {};
  readonly #prefix: string;
  #made = 0;
  /** Events not acknowledged yet, sent or not. */
  #open: string[] = [];

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  get made(): number {
    return this.#made;
  }

  get open(): number {
    return this.#open.length;
  }

  /** A request of new events. */
  make(count: number, chance?: Chance): Request {
    const ids = Array.from({ length: count }, () => {
      const id = `${this.#prefix}-${this.#made++}`;
      return chance?.happens(0.01) === true ? `${id}${REFUSED}` : id;
    });
    return requestOf(ids);
  }

  /**
   * The next request of a client: mostly single calls, some batches, repeats, invalid items, and unanswered
   * calls.
   */
  draw(chance: Chance): Request {
    const roll = chance.next();
    if (roll < 0.15 && this.#open.length > 0) return this.retry(chance.between(1, 20));
    if (roll < 0.2 && this.acknowledged.size > 0) return this.#repeat();
    if (roll < 0.25) return withInvalidItem(this.make(chance.between(1, 5), chance));
    if (roll < 0.3) return this.make(chance.between(2, 20), chance);
    return this.make(1, chance);
  }

  /** A request of some open events, under the same ids. */
  retry(most: number): Request {
    return requestOf(this.#open.splice(0, most));
  }

  #repeat(): Request {
    const [id] = this.acknowledged;
    return requestOf([id!]);
  }

  /** Records the answer to a request; the status is absent when the connection broke. */
  note({ ids }: Request, status: number | undefined): void {
    if (status === 200 && ids.some((id) => !this.acknowledged.has(id))) this.answered++;
    for (const id of ids) {
      if (status === 200) {
        if (this.acknowledged.has(id)) this.repeated++;
        else this.onAcknowledged(id);
        this.acknowledged.add(id);
        this.turnedAway.delete(id);
      } else if (!this.acknowledged.has(id)) {
        this.#open.push(id);
        // After a broken connection the event may be stored or not; only an answer says that it is not.
        if (status === undefined) this.turnedAway.delete(id);
        else this.turnedAway.add(id);
      }
    }
  }
}

function requestOf(ids: readonly string[]): Request {
  if (ids.length === 1) return { path: '/v1/track', body: JSON.stringify(eventOf(ids[0]!)), ids };
  return { path: '/v1/batch', body: JSON.stringify({ batch: ids.map(eventOf) }), ids };
}

function withInvalidItem({ ids }: Request): Request {
  const batch = [...ids.map(eventOf), { type: 'track', userId: 'u1' }];
  return { path: '/v1/batch', body: JSON.stringify({ batch }), ids };
}

function eventOf(id: string): object {
  return {
    type: 'track',
    event: 'Order Placed',
    userId: `user-${id.length}`,
    messageId: id,
    properties: { total: 9.5, currency: 'EUR', note: 'as long as an ordinary event, more or less' },
  };
}
