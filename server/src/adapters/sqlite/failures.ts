import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Attempt } from '../../model/delivery.ts';
import type { Result } from '../../ports/backlog.ts';

/** What went wrong: requests that failed, and deliveries given up. */
export class Failures {
  readonly #attempt: StatementSync;
  readonly #dead: StatementSync;

  constructor(database: DatabaseSync) {
    this.#attempt = database.prepare(
      `insert into failed_attempt(position, destination, started_at, latency_ms, endpoint, reason, status, answer)
       values (?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    // A replayed delivery of the same event may die again: the later death is the one to show.
    this.#dead = database.prepare(
      'insert or replace into dead_letter(destination, position, at, reason) values (?, ?, ?, ?)',
    );
  }

  keepAttempts(result: Result): void {
    for (const attempt of result.attempts) {
      if (attempt.outcome.kind !== 'accepted') this.#keep(result, attempt);
    }
  }

  #keep(result: Result, attempt: Attempt): void {
    this.#attempt.run(
      result.position,
      result.destination,
      attempt.startedAt,
      attempt.latencyMs,
      attempt.endpoint,
      attempt.outcome.reason,
      attempt.outcome.status ?? null,
      attempt.answer ?? null,
    );
  }

  /** A delivery is dead from the moment its last request ended. */
  bury(result: Result, reason: string): void {
    const last = result.attempts.at(-1);
    const at = last === undefined ? 0 : Math.round(last.startedAt + last.latencyMs);
    this.#dead.run(result.destination, result.position, at, reason);
  }
}
