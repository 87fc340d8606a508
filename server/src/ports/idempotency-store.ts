/**
 * Requests with an `Idempotency-Key` for all processes that share a store, for a day. A key that a process
 * has taken is free again when the process is gone before it has kept an answer: the request is then made
 * anew, and finds the effect of the first.
 */
export interface IdempotencyStore {
  /**
   * Takes a key for a request of this process. Resolves to undefined when it is taken, and otherwise to the
   * request that has it. `digest`: of the body. Rejects with a `StorageError`.
   */
  take(key: string, digest: string): Promise<TakenKey | undefined>;

  /** Keeps the answer to the request that has taken the key. Rejects with a `StorageError`. */
  keep(key: string, answer: string): Promise<void>;

  /** Frees a key whose request has failed. Rejects with a `StorageError`. */
  free(key: string): Promise<void>;
}

/** Another request with the same key. */
export interface TakenKey {
  readonly digest: string;
  /** Absent while that request is under way. */
  readonly answer?: string | undefined;
}
