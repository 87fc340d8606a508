import type { KeyValueStorage } from './page.ts';

const ANONYMOUS = 'millrace.anonymousId';
const USER = 'millrace.userId';

/**
 * The visitor: remembered from page to page where the browser has a storage, else as long as the page lives.
 */
export class Visitor {
  readonly #storage: KeyValueStorage | undefined;
  readonly #newId: () => string;
  readonly #own = new Map<string, string>();

  constructor(storage: KeyValueStorage | undefined, newId: () => string) {
    this.#storage = storage;
    this.#newId = newId;
  }

  /** Made on first use. Read anew each time, because other tabs may have reset it. */
  get anonymousId(): string {
    const known = this.#get(ANONYMOUS);
    if (known) return known;
    const id = this.#newId();
    this.#set(ANONYMOUS, id);
    return id;
  }

  /** As the last `identify` or `alias` said. */
  get userId(): string | undefined {
    return this.#get(USER) || undefined;
  }

  remember(userId: unknown): void {
    if (typeof userId === 'string' || typeof userId === 'number') this.#set(USER, String(userId));
  }

  /** Forgets the visitor and begins another one. */
  reset(): void {
    this.#set(USER, '');
    this.#set(ANONYMOUS, '');
  }

  #get(key: string): string | undefined {
    return this.#own.get(key) ?? this.#storage?.getItem(key) ?? undefined;
  }

  #set(key: string, value: string): void {
    try {
      if (this.#storage === undefined) this.#own.set(key, value);
      else this.#storage.setItem(key, value);
    } catch {
      // Full: for this page it is remembered all the same.
      this.#own.set(key, value);
    }
  }
}
