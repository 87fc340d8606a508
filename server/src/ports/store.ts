import type { Backlog } from './backlog.ts';
import type { DeadLetters } from './dead-letters.ts';
import type { EventLog } from './event-log.ts';
import type { History } from './history.ts';
import type { Settings } from './settings.ts';

/** The ports that share one commit, opened together: the same adapter is behind all of them. */
export interface Store {
  readonly log: EventLog;
  readonly backlog: Backlog;
  readonly settings: Settings;
  readonly history: History;
  readonly deadLetters: DeadLetters;

  /** Waits for what was asked before, then gives up what it holds. Idempotent. */
  stop(): Promise<void>;
}
