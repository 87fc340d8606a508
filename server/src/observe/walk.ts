import type { Position } from '../model/event.ts';
import type { Monotonic } from '../model/time.ts';
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
}

/** Somewhere to look, the newest first: as `EventLog.find` and `History.pending` answer. */
export type Look = (
  below: Position | undefined,
) => Promise<{ readonly positions: readonly Position[]; readonly next?: Position }>;

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
  for (;;) {
    const found = await way.look(below);
    for (const positions of portionsOf(found.positions)) {
      const next = await fill(page, positions, { way, bounds, tools });
      if (next !== undefined) return { data: page.data, next };
    }
    if (found.next === undefined) return { data: page.data };
    below = found.next;
    if (tools.now() >= bounds.until) return { data: page.data, next: { below } };
  }
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

/** Adds what a portion gives; where to go on when the page is full or the time over. */
async function fill<Entry>(
  page: Filling<Entry>,
  positions: readonly Position[],
  { way, bounds, tools }: Going<Entry>,
): Promise<Place | undefined> {
  const events = await tools.log.read(positions);
  const accepted = positions.flatMap((position, nth) => {
    const stored = events[nth];
    return stored !== undefined && way.accepts(stored) ? [{ position, stored }] : [];
  });
  for (let from = 0; from < accepted.length; from += HISTORIES) {
    const some = accepted.slice(from, from + HISTORIES);
    const known = await tools.history.of(some.map(({ position }) => position));
    for (const [nth, { position, stored }] of some.entries()) {
      const history = known[nth];
      if (history === undefined) continue;
      const full = page.add(position, way.entriesOf(position, stored, history));
      if (full !== undefined) return full;
    }
    if (page.isFull || tools.now() >= bounds.until) return { below: some.at(-1)!.position };
  }
  return tools.now() >= bounds.until ? { below: positions.at(-1)! } : undefined;
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
