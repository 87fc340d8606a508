/** Structured log lines: one per unit of work, an event name such as `destination.failing` and its facts. */
export interface Logger {
  debug(facts: Facts, event: string): void;
  info(facts: Facts, event: string): void;
  warn(facts: Facts, event: string): void;
  error(facts: Facts, event: string): void;
}

/** Never write keys, secrets or event bodies. */
export type Facts = Readonly<Record<string, unknown>>;
