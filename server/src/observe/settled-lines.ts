import type { Logger } from '../ports/logger.ts';
import type { Observer } from '../ports/observer.ts';

/**
 * A log line for each round of each delivery, for whoever has asked for so many lines; what is said at the level `info` is
 * one line a minute for a destination that fails. `next` is told as before.
 */
export function settledLines(logger: Logger, next: Observer | undefined): Observer {
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
        ...(decision.kind === 'retry' && { nextAttemptAt: new Date(decision.at).toISOString() }),
        ...(decision.kind === 'dead' && { reason: decision.reason }),
      },
      'delivery.settled',
    );
  };
}
