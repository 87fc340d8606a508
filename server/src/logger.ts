import { pino } from 'pino';
import type { Config } from './config.ts';
import type { Logger } from './ports/logger.ts';
import { visibleJson } from './visible-text.ts';

/**
 * JSON lines on stderr, or wherever `write` leads; results of a program belong on stdout. What strangers wrote stands in them
 * with escapes for every character that a terminal would obey or not show.
 */
export function createLogger(
  level: Config['log'],
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
