import type { Duration } from './time.ts';

/**
 * Where calls come from: one website, app or server, recognised by its write keys. spec/contract.md, "Configuration file".
 */
export interface Source {
  /** Given by the store at first sight of the name, never reused. */
  readonly id: number;
  readonly name: string;
  readonly writeKeys: readonly string[];
  readonly enabled: boolean;
  /** `strict` refuses a batch that holds an invalid event; `standard` keeps the valid ones. */
  readonly mode: 'standard' | 'strict';
  /** What a call with a key of this source gets while the source is disabled: 401, or 200 and counted. */
  readonly whenDisabled: 'refuse' | 'discard';
  /** How long a second event with the same messageId is a duplicate; 24 hours when absent. */
  readonly dedupeWindow?: Duration;
  /** Calls a second, on average; beyond it clients are asked to wait. No limit when absent. */
  readonly rateLimit?: number;
}
