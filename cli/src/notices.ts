/**
 * Notices tell an operator how a start went, and why a server cannot start. The log begins when it has
 * started.
 */
export interface Notices {
  info(notice: Notice): void;
  warn(notice: Notice): void;
  error(notice: Notice): void;
}

export interface Notice {
  /** The name of what happened, as in docs/reference/logs.md. */
  readonly event: string;
  /** For people: one sentence, or several lines. */
  readonly msg: string;
  /** For programs: what the sentence says, and more. Only in a log. */
  readonly facts?: Readonly<Record<string, unknown>>;
}

interface Stream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** Sentences for people. */
export function sentences(err: Stream): Notices {
  const say = ({ msg }: Notice) => err.write(`millrace: ${msg}\n`);
  return { info: say, warn: (notice) => say({ ...notice, msg: `warning: ${notice.msg}` }), error: say };
}

/**
 * Notices of `millrace start`: sentences on a terminal, and where nobody watches lines of the log that
 * follows them, so that every line of it is JSON.
 */
export function noticesOf(err: Stream): Notices {
  if (err.isTTY === true) return sentences(err);
  const say =
    (level: string) =>
    ({ event, msg, facts }: Notice) =>
      err.write(`${JSON.stringify({ level, time: new Date().toISOString(), event, msg, ...facts })}\n`);
  return { info: say('info'), warn: say('warn'), error: say('error') };
}
