import { pino } from 'pino';
import { isoTime } from '../model/time.ts';
import { visibleJson } from '../model/visible-text.ts';
import type { Logger, LogLevel } from '../ports/logger.ts';
import type { Observer } from '../ports/telemetry.ts';

/**
 * JSON lines on stderr, or wherever `write` leads; results of a program belong on stdout. What strangers wrote stands in them
 * with escapes for every character that a terminal would obey or not show.
 */
export function createLogger(
  level: LogLevel,
  destination: { write(line: string): void } = process.stderr,
): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      messageKey: 'event',
      errorKey: 'error',
      // The last line of defence: none of these has a reason to be among the facts of a log line.
      redact: {
        paths: ['writeKey', 'sharedSecret', 'secret', 'token', 'authorization', 'body'],
        censor: '[redacted]',
      },
    },
    { write: (line) => void destination.write(visibleJson(line)) },
  );
}

/**
 * A log line for each round of each delivery, for whoever has asked for so many lines; what is said at the level `info` is
 * one line a minute for a destination that fails. `next` is told as before.
 */
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
        ...(last && { outcome: last.outcome.reason, latencyMs: last.latencyMs }),
        ...(decision.kind === 'retry' && { nextAttemptAt: isoTime(decision.at) }),
        ...(decision.kind === 'dead' && { reason: decision.reason }),
      },
      'delivery.settled',
    );
  };
}
