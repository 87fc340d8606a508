import { type Destination, laneAt, placeOfLane } from '../model/destination.ts';
import type { Position } from '../model/event.ts';
import { shownUrl } from '../model/shown-url.ts';
import { type Duration, MINUTE, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeadLetter, DeadLetters } from '../ports/dead-letters.ts';
import type { EventLog, StoredEvent } from '../ports/event-log.ts';
import type { DeliveryHistory, EventHistory, History } from '../ports/history.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import { type DeliveryQuery, type EventQuery, isDelivery, isEvent } from './matching.ts';
import {
  type Names,
  namesIn,
  type TracedAttempt,
  type TracedDelivery,
  type TracedEvent,
  tracedDelivery,
  tracedEvent,
} from './trace.ts';
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
const LETTERS = 50;
/** Characters of a page, about: see walk.ts. */
const CHARACTERS = 4 * 1024 * 1024;

/** A delivery with what says which event it is. Times are ISO 8601. */
export interface FoundDelivery {
  /** As `trace` gives it, and as `redeliveries` takes it. */
  readonly id: string;
  readonly destination: string;
  /** Where it goes, with `success: each`. */
  readonly endpoint?: string;
  readonly state: TracedDelivery['state'];
  /** Why it is dead. */
  readonly reason?: string;
  /** When it was given up. Only where dead ones are asked for. */
  readonly diedAt?: string;
  readonly nextAttemptAt?: string;
  /** These four are unknown of a dead letter whose event was erased. */
  readonly messageId?: string;
  readonly source?: string;
  readonly type?: string;
  readonly receivedAt?: string;
  readonly attempts: readonly TracedAttempt[];
}

export interface DeadPage {
  readonly data: readonly FoundDelivery[];
  /** As `DeadLetters.list` has it. */
  readonly next?: string;
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
      look: this.#lookFor(query),
      accepts: (stored) => isEvent(stored, query),
      entriesOf: (position, stored, known) => [{ entry: tracedEvent(position, { stored, known, names }) }],
    };
    return await this.#walk(way, wanted);
  }

  /** The deliveries that are like this, those of the events stored last first. For dead ones `dead` is the quick way. */
  async deliveries(query: DeliveryQuery, wanted: Wanted<Place>): Promise<Page<FoundDelivery>> {
    const shown = new Shown(this.#tools.settings());
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
    const query = {
      destinations: this.#lanesOf(destination),
      ...(reason === undefined ? {} : { reason }),
      ...(from === undefined ? {} : { from }),
      ...(to === undefined ? {} : { to }),
    };
    const data: FoundDelivery[] = [];
    let characters = 0;
    let next = begin;
    do {
      const page = await deadLetters.list(query, Math.min(LETTERS, limit - data.length), next);
      const found = await this.#shownOf(page.letters, event);
      data.push(...found);
      characters += JSON.stringify(found).length;
      next = page.next;
    } while (
      next !== undefined &&
      data.length < limit &&
      characters < CHARACTERS &&
      clock.monotonic() < until
    );
    return next === undefined ? { data } : { data, next };
  }

  async #shownOf(letters: readonly DeadLetter[], query: EventQuery): Promise<FoundDelivery[]> {
    const { log, history, settings } = this.#tools;
    const positions = letters.map(({ position }) => position);
    const [events, known] = await Promise.all([log.read(positions), history.of(positions)]);
    const shown = new Shown(settings());
    // Of an event that is gone nothing can be said, so it is none of those that somebody describes.
    const isAny = Object.values(query).every((value) => value === undefined);
    return letters.flatMap((letter, nth) => {
      const stored = events[nth];
      if (stored === undefined ? !isAny : !isEvent(stored, query)) return [];
      return [shown.letter(letter, stored, known[nth])];
    });
  }

  #lookFor({ userId, from, to }: EventQuery): Look {
    const { log } = this.#tools;
    if (userId !== undefined) return (below) => log.find({ userId }, below);
    const range = { from: from ?? 0, to: to === undefined ? Number.MAX_SAFE_INTEGER : to + COMMIT };
    return (below) => log.find(range, below);
  }

  /** By what is pending rather than by what is stored, where that is asked for; few users have many events, though. */
  #lookForDeliveries(query: DeliveryQuery): Look {
    const { history } = this.#tools;
    const { userId, state, destination } = query;
    if (userId !== undefined || (state !== 'pending' && state !== 'retrying')) return this.#lookFor(query);
    const pending = { destinations: this.#lanesOf(destination), tried: state === 'retrying' };
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

/** A destination has at most this many endpoints. service.md "Destination configuration". */
const ENDPOINTS = 5;

/** Ids of every lane it may ever have had: one that its settings have no longer may have deliveries all the same. */
function everyLaneOf(destination: Destination): number[] {
  return Array.from({ length: ENDPOINTS }, (_, place) => laneAt(destination, place).id);
}

/** How deliveries are shown, by the records as they are now. */
class Shown {
  readonly #names: Names;
  readonly #destinations: ReadonlyMap<string, Destination>;

  constructor(settings: SettingsSnapshot) {
    this.#names = namesIn(settings);
    this.#destinations = new Map(settings.destinations.map((one) => [one.name, one]));
  }

  delivery(position: Position, stored: StoredEvent, delivery: DeliveryHistory): FoundDelivery {
    const { attempts, ...rest } = tracedDelivery(position, delivery, this.#names);
    return { ...rest, ...this.#endpointOf(delivery.destination), ...this.#eventOf(stored), attempts };
  }

  letter(
    { destination, position, reason, at }: DeadLetter,
    stored: StoredEvent | undefined,
    known: EventHistory | undefined,
  ): FoundDelivery {
    const requests = known?.deliveries.find((one) => one.destination === destination)?.attempts ?? [];
    const delivery = { destination, state: 'dead', reason, attempts: requests } as const;
    const { attempts, ...rest } = tracedDelivery(position, delivery, this.#names);
    return {
      ...rest,
      diedAt: new Date(at).toISOString(),
      ...this.#endpointOf(destination),
      ...(stored === undefined ? {} : this.#eventOf(stored)),
      attempts,
    };
  }

  #endpointOf(lane: number): { readonly endpoint?: string } {
    const settings = this.#destinations.get(this.#names.destination(lane))?.settings;
    const endpoint = settings?.success === 'each' ? settings.endpoints[placeOfLane(lane)]?.url : undefined;
    return endpoint === undefined ? {} : { endpoint: shownUrl(endpoint) };
  }

  #eventOf({ source, event }: StoredEvent) {
    const { messageId, type, receivedAt } = event;
    return { messageId, source: this.#names.source(source), type, receivedAt };
  }
}
