import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Attempt } from '../../model/delivery.ts';
import type { Time } from '../../model/time.ts';
import type { Result } from '../../ports/backlog.ts';
import { rangeOf } from './refs.ts';

/** What went wrong: requests that failed, and deliveries given up. */
export class Failures {
  readonly #attempt: StatementSync;
  readonly #dead: StatementSync;

  constructor(database: DatabaseSync) {
    this.#attempt = database.prepare(
      `insert into failed_attempt(position, destination, started_at, latency_ms, endpoint, reason, status, answer)
       values (?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#dead = database.prepare(
      'insert into dead_letter(destination, at, reason, first, last, n, refs) values (?, ?, ?, ?, ?, ?, ?)',
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

  /** A whole set of one destination, given up for one reason. */
  bury({ destination, at, reason, n, refs }: DeadSet): void {
    const { first, last } = rangeOf(refs);
    this.#dead.run(destination, at, reason, first, last, n, refs);
  }
}

export interface DeadSet {
  readonly destination: number;
  readonly at: Time;
  readonly reason: string;
  readonly n: number;
  /** As `refs.ts` writes it. */
  readonly refs: Uint8Array;
}

/** A delivery is dead from the moment its last request ended. */
export function timeOfDeath(result: Result): Time {
  const last = result.attempts.at(-1);
  return last === undefined ? 0 : Math.round(last.startedAt + last.latencyMs);
}
