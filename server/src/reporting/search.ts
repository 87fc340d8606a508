import { isWantedName } from '../model/delivery-policy.ts';
import type { Destination } from '../model/destination.ts';
import type { Event, Position } from '../model/event.ts';
import { defined } from '../model/json.ts';
import {
  destinationOfLane,
  endpointIndexOfLane,
  everyLaneIdOf,
  nameOfTarget,
  type Target,
} from '../model/lane.ts';
import { maskUrl } from '../model/secrets.ts';
import {
  type Duration,
  isoTime,
  type Monotonic,
  type OnWallClock,
  SECOND,
  type Time,
} from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeadLetter, DeliveryHistory, EventHistory } from '../ports/delivery-queue.ts';
import type { EventPrefilter, LogQuery, StoredEvent } from '../ports/event-log.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { DeadLetterView, HistoryView, LogView } from '../ports/store-view.ts';
import type { JoinedIds } from '../ports/users.ts';
import type {
  DeadLetterSearch,
  DeliveryQuery,
  DeliverySummary,
  EventQuery,
  EventTrace,
  Page,
  PageRequest,
  PageStart,
} from './contract.ts';
import { identityOf } from './event-identity.ts';
import {
  mergedLister,
  type PageLimits,
  type PageSource,
  type PositionLister,
  paginate,
  Semaphore,
} from './paginate.ts';
import { deliveryTrace, eventTrace, type RecordNames, recordNames } from './trace.ts';

/**
 * The cheapest test comes first: `stored.event` parses the event on first use, and the source rules out most
 * events.
 */
export function matchesEvent(stored: StoredEvent, query: EventQuery): boolean {
  const { messageId, source, type, anonymousId, event, from, to } = query;
  if (source !== undefined && stored.source !== source) return false;
  if (messageId !== undefined && stored.event.messageId !== messageId) return false;
  if (type !== undefined && stored.event.type !== type) return false;
  if (anonymousId !== undefined && stored.event.anonymousId !== anonymousId) return false;
  if (query.userId !== undefined && !isOfUser(stored.event, query)) return false;
  if (event !== undefined && !matchesName(stored.event, event)) return false;
  if (from === undefined && to === undefined) return true;
  const arrivedAt = Date.parse(stored.event.receivedAt);
  return arrivedAt >= (from ?? arrivedAt) && (to === undefined || arrivedAt < to);
}

function isOfUser({ userId, anonymousId }: Event, wanted: EventQuery): boolean {
  if (userId === wanted.userId) return true;
  if (wanted.joined === undefined) return false;
  const { userIds, anonymousIds } = wanted.joined;
  return userId === undefined ? anonymousIds.includes(anonymousId!) : userIds.includes(userId);
}

function matchesName({ event, name }: Event, wanted: string): boolean {
  const found = event ?? name;
  if (found === undefined) return false;
  return isWantedName(wanted, found);
}

export function matchesDelivery(
  { destination, state, reason, attempts }: OnWallClock<DeliveryHistory>,
  query: Pick<DeliveryQuery, 'destination' | 'state' | 'reason'>,
): boolean {
  if (query.destination !== undefined && query.destination !== destinationOfLane(destination)) return false;
  if (query.state !== undefined && query.state !== state) return false;
  return query.reason === undefined || query.reason === (reason ?? attempts.at(-1)?.outcome.reason);
}

/** Converts deliveries to their views, with the names of the current records. */
class DeliveryViews {
  readonly #names: RecordNames;
  readonly #destinations: ReadonlyMap<string, Destination>;

  readonly #targetsOf: SearchDependencies['targetsOf'];

  constructor({ settings: now, targetsOf }: Pick<SearchDependencies, 'settings' | 'targetsOf'>) {
    const settings = now();
    this.#targetsOf = targetsOf;
    this.#names = recordNames(settings);
    this.#destinations = new Map(settings.destinations.map((one) => [one.name, one]));
  }

  delivery(position: Position, stored: StoredEvent, delivery: OnWallClock<DeliveryHistory>): DeliverySummary {
    const { attempts, ...rest } = deliveryTrace(position, delivery, this.#names);
    return { ...rest, ...this.#endpointOf(delivery.destination), ...this.#eventOf(stored), attempts };
  }

  letter(
    { destination, position, state, reason, note, at }: OnWallClock<DeadLetter>,
    stored: StoredEvent | undefined,
    known: OnWallClock<EventHistory> | undefined,
  ): DeliverySummary {
    const requests = known?.deliveries.find((one) => one.destination === destination)?.attempts ?? [];
    const about = note === undefined ? { reason } : { reason, note };
    const delivery = { destination, state, ...about, attempts: requests };
    const { attempts, ...rest } = deliveryTrace(position, delivery, this.#names);
    return {
      ...rest,
      ...(state === 'dead' ? { diedAt: isoTime(at) } : { droppedAt: isoTime(at) }),
      ...this.#endpointOf(destination),
      ...(stored && this.#eventOf(stored)),
      attempts,
    };
  }

  #endpointOf(lane: number): { readonly endpoint?: string } {
    const destination = this.#destinations.get(this.#names.destination(lane));
    if (destination?.success !== 'each') return {};
    const target = this.#targetsOf(destination)[endpointIndexOfLane(lane)];
    return target === undefined ? {} : { endpoint: maskUrl(nameOfTarget(target)) };
  }

  #eventOf({ source, event }: StoredEvent) {
    return { ...identityOf(event), source: this.#names.source(source), receivedAt: event.receivedAt };
  }
}

/** The time one request searches. The page holds what was found by then, and `next` continues. */
const TIME_LIMIT: Duration = 0.9 * SECOND;

/** Concurrent searches, because they share the store's thread with commits. Others wait. */
const MAX_CONCURRENT = 2;

/** Pending deliveries listed at once. */
const PENDING_BATCH = 500;
/** Dead letters listed at once. */
const LETTER_BATCH = 500;
/** Dead letters of a user with more events than this are found by reading the dead letters. */
const MAX_EVENTS_OF_USER = 5000;
/** Histories of dead letters read at once. */
const HISTORY_BATCH = 50;
/** Approximate characters of a page, as in paginate.ts. */
const MAX_PAGE_CHARACTERS = 4 * 1024 * 1024;

/** A dead letter that matches the query. */
interface MatchingLetter {
  readonly letter: OnWallClock<DeadLetter>;
  readonly stored: StoredEvent | undefined;
  /** Its index in the batch that was read. */
  readonly nth: number;
}

/** Ids of one user that a search follows. Each is a look-up of its own. */
const MAX_JOINED = 100;

export interface SearchDependencies {
  readonly log: Pick<LogView, 'find' | 'read'>;
  readonly history: Pick<HistoryView, 'read' | 'findPending'>;
  readonly deadLetters: Pick<DeadLetterView, 'list'>;
  readonly settings: () => SettingsSnapshot;
  /** Where a destination sends to. */
  readonly targetsOf: (destination: Destination) => readonly Target[];
  readonly clock: Pick<Clock, 'monotonic'>;
  /** Ids that belong to a user, where profiles know them. Absent: a user has one. */
  readonly joinedIds?: (userIds: readonly string[]) => Promise<readonly JoinedIds[]>;
}

/** Searches events and deliveries, a page at a time. Methods reject with a `StorageError`. */
export class SearchService {
  readonly #dependencies: SearchDependencies;
  readonly #semaphore = new Semaphore(MAX_CONCURRENT);

  constructor(dependencies: SearchDependencies) {
    this.#dependencies = dependencies;
  }

  /** Matching events, the newest first. */
  async events(asked: EventQuery, wanted: PageRequest<PageStart>): Promise<Page<EventTrace>> {
    const query = await this.#withJoined(asked);
    const names = recordNames(this.#dependencies.settings());
    const way: PageSource<EventTrace> = {
      list: this.#eventLister(query, likenessOf(query)),
      accepts: (stored) => matchesEvent(stored, query),
      entriesOf: (position, stored, known) => [{ entry: eventTrace(position, { stored, known, names }) }],
    };
    return await this.#paginate(way, wanted);
  }

  /** Matching deliveries, those of the newest events first. For dead ones `dead` is faster. */
  async deliveries(asked: DeliveryQuery, wanted: PageRequest<PageStart>): Promise<Page<DeliverySummary>> {
    const query = await this.#withJoined(asked);
    const shown = new DeliveryViews(this.#dependencies);
    const way: PageSource<DeliverySummary> = {
      list: this.#deliveryLister(query),
      accepts: (stored) => matchesEvent(stored, query),
      entriesOf: (position, stored, { deliveries }) =>
        deliveries
          .filter((delivery) => matchesDelivery(delivery, query))
          .map((delivery) => ({
            entry: shown.delivery(position, stored, delivery),
            lane: delivery.destination,
          })),
    };
    return await this.#paginate(way, wanted);
  }

  /** Matching deliveries that were given up, the latest first; `from` and `to` bound the time of that. */
  async dead(asked: DeadLetterSearch, wanted: PageRequest<string>): Promise<Page<DeliverySummary, string>> {
    const query = await this.#withJoined(asked);
    return await this.#semaphore.run(() => this.#dead(query, wanted));
  }

  /** The query with the ids that profiles join to its user. A search works without profiles, too. */
  async #withJoined<Query extends EventQuery>(query: Query): Promise<Query> {
    const { joinedIds } = this.#dependencies;
    const { userId } = query;
    if (userId === undefined || joinedIds === undefined) return query;
    const [joined] = await joinedIds([userId]).catch(() => []);
    if (joined === undefined) return query;
    const { formerUserIds, anonymousIds } = joined;
    const userIds = [joined.userId, ...formerUserIds].filter((id) => id !== userId).slice(0, MAX_JOINED);
    if (userIds.length + anonymousIds.length === 0) return query;
    return { ...query, joined: { userIds, anonymousIds: anonymousIds.slice(0, MAX_JOINED) } };
  }

  async #dead(
    { from, to, reason, destination, state, ...event }: DeadLetterSearch,
    { limit, from: begin }: PageRequest<string>,
  ): Promise<Page<DeliverySummary, string>> {
    const { deadLetters, clock } = this.#dependencies;
    const until = clock.monotonic() + TIME_LIMIT;
    const destinations = this.#lanesOf(destination);
    const only = await this.#deliveriesOfUser(event, destinations, until - TIME_LIMIT / 2);
    const query = {
      destinations,
      state,
      ...defined({ reason, from, to, only }),
    };
    const isAny = isAnyEvent(event);
    const data: DeliverySummary[] = [];
    let [characters, searched] = [0, 0];
    let next = begin;
    let searchedTo: Time | undefined;
    do {
      const room = Math.min(HISTORY_BATCH, limit - data.length);
      const page = await deadLetters.list(query, isAny ? room : LETTER_BATCH, next);
      const found = await this.#matchingLetters(page.letters, event);
      // Letters without room on this page are found again by the next one.
      const taken = found.slice(0, room);
      const shown = await this.#viewsOf(taken);
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
      characters < MAX_PAGE_CHARACTERS &&
      clock.monotonic() < until
    );
    if (next === undefined) return { data, searched };
    return { data, next, searched, ...defined({ searchedTo }) };
  }

  /** The letters whose events match. */
  async #matchingLetters(
    letters: readonly OnWallClock<DeadLetter>[],
    query: EventQuery,
  ): Promise<MatchingLetter[]> {
    const events = await this.#dependencies.log.read(letters.map(({ position }) => position));
    // An event that is gone matches only a query without conditions on events.
    const isAny = isAnyEvent(query);
    return letters.flatMap((letter, nth) => {
      const stored = events[nth];
      return (stored === undefined ? isAny : matchesEvent(stored, query)) ? [{ letter, stored, nth }] : [];
    });
  }

  /**
   * All deliveries of the user in the query; undefined without a user, or when there are too many to list in
   * time.
   */
  async #deliveriesOfUser(
    { userId, joined, anonymousId }: EventQuery,
    lanes: readonly number[],
    until: Monotonic,
  ) {
    if (userId === undefined && anonymousId === undefined) return undefined;
    const look = this.#eventLister(defined({ userId, joined }), likenessOf({ anonymousId }));
    const positions: Position[] = [];
    let below: Position | undefined;
    do {
      const found = await look(below);
      positions.push(...found.positions);
      below = found.next;
      if (positions.length > MAX_EVENTS_OF_USER || this.#dependencies.clock.monotonic() >= until)
        return undefined;
    } while (below !== undefined);
    return lanes.flatMap((destination) => positions.map((position) => ({ destination, position })));
  }

  async #viewsOf(letters: readonly MatchingLetter[]): Promise<DeliverySummary[]> {
    const { history } = this.#dependencies;
    const known = await history.read(letters.map(({ letter }) => letter.position));
    const shown = new DeliveryViews(this.#dependencies);
    return letters.map(({ letter, stored }, nth) => shown.letter(letter, stored, known[nth]));
  }

  /**
   * Lists by messageId or user, which are indexed, or by time; the store rules out most events that do not
   * match the rest.
   */
  #eventLister({ messageId, userId, joined, from, to }: EventQuery, like: EventPrefilter): PositionLister {
    const { log } = this.#dependencies;
    if (messageId !== undefined) return (below) => log.find({ messageId }, below);
    if (userId !== undefined) {
      const { userIds = [], anonymousIds = [] } = joined ?? {};
      const queries: OnWallClock<LogQuery>[] = [
        ...[userId, ...userIds].map((userId) => ({ userId })),
        ...anonymousIds.map((anonymousId) => ({ anonymousId })),
      ];
      return mergedLister(queries.map((query) => (below) => log.find(query, below)));
    }
    const range = { from: from ?? 0, to: to ?? Number.MAX_SAFE_INTEGER, like };
    return (below) => log.find(range, below);
  }

  /** Lists pending sets for the pending states, else events. With a user it lists events: users have few. */
  #deliveryLister(query: DeliveryQuery): PositionLister {
    const { history } = this.#dependencies;
    const { userId, anonymousId, state, destination } = query;
    const isOfOne = userId !== undefined || anonymousId !== undefined;
    const lanes = this.#lanesOf(destination);
    if (isOfOne || (state !== 'pending' && state !== 'retrying')) {
      const owed = { ...likenessOf(query), owedTo: lanes };
      return this.#eventLister(query, state === 'delivered' ? { ...owed, isDelivered: true } : owed);
    }
    const pending = { destinations: lanes, tried: state === 'retrying' };
    return (below) => history.findPending(pending, PENDING_BATCH, below);
  }

  /**
   * The lanes of a destination, or of all. Removed destinations are included: their deliveries are still
   * stored.
   */
  #lanesOf(destination: number | undefined): readonly number[] {
    const { destinations, gone } = this.#dependencies.settings();
    return [...destinations, ...gone.destinations]
      .filter(({ id }) => (destination ?? id) === id)
      .flatMap(everyLaneIdOf);
  }

  #paginate<Entry>(way: PageSource<Entry>, { limit, from }: PageRequest<PageStart>): Promise<Page<Entry>> {
    const { log, history, clock } = this.#dependencies;
    return this.#semaphore.run(() => {
      const until = clock.monotonic() + TIME_LIMIT;
      const bounds: PageLimits = from === undefined ? { limit, until } : { limit, until, from };
      return paginate(way, bounds, { log, history, now: () => clock.monotonic() });
    });
  }
}

/** The conditions that a store can often check without reading the event. */
function likenessOf({
  source,
  type,
  anonymousId,
  event,
}: { [Key in keyof EventQuery]?: EventQuery[Key] | undefined }): EventPrefilter {
  return {
    ...defined({ source, type, anonymousId, event }),
  };
}

function isAnyEvent(query: EventQuery): boolean {
  return Object.values(query).every((value) => value === undefined);
}
