import type { Position } from '../model/event.ts';
import type { Monotonic, Time } from '../model/time.ts';
import type { EventLog, StoredEvent } from '../ports/event-log.ts';
import type { EventHistory, History } from '../ports/history.ts';

/** Where a page begins: with the events below a position. */
export interface Place {
  readonly below: Position;
  /** Of the event right below, what comes behind this lane; the others of it stood on the page before. */
  readonly after?: number;
}

export interface Page<Entry> {
  readonly data: readonly Entry[];
  /** Absent at the end. */
  readonly next?: Place;
  /** Events looked at for this page, those among them that need not be read. */
  readonly searched: number;
  /** About when the event arrived where the page ends; absent at the end. */
  readonly searchedTo?: Time;
}

/** Somewhere to look, the newest first: as `EventLog.find` and `History.pending` answer. */
export type Look = (below: Position | undefined) => Promise<{
  readonly positions: readonly Position[];
  readonly next?: Position;
  /** Positions passed; as many as were found when absent. */
  readonly looked?: number;
  readonly reachedAt?: Time;
}>;

/** One entry of a page, in its place within its event. */
export interface Placed<Entry> {
  readonly entry: Entry;
  /** The lane, where an event may have several entries. */
  readonly lane?: number;
}

export interface Walk<Entry> {
  readonly look: Look;
  /** Whether the event is one of those looked for. */
  readonly accepts: (stored: StoredEvent) => boolean;
  /** What the event gives, by lane; nothing where it is none of those looked for after all. */
  readonly entriesOf: (position: Position, stored: StoredEvent, known: EventHistory) => Placed<Entry>[];
}

export interface Bounds {
  readonly limit: number;
  /** Looks no further from then on, whatever was found. */
  readonly until: Monotonic;
  readonly from?: Place;
}

export interface WalkTools {
  readonly log: Pick<EventLog, 'read'>;
  readonly history: Pick<History, 'of'>;
  readonly now: () => Monotonic;
}

/** Events read at once. */
const READ = 500;
/** Positions this close mostly lie in one piece of the store, which is read as a whole. */
const NEAR = 500;
/** Pieces read at once: few enough to be still at hand when it is asked what became of their events. */
const PIECES = 12;
/** Histories asked for at once. Each is a few small reads, and commits wait meanwhile. */
const HISTORIES = 25;
/** Characters of a page, about: failed requests are kept with their answers, and there may be twenty for each delivery. */
const CHARACTERS = 4 * 1024 * 1024;

/**
 * One page of a search: looks, reads, asks what became of what it has read, until the page is full or the time is over.
 * Never more in memory than a page and the portion just read. Events that arrive meanwhile are above all of it.
 */
export async function walk<Entry>(way: Walk<Entry>, bounds: Bounds, tools: WalkTools): Promise<Page<Entry>> {
  const page = new Filling<Entry>(bounds);
  let below = bounds.from?.below;
  let searched = 0;
  for (;;) {
    const found = await way.look(below);
    const { positions, looked = positions.length } = found;
    for (const portion of portionsOf(positions)) {
      const stop = await fill(page, portion, { way, bounds, tools });
      if (stop === undefined) continue;
      // Positions lie about evenly among those that were passed.
      const share = (positions.indexOf(portion[0]!) + stop.read) / positions.length;
      searched += Math.round(looked * share);
      return { data: page.data, next: stop.next, searched, ...reached(stop.reachedAt) };
    }
    searched += looked;
    if (found.next === undefined) return { data: page.data, searched };
    below = found.next;
    if (tools.now() >= bounds.until)
      return { data: page.data, next: { below }, searched, ...reached(found.reachedAt) };
  }
}

function reached(at: Time | undefined): { readonly searchedTo?: Time } {
  return at === undefined ? {} : { searchedTo: at };
}

/** `positions` descending. */
export function portionsOf(positions: readonly Position[]): Position[][] {
  const portions: Position[][] = [];
  let portion: Position[] = [];
  let pieces = 0;
  let piece = Number.NaN;
  for (const position of positions) {
    const isNew = Math.floor(position / NEAR) !== piece;
    if (portion.length === 0 || portion.length === READ || (isNew && pieces === PIECES)) {
      portion = [];
      portions.push(portion);
      pieces = 0;
    }
    if (isNew || portion.length === 0) pieces++;
    piece = Math.floor(position / NEAR);
    portion.push(position);
  }
  return portions;
}

interface Going<Entry> {
  readonly way: Walk<Entry>;
  readonly bounds: Bounds;
  readonly tools: WalkTools;
}

/** Where a page ends, before the end of what there is. */
interface Stop {
  readonly next: Place;
  /** Positions of the portion that were dealt with. */
  readonly read: number;
  readonly reachedAt: Time | undefined;
}

/** Adds what a portion gives; where to go on when the page is full or the time over. */
async function fill<Entry>(
  page: Filling<Entry>,
  positions: readonly Position[],
  { way, bounds, tools }: Going<Entry>,
): Promise<Stop | undefined> {
  const events = await tools.log.read(positions);
  const stop = (next: Place, read: number): Stop => ({
    next,
    read,
    reachedAt: arrivalIn(events.slice(0, Math.max(1, read)).findLast((stored) => stored !== undefined)),
  });
  const accepted = positions.flatMap((position, nth) => {
    const stored = events[nth];
    return stored !== undefined && way.accepts(stored) ? [{ position, stored, nth }] : [];
  });
  for (let from = 0; from < accepted.length; from += HISTORIES) {
    const some = accepted.slice(from, from + HISTORIES);
    const known = await tools.history.of(some.map(({ position }) => position));
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
class Filling<Entry> {
  readonly data: Entry[] = [];
  readonly #limit: number;
  readonly #from: Place | undefined;
  #characters = 0;

  constructor({ limit, from }: Bounds) {
    this.#limit = limit;
    this.#from = from;
  }

  get isFull(): boolean {
    return this.data.length >= this.#limit || this.#characters >= CHARACTERS;
  }

  /** Adds the entries of an event; the place of the first that has no room. */
  add(position: Position, entries: readonly Placed<Entry>[]): Place | undefined {
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

function arrivalIn(stored: StoredEvent | undefined): Time | undefined {
  return stored && Date.parse(stored.event.receivedAt);
}
