import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Attempt } from '../../../model/delivery.ts';
import type { Position } from '../../../model/event.ts';
import type { Time } from '../../../model/time.ts';
import type { DeliveryResult } from '../../../ports/delivery-queue.ts';
import {
  deliveryIn,
  positionsBetween,
  pushVarint,
  rangeOf,
  readVarint,
  setOrEmpty,
  withSetChecksum,
} from './delivery-set-codec.ts';

/** Positions that one row may span, so that looking for one event means looking at few rows. */
const ROW_SPAN = 4096;

/** Rows dropped in one slice. */
const SLICE = 256;

/** Latencies are kept in tenths of a millisecond. */
const LATENCY_UNITS = 10;

/** A request that went well. */
export interface SuccessfulAttempt {
  readonly position: Position;
  readonly startedAt: number;
  readonly latencyMs: number;
  readonly status: number;
}

/** A request that went well, of a delivery to this destination. */
export interface DestinationAttempt {
  readonly destination: number;
  readonly attempt: Attempt;
}

/**
 * Requests that were accepted, some seven bytes each: a row for those of one settle to one endpoint. In a row stand
 * varints, for each request in the order of positions: gap since the position before, milliseconds since the first request
 * of the row, latency, status.
 */
export class SuccessfulAttempts {
  readonly #insert: StatementSync;
  readonly #around: StatementSync;
  readonly #facts: StatementSync;
  readonly #drop: StatementSync;
  readonly #intern: StatementSync;
  readonly #endpoints = new Map<string, number>();
  #waiting = new Map<string, { destination: number; endpoint: string; accepted: SuccessfulAttempt[] }>();

  constructor(database: DatabaseSync) {
    this.#insert = database.prepare(
      'insert into accepted_attempt(destination, endpoint, first, last, at, facts) values (?, ?, ?, ?, ?, ?)',
    );
    this.#around = database.prepare(
      `select a.destination, e.url, a.first, a.at, a.facts from accepted_attempt a join endpoint e on e.id = a.endpoint
       where a.first > ? and a.first <= ? and a.last >= ?`,
    );
    this.#facts = database.prepare(
      'select destination, first, at, facts from accepted_attempt where first > ? and first <= ? and last >= ?',
    );
    this.#drop = database.prepare(
      `delete from accepted_attempt where id in
         (select id from accepted_attempt where first < ? order by first limit ${SLICE})`,
    );
    this.#intern = database.prepare(
      'insert into endpoint(url) values (?) on conflict(url) do update set url = url returning id',
    );
  }

  /** Notes a request; `write` writes it. */
  add(destination: number, endpoint: string, accepted: SuccessfulAttempt): void {
    const key = `${destination} ${endpoint}`;
    const group = this.#waiting.get(key);
    if (group) group.accepted.push(accepted);
    else this.#waiting.set(key, { destination, endpoint, accepted: [accepted] });
  }

  write(): void {
    for (const { destination, endpoint, accepted } of this.#waiting.values()) {
      const id = this.#idOf(endpoint);
      accepted.sort((a, b) => a.position - b.position);
      for (let from = 0; from < accepted.length; ) {
        let to = from + 1;
        while (to < accepted.length && accepted[to]!.position < accepted[from]!.position + ROW_SPAN) to++;
        const row = accepted.slice(from, to);
        const at = row.reduce(
          (earliest, { startedAt }) => Math.min(earliest, Math.floor(startedAt)),
          Infinity,
        );
        this.#insert.run(
          destination,
          id,
          row[0]!.position,
          row.at(-1)!.position,
          at,
          encodeAttempts(row, at),
        );
        from = to;
      }
    }
    this.#waiting = new Map();
  }

  /** Visits where one of these destinations has accepted a request, from a position on and below another. */
  visitBetween(
    from: Position,
    below: Position,
    destinations: ReadonlySet<number>,
    visit: (destination: number, position: Position) => void,
  ): void {
    if (destinations.size === 0) return;
    for (const each of this.#facts.iterate(from - ROW_SPAN, below - 1, from) as Iterable<unknown>) {
      const { destination, facts, first, at } = each as SuccessfulAttemptRow;
      if (!destinations.has(destination)) continue;
      for (const { position } of decodeAttempts(facts, first, at))
        if (position >= from && position < below) visit(destination, position);
    }
  }

  /** The accepted requests for each of these events, by position; ascending or not. */
  at(positions: readonly Position[]): Map<Position, DestinationAttempt[]> {
    const found = new Map<Position, DestinationAttempt[]>(positions.map((position) => [position, []]));
    const sorted = [...found.keys()].sort((a, b) => a - b);
    for (let from = 0; from < sorted.length; ) {
      let to = from + 1;
      // Rows that are around one of them are mostly around its neighbours too, and are decoded once for all.
      while (to < sorted.length && sorted[to]! - sorted[to - 1]! < ROW_SPAN) to++;
      this.#collect(sorted[from]!, sorted[to - 1]!, found);
      from = to;
    }
    return found;
  }

  #collect(first: Position, last: Position, found: ReadonlyMap<Position, DestinationAttempt[]>): void {
    for (const each of this.#around.iterate(first - ROW_SPAN, last, first) as Iterable<unknown>) {
      const row = each as SuccessfulAttemptRow;
      for (const { position, startedAt, latencyMs, status } of decodeAttempts(row.facts, row.first, row.at)) {
        const outcome = { kind: 'accepted', reason: `status_${status}`, status } as const;
        const attempt = { endpoint: row.url, startedAt, latencyMs, outcome };
        found.get(position)?.push({ destination: row.destination, attempt });
      }
    }
  }

  /** Drops a slice of the rows that are all below a position. False when there are none. */
  dropBelow(position: Position): boolean {
    return Number(this.#drop.run(position - ROW_SPAN).changes) > 0;
  }

  #idOf(url: string): number {
    const known = this.#endpoints.get(url);
    if (known !== undefined) return known;
    const { id } = this.#intern.get(url) as { id: number };
    this.#endpoints.set(url, id);
    return id;
  }
}

interface SuccessfulAttemptRow {
  destination: number;
  url: string;
  first: number;
  at: number;
  facts: Uint8Array;
}

function encodeAttempts(row: readonly SuccessfulAttempt[], at: number): Uint8Array {
  const bytes: number[] = [];
  let before = row[0]!.position;
  for (const { position, startedAt, latencyMs, status } of row) {
    pushVarint(bytes, position - before);
    pushVarint(bytes, Math.floor(startedAt) - at);
    pushVarint(bytes, Math.round(latencyMs * LATENCY_UNITS));
    pushVarint(bytes, status);
    before = position;
  }
  return Uint8Array.from(bytes);
}

function decodeAttempts(facts: Uint8Array, first: Position, at: number): SuccessfulAttempt[] {
  const accepted: SuccessfulAttempt[] = [];
  const cursor = { at: 0 };
  let position = first;
  while (cursor.at < facts.length) {
    position += readVarint(facts, cursor);
    const startedAt = at + readVarint(facts, cursor);
    const latencyMs = readVarint(facts, cursor) / LATENCY_UNITS;
    accepted.push({ position, startedAt, latencyMs, status: readVarint(facts, cursor) });
  }
  return accepted;
}

/**
 * Positions that a set of dead letters may span to be looked for by its last one alone. The few that span more have an index
 * of their own (`dead_letter_wide`), so that one of them does not make every search look at all that came after.
 */
const WIDE_SPAN = 65_536;

/** What went wrong: requests that failed, and deliveries given up. */
export class FailureTables {
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
       where last >= ? and last < ? and first < ? and last - first < ${WIDE_SPAN}`,
    );
    this.#deadWide = database.prepare(
      `select id, destination, reason, refs from dead_letter
       where last - first >= ${WIDE_SPAN} and last >= ? and first < ?`,
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

  insertFailed(result: DeliveryResult): void {
    for (const attempt of result.attempts) {
      if (attempt.outcome.kind !== 'accepted') this.#keep(result, attempt);
    }
  }

  #keep(result: DeliveryResult, attempt: Attempt): void {
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
    const rows = this.#attemptsOf.all(position, destination) as unknown as FailedAttemptRow[];
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
  #deadRows(from: Position, below: Position): DeadLetterRow[] {
    const near = this.#deadNear.all(from, below + WIDE_SPAN, below) as unknown as DeadLetterRow[];
    const wide = this.#deadWide.all(from, below) as unknown as DeadLetterRow[];
    return [...near, ...wide]
      .sort((a, b) => b.id - a.id)
      .map((row) => ({ ...row, refs: setOrEmpty(row.destination, row.refs) }));
  }

  /** Why a delivery is dead; nothing when it is not. */
  reasonOf(destination: number, position: Position): string | undefined {
    const around = this.#deadRows(position, position + 1);
    const isIt = (row: DeadLetterRow) =>
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
  deadLetter({ destination, at, reason, n, origin = null, refs }: DeadLetterSet): void {
    const { first, last } = rangeOf(refs);
    this.#dead.run(destination, at, reason, first, last, n, origin, withSetChecksum(destination, refs));
  }
}

interface DeadLetterRow {
  readonly id: number;
  readonly destination: number;
  readonly reason: string;
  readonly refs: Uint8Array;
}

interface FailedAttemptRow {
  startedAt: number;
  latencyMs: number;
  endpoint: string;
  kind: 'retryable' | 'refused';
  reason: string;
  status: number | null;
  answer: string | null;
}

/** Deliveries of one destination that are given up. */
export interface DeadDeliveries {
  readonly destination: number;
  readonly n: number;
  /** On whose behalf they were owed once more. */
  readonly origin?: string | null | undefined;
  /** As `refs.ts` writes it. */
  readonly refs: Uint8Array;
}

export interface DeadLetterSet extends DeadDeliveries {
  readonly at: Time;
  readonly reason: string;
}
