import { type Destination, lanesOf } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import { attemptOnWallClock } from '../ports/clock.ts';
import type { OutboundRequest } from '../ports/http-client.ts';
import { type OpenRequests, type RoundDependencies, sendRound } from './attempt.ts';
import type { TestAttempt } from './contract.ts';

type TestDependencies = Omit<RoundDependencies, 'openRequests' | 'endpointAt'>;

/** A test sends one request to each endpoint and counts nothing. */
const UNCOUNTED: OpenRequests = { isBusy: () => false, requestBegan: () => {}, requestEnded: () => {} };

/**
 * Sends an event to every endpoint of a destination once, so that an operator sees the requests and the answers. The
 * requests take the way of every delivery: the same bodies and signatures, the same checks of addresses and certificates,
 * the same outcomes. It waits for every endpoint, whatever `success` says. It retries and stores nothing, and the health
 * of the endpoints stays as it is.
 */
export function sendTestDelivery(
  event: Event,
  destination: Destination,
  dependencies: TestDependencies,
): Promise<TestAttempt[]> {
  const each = { ...destination, settings: { ...destination.settings, success: 'each' as const } };
  return Promise.all(
    lanesOf(each).map((endpoint, place) => testEndpoint(event, { endpoint, place }, dependencies)),
  );
}

function testEndpoint(
  event: Event,
  { endpoint, place }: { readonly endpoint: Destination; readonly place: number },
  dependencies: TestDependencies,
): Promise<TestAttempt> {
  const { transport, clock } = dependencies;
  return new Promise((resolve) => {
    let sent: OutboundRequest | undefined;
    const recording: RoundDependencies['transport'] = {
      send: (request, done) => {
        sent = request;
        transport.send(request, done);
      },
      stop: () => transport.stop(),
    };
    // It is in no pending set and of no source.
    const ready = {
      set: 0,
      delivery: { position: 0, rounds: 0 },
      serialized: { event, arrivedAt: clock.monotonic() },
      source: 0,
    };
    sendRound(
      ready,
      endpoint,
      { ...dependencies, transport: recording, openRequests: UNCOUNTED },
      ({ attempts: [attempt] }) =>
        resolve({ place, request: sent!, attempt: attemptOnWallClock(attempt!, clock) }),
    );
  });
}
