import { byDestination } from '../../src/delivery/destination-totals.ts';
import { Dispatcher } from '../../src/delivery/dispatcher.ts';
import { DESTINATION_TYPES } from '../../src/destinations/list.ts';
import type { WebhookSettings } from '../../src/destinations/webhooks/settings.ts';
import type { Attempt } from '../../src/model/delivery.ts';
import type { Destination } from '../../src/model/destination.ts';
import type { Event } from '../../src/model/event.ts';
import type { DestinationCounts } from '../../src/model/ledger.ts';
import { HOUR, type OnWallClock } from '../../src/model/time.ts';
import type { LiveDelivery } from '../../src/ports/delivery-queue.ts';
import type { EventLog } from '../../src/ports/event-log.ts';
import type { HttpClient } from '../../src/ports/http-client.ts';
import type { ShownDecision } from '../../src/ports/telemetry.ts';
import { openSenders } from '../../src/wiring/destinations.ts';
import { openMemoryStore } from '../memory-store/store.ts';
import { handClock } from '../support/clock.ts';
import { lanesIn } from '../support/lanes.ts';

/** The time on the clock of the schedule when the event arrives. */
export const START = Date.UTC(2026, 0, 1, 12);

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

/** The whole life of one event at one destination, from its arrival to its end. */
export interface Course {
  /** Of every request that was answered for, in order. */
  readonly attempts: readonly OnWallClock<Attempt>[];
  /**
   * When each request was handed to the transport, in milliseconds after the event's arrival, by the
   * schedule's clock.
   */
  readonly sentAt: readonly number[];
  readonly end: ShownDecision;
  /** Counts of the ledger at the end. */
  readonly counts: DestinationCounts;
}

/**
 * Delivers one event over a real transport to its end. The requests take the time they take; the time between
 * them, four hours of it if need be, passes on a clock of its own.
 */
export async function courseOf(
  transport: HttpClient,
  url: string,
  settings: Partial<WebhookSettings> = {},
): Promise<Course> {
  const clock = handClock(START);
  const store = openMemoryStore();
  const destination: Destination = {
    id: 1,
    name: 'zoo',
    type: 'webhooks',
    sources: ['website'],
    enabled: true,
    version: 1,
    settings: {
      endpoints: [{ url, headers: {} }],
      format: 'documented',
      sharedSecret: 's',
      ...settings,
    },
  };
  const attempts: OnWallClock<Attempt>[] = [];
  const sentAt: number[] = [];
  let roundEnded = Promise.withResolvers<ShownDecision>();
  const http: HttpClient = {
    send: (request, done) => {
      sentAt.push(clock.now() - START);
      transport.send(request, done);
    },
    stop: async () => {},
  };
  const dispatcher = new Dispatcher({
    log: store.log,
    deliveryQueue: store.queue,
    healths: store.endpointHealth,
    clock,
    logger: SILENT,
    random: () => 0.5,
    types: DESTINATION_TYPES,
    senders: openSenders(DESTINATION_TYPES, { http, clock, logger: SILENT, sourceOf: () => undefined })
      .byType,
    currentObserver: {
      observer(activity) {
        if (activity.kind !== 'settled') return;
        attempts.push(...activity.attempts);
        roundEnded.resolve(activity.decision);
      },
    },
    sourceName: String,
  });
  dispatcher.configure([destination]);
  await dispatcher.start();
  await accept(store.log, dispatcher, lanesIn(destination));
  let end: ShownDecision = await roundEnded.promise;
  while (end.kind === 'retry') {
    roundEnded = Promise.withResolvers<ShownDecision>();
    const before = sentAt.length;
    await clock.passUntil(() => sentAt.length > before, 5 * HOUR);
    end = await roundEnded.promise;
  }
  await dispatcher.stop();
  const { destinations } = await byDestination(store.queue).ledger();
  return { attempts, sentAt, end, counts: destinations.get(1)! };
}

/** Stores the event and hands it over, as the receiving side does. */
async function accept(
  log: EventLog,
  liveDelivery: LiveDelivery,
  owed: readonly Destination[],
): Promise<void> {
  const at = new Date(START).toISOString();
  const event: Event = {
    messageId: 'm1',
    type: 'track',
    channel: 'server',
    userId: 'u1',
    event: 'Order Placed',
    context: {},
    integrations: {},
    timestamp: at,
    receivedAt: at,
  };
  for (const { id } of owed) liveDelivery.reserve(id, 1);
  const { positions, held } = await log.append({
    id: 'batch',
    receivedAt: START,
    events: [{ source: 1, messageId: event.messageId, json: JSON.stringify(event) }],
    owed: owed.map(({ id }) => ({ destination: id, state: 'held', indexes: [0] })),
    plans: [{ owed, skipped: [] }],
    planIndexes: [0],
    received: [{ source: 1, calls: 1, discarded: {} }],
  });
  for (const [place, { id }] of owed.entries()) {
    const delivery = { position: positions[0]!, rounds: 0 };
    liveDelivery.deliver(id, [
      {
        set: held[place]!,
        delivery,
        serialized: { event, arrivedAt: Date.parse(event.receivedAt) },
        source: 1,
      },
    ]);
  }
}
