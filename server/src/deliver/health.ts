import type { Attempt, Decision } from '../model/delivery.ts';
import { type Duration, SECOND, type Time } from '../model/time.ts';
import type { Logger } from '../ports/logger.ts';

/** While a destination fails, it is spoken of this often and not once a request. */
const REPEAT: Duration = 60 * SECOND;

/** Turns the results of one destination into few log lines: when it begins to fail, that it still does, when it is back. */
export class Health {
  readonly #destination: string;
  readonly #logger: Logger;
  #failures = 0;
  #dead = 0;
  #failingSince: Time | undefined;
  #lastLine = 0;

  constructor(destination: string, logger: Logger) {
    this.#destination = destination;
    this.#logger = logger;
  }

  note(decision: Decision, attempts: readonly Attempt[], now: Time): void {
    if (decision.kind === 'delivered') {
      if (this.#failingSince !== undefined) this.#recovered(now);
      return;
    }
    this.#failures++;
    if (decision.kind === 'dead') this.#dead++;
    const first = this.#failingSince === undefined;
    this.#failingSince ??= now;
    if (!first && now - this.#lastLine < REPEAT) return;
    this.#lastLine = now;
    const failed = attempts.findLast(({ outcome }) => outcome.kind !== 'accepted');
    this.#logger.warn(
      {
        ...this.#facts(now),
        reason: failed?.outcome.reason,
        endpoint: failed && withoutQuery(failed.endpoint),
        answer: failed?.answer?.slice(0, 200),
        nextAttemptAt: decision.kind === 'retry' ? new Date(decision.at).toISOString() : undefined,
      },
      'destination.failing',
    );
  }

  #recovered(now: Time): void {
    this.#logger.info(this.#facts(now), 'destination.recovered');
    this.#failures = 0;
    this.#dead = 0;
    this.#failingSince = undefined;
  }

  #facts(now: Time): { destination: string; failures: number; dead: number; failingForMs: Duration } {
    return {
      destination: this.#destination,
      failures: this.#failures,
      dead: this.#dead,
      failingForMs: now - (this.#failingSince ?? now),
    };
  }
}

/** Query strings of endpoints carry tokens, which have no place in a log. */
function withoutQuery(url: string): string {
  const query = url.indexOf('?');
  return query < 0 ? url : url.slice(0, query);
}
