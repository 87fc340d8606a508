import type { Position } from '../../../model/event.ts';
import type { SkipSet } from '../../../model/plan.ts';
import type { Monotonic } from '../../../model/time.ts';
import type {
  DeliveryHistories,
  EventHistory,
  PendingPage,
  PendingQuery,
  QueueStats,
  ReplayProgress,
} from '../../../ports/delivery-queue.ts';
import type { DeadLetterRow } from '../../encoding/decisions/dead-letters.ts';
import { type DeliveryTraces, historyOf, pendingPage } from '../../encoding/decisions/history.ts';
import { redactInSlices } from '../../encoding/kept-answers.ts';
import { deliveryIn, positionsBelow, setOrEmpty } from '../../encoding/pending-set.ts';
import type { StoredPlan } from '../../encoding/plans.ts';
import { type HighestQuery, queueStats, ROW_SPAN, type StatsRow } from '../../encoding/results.ts';
import type { Database, Statement, Transaction } from '../database.ts';
import { answersAfter, attemptsOf, type LoggedAttempt, putAnswers } from './attempts.ts';
import { deadLettersNear } from './dead-letters.ts';
import { readPendingOf, readProgress } from './replay-cursors.ts';

/** Held rows are in an index by themselves: as many as all processes have room for in memory. */
const HELD: Statement = {
  name: 'history.held',
  text: `select destination, null::bigint as due, refs from pending where owner is not null and last >= $1 and first <= $2`,
};

/**
 * Replays and redeliveries on disk: they may be owed to a destination that no plan names. They are few, since
 * a replay waits for them.
 */
const REQUEUED: Statement = {
  name: 'history.requeued',
  text: `select destination, due, refs from pending where origin is not null and owner is null and last >= $1 and first <= $2`,
};

const ON_DISK: Statement = {
  name: 'history.on_disk',
  text: `select p.destination, p.due, p.refs from unnest($1::int[]) d(id) join pending p on p.destination = d.id
    where p.owner is null and p.last >= $2 and p.first <= $3 order by p.last, p.first`,
};

const HELD_FOR: Statement = {
  name: 'pending.held_for',
  text: 'select refs from pending where owner is not null and destination = $1',
};

/**
 * The rows with the highest positions first; all with the same one together. The counts exclude rows without
 * any wanted delivery.
 */
const HIGHEST: Statement = {
  name: 'pending.highest',
  text: `select last, refs from pending where destination = $1 and owner is null and last <= $2 and first < $3
      and ($4::boolean is null or case when $4 then tried else n - tried end > 0)
    order by last desc fetch first 64 rows with ties`,
};

const STATS: Statement = {
  name: 'pending.stats',
  text: `select destination, coalesce(sum(n) filter (where owner is not null), 0) as held,
      coalesce(sum(n) filter (where owner is null), 0) as "onDisk", min(due) filter (where owner is null) as "nextDueAt",
      min(first) as oldest, sum(tried) as retrying
    from pending group by destination order by destination`,
};

/** Facts about events that the log knows. */
export interface LoggedFacts {
  /**
   * The plans of events, in the order of their positions; undefined for an event that is gone. The plan of a
   * damaged one is empty.
   */
  plansAt(read: Transaction, positions: readonly Position[]): Promise<(StoredPlan | undefined)[]>;
  /** The skip sets with these numbers. */
  skipSets(read: Transaction, numbers: Iterable<number>): Promise<ReadonlyMap<number, SkipSet>>;
  /** When events arrived, in the order of their positions; undefined for one that is gone. */
  arrivalsAt(read: Transaction, positions: readonly Position[]): Promise<(Monotonic | undefined)[]>;
}

/**
 * The history of single events, assembled from plans, pending sets, attempts and dead letters in one
 * snapshot.
 */
export class StoredHistories implements DeliveryHistories {
  readonly #database: Database;
  readonly #log: LoggedFacts;

  constructor(database: Database, log: LoggedFacts) {
    this.#database = database;
    this.#log = log;
  }

  async read(positions: readonly Position[]): Promise<(EventHistory | undefined)[]> {
    if (positions.length === 0) return [];
    return await this.#database.snapshot(async (read) => {
      const plans = await this.#log.plansAt(read, positions);
      const there = positions.filter((_, nth) => plans[nth] !== undefined);
      if (there.length === 0) return plans.map(() => undefined);
      const traces = await readTraces(read, neighbours(there));
      const ids = new Set(plans.flatMap((plan) => plan?.owed ?? []));
      for (const position of there) for (const id of traces.destinationsOf(position)) ids.add(id);
      await traces.readOnDisk(read, [...ids]);
      return positions.map((position, nth) => plans[nth] && historyOf(plans[nth], traces.of(position)));
    });
  }

  async findPending(query: PendingQuery, max: number, below?: Position): Promise<PendingPage> {
    return await this.#database.snapshot(async (read) => {
      const found = new Set<Position>();
      const wanted = { tried: query.tried, max: max + 1, below: below ?? Number.MAX_SAFE_INTEGER };
      // One position more than asked for tells whether there is another page.
      for (const destination of query.destinations)
        for (const position of await highestOf(read, destination, wanted)) found.add(position);
      return pendingPage(found, max);
    });
  }

  progress(origin: string): Promise<ReplayProgress> {
    return readProgress(this.#database, origin);
  }

  pendingOf(origins: readonly string[]): Promise<ReplayProgress['pending'][]> {
    return readPendingOf(this.#database, origins);
  }

  redactAnswers(redact: (answer: string) => string, onSlice?: () => void): Promise<number> {
    return redactInSlices({
      redact,
      onSlice,
      page: (text, after) => this.#database.read((read) => answersAfter(read, text, after)),
      put: (text, changed) => this.#database.write(async (write) => putAnswers(write, text, changed)),
    });
  }

  /** See `DeliveryQueue.stats`. */
  async stats(): Promise<QueueStats[]> {
    return await this.#database.snapshot(async (read) => {
      const rows = await read.rows<StatsRow>(STATS);
      const arrivals = await this.#log.arrivalsAt(
        read,
        rows.map(({ oldest }) => oldest),
      );
      return rows.map((row, nth) => queueStats(row, arrivals[nth]));
    });
  }
}

/** The rows that tell of the deliveries of some events. */
class TracesOfEvents {
  readonly #groups: readonly (readonly Position[])[];
  readonly #attempts: ReadonlyMap<Position, readonly LoggedAttempt[]>;
  readonly #dead: readonly DeadLetterRow[];
  readonly #held: readonly TraceSet[];
  readonly #requeued: readonly TraceSet[];
  #onDisk: readonly TraceSet[] = [];

  constructor(groups: readonly (readonly Position[])[], read: Traces) {
    this.#groups = groups;
    this.#attempts = Map.groupBy(read.attempts, ({ position }) => position);
    this.#dead = read.dead;
    this.#held = read.held;
    this.#requeued = read.requeued;
  }

  /**
   * Destinations that no plan may name: a replay or redelivery is pending, was requested, or was given up.
   */
  destinationsOf(position: Position): number[] {
    const holding = [...this.#held, ...this.#requeued, ...this.#dead].filter(
      ({ encoded }) => deliveryIn(encoded, position) !== undefined,
    );
    return [...holding, ...(this.#attempts.get(position) ?? [])].map(({ destination }) => destination);
  }

  /** Reads what waits on disk for these destinations. */
  async readOnDisk(read: Transaction, destinations: readonly number[]): Promise<void> {
    const rows = await Promise.all(
      this.#groups.map((group) => read.rows<TraceRow>(ON_DISK, [destinations, group[0], group.at(-1)])),
    );
    this.#onDisk = rows.flat().map(toTrace);
  }

  of(position: Position): DeliveryTraces {
    const attempts = Map.groupBy(this.#attempts.get(position) ?? [], ({ destination }) => destination);
    const isOf = (destination: number) => (set: Pick<TraceSet, 'destination' | 'encoded'>) =>
      set.destination === destination && deliveryIn(set.encoded, position) !== undefined;
    return {
      destinations: this.destinationsOf(position),
      attemptsOf: (destination) => attempts.get(destination)?.map(({ attempt }) => attempt) ?? [],
      pendingOf: (destination) => {
        const set = [...this.#held, ...this.#onDisk].find(isOf(destination));
        if (set === undefined) return undefined;
        const delivery = deliveryIn(set.encoded, position)!;
        return set.due === undefined ? { delivery } : { delivery, dueAt: set.due };
      },
      givenUp: (destination) => this.#dead.filter(isOf(destination)),
    };
  }
}

async function readTraces(
  read: Transaction,
  groups: readonly (readonly Position[])[],
): Promise<TracesOfEvents> {
  const ofGroups = <Row>(ask: (first: Position, last: Position) => Promise<Row[]>) =>
    Promise.all(groups.map((group) => ask(group[0]!, group.at(-1)!)));
  const [attempts, dead, held, requeued] = await Promise.all([
    attemptsOf(read, groups),
    ofGroups((first, last) => deadLettersNear(read, first, last + 1)),
    ofGroups((first, last) => read.rows<TraceRow>(HELD, [first, last])),
    ofGroups((first, last) => read.rows<TraceRow>(REQUEUED, [first, last])),
  ]);
  return new TracesOfEvents(groups, {
    attempts,
    dead: dead.flat(),
    held: held.flat().map(toTrace),
    requeued: requeued.flat().map(toTrace),
  });
}

/** Neighbouring positions mostly share their rows, so these are read once for all of them. */
function neighbours(positions: readonly Position[]): Position[][] {
  const groups: Position[][] = [];
  for (const position of [...new Set(positions)].sort((a, b) => a - b)) {
    const group = groups.at(-1);
    if (group !== undefined && position - group.at(-1)! < ROW_SPAN) group.push(position);
    else groups.push([position]);
  }
  return groups;
}

async function highestOf(
  read: Transaction,
  destination: number,
  { tried, max, below }: HighestQuery,
): Promise<Position[]> {
  let positions: Position[] = [];
  const take = (rows: readonly { readonly refs: Uint8Array }[]) => {
    for (const { refs } of rows)
      for (const position of positionsBelow(setOrEmpty(destination, refs), below, { max, tried }))
        positions.push(position);
    positions = [...new Set(positions)].sort((a, b) => b - a).slice(0, max);
  };
  take(await read.rows<{ refs: Uint8Array }>(HELD_FOR, [destination]));
  for (let highest = Number.MAX_SAFE_INTEGER; ; ) {
    const values = [destination, highest, below, tried ?? null];
    const rows = await read.rows<{ last: Position; refs: Uint8Array }>(HIGHEST, values);
    take(rows);
    if (rows.length === 0) return positions;
    // All positions of the rows behind these are lower.
    highest = rows.at(-1)!.last - 1;
    if (positions.length === max && highest < positions[max - 1]!) return positions;
  }
}

function toTrace({ destination, due, refs }: TraceRow): TraceSet {
  const set = { destination, encoded: setOrEmpty(destination, refs) };
  return due === null ? set : { ...set, due };
}

interface TraceRow {
  readonly destination: number;
  /** Null while a process holds it. */
  readonly due: Monotonic | null;
  readonly refs: Uint8Array;
}

interface TraceSet {
  readonly destination: number;
  readonly encoded: Uint8Array;
  readonly due?: Monotonic;
}

interface Traces {
  readonly attempts: readonly LoggedAttempt[];
  /** The last given up first. */
  readonly dead: readonly DeadLetterRow[];
  readonly held: readonly TraceSet[];
  readonly requeued: readonly TraceSet[];
}
