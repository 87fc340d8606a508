import { type Duration, type Monotonic, SECOND } from '../model/time.ts';

/** It is that of so long a time before. */
const MEASURED: Duration = 30 * SECOND;
/** Less says nothing yet. */
const LEAST: Duration = 2 * SECOND;

/** How quickly something has come forward of late. */
export class Speed {
  #samples: { readonly at: Monotonic; readonly done: number }[] = [];

  note(done: number, at: Monotonic): void {
    this.#samples.push({ at, done });
    while (this.#samples.length > 2 && this.#samples[1]!.at <= at - MEASURED) this.#samples.shift();
  }

  /** Done a second; `undefined` when that is not known yet, or nothing was done. */
  perSecond(now: Monotonic): number | undefined {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)];
    if (first === undefined || last === undefined || now - first.at < LEAST || last.done === first.done)
      return undefined;
    return ((last.done - first.done) * SECOND) / (now - first.at);
  }
}
