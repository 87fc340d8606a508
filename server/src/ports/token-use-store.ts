import type { Time } from '../model/time.ts';

/** When each token of the control API was last used, by the name of the token. */
export type TokenUses = Readonly<Record<string, Time>>;

/** Keeps the uses of tokens over restarts. What is lost costs a date on a page, so nothing waits for it. */
export interface TokenUseStore {
  /** Resolves to what was saved last; to nothing where nothing can be read. */
  load(): Promise<TokenUses>;

  /** Replaces what was saved. Rejects when it cannot. */
  save(uses: TokenUses): Promise<void>;
}
