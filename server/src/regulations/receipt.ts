import type { Attempt } from '../model/delivery.ts';
import type { Destination } from '../model/destination.ts';
import { defined } from '../model/json.ts';
import { destinationOfLane, endpointIndexOfLane, nameOfTarget, type Target } from '../model/lane.ts';
import {
  type NotificationStatus,
  type RegulationStatus,
  type RegulationSubject,
  userIdsOf,
} from '../model/regulation.ts';
import { maskUrl } from '../model/secrets.ts';
import type { OnWallClock, Time } from '../model/time.ts';
import { type DeliveryHistory, isOwed } from '../ports/delivery-queue.ts';
import type { Turns } from './turns.ts';

/** Deliveries of one notification so far. */
export interface NotificationHistory {
  /** Name of the source. */
  readonly source: string;
  readonly deliveries: readonly NotificationDelivery[];
}

/** A delivery whose attempts have times of the wall clock. */
type NotificationDelivery = Omit<DeliveryHistory, 'attempts' | 'nextAttemptAt'> & {
  readonly attempts: readonly OnWallClock<Attempt>[];
};

export function isEnded({ deliveries }: Pick<NotificationHistory, 'deliveries'>): boolean {
  return deliveries.every(({ state }) => !isOwed(state));
}

/**
 * The status of every source, destination and endpoint, from the histories of all notifications. An endpoint
 * has confirmed a notification when it has accepted the request. With `success: any` one endpoint is enough
 * to end a delivery: another one that did not accept it has not confirmed it, and the receipt says so. There
 * may be a million histories, so it takes turns with calls and deliveries.
 */
export async function streamsOf(
  histories: readonly NotificationHistory[],
  destinations: ReadonlyMap<number, Destination>,
  { redact, turns, targetsOf }: StreamOptions,
): Promise<NotificationStatus[]> {
  const streams = new Map<string, StreamCounts>();
  for (const { source, deliveries } of histories) {
    for (const delivery of deliveries) {
      if (turns.isOver()) await turns.next();
      const destination = destinations.get(destinationOfLane(delivery.destination));
      if (destination === undefined) continue;
      for (const endpoint of endpointsOf(delivery, destination.success, targetsOf(destination))) {
        const key = JSON.stringify([source, destination.name, endpoint]);
        const stream = streams.get(key) ?? new StreamCounts(source, destination.name, endpoint);
        streams.set(key, stream);
        stream.add(delivery);
      }
    }
  }
  const statuses: NotificationStatus[] = [];
  for (const stream of streams.values()) {
    if (turns.isOver()) await turns.next();
    statuses.push(stream.status(redact));
  }
  return statuses;
}

export interface StreamOptions {
  /** Where a destination sends to, as its settings are now. */
  readonly targetsOf: (destination: Destination) => readonly Target[];
  /**
   * Takes the ids out of an answer. It costs more than all the rest, so only answers that are shown go
   * through it.
   */
  readonly redact: (text: string) => string;
  readonly turns: Turns;
}

/** Masked URLs of the endpoints of a delivery: those it was sent to, and those it is to be sent to. */
function endpointsOf(
  delivery: NotificationDelivery,
  success: Destination['success'],
  targets: readonly Target[],
): Set<string> {
  const place = endpointIndexOfLane(delivery.destination);
  const wanted = success !== 'each' && place === 0 ? targets : targets.slice(place, place + 1);
  const urls = new Set([...wanted.map(nameOfTarget), ...delivery.attempts.map(({ endpoint }) => endpoint)]);
  // The settings may have lost the endpoint of a lane that was never sent to.
  return urls.size === 0 ? new Set(['']) : new Set([...urls].map(maskUrl));
}

class StreamCounts {
  readonly #source: string;
  readonly #destination: string;
  readonly #endpoint: string;
  #sent = 0;
  #confirmed = 0;
  #open = 0;
  #tried = 0;
  #confirmedAt: Time | undefined;
  #lastAttemptAt = Number.NEGATIVE_INFINITY;
  #lastAttempt: OnWallClock<Attempt> | undefined;
  /** Reason of a delivery that died without a request. */
  #reason: string | undefined;

  constructor(source: string, destination: string, endpoint: string) {
    this.#source = source;
    this.#destination = destination;
    this.#endpoint = endpoint;
  }

  add({ state, reason, attempts }: NotificationDelivery): void {
    const own = attempts.filter(({ endpoint }) => maskUrl(endpoint) === this.#endpoint);
    const accepted = own.find(({ outcome }) => outcome.kind === 'accepted');
    this.#sent++;
    if (own.length > 0) this.#tried++;
    if (accepted !== undefined) {
      this.#confirmed++;
      this.#confirmedAt = Math.max(this.#confirmedAt ?? 0, endOf(accepted));
    } else if (isOwed(state)) this.#open++;
    const last = own.at(-1);
    if (last !== undefined && last.startedAt >= this.#lastAttemptAt) {
      this.#lastAttemptAt = last.startedAt;
      this.#lastAttempt = last;
    } else if (last === undefined) this.#reason ??= reason;
  }

  status(redact: (text: string) => string): NotificationStatus {
    const answer = this.#answer(redact);
    return {
      source: this.#source,
      destination: this.#destination,
      endpoint: this.#endpoint,
      status: this.#status(),
      sent: this.#sent,
      confirmed: this.#confirmed,
      ...defined({ confirmedAt: this.#confirmedAt, answer }),
    };
  }

  #answer(redact: (text: string) => string): NotificationStatus['answer'] {
    if (this.#lastAttempt !== undefined) return answerOf(this.#lastAttempt, redact);
    return this.#reason === undefined ? undefined : { reason: this.#reason };
  }

  #status(): RegulationStatus {
    if (this.#open > 0) return this.#tried === 0 ? 'INITIALIZED' : 'RUNNING';
    if (this.#confirmed === this.#sent) return 'FINISHED';
    return this.#confirmed > 0 ? 'PARTIAL_SUCCESS' : 'FAILED';
  }
}

function endOf({ startedAt, latencyMs }: OnWallClock<Attempt>): Time {
  return Math.round(startedAt + latencyMs);
}

/**
 * Characters of an answer in the receipt: a cut in the middle of an id would leave its beginning, and this is
 * far before the cut.
 */
const MAX_BODY = 200;

function answerOf(
  { outcome, answer }: OnWallClock<Attempt>,
  redact: (text: string) => string,
): NotificationStatus['answer'] {
  const { status, reason } = outcome;
  const body = answer === undefined || answer === '' ? undefined : redact(answer).slice(0, MAX_BODY);
  return defined({ status, reason: outcome.kind === 'accepted' ? undefined : reason, body });
}

/** The status of a whole regulation whose notifications have all ended. */
export function overallStatusOf(streams: readonly Pick<NotificationStatus, 'status'>[]): RegulationStatus {
  return streams.every(({ status }) => status === 'FINISHED') ? 'FINISHED' : 'PARTIAL_SUCCESS';
}

/**
 * All texts that would reveal the subjects of a regulation: their ids, and the external ids of their
 * profiles.
 */
export function textsOfSubjects(subjects: readonly RegulationSubject[]): string[] {
  const external = subjects.flatMap(({ externalIds = [] }) => externalIds);
  return [...new Set([...idsOfSubjects(subjects), ...external])];
}

/** The ids of the users and visitors of a regulation. */
export function idsOfSubjects(subjects: readonly RegulationSubject[]): string[] {
  return [
    ...new Set(
      subjects.flatMap((subject) => [
        ...userIdsOf(subject),
        ...subject.anonymousIds,
        ...(subject.anonymousId === undefined || subject.belongsToUser === true ? [] : [subject.anonymousId]),
      ]),
    ),
  ];
}
