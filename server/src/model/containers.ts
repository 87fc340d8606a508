import { invariant } from './invariant.ts';

/** Taken items are removed from the array when there are so many, and at least as many as those left. */
const MAX_TAKEN = 1024;

/**
 * A queue, first in, first out. Adding and taking an item take constant time on average, however long the
 * queue is.
 */
export class Fifo<Item> {
  /** Taken items leave undefined behind. */
  #items: (Item | undefined)[] = [];
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
    const item = this.#items[this.#head];
    this.#items[this.#head++] = undefined;
    // A queue under load is never empty, and its array would grow for ever otherwise.
    if (this.size === 0 || (this.#head >= MAX_TAKEN && this.#head >= this.size)) {
      this.#items.splice(0, this.#head);
      this.#head = 0;
    }
    return item;
  }

  /** The oldest item, which stays; undefined when there is none. */
  peek(): Item | undefined {
    return this.#items[this.#head];
  }

  /** Removes the items that are not to stay; returns how many. */
  keep(stays: (item: Item) => boolean): number {
    const before = this.size;
    this.#items = (this.#items.slice(this.#head) as Item[]).filter(stays);
    this.#head = 0;
    return before - this.size;
  }

  /** Takes everything. */
  drain(): Item[] {
    const items = this.#items.splice(this.#head) as Item[];
    this.#items = [];
    this.#head = 0;
    return items;
  }
}

/** A key of a slab is used again when its place has had so many others. */
const KEYS_OF_PLACE = 1024;

/**
 * Values that come and go all the time, each with a key that the slab chooses: a whole number below 2^31 for
 * up to two million of them. A key whose value was taken finds nothing, until its place has been used a
 * thousand times more.
 *
 * A `Map` or `Set` moves to a new table after as many additions as it has room for, and the old table points
 * to the new one: once an old one has outlived two collections of young objects, all later ones and what was
 * in them live until the next full collection. docs/decisions/0039-slabs.md
 */
export class Slab<Value> {
  readonly #values: (Value | undefined)[] = [];
  /** The key of each place: of its value, or of its next value. */
  readonly #keys: number[] = [];
  readonly #free: number[] = [];

  get size(): number {
    return this.#values.length - this.#free.length;
  }

  /** Returns the key. */
  add(value: Value): number {
    const place = this.#free.pop() ?? this.#values.length;
    this.#values[place] = value;
    this.#keys[place] ??= place * KEYS_OF_PLACE;
    return this.#keys[place];
  }

  /** Takes the value out; undefined when there is none of this key. */
  take(key: number): Value | undefined {
    const place = Math.floor(key / KEYS_OF_PLACE);
    const value = this.#values[place];
    if (value === undefined || this.#keys[place] !== key) return undefined;
    this.#values[place] = undefined;
    this.#keys[place] = place * KEYS_OF_PLACE + ((key + 1) % KEYS_OF_PLACE);
    this.#free.push(place);
    return value;
  }

  /** Takes everything, in the order in which the slab has places for it. */
  drain(): Value[] {
    const keys = this.#keys.filter((_, place) => this.#values[place] !== undefined);
    return keys.map((key) => this.take(key)!);
  }
}

/**
 * An entry carries its own links, so that entering and leaving a list make no object. The fields belong to
 * the list.
 */
export interface ListEntry<T extends ListEntry<T>> {
  /** The list it is in. */
  list: LinkedList<T> | undefined;
  previous: T | undefined;
  next: T | undefined;
}

/**
 * A doubly linked list. An entry is in one list at a time; adding it at the end and removing it take constant
 * time.
 */
export class LinkedList<T extends ListEntry<T>> {
  #first: T | undefined;
  #last: T | undefined;

  get first(): T | undefined {
    return this.#first;
  }

  /** Adds an entry that is in no list at the end. */
  push(entry: T): void {
    entry.list = this;
    entry.previous = this.#last;
    if (this.#last === undefined) this.#first = entry;
    else this.#last.next = entry;
    this.#last = entry;
  }

  /** Removes an entry. Does nothing when it is not in this list. */
  remove(entry: T): void {
    if (entry.list !== this) return;
    const { previous, next } = entry;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    entry.list = undefined;
    entry.previous = undefined;
    entry.next = undefined;
  }
}

/**
 * A cache whose entries weigh no more than `maxWeight` altogether. When there is too much it forgets
 * everything, which costs nothing while the limit is far above what is in use, and bounds the memory when
 * clients choose the keys.
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
    invariant(weight >= 0, 'an entry of a cache weighs no less than nothing');
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

/**
 * A set of 64-bit hashes as an open-addressing table of two words each, at most half full. A `Set` of numbers
 * or texts would take four times the memory.
 */
export class HashSet {
  #slots: Uint32Array;
  #size = 0;

  /** `room`: how many hashes it takes before it grows. */
  constructor(room = 8) {
    this.#slots = new Uint32Array(4 * 2 ** Math.ceil(Math.log2(room)));
  }

  get size(): number {
    return this.#size;
  }

  add(high: number, low: number): void {
    if (this.#size * 4 >= this.#slots.length) this.#grow();
    // Two zeros mark a free slot. The hash of two zeros takes the place of its neighbour.
    this.#put(high, high === 0 && low === 0 ? 1 : low);
  }

  has(high: number, low: number): boolean {
    const slots = this.#slots;
    const wanted = high === 0 && low === 0 ? 1 : low;
    const last = slots.length - 1;
    for (let at = (wanted << 1) & last; slots[at] !== 0 || slots[at + 1] !== 0; at = (at + 2) & last)
      if (slots[at] === high && slots[at + 1] === wanted) return true;
    return false;
  }

  /** Removes all hashes and keeps the room. */
  clear(): void {
    this.#slots.fill(0);
    this.#size = 0;
  }

  visit(each: (high: number, low: number) => void): void {
    const slots = this.#slots;
    for (let at = 0; at < slots.length; at += 2) {
      if (slots[at] !== 0 || slots[at + 1] !== 0) each(slots[at]!, slots[at + 1]!);
    }
  }

  #put(high: number, low: number): void {
    const slots = this.#slots;
    const last = slots.length - 1;
    let at = (low << 1) & last;
    while (slots[at] !== 0 || slots[at + 1] !== 0) {
      if (slots[at] === high && slots[at + 1] === low) return;
      at = (at + 2) & last;
    }
    slots[at] = high;
    slots[at + 1] = low;
    this.#size++;
  }

  #grow(): void {
    const before = this.#slots;
    this.#slots = new Uint32Array(before.length * 2);
    this.#size = 0;
    for (let at = 0; at < before.length; at += 2)
      if (before[at] !== 0 || before[at + 1] !== 0) this.#put(before[at]!, before[at + 1]!);
  }
}

/**
 * Values by two keys, of which only some are remembered: when half of them are new, the older half is
 * forgotten, in which are those that were set longest ago.
 */
export class RecentPairs<First, Second, Value> {
  readonly #half: number;
  #newer = new Map<First, Map<Second, Value>>();
  #older = new Map<First, Map<Second, Value>>();
  #size = 0;

  /** `max`: values that are remembered at most. Half as many are remembered in any case. */
  constructor(max: number) {
    this.#half = max / 2;
  }

  get(first: First, second: Second): Value | undefined {
    return this.#newer.get(first)?.get(second) ?? this.#older.get(first)?.get(second);
  }

  set(first: First, second: Second, value: Value): void {
    const values = this.#newer.get(first) ?? new Map<Second, Value>();
    if (values.size === 0) this.#newer.set(first, values);
    if (!values.has(second)) this.#size++;
    values.set(second, value);
    if (this.#size < this.#half) return;
    this.#older = this.#newer;
    this.#newer = new Map();
    this.#size = 0;
  }
}
