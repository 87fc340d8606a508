import type { Backlog } from './backlog.ts';
import type { EventLog } from './event-log.ts';
import type { Settings } from './settings.ts';

/** The ports that share one commit, opened together: the same adapter is behind all three. */
export interface Store {
  readonly log: EventLog;
  readonly backlog: Backlog;
  readonly settings: Settings;

  /** Waits for what was asked before, then gives up what it holds. Idempotent. */
  stop(): Promise<void>;
}
