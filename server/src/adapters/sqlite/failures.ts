import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Attempt } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { Result } from '../../ports/backlog.ts';
import { deliveryIn, positionsBetween, rangeOf, readableRefs, sealedRefs } from './refs.ts';

/** Rows dropped in one slice. */
const SLICE = 256;

/**
 * Positions that a set of dead letters may span to be looked for by its last one alone. The few that span more have an index
 * of their own (`dead_letter_wide`), so that one of them does not make every search look at all that came after.
 */
const WIDE = 65_536;

/** What went wrong: requests that failed, and deliveries given up. */
export class Failures {
  readonly #attempt: StatementSync;
  readonly #dead: StatementSync;
  readonly #deadNear: StatementSync;
  readonly #deadWide: StatementSync;
  readonly #dropDead: StatementSync;
  readonly #dropAttempts: StatementSync;
  readonly #eraseAttempts: StatementSync;
  readonly #attemptsOf: StatementSync;
  readonly #attempted: StatementSync;
  readonly #attemptedBetween: StatementSync;

  constructor(database: DatabaseSync) {
    this.#attempt = database.prepare(
      `insert into failed_attempt(position, destination, started_at, latency_ms, endpoint, kind, reason, status, answer)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#deadNear = database.prepare(
      `select id, destination, reason, refs from dead_letter
       where last >= ? and last < ? and first < ? and last - first < ${WIDE}`,
    );
    this.#deadWide = database.prepare(
      `select id, destination, reason, refs from dead_letter
       where last - first >= ${WIDE} and last >= ? and first < ?`,
    );
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
    this.#attempted = database.prepare('select distinct destination from failed_attempt where position = ?');
    this.#attemptedBetween = database.prepare(
      'select distinct position, destination from failed_attempt where position >= ? and position < ?',
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
    const around = this.#deadRows(position, position + 1);
    const dead = around.filter(({ refs }) => deliveryIn(refs, position) !== undefined);
    return [...attempted, ...dead].map(({ destination }) => destination);
  }

  /** Visits where a request to one of these destinations has failed or a delivery is dead, from a position on and below another. */
  visitBetween(
    from: Position,
    below: Position,
    destinations: ReadonlySet<number>,
    visit: (destination: number, position: Position) => void,
  ): void {
    if (destinations.size === 0) return;
    const failed = this.#attemptedBetween.all(from, below) as unknown as {
      destination: number;
      position: Position;
    }[];
    for (const { destination, position } of failed)
      if (destinations.has(destination)) visit(destination, position);
    for (const { destination, refs } of this.#deadRows(from, below)) {
      if (!destinations.has(destination)) continue;
      for (const position of positionsBetween(refs, from, below)) visit(destination, position);
    }
  }

  /** Visits where a delivery to a destination is dead, from a position on and below another. */
  visitDead(lane: number, from: Position, below: Position, visit: (position: Position) => void): void {
    for (const { destination, refs } of this.#deadRows(from, below)) {
      if (destination !== lane) continue;
      for (const position of positionsBetween(refs, from, below)) visit(position);
    }
  }

  /** The dead letters of a range of positions, and perhaps others near it; the last given up first. */
  #deadRows(from: Position, below: Position): DeadRow[] {
    const near = this.#deadNear.all(from, below + WIDE, below) as unknown as DeadRow[];
    const wide = this.#deadWide.all(from, below) as unknown as DeadRow[];
    return [...near, ...wide]
      .sort((a, b) => b.id - a.id)
      .map((row) => ({ ...row, refs: readableRefs(row.destination, row.refs) }));
  }

  /** Why a delivery is dead; nothing when it is not. */
  reasonOf(destination: number, position: Position): string | undefined {
    const around = this.#deadRows(position, position + 1);
    const isIt = (row: DeadRow) =>
      row.destination === destination && deliveryIn(row.refs, position) !== undefined;
    return around.find(isIt)?.reason;
  }

  /** Positions of a range that are in a dead letter. */
  deadBetween(first: Position, end: Position): Set<Position> {
    const dead = new Set<Position>();
    for (const { refs } of this.#deadRows(first, end)) {
      for (const position of positionsBetween(refs, first, end)) dead.add(position);
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
    this.#dead.run(destination, at, reason, first, last, n, origin, sealedRefs(destination, refs));
  }
}

interface DeadRow {
  readonly id: number;
  readonly destination: number;
  readonly reason: string;
  readonly refs: Uint8Array;
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
