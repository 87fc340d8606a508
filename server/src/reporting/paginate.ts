import type { Position } from '../model/event.ts';
import type { Monotonic, Time } from '../model/time.ts';
import type { DeliveryHistories, EventHistory } from '../ports/delivery-queue.ts';
import type { EventLog, StoredEvent } from '../ports/event-log.ts';
import type { Page, PageStart } from './contract.ts';

/** Lets so many go on at once; the others wait for their turn, in the order they came. */
export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(atOnce: number) {
    this.#free = atOnce;
  }

  /** Resolves or rejects as `work` does, which begins when its turn has come. */
  async run<Value>(work: () => Promise<Value>): Promise<Value> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      // The turn goes to the next one directly, so that nobody who comes now can take it before.
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  }
}

/** Somewhere to look, the newest first: as `EventLog.find` and `History.pending` answer. */
export type PositionLister = (below: Position | undefined) => Promise<{
  readonly positions: readonly Position[];
  readonly next?: Position;
  /** Positions passed; as many as were found when absent. */
  readonly scanned?: number;
  readonly reachedAt?: Time;
}>;

/** One entry of a page, in its place within its event. */
export interface PageEntry<Entry> {
  readonly entry: Entry;
  /** The lane, where an event may have several entries. */
  readonly lane?: number;
}

export interface PageSource<Entry> {
  readonly list: PositionLister;
  /** Whether the event is one of those looked for. */
  readonly accepts: (stored: StoredEvent) => boolean;
  /** What the event gives, by lane; nothing where it is none of those looked for after all. */
  readonly entriesOf: (position: Position, stored: StoredEvent, known: EventHistory) => PageEntry<Entry>[];
}

export interface PageLimits {
  readonly limit: number;
  /** Looks no further from then on, whatever was found. */
  readonly until: Monotonic;
  readonly from?: PageStart;
}

export interface PaginationDependencies {
  readonly log: Pick<EventLog, 'read'>;
  readonly history: Pick<DeliveryHistories, 'read'>;
  readonly now: () => Monotonic;
}

/** Events read at once. */
const READ_BATCH = 500;
/** Positions this close mostly lie in one piece of the store, which is read as a whole. */
const PIECE_SPAN = 500;
/** Pieces read at once: few enough to be still at hand when it is asked what became of their events. */
const MAX_PIECES = 12;
/** Histories asked for at once. Each is a few small reads, and commits wait meanwhile. */
const HISTORY_BATCH = 25;
/** Characters of a page, about: failed requests are kept with their answers, and there may be twenty for each delivery. */
const MAX_PAGE_CHARACTERS = 4 * 1024 * 1024;

/**
 * One page of a search: looks, reads, asks what became of what it has read, until the page is full or the time is over.
 * Never more in memory than a page and the portion just read. Events that arrive meanwhile are above all of it.
 */
export async function paginate<Entry>(
  way: PageSource<Entry>,
  bounds: PageLimits,
  tools: PaginationDependencies,
): Promise<Page<Entry>> {
  const page = new PageBuilder<Entry>(bounds);
  let below = bounds.from?.below;
  let searched = 0;
  for (;;) {
    const found = await way.list(below);
    const { positions, scanned = positions.length } = found;
    for (const portion of splitByPiece(positions)) {
      const stop = await fillPage(page, portion, { way, bounds, tools });
      if (stop === undefined) continue;
      // Positions lie about evenly among those that were passed.
      const share = (positions.indexOf(portion[0]!) + stop.read) / positions.length;
      searched += Math.round(scanned * share);
      return { data: page.data, next: stop.next, searched, ...searchedToField(stop.reachedAt) };
    }
    searched += scanned;
    if (found.next === undefined) return { data: page.data, searched };
    below = found.next;
    if (tools.now() >= bounds.until)
      return { data: page.data, next: { below }, searched, ...searchedToField(found.reachedAt) };
  }
}

function searchedToField(at: Time | undefined): { readonly searchedTo?: Time } {
  return at === undefined ? {} : { searchedTo: at };
}

/** `positions` descending. */
export function splitByPiece(positions: readonly Position[]): Position[][] {
  const portions: Position[][] = [];
  let portion: Position[] = [];
  let pieces = 0;
  let piece = Number.NaN;
  for (const position of positions) {
    const isNew = Math.floor(position / PIECE_SPAN) !== piece;
    if (portion.length === 0 || portion.length === READ_BATCH || (isNew && pieces === MAX_PIECES)) {
      portion = [];
      portions.push(portion);
      pieces = 0;
    }
    if (isNew || portion.length === 0) pieces++;
    piece = Math.floor(position / PIECE_SPAN);
    portion.push(position);
  }
  return portions;
}

interface PageContext<Entry> {
  readonly way: PageSource<Entry>;
  readonly bounds: PageLimits;
  readonly tools: PaginationDependencies;
}

/** Where a page ends, before the end of what there is. */
interface PageEnd {
  readonly next: PageStart;
  /** Positions of the portion that were dealt with. */
  readonly read: number;
  readonly reachedAt: Time | undefined;
}

/** Adds what a portion gives; where to go on when the page is full or the time over. */
async function fillPage<Entry>(
  page: PageBuilder<Entry>,
  positions: readonly Position[],
  { way, bounds, tools }: PageContext<Entry>,
): Promise<PageEnd | undefined> {
  const events = await tools.log.read(positions);
  const stop = (next: PageStart, read: number): PageEnd => ({
    next,
    read,
    reachedAt: arrivalTime(events.slice(0, Math.max(1, read)).findLast((stored) => stored !== undefined)),
  });
  const accepted = positions.flatMap((position, nth) => {
    const stored = events[nth];
    return stored !== undefined && way.accepts(stored) ? [{ position, stored, nth }] : [];
  });
  for (let from = 0; from < accepted.length; from += HISTORY_BATCH) {
    const some = accepted.slice(from, from + HISTORY_BATCH);
    const known = await tools.history.read(some.map(({ position }) => position));
    for (const [at, { position, stored, nth }] of some.entries()) {
      const history = known[at];
      if (history === undefined) continue;
      const full = page.add(position, way.entriesOf(position, stored, history));
      if (full !== undefined) return stop(full, nth);
    }
    const last = some.at(-1)!;
    if (page.isFull || tools.now() >= bounds.until) return stop({ below: last.position }, last.nth + 1);
  }
  return tools.now() >= bounds.until ? stop({ below: positions.at(-1)! }, positions.length) : undefined;
}

/** A page that is being filled. */
class PageBuilder<Entry> {
  readonly data: Entry[] = [];
  readonly #limit: number;
  readonly #from: PageStart | undefined;
  #characters = 0;

  constructor({ limit, from }: PageLimits) {
    this.#limit = limit;
    this.#from = from;
  }

  get isFull(): boolean {
    return this.data.length >= this.#limit || this.#characters >= MAX_PAGE_CHARACTERS;
  }

  /** Adds the entries of an event; the place of the first that has no room. */
  add(position: Position, entries: readonly PageEntry<Entry>[]): PageStart | undefined {
    let last: number | undefined;
    for (const { entry, lane } of entries) {
      if (this.#wasShown(position, lane)) continue;
      if (this.isFull) return { below: position + 1, ...(last === undefined ? {} : { after: last }) };
      this.data.push(entry);
      this.#characters += JSON.stringify(entry).length;
      last = lane;
    }
    return undefined;
  }

  #wasShown(position: Position, lane: number | undefined): boolean {
    const { below, after } = this.#from ?? {};
    return below === position + 1 && lane !== undefined && after !== undefined && lane <= after;
  }
}

function arrivalTime(stored: StoredEvent | undefined): Time | undefined {
  return stored && Date.parse(stored.event.receivedAt);
}
