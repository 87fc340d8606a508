import type { Monotonic, Time } from '../model/time.ts';

/**
 * A browser that is signed in to the console. The secrets that it shows are stored as digests alone: SHA-256
 * in base64url.
 */
export interface StoredSession {
  /** The digest of the value of its cookie. */
  readonly id: string;
  /** The digest of the second value, which only pages of the origin that signed in have. */
  readonly key: string;
  /** The digest of the token that signed in, as `TokenRecord` has it. */
  readonly token: string;
  /** When it ends by the clock on the wall, for people. */
  readonly expiresAt: Time;
  /** When it ends. */
  readonly until: Monotonic;
}

/** Keeps sessions of the console over restarts, and for all nodes of a database. */
export interface SessionStore {
  /**
   * Adds a session. Of the sessions of its token the newest `most` stay, and those go that are over at `now`,
   * of whichever token. Resolves to the ids of those that went for the new one. Rejects with a
   * `StorageError`; nothing is changed then.
   */
  begin(session: StoredSession, now: Monotonic, most: number): Promise<readonly string[]>;

  /** Resolves to the session of an id, also to one that is over, as long as it is there. */
  find(id: string): Promise<StoredSession | undefined>;

  /** Removes a session. One that does not exist is no error. */
  end(id: string): Promise<void>;
}
