/**
 * One sync for all commits that wait for one. A commit is on stable storage when a sync has ended that began after it, because the
 * write-ahead log is written in order.
 *
 * ```
 *   commits    a   b c    d
 *   syncs        [──a──][──b c d──]
 * ```
 */
export class SharedSync<Session> {
  readonly #sync: () => Promise<Session>;
  #last: Promise<unknown> = Promise.resolve();
  /** The one behind the last, which has not begun: whoever has committed by now may wait for it. */
  #next: Promise<Session> | undefined;

  constructor(sync: () => Promise<Session>) {
    this.#sync = sync;
  }

  /**
   * Resolves to the session that has synced everything that its server had committed before the call; rejects when nobody knows.
   */
  wait(): Promise<Session> {
    this.#next ??= this.#afterLast();
    return this.#next;
  }

  async #afterLast(): Promise<Session> {
    await this.#last.catch(() => undefined);
    // Who comes from here on may have committed after the sync began.
    this.#last = this.#next!;
    this.#next = undefined;
    return await this.#sync();
  }
}
