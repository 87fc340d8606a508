import type { DatabaseSync } from 'node:sqlite';
import type { Delivery } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { LaneStat } from '../../ports/backlog.ts';
import type { PendingPage } from '../../ports/history.ts';
import type { Chunks } from './chunks.ts';
import type { HeldSets } from './held-sets.ts';
import { type PendingStatements, statements } from './pending-rows.ts';
import type { PendingMessage } from './protocol.ts';
import { deliveryIn, positionsBelow, positionsBetween, readableRefs } from './refs.ts';

/** What the rows of table "pending" say, without changing any. */
export class PendingFacts {
  readonly #sql: PendingStatements;
  readonly #held: HeldSets;
  readonly #chunks: Pick<Chunks, 'arrivalOf'>;

  constructor(database: DatabaseSync, held: HeldSets, chunks: Pick<Chunks, 'arrivalOf'>) {
    this.#sql = statements(database);
    this.#held = held;
    this.#chunks = chunks;
  }

  /** What is pending of one delivery, and when it is due while nobody holds it; nothing when it is settled. */
  of(destination: number, position: Position): { delivery: Delivery; dueAt?: Time } | undefined {
    const held = this.#held.at(destination, position);
    if (held !== undefined) return { delivery: held };
    for (const row of this.#sql.around.iterate(destination, position, position) as Iterable<unknown>) {
      const { due, refs } = row as { due: Time; refs: Uint8Array };
      const delivery = deliveryIn(readableRefs(destination, refs), position);
      if (delivery !== undefined) return { delivery, dueAt: due };
    }
    return undefined;
  }

  /** Who is owed an event once more. There are few such sets at any time, since a replay waits for them. */
  againTo(position: Position): number[] {
    const rows = this.#sql.again.all(position) as unknown as { destination: number; refs: Uint8Array }[];
    const owed = rows.filter(
      ({ destination, refs }) => deliveryIn(readableRefs(destination, refs), position) !== undefined,
    );
    return owed.map(({ destination }) => destination);
  }

  /** Visits where something is pending of a destination, from a position on and below another. */
  visitBetween(
    destination: number,
    from: Position,
    below: Position,
    visit: (position: Position) => void,
  ): void {
    for (const { position } of this.#held.of(destination)) {
      if (position >= from && position < below) visit(position);
    }
    for (const row of this.#sql.around.iterate(destination, from, below - 1) as Iterable<unknown>) {
      const refs = readableRefs(destination, (row as { refs: Uint8Array }).refs);
      for (const position of positionsBetween(refs, from, below)) visit(position);
    }
  }

  /** Visits where something is owed once more, from a position on and below another. */
  visitAgainBetween(
    from: Position,
    below: Position,
    visit: (destination: number, position: Position) => void,
  ): void {
    for (const row of this.#sql.again.iterate(below - 1) as Iterable<unknown>) {
      const { destination, refs } = row as { destination: number; refs: Uint8Array };
      const opened = readableRefs(destination, refs);
      for (const position of positionsBetween(opened, from, below)) visit(destination, position);
    }
  }

  /** Where deliveries are pending: see ports/history.ts. */
  page({ query, max, below = Number.MAX_SAFE_INTEGER }: PendingMessage): PendingPage {
    const { destinations, tried } = query;
    const found = new Set<Position>();
    // One more than asked for tells whether there is another page.
    for (const destination of destinations) {
      for (const position of this.#highestOf(destination, { tried, max: max + 1, below }))
        found.add(position);
    }
    const positions = [...found].sort((a, b) => b - a).slice(0, max);
    return found.size > max ? { positions, next: positions.at(-1)! } : { positions };
  }

  #highestOf(destination: number, { tried, max, below }: Highest): Position[] {
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
        // Whatever is in this row and in those that follow is below all of these.
        if (positions.length === max && last <= positions[max - 1]!) break;
      }
      positions.push(...positionsBelow(readableRefs(destination, refs), below, { max, tried }));
    }
    return highest();
  }

  lanes(): LaneStat[] {
    const rows = this.#sql.lanes.all() as unknown as LaneRow[];
    return rows.map(({ destination, held, onDisk, retrying, nextDueAt, oldest }) => {
      const oldestAt = this.#chunks.arrivalOf(oldest);
      return {
        ...{ destination, held, onDisk, retrying },
        ...(nextDueAt === null ? {} : { nextDueAt }),
        ...(oldestAt === undefined ? {} : { oldestAt }),
      };
    });
  }

  sums(): { destination: number; n: number }[] {
    return this.#sql.sums.all() as unknown as { destination: number; n: number }[];
  }
}

interface Highest {
  readonly tried: boolean | undefined;
  readonly max: number;
  readonly below: Position;
}

interface LaneRow {
  readonly destination: number;
  readonly held: number;
  readonly onDisk: number;
  readonly retrying: number;
  readonly nextDueAt: Time | null;
  readonly oldest: Position;
}
