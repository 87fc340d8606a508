/**
 * A cache whose entries weigh no more than `maxWeight` altogether. When there is too much it forgets everything, which costs nothing
 * while the limit is far above what is in use, and bounds the memory when clients choose the keys.
 */
export class BoundedCache<Key, Value> {
  readonly #maxWeight: number;
  readonly #entries = new Map<Key, Value>();
  #weight = 0;

  constructor(maxWeight: number) {
    this.#maxWeight = maxWeight;
  }

  get(key: Key): Value | undefined {
    return this.#entries.get(key);
  }

  /** Gives the value back. An entry heavier than the whole cache is not kept. */
  set(key: Key, value: Value, weight = 1): Value {
    if (weight > this.#maxWeight) return value;
    if (this.#weight + weight > this.#maxWeight) {
      this.#entries.clear();
      this.#weight = 0;
    }
    this.#entries.set(key, value);
    this.#weight += weight;
    return value;
  }
}
