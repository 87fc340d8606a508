import type { InHand } from '../ports/deliverer.ts';

/** Gone entries are given back to memory when there are so many, and at least as many as those left. */
const GONE_MOST = 1024;

/** Deliveries of one lane that can be sent at once, in order. */
export class Ready {
  #works: InHand[] = [];
  #gone = 0;

  get size(): number {
    return this.#works.length - this.#gone;
  }

  add(works: readonly InHand[]): void {
    for (const work of works) this.#works.push(work);
  }

  next(): InHand | undefined {
    const work = this.#works[this.#gone];
    if (work === undefined) return undefined;
    this.#gone++;
    // A lane under load is never empty: without this everything it ever sent would stay in memory.
    if (this.#gone === this.#works.length || (this.#gone >= GONE_MOST && this.#gone >= this.size)) {
      this.#works.splice(0, this.#gone);
      this.#gone = 0;
    }
    return work;
  }

  takeAll(): InHand[] {
    const works = this.#works.splice(this.#gone);
    this.#works = [];
    this.#gone = 0;
    return works;
  }
}
