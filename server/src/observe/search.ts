import { everyLaneOf } from '../model/destination.ts';
import type { Position } from '../model/event.ts';
import { type Duration, MINUTE, type Monotonic, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeadLetter, DeadLetters } from '../ports/dead-letters.ts';
import type { EventLog, Likeness, StoredEvent } from '../ports/event-log.ts';
import type { History } from '../ports/history.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import { type FoundDelivery, ShownDeliveries } from './found-delivery.ts';
import { type DeliveryQuery, type EventQuery, isDelivery, isEvent } from './matching.ts';
import { namesIn, type TracedEvent, tracedEvent } from './trace.ts';
import { Turns } from './turns.ts';
import { type Bounds, type Look, type Page, type Place, type Walk, walk } from './walk.ts';

/** How long one request looks. What was found by then is the page, and `next` goes on. */
const LONGEST: Duration = SECOND;

/** Events of one commit arrived within this, and are found by the last of them (ports/event-log.ts, `Batch.receivedAt`). */
const COMMIT: Duration = MINUTE;

/** Searches that go on at the same time: they read where calls are to be written. Others wait. */
const AT_ONCE = 2;

/** Deliveries looked for at once. */
const PENDING = 500;
/** Dead letters taken at once. */
const LETTERS = 500;
/** Events of one user that dead letters are looked for by; of one who has more, dead letters are read instead. */
const OF_ONE = 5000;
/** Histories of dead letters asked for at once. */
const SHOWN = 50;
/** Characters of a page, about: see walk.ts. */
const CHARACTERS = 4 * 1024 * 1024;

export interface DeadPage {
  readonly data: readonly FoundDelivery[];
  /** As `DeadLetters.list` has it. */
  readonly next?: string;
  /** Dead letters looked at for this page. */
  readonly searched: number;
  /** When the last of them was given up; absent at the end. */
  readonly searchedTo?: Time;
}

/** A dead letter that is sought. */
interface WantedLetter {
  readonly letter: DeadLetter;
  readonly stored: StoredEvent | undefined;
  /** Its place among those that were looked at together. */
  readonly nth: number;
}

export interface SearchTools {
  readonly log: Pick<EventLog, 'find' | 'read'>;
  readonly history: Pick<History, 'of' | 'pending'>;
  readonly deadLetters: Pick<DeadLetters, 'list'>;
  readonly settings: () => SettingsSnapshot;
  readonly clock: Pick<Clock, 'monotonic'>;
}

export interface Wanted<From> {
  readonly limit: number;
  /** `next` of the page before. */
  readonly from?: From;
}

/** Looks through everything stored, a page at a time. Rejects with a `StorageError`. */
export class Search {
  readonly #tools: SearchTools;
  readonly #turns = new Turns(AT_ONCE);

  constructor(tools: SearchTools) {
    this.#tools = tools;
  }

  /** The events that are like this, those stored last first. */
  async events(query: EventQuery, wanted: Wanted<Place>): Promise<Page<TracedEvent>> {
    const names = namesIn(this.#tools.settings());
    const way: Walk<TracedEvent> = {
      look: this.#lookFor(query, likenessOf(query)),
      accepts: (stored) => isEvent(stored, query),
      entriesOf: (position, stored, known) => [{ entry: tracedEvent(position, { stored, known, names }) }],
    };
    return await this.#walk(way, wanted);
  }

  /** The deliveries that are like this, those of the events stored last first. For dead ones `dead` is the quick way. */
  async deliveries(query: DeliveryQuery, wanted: Wanted<Place>): Promise<Page<FoundDelivery>> {
    const shown = new ShownDeliveries(this.#tools.settings());
    const way: Walk<FoundDelivery> = {
      look: this.#lookForDeliveries(query),
      accepts: (stored) => isEvent(stored, query),
      entriesOf: (position, stored, { deliveries }) =>
        deliveries
          .filter((delivery) => isDelivery(delivery, query))
          .map((delivery) => ({
            entry: shown.delivery(position, stored, delivery),
            lane: delivery.destination,
          })),
    };
    return await this.#walk(way, wanted);
  }

  /** Dead letters, the last given up first; `from` and `to` are about when that was. */
  dead(query: DeliveryQuery, wanted: Wanted<string>): Promise<DeadPage> {
    return this.#turns.take(() => this.#dead(query, wanted));
  }

  async #dead(
    { from, to, reason, destination, state: _, ...event }: DeliveryQuery,
    { limit, from: begin }: Wanted<string>,
  ): Promise<DeadPage> {
    const { deadLetters, clock } = this.#tools;
    const until = clock.monotonic() + LONGEST;
    const destinations = this.#lanesOf(destination);
    const only = await this.#lettersOfOne(event, destinations, until - LONGEST / 2);
    const query = {
      destinations,
      ...(reason === undefined ? {} : { reason }),
      ...(from === undefined ? {} : { from }),
      ...(to === undefined ? {} : { to }),
      ...(only === undefined ? {} : { only }),
    };
    const isAny = isAnyEvent(event);
    const data: FoundDelivery[] = [];
    let [characters, searched] = [0, 0];
    let next = begin;
    let searchedTo: Time | undefined;
    do {
      const room = Math.min(SHOWN, limit - data.length);
      const page = await deadLetters.list(query, isAny ? room : LETTERS, next);
      const found = await this.#wantedOf(page.letters, event);
      // What has no room any more is found again by the next page.
      const taken = found.slice(0, room);
      const shown = await this.#shownOf(taken);
      data.push(...shown);
      characters += JSON.stringify(shown).length;
      const cut = found[taken.length];
      const passed = cut === undefined ? page.letters.length : cut.nth;
      searched += passed;
      searchedTo = page.letters[passed - 1]?.at ?? searchedTo;
      next = cut === undefined ? page.next : (await deadLetters.list(query, passed, next)).next;
    } while (
      next !== undefined &&
      data.length < limit &&
      characters < CHARACTERS &&
      clock.monotonic() < until
    );
    if (next === undefined) return { data, searched };
    return { data, next, searched, ...(searchedTo === undefined ? {} : { searchedTo }) };
  }

  /** Those whose events are like this, each with its place among all. */
  async #wantedOf(letters: readonly DeadLetter[], query: EventQuery): Promise<WantedLetter[]> {
    const events = await this.#tools.log.read(letters.map(({ position }) => position));
    // Of an event that is gone nothing can be said, so it is none of those that somebody describes.
    const isAny = isAnyEvent(query);
    return letters.flatMap((letter, nth) => {
      const stored = events[nth];
      return (stored === undefined ? isAny : isEvent(stored, query)) ? [{ letter, stored, nth }] : [];
    });
  }

  /** The deliveries that may be meant where they are those of one user who is quickly found. */
  async #lettersOfOne({ userId, anonymousId }: EventQuery, lanes: readonly number[], until: Monotonic) {
    if (userId === undefined && anonymousId === undefined) return undefined;
    const look = this.#lookFor({ ...(userId === undefined ? {} : { userId }) }, likenessOf({ anonymousId }));
    const positions: Position[] = [];
    let below: Position | undefined;
    do {
      const found = await look(below);
      positions.push(...found.positions);
      below = found.next;
      if (positions.length > OF_ONE || this.#tools.clock.monotonic() >= until) return undefined;
    } while (below !== undefined);
    return lanes.flatMap((destination) => positions.map((position) => ({ destination, position })));
  }

  async #shownOf(letters: readonly WantedLetter[]): Promise<FoundDelivery[]> {
    const { history, settings } = this.#tools;
    const known = await history.of(letters.map(({ letter }) => letter.position));
    const shown = new ShownDeliveries(settings());
    return letters.map(({ letter, stored }, nth) => shown.letter(letter, stored, known[nth]));
  }

  /** By the user, or by the time: a user is in an index, and whatever else is asked for is mostly ruled out by the store. */
  #lookFor({ userId, from, to }: EventQuery, like: Likeness): Look {
    const { log } = this.#tools;
    if (userId !== undefined) return (below) => log.find({ userId }, below);
    const range = { from: from ?? 0, to: to === undefined ? Number.MAX_SAFE_INTEGER : to + COMMIT, like };
    return (below) => log.find(range, below);
  }

  /** By what is pending rather than by what is stored, where that is asked for; few users have many events, though. */
  #lookForDeliveries(query: DeliveryQuery): Look {
    const { history } = this.#tools;
    const { userId, anonymousId, state, destination } = query;
    const isOfOne = userId !== undefined || anonymousId !== undefined;
    const lanes = this.#lanesOf(destination);
    if (isOfOne || (state !== 'pending' && state !== 'retrying')) {
      const owed = { ...likenessOf(query), owedTo: lanes };
      return this.#lookFor(query, state === 'delivered' ? { ...owed, isDelivered: true } : owed);
    }
    const pending = { destinations: lanes, tried: state === 'retrying' };
    return (below) => history.pending(pending, PENDING, below);
  }

  /** Of a destination, or of all; also of those that were removed, as what they were owed is still there. */
  #lanesOf(destination: number | undefined): readonly number[] {
    const { destinations, gone } = this.#tools.settings();
    return [...destinations, ...gone.destinations]
      .filter(({ id }) => (destination ?? id) === id)
      .flatMap(everyLaneOf);
  }

  #walk<Entry>(way: Walk<Entry>, { limit, from }: Wanted<Place>): Promise<Page<Entry>> {
    const { log, history, clock } = this.#tools;
    return this.#turns.take(() => {
      const until = clock.monotonic() + LONGEST;
      const bounds: Bounds = from === undefined ? { limit, until } : { limit, until, from };
      return walk(way, bounds, { log, history, now: () => clock.monotonic() });
    });
  }
}

/** What an event is asked for that a store can often tell without reading it. */
function likenessOf({
  source,
  type,
  anonymousId,
  event,
}: { [Key in keyof EventQuery]?: EventQuery[Key] | undefined }): Likeness {
  return {
    ...(source === undefined ? {} : { source }),
    ...(type === undefined ? {} : { type }),
    ...(anonymousId === undefined ? {} : { anonymousId }),
    ...(event === undefined ? {} : { event }),
  };
}

function isAnyEvent(query: EventQuery): boolean {
  return Object.values(query).every((value) => value === undefined);
}
