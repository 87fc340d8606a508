import type { Position } from '../../../model/event.ts';
import { invariant } from '../../../model/invariant.ts';
import type { Monotonic } from '../../../model/time.ts';
import type { DeadLetter, DeadLetterPage, DeadLetterQuery, GivenUp } from '../../../ports/delivery-queue.ts';
import type { LedgerCount } from '../ledger.ts';
import { decodeSet, encodeSet, positionsBetween, summaryOf } from '../pending-set.ts';

/**
 * Decisions of both stores about dead letters: which positions of a row a query means, where a page ends,
 * what a redelivery or an erasure leaves of a row. The stores read the rows, the newest first, and write what
 * is decided here.
 */

/** Dead letters and rows that a redelivery takes in one slice. */
const REDELIVERED_LETTERS = 20_000;
const REDELIVERED_ROWS = 256;

/** Rows of a destination whose heads one slice of a search for dead letters reads, without their sets. */
export const SEARCHED_HEADS = 1024;

/** Rows of dead letters that retention drops in one slice. */
export const DROPPED_ROWS = 256;

/**
 * Positions that a set may span to be found by its last position alone. The few wider sets have an index of
 * their own (`dead_letter_wide`), so that one of them does not make every search read all later rows.
 */
export const WIDE_SPAN = 65_536;

/** A row without its set, which may be large. */
export interface DeadLetterHeader {
  readonly id: number;
  readonly destination: number;
  readonly at: Monotonic;
  readonly state: GivenUp;
  readonly reason: string;
  readonly note: string | null;
  readonly first: Position;
  readonly last: Position;
  readonly n: number;
}

/** The rest of a row. */
export interface DeadLetterContent {
  readonly origin: string | null;
  readonly encoded: Uint8Array;
}

/** A row that was looked for by its positions. */
export interface DeadLetterRow {
  readonly id: number;
  readonly destination: number;
  readonly state: GivenUp;
  readonly reason: string;
  readonly note: string | null;
  readonly encoded: Uint8Array;
}

/** Begin of a slice of a query, from the place that the slice before returned: `id`, or `id-position`. */
export interface SliceStart {
  /** Rows with higher ids were looked at. */
  readonly id: number;
  /** Only positions below this one are left of the row `id`. */
  readonly below: Position;
}

export function sliceStart(from: string | undefined): SliceStart {
  const [id = Number.MAX_SAFE_INTEGER, below = Number.POSITIVE_INFINITY] = from?.split('-').map(Number) ?? [];
  return { id, below };
}

/**
 * The place at which the next slice begins, when this one has looked at all rows down to an id; undefined at
 * the end.
 */
export function nextPlace(lowest: number): string | undefined {
  return lowest <= 1 ? undefined : String(lowest - 1);
}

type PositionsByDestination = ReadonlyMap<
  number,
  { readonly sorted: readonly Position[]; readonly set: ReadonlySet<Position> }
>;

/** The positions that a query names. */
export class WantedPositions {
  readonly #byDestination: PositionsByDestination | undefined;

  constructor({ only }: DeadLetterQuery) {
    if (only === undefined) return;
    const byDestination = Map.groupBy(only, ({ destination }) => destination);
    this.#byDestination = new Map(
      [...byDestination].map(([destination, some]) => {
        const sorted = some.map(({ position }) => position).sort((a, b) => a - b);
        return [destination, { sorted, set: new Set(sorted) }];
      }),
    );
  }

  /** The query names none, and means all. */
  get isAll(): boolean {
    return this.#byDestination === undefined;
  }

  /** Whether a row may hold any of them. The sets of other rows need not be read. */
  mayBeIn({ destination, first, last }: DeadLetterHeader): boolean {
    if (this.#byDestination === undefined) return true;
    const some = this.#byDestination.get(destination);
    return some?.sorted.some((one) => one >= first && one <= last) ?? false;
  }

  /** The wanted positions of a row, ascending. */
  in({ destination }: DeadLetterHeader, { encoded }: DeadLetterContent): Position[] {
    const some = this.#byDestination?.get(destination)?.set;
    const all = decodeSet(encoded).map(({ position }) => position);
    const found = some === undefined ? all : all.filter((position) => some.has(position));
    return found.sort((a, b) => a - b);
  }
}

/** A page of dead letters, the newest first. */
export class DeadLetterPages {
  readonly #letters: DeadLetter[] = [];
  readonly #start: SliceStart;
  readonly #limit: number;

  constructor(start: SliceStart, limit: number) {
    this.#start = start;
    this.#limit = limit;
  }

  /**
   * Adds the letters of the next row, whose positions ascend. Returns the page when it is full before the end
   * of the row.
   */
  add(row: DeadLetterHeader, positions: readonly Position[]): DeadLetterPage | undefined {
    const below = row.id === this.#start.id ? this.#start.below : Number.POSITIVE_INFINITY;
    for (const position of positions.toReversed()) {
      if (position >= below) continue;
      if (this.#letters.length === this.#limit) return this.end(`${row.id}-${position + 1}`);
      const { destination, state, reason, note, at } = row;
      this.#letters.push({ destination, position, state, reason, at, note: note ?? undefined });
    }
    return undefined;
  }

  /** The page after the last row. `next`: where the next one begins, if there are more rows. */
  end(next: string | undefined): DeadLetterPage {
    const letters = this.#letters;
    return next === undefined ? { letters } : { letters, next };
  }
}

/** A row that still has deliveries, with its new contents. */
export interface RewrittenDeadLetters {
  readonly id: number;
  readonly destination: number;
  readonly first: Position;
  readonly last: Position;
  readonly n: number;
  readonly encoded: Uint8Array;
}

/** Deliveries of one destination and origin that are pending again; their positions ascend. */
export interface RequeuedSet {
  readonly destination: number;
  readonly origin: string | undefined;
  readonly positions: readonly Position[];
}

/** Changes of rows that deliveries are taken out of. */
export class TakenDeadLetters {
  /** Ids of rows of which nothing is left. */
  readonly deleted: number[] = [];
  readonly rewritten: RewrittenDeadLetters[] = [];
  /** To add to the ledger. */
  readonly counts: LedgerCount[] = [];
  /** How many deliveries were taken out. */
  count = 0;

  /** Takes positions out of a row, of which it holds `n`. */
  protected take(
    { id, destination, state, reason, encoded }: DeadLetterRow,
    going: ReadonlySet<Position>,
    n: number,
  ): void {
    const left = decodeSet(encoded).filter(({ position }) => !going.has(position));
    if (left.length === 0) this.deleted.push(id);
    else {
      const bytes = encodeSet(left);
      const { first, last } = summaryOf(bytes);
      this.rewritten.push({ id, destination, first, last, n: left.length, encoded: bytes });
    }
    this.counts.push({ scope: 'destination', id: destination, name: `${state}:${reason}`, n: -n });
    invariant(n > 0, 'a row of dead letters is changed where something is taken out');
    this.count += n;
  }
}

/** A slice of a redelivery. */
export class RedeliveredDeadLetters extends TakenDeadLetters {
  #rows = 0;
  readonly #sets = new Map<
    string,
    { readonly destination: number; readonly positions: Set<Position>; readonly origin: string | undefined }
  >();

  get isFull(): boolean {
    return this.#rows >= REDELIVERED_ROWS || this.count >= REDELIVERED_LETTERS;
  }

  /** Takes positions, which ascend, out of the next row. */
  add(
    header: DeadLetterHeader,
    { origin, encoded }: DeadLetterContent,
    positions: readonly Position[],
  ): void {
    if (positions.length === 0) return;
    this.#rows++;
    this.take({ ...header, encoded }, new Set(positions), positions.length);
    const { destination } = header;
    // An event that is owed twice is dead twice. A set holds a position once, so the second goes to a set of
    // its own.
    for (let nth = 0; ; nth++) {
      const key = `${destination}/${nth}/${origin}`;
      const set = this.#sets.get(key) ?? { destination, positions: new Set(), origin: origin ?? undefined };
      if (positions.some((position) => set.positions.has(position))) continue;
      this.#sets.set(key, set);
      for (const position of positions) set.positions.add(position);
      return;
    }
  }

  /** The deliveries to enqueue again, one set for each destination and origin. */
  requeued(): RequeuedSet[] {
    const pending = [...this.#sets.values()].reduce((sum, { positions }) => sum + positions.size, 0);
    invariant(pending === this.count, 'what is taken out of the dead letters is pending again');
    return [...this.#sets.values()].map((set) => ({
      ...set,
      positions: [...set.positions].sort((a, b) => a - b),
    }));
  }
}

/** An erasure of events that have dead letters. */
export class ErasedDeadLetters extends TakenDeadLetters {
  readonly #positions: ReadonlySet<Position>;
  readonly #first: Position;
  readonly #end: Position;

  /** `positions`: of the events, at least one. */
  constructor(positions: ReadonlySet<Position>) {
    super();
    this.#positions = positions;
    [this.#first, this.#end] = [Number.POSITIVE_INFINITY, 0];
    for (const position of positions) {
      this.#first = Math.min(this.#first, position);
      this.#end = Math.max(this.#end, position + 1);
    }
  }

  /** Rows that may hold one of them hold a position from the first on and below the second. */
  get range(): readonly [first: Position, below: Position] {
    return [this.#first, this.#end];
  }

  add(row: DeadLetterRow): void {
    const within = [...positionsBetween(row.encoded, this.#first, this.#end)];
    const n = within.filter((position) => this.#positions.has(position)).length;
    if (n === 0) return;
    this.take(row, this.#positions, n);
    this.counts.push({ scope: 'destination', id: row.destination, name: 'erased', n });
  }
}
