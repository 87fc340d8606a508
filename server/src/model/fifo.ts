/** Taken items are removed from the array when there are so many, and at least as many as those left. */
const MAX_TAKEN = 1024;

/** A queue, first in, first out. Adding and taking an item take constant time on average, however long the queue is. */
export class Fifo<Item> {
  #items: Item[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  push(item: Item): void {
    this.#items.push(item);
  }

  /** Takes the oldest item; undefined when there is none. */
  shift(): Item | undefined {
    if (this.size === 0) return undefined;
    const item = this.#items[this.#head++];
    // A queue under load is never empty, and taken items would stay in memory otherwise.
    if (this.size === 0 || (this.#head >= MAX_TAKEN && this.#head >= this.size)) {
      this.#items.splice(0, this.#head);
      this.#head = 0;
    }
    return item;
  }

  /** Removes the items that are not to stay; returns how many. */
  keep(stays: (item: Item) => boolean): number {
    const before = this.size;
    this.#items = this.#items.slice(this.#head).filter(stays);
    this.#head = 0;
    return before - this.size;
  }

  /** Takes everything. */
  drain(): Item[] {
    const items = this.#items.splice(this.#head);
    this.#items = [];
    this.#head = 0;
    return items;
  }
}
