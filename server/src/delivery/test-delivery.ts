import { type Destination, lanesOf } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import { attemptOnWallClock } from '../ports/clock.ts';
import type { OutboundRequest } from '../ports/http-client.ts';
import { type OpenRequests, type RoundDependencies, sendRound } from './attempt.ts';
import type { TestAttempt } from './contract.ts';

/** A trial is one request to each: nothing to count. */
const UNCOUNTED: OpenRequests = { isBusy: () => false, requestBegan: () => {}, requestEnded: () => {} };

/**
 * Sends an event to every endpoint of a destination once, owed to nobody: how an operator sees what an endpoint gets and
 * what it says. The requests go the way of every delivery, so that what works here works there: the same bodies and
 * signatures, the same checks of addresses and certificates, the same outcomes. Every endpoint is waited for, whatever
 * `success` says, and nothing is tried again, stored, or held against the destination.
 */
export function sendTestDelivery(
  event: Event,
  destination: Destination,
  tools: Omit<RoundDependencies, 'open' | 'endpointAt'>,
): Promise<TestAttempt[]> {
  const each = { ...destination, settings: { ...destination.settings, success: 'each' as const } };
  return Promise.all(lanesOf(each).map((lane, place) => testEndpoint(event, { lane, place }, tools)));
}

function testEndpoint(
  event: Event,
  { lane, place }: { readonly lane: Destination; readonly place: number },
  tools: Omit<RoundDependencies, 'open' | 'endpointAt'>,
): Promise<TestAttempt> {
  return new Promise((resolve) => {
    let sent: OutboundRequest | undefined;
    const transport: RoundDependencies['transport'] = {
      send: (request, done) => {
        sent = request;
        tools.transport.send(request, done);
      },
      stop: () => tools.transport.stop(),
    };
    // In no pending set and of no source, as it is owed to nobody.
    const serialized = { event, arrivedAt: tools.clock.monotonic() };
    const work = { set: 0, delivery: { position: 0, rounds: 0 }, serialized, source: 0 };
    sendRound(work, lane, { ...tools, transport, open: UNCOUNTED }, ({ attempts: [attempt] }) => {
      resolve({ place, request: sent!, attempt: attemptOnWallClock(attempt!, tools.clock) });
    });
  });
}
