/**
 * One sync for all commits that wait for one. A commit is on stable storage when a sync has ended that began after it, because the
 * write-ahead log is written in order.
 *
 * ```
 *   commits    a   b c    d
 *   syncs        [──a──][──b c d──]
 * ```
 */
export class SharedSync {
  readonly #sync: () => Promise<void>;
  #last: Promise<void> = Promise.resolve();
  /** The one behind the last, which has not begun: whoever has committed by now may wait for it. */
  #next: Promise<void> | undefined;

  constructor(sync: () => Promise<void>) {
    this.#sync = sync;
  }

  /** Resolves when everything that was committed before the call is on stable storage; rejects when nobody knows. */
  wait(): Promise<void> {
    this.#next ??= this.#afterLast();
    return this.#next;
  }

  async #afterLast(): Promise<void> {
    await this.#last.catch(() => undefined);
    // Who comes from here on may have committed after the sync began.
    this.#last = this.#next!;
    this.#next = undefined;
    await this.#sync();
  }
}
