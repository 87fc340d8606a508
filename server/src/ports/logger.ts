/**
 * Writes structured log lines: one per unit of work, with an event name such as `destination.failing` and
 * facts.
 */
export interface Logger {
  debug(facts: LogFields, event: string): void;
  info(facts: LogFields, event: string): void;
  warn(facts: LogFields, event: string): void;
  error(facts: LogFields, event: string): void;
}

/** Must never hold write keys, secrets or event bodies. */
export type LogFields = Readonly<Record<string, unknown>>;

/** The least important level that is logged. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
