import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Attempt } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { Result } from '../../ports/backlog.ts';
import { decodeRefs, deliveryIn, rangeOf } from './refs.ts';

/** Rows dropped in one slice. */
const SLICE = 256;

/** What went wrong: requests that failed, and deliveries given up. */
export class Failures {
  readonly #attempt: StatementSync;
  readonly #dead: StatementSync;
  readonly #overlapping: StatementSync;
  readonly #dropDead: StatementSync;
  readonly #dropAttempts: StatementSync;
  readonly #eraseAttempts: StatementSync;
  readonly #attemptsOf: StatementSync;
  readonly #deadAround: StatementSync;
  readonly #attempted: StatementSync;
  readonly #deadAt: StatementSync;

  constructor(database: DatabaseSync) {
    this.#attempt = database.prepare(
      `insert into failed_attempt(position, destination, started_at, latency_ms, endpoint, kind, reason, status, answer)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#overlapping = database.prepare('select refs from dead_letter where last >= ? and first < ?');
    this.#dropDead = database.prepare(
      `delete from dead_letter where id in
         (select id from dead_letter where at < ? and last < ? order by at limit ${SLICE})`,
    );
    this.#dropAttempts = database.prepare(
      `delete from failed_attempt where rowid in
         (select rowid from (select rowid, started_at, position from failed_attempt order by rowid limit ${SLICE})
          where started_at < ? and position < ?)`,
    );
    this.#eraseAttempts = database.prepare('delete from failed_attempt where position = ?');
    this.#attemptsOf = database.prepare(
      `select started_at as startedAt, latency_ms as latencyMs, endpoint, reason, status, answer, kind
       from failed_attempt where position = ? and destination = ? order by rowid`,
    );
    this.#deadAround = database.prepare(
      'select reason, refs from dead_letter where destination = ? and last >= ? and first <= ? order by id desc',
    );
    this.#attempted = database.prepare('select distinct destination from failed_attempt where position = ?');
    this.#deadAt = database.prepare(
      'select destination, refs from dead_letter where last >= ? and first <= ?',
    );
    this.#dead = database.prepare(
      'insert into dead_letter(destination, at, reason, first, last, n, origin, refs) values (?, ?, ?, ?, ?, ?, ?, ?)',
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
      attempt.outcome.kind,
      attempt.outcome.reason,
      attempt.outcome.status ?? null,
      attempt.answer ?? null,
    );
  }

  /** The failed requests of one delivery. */
  of(destination: number, position: Position): Attempt[] {
    const rows = this.#attemptsOf.all(position, destination) as unknown as AttemptRow[];
    return rows.map(({ startedAt, latencyMs, endpoint, kind, reason, status, answer }) => ({
      ...{ endpoint, startedAt, latencyMs },
      outcome: { kind, reason, ...(status === null ? {} : { status }) },
      ...(answer === null ? {} : { answer }),
    }));
  }

  /** Of whom there is a failed request for an event, or a dead letter. */
  destinationsOf(position: Position): number[] {
    const attempted = this.#attempted.all(position) as unknown as { destination: number }[];
    const around = this.#deadAt.all(position, position) as unknown as {
      destination: number;
      refs: Uint8Array;
    }[];
    const dead = around.filter(({ refs }) => deliveryIn(refs, position) !== undefined);
    return [...attempted, ...dead].map(({ destination }) => destination);
  }

  /** Why a delivery is dead; nothing when it is not. */
  reasonOf(destination: number, position: Position): string | undefined {
    const sets = this.#deadAround.all(destination, position, position) as unknown as {
      reason: string;
      refs: Uint8Array;
    }[];
    return sets.find(({ refs }) => deliveryIn(refs, position) !== undefined)?.reason;
  }

  /** Positions of a range that are in a dead letter. */
  deadBetween(first: Position, end: Position): Set<Position> {
    const dead = new Set<Position>();
    for (const { refs } of this.#overlapping.all(first, end) as unknown as { refs: Uint8Array }[]) {
      for (const { position } of decodeRefs(refs))
        if (position >= first && position < end) dead.add(position);
    }
    return dead;
  }

  /**
   * Drops a slice of the dead letters and attempts from before a time, but none of an event that is still kept: what is
   * known of it stays exact. False when there are none.
   */
  dropBefore(time: Time, retainedFrom: Position): boolean {
    const dead = Number(this.#dropDead.run(time, retainedFrom).changes);
    const attempts = Number(this.#dropAttempts.run(time, retainedFrom).changes);
    return dead + attempts > 0;
  }

  /** What endpoints answered to requests for these events; it may repeat what was in them. */
  eraseAttempts(positions: Iterable<Position>): void {
    for (const position of positions) this.#eraseAttempts.run(position);
  }

  /** A whole set of one destination, given up for one reason. */
  bury({ destination, at, reason, n, origin = null, refs }: DeadSet): void {
    const { first, last } = rangeOf(refs);
    this.#dead.run(destination, at, reason, first, last, n, origin, refs);
  }
}

interface AttemptRow {
  startedAt: number;
  latencyMs: number;
  endpoint: string;
  kind: 'retryable' | 'refused';
  reason: string;
  status: number | null;
  answer: string | null;
}

/** Deliveries of one destination that are given up. */
export interface Buried {
  readonly destination: number;
  readonly n: number;
  /** On whose behalf they were owed once more. */
  readonly origin?: string | null | undefined;
  /** As `refs.ts` writes it. */
  readonly refs: Uint8Array;
}

export interface DeadSet extends Buried {
  readonly at: Time;
  readonly reason: string;
}
