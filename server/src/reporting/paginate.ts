import type { Position } from '../model/event.ts';
import { defined } from '../model/json.ts';
import type { Monotonic, OnWallClock, Time } from '../model/time.ts';
import type { EventHistory } from '../ports/delivery-queue.ts';
import type { StoredEvent } from '../ports/event-log.ts';
import type { HistoryView, LogView } from '../ports/store-view.ts';
import type { Page, PageStart } from './contract.ts';

/** Runs at most `atOnce` tasks at the same time; the others wait in the order they came. */
export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(atOnce: number) {
    this.#free = atOnce;
  }

  /** Runs `work` when a slot is free; resolves or rejects as it does. */
  async run<Value>(work: () => Promise<Value>): Promise<Value> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      // The slot goes to the next in the queue directly, so that a new caller cannot take it first.
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  }
}

/** Lists positions, the newest first, as `EventLog.find` and `DeliveryHistories.findPending` do. */
export type PositionLister = (below: Position | undefined) => Promise<{
  readonly positions: readonly Position[];
  readonly next?: Position;
  /** Positions passed; equal to the number of positions when absent. */
  readonly scanned?: number;
  readonly reachedAt?: Time | undefined;
}>;

/**
 * Lists what any of these list, each position once, the newest first. What one of them has not come to yet
 * holds back the others; they find it again.
 */
export function mergedLister(listers: readonly PositionLister[]): PositionLister {
  const [only, ...others] = listers;
  if (only !== undefined && others.length === 0) return only;
  return async (below) => {
    const pages = await Promise.all(listers.map((list) => list(below)));
    const floors = pages.flatMap(({ next }) => (next === undefined ? [] : [next]));
    const floor = floors.length === 0 ? undefined : Math.max(...floors);
    const all = new Set(pages.flatMap(({ positions }) => positions));
    const positions = [...all].filter((position) => floor === undefined || position >= floor);
    positions.sort((a, b) => b - a);
    if (floor === undefined) return { positions };
    const { reachedAt } = pages.find(({ next }) => next === floor)!;
    return { positions, next: floor, reachedAt };
  };
}

/** One entry of a page. */
export interface PageEntry<Entry> {
  readonly entry: Entry;
  /** Present where an event may have several entries, one per lane. */
  readonly lane?: number;
}

export interface PageSource<Entry> {
  readonly list: PositionLister;
  /** True when the event matches the query. */
  readonly accepts: (stored: StoredEvent) => boolean;
  /** The entries of an event in the order of their lanes; empty when none of them matches. */
  readonly entriesOf: (
    position: Position,
    stored: StoredEvent,
    known: OnWallClock<EventHistory>,
  ) => PageEntry<Entry>[];
}

export interface PageLimits {
  readonly limit: number;
  /** The search stops at this time, whatever it has found. */
  readonly until: Monotonic;
  readonly from?: PageStart;
}

export interface PaginationDependencies {
  readonly log: Pick<LogView, 'read'>;
  readonly history: Pick<HistoryView, 'read'>;
  readonly now: () => Monotonic;
}

/** Events read at once. */
const READ_BATCH = 500;
/** Positions this close mostly lie in one chunk of the store, which is read as a whole. */
const PIECE_SPAN = 500;
/** Chunks read at once: few enough to be still cached when the histories of their events are read. */
const MAX_PIECES = 12;
/** Histories read at once. Each takes a few small reads, and commits wait meanwhile. */
const HISTORY_BATCH = 25;
/**
 * Approximate characters of a page. A delivery may have twenty failed requests, each kept with its answer.
 */
const MAX_PAGE_CHARACTERS = 4 * 1024 * 1024;

/**
 * One page of a search: lists positions, reads events and histories until the page is full or the time is
 * over. Memory holds one page and one batch of events. Events that arrive meanwhile are newer than the page.
 */
export async function paginate<Entry>(
  source: PageSource<Entry>,
  limits: PageLimits,
  dependencies: PaginationDependencies,
): Promise<Page<Entry>> {
  const page = new PageBuilder<Entry>(limits);
  let below = limits.from?.below;
  let searched = 0;
  for (;;) {
    const found = await source.list(below);
    const { positions, scanned = positions.length } = found;
    for (const portion of splitByPiece(positions)) {
      const stop = await fillPage(page, portion, { source, limits, dependencies });
      if (stop === undefined) continue;
      // An estimate: positions lie about evenly among those that were passed.
      const share = (positions.indexOf(portion[0]!) + stop.read) / positions.length;
      searched += Math.round(scanned * share);
      return { data: page.data, next: stop.next, searched, ...searchedToField(stop.reachedAt) };
    }
    searched += scanned;
    if (found.next === undefined) return { data: page.data, searched };
    below = found.next;
    if (dependencies.now() >= limits.until)
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
  readonly source: PageSource<Entry>;
  readonly limits: PageLimits;
  readonly dependencies: PaginationDependencies;
}

/** The end of a page before the end of the list. */
interface PageEnd {
  readonly next: PageStart;
  /** Positions of the batch that were processed. */
  readonly read: number;
  readonly reachedAt: Time | undefined;
}

/** Adds the entries of a batch. Returns the end of the page when it is full or the time is over. */
async function fillPage<Entry>(
  page: PageBuilder<Entry>,
  positions: readonly Position[],
  { source, limits, dependencies }: PageContext<Entry>,
): Promise<PageEnd | undefined> {
  const events = await dependencies.log.read(positions);
  const stop = (next: PageStart, read: number): PageEnd => ({
    next,
    read,
    reachedAt: arrivalTime(events.slice(0, Math.max(1, read)).findLast((stored) => stored !== undefined)),
  });
  const accepted = positions.flatMap((position, nth) => {
    const stored = events[nth];
    return stored !== undefined && source.accepts(stored) ? [{ position, stored, nth }] : [];
  });
  for (let from = 0; from < accepted.length; from += HISTORY_BATCH) {
    const some = accepted.slice(from, from + HISTORY_BATCH);
    const known = await dependencies.history.read(some.map(({ position }) => position));
    for (const [at, { position, stored, nth }] of some.entries()) {
      const history = known[at];
      if (history === undefined) continue;
      const full = page.add(position, source.entriesOf(position, stored, history));
      if (full !== undefined) return stop(full, nth);
    }
    const last = some.at(-1)!;
    if (page.isFull || dependencies.now() >= limits.until)
      return stop({ below: last.position }, last.nth + 1);
  }
  return dependencies.now() >= limits.until
    ? stop({ below: positions.at(-1)! }, positions.length)
    : undefined;
}

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

  /** Adds the entries of an event. Returns the start of the next page when not all of them fit. */
  add(position: Position, entries: readonly PageEntry<Entry>[]): PageStart | undefined {
    let last: number | undefined;
    for (const { entry, lane } of entries) {
      if (this.#wasShown(position, lane)) continue;
      if (this.isFull) return { below: position + 1, ...defined({ after: last }) };
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
