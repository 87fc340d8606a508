import type { DatabaseSync } from 'node:sqlite';
import type { Delivery } from '../../../model/delivery.ts';
import type { Position } from '../../../model/event.ts';
import type { Monotonic } from '../../../model/time.ts';
import type { EventHistory, PendingPage, PendingQuery, QueueStats } from '../../../ports/delivery-queue.ts';
import { NO_PLAN } from '../../encoding/chunk-codec.ts';
import { eventLine } from '../../encoding/chunk-lines.ts';
import { type DeliveryTraces, historyOf, pendingPage } from '../../encoding/decisions/history.ts';
import {
  deliveryIn,
  type HeldSets,
  positionsBelow,
  positionsBetween,
  setOrEmpty,
} from '../../encoding/pending-set.ts';
import { type HighestQuery, queueStats, type StatsRow } from '../../encoding/results.ts';
import type { Chunks } from '../log/chunks.ts';
import type { PlanTable } from '../log/plans.ts';
import type { DeadLetterTable } from './dead-letters.ts';
import { type PendingStatements, statements } from './pending.ts';
import type { DestinationAttempt, FailedAttempts, SuccessfulAttempts } from './settle.ts';

export interface HistoryDependencies {
  readonly plans: PlanTable;
  readonly pending: PendingQueries;
  readonly successfulAttempts: SuccessfulAttempts;
  readonly failedAttempts: FailedAttempts;
  readonly deadLetters: DeadLetterTable;
}

/** The history of single events, assembled from plans, pending sets, attempts and dead letters. */
export class EventHistories {
  readonly #chunks: Chunks;
  readonly #dependencies: HistoryDependencies;

  constructor(chunks: Chunks, dependencies: HistoryDependencies) {
    this.#chunks = chunks;
    this.#dependencies = dependencies;
  }

  of(positions: Iterable<Position>): (EventHistory | undefined)[] {
    const all = [...positions];
    const accepted = this.#dependencies.successfulAttempts.at(all);
    return all.map((position) => {
      const chunk = this.#chunks.at(position);
      const isThere =
        chunk === undefined ? this.#chunks.isDamaged(position) : eventLine(chunk, position).length > 0;
      if (!isThere) return undefined;
      const plan = this.#dependencies.plans.get(chunk?.plans[position - chunk.first] ?? NO_PLAN);
      return historyOf(plan, this.#tracesOf(position, accepted.get(position) ?? []));
    });
  }

  #tracesOf(position: Position, accepted: readonly DestinationAttempt[]): DeliveryTraces {
    const { pending, failedAttempts, deadLetters } = this.#dependencies;
    return {
      destinations: [
        ...pending.requeuedTo(position),
        ...accepted.map(({ destination }) => destination),
        ...failedAttempts.destinationsOf(position),
        ...deadLetters.destinationsOf(position),
      ],
      attemptsOf: (destination) => [
        ...failedAttempts.of(destination, position),
        ...accepted.filter((one) => one.destination === destination).map(({ attempt }) => attempt),
      ],
      pendingOf: (destination) => pending.of(destination, position),
      givenUp: (destination) => deadLetters.rowsOf(destination, position),
    };
  }
}

export interface PendingMessage {
  readonly query: PendingQuery;
  readonly max: number;
  /** Only positions below this one. */
  readonly below?: Position;
}

/** Reads table "pending" and the held sets, and changes nothing. */
export class PendingQueries {
  readonly #sql: PendingStatements;
  readonly #held: HeldSets;
  readonly #chunks: Pick<Chunks, 'arrivalOf'>;

  constructor(database: DatabaseSync, held: HeldSets, chunks: Pick<Chunks, 'arrivalOf'>) {
    this.#sql = statements(database);
    this.#held = held;
    this.#chunks = chunks;
  }

  /** A pending delivery, and when it is due unless it is held; undefined when it is settled. */
  of(destination: number, position: Position): { delivery: Delivery; dueAt?: Monotonic } | undefined {
    const held = this.#held.at(destination, position);
    if (held !== undefined) return { delivery: held };
    for (const row of this.#sql.overlapping.iterate(destination, position, position) as Iterable<unknown>) {
      const { due, refs } = row as { due: Monotonic; refs: Uint8Array };
      const delivery = deliveryIn(setOrEmpty(destination, refs), position);
      if (delivery !== undefined) return { delivery, dueAt: due };
    }
    return undefined;
  }

  /**
   * Destinations with a replay or redelivery of an event pending. Such sets are few, since a replay waits for
   * them.
   */
  requeuedTo(position: Position): number[] {
    const rows = this.#sql.requeued.all(position) as unknown as { destination: number; refs: Uint8Array }[];
    const owed = rows.filter(
      ({ destination, refs }) => deliveryIn(setOrEmpty(destination, refs), position) !== undefined,
    );
    return owed.map(({ destination }) => destination);
  }

  /** Visits the pending deliveries of a destination, from a position on and below another. */
  visitBetween(
    destination: number,
    from: Position,
    below: Position,
    visit: (position: Position) => void,
  ): void {
    for (const { position } of this.#held.of(destination)) {
      if (position >= from && position < below) visit(position);
    }
    for (const row of this.#sql.overlapping.iterate(destination, from, below - 1) as Iterable<unknown>) {
      const refs = setOrEmpty(destination, (row as { refs: Uint8Array }).refs);
      for (const position of positionsBetween(refs, from, below)) visit(position);
    }
  }

  /** Visits pending replays and redeliveries, from a position on and below another. */
  visitRequeuedBetween(
    from: Position,
    below: Position,
    visit: (destination: number, position: Position) => void,
  ): void {
    for (const row of this.#sql.requeued.iterate(below - 1) as Iterable<unknown>) {
      const { destination, refs } = row as { destination: number; refs: Uint8Array };
      const opened = setOrEmpty(destination, refs);
      for (const position of positionsBetween(opened, from, below)) visit(destination, position);
    }
  }

  /** One page of `findPending` (ports/delivery-queue.ts). */
  page({ query, max, below = Number.MAX_SAFE_INTEGER }: PendingMessage): PendingPage {
    const { destinations, tried } = query;
    const found = new Set<Position>();
    // One position more than asked for tells whether there is another page.
    for (const destination of destinations) {
      for (const position of this.#highestOf(destination, { tried, max: max + 1, below }))
        found.add(position);
    }
    return pendingPage(found, max);
  }

  #highestOf(destination: number, { tried, max, below }: HighestQuery): Position[] {
    let positions = this.#held
      .of(destination)
      .filter((one) => one.position < below && (tried ?? one.rounds > 0) === one.rounds > 0)
      .map(({ position }) => position);
    const highest = () => [...new Set(positions)].sort((a, b) => b - a).slice(0, max);
    const wanted = tried === undefined ? null : Number(tried);
    for (const row of this.#sql.highest.iterate(destination, below, wanted, wanted) as Iterable<unknown>) {
      const { last, refs } = row as { last: Position; refs: Uint8Array };
      if (positions.length >= max) {
        positions = highest();
        // All positions of this row and of those behind it are lower.
        if (positions.length === max && last <= positions[max - 1]!) break;
      }
      positions.push(...positionsBelow(setOrEmpty(destination, refs), below, { max, tried }));
    }
    return highest();
  }

  stats(): QueueStats[] {
    const rows = this.#sql.stats.all() as unknown as StatsRow[];
    return rows.map((row) => queueStats(row, this.#chunks.arrivalOf(row.oldest)));
  }

  sums(): { destination: number; n: number }[] {
    return this.#sql.sums.all() as unknown as { destination: number; n: number }[];
  }
}
