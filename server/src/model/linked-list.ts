/** An entry carries its own links, so that entering and leaving a list make no object. The fields belong to the list. */
export interface ListEntry<T extends ListEntry<T>> {
  /** The list it is in. */
  list: LinkedList<T> | undefined;
  previous: T | undefined;
  next: T | undefined;
}

/** A doubly linked list. An entry is in one list at a time; adding it at the end and removing it take constant time. */
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
