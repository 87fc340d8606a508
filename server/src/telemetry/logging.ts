import { pino } from 'pino';
import { isoTime } from '../model/time.ts';
import { visibleJson } from '../model/visible-text.ts';
import type { LogFields, Logger, LogLevel } from '../ports/logger.ts';
import type { Observer } from '../ports/telemetry.ts';

/**
 * JSON lines on stderr, or to `destination`. Control characters and invisible ones are escaped, because log
 * lines contain text of strangers and end up in terminals.
 */
export function createLogger(
  level: LogLevel,
  destination: { write(line: string): void } = process.stderr,
): Logger {
  const lines = pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      errorKey: 'error',
      // A last line of defence: no log line should have these fields.
      redact: {
        paths: ['writeKey', 'sharedSecret', 'secret', 'token', 'authorization', 'body'],
        censor: '[redacted]',
      },
    },
    { write: (line) => void destination.write(visibleJson(line)) },
  );
  const lineAt = (level: LogLevel): Logger[LogLevel] =>
    lines.isLevelEnabled(level)
      ? (facts, event) => lines[level]({ ...facts, event }, messageOf(facts, event))
      : () => {};
  return { debug: lineAt('debug'), info: lineAt('info'), warn: lineAt('warn'), error: lineAt('error') };
}

/** The message of a line for log collectors: the event in words, and its reason. */
function messageOf({ error, reason, message }: LogFields, event: string): string {
  const why = [error instanceof Error ? error.message : undefined, reason, message].find(
    (one) => typeof one === 'string' && one !== '',
  );
  const words = event.replaceAll(/[._]/g, ' ');
  return why === undefined ? words : `${words}: ${String(why)}`;
}

/** Logs a line at the level `debug` for each round of attempts and passes every activity on to `next`. */
export function deliveryLogger(logger: Logger, next: Observer | undefined): Observer {
  return (happening) => {
    next?.(happening);
    if (happening.kind !== 'settled') return;
    const { source, destination, event, attempts, decision } = happening;
    const last = attempts.at(-1);
    logger.debug(
      {
        ...{
          source,
          destination,
          messageId: event.messageId,
          became: decision.kind,
          attempts: attempts.length,
        },
        outcome: last?.outcome.reason,
        latencyMs: last?.latencyMs,
        nextAttemptAt: decision.kind === 'retry' ? isoTime(decision.at) : undefined,
        reason: 'reason' in decision ? decision.reason : undefined,
      },
      'delivery.settled',
    );
  };
}
