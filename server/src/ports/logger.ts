/** Structured log lines: one per unit of work, an event name such as `destination.failing` and its facts. */
export interface Logger {
  debug(facts: LogFields, event: string): void;
  info(facts: LogFields, event: string): void;
  warn(facts: LogFields, event: string): void;
  error(facts: LogFields, event: string): void;
}

/** Never write keys, secrets or event bodies. */
export type LogFields = Readonly<Record<string, unknown>>;

/** The least important lines that are logged. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
