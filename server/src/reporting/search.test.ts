import { describe, expect, it } from 'vitest';
import type { Event } from '../model/event.ts';
import type { OnWallClock } from '../model/time.ts';
import type { DeliveryHistory } from '../ports/delivery-queue.ts';
import type { DeliveryQuery, EventQuery } from './contract.ts';
import { matchesDelivery, matchesEvent } from './search.ts';

const EVENT: Event = {
  messageId: 'm',
  type: 'track',
  channel: 'server',
  userId: 'u1',
  anonymousId: 'a1',
  event: 'Order Placed',
  context: {},
  integrations: {},
  timestamp: '2025-01-01T00:00:00.000Z',
  receivedAt: '2026-03-04T05:06:07.089Z',
};
const ARRIVED = Date.parse(EVENT.receivedAt);

describe('an event is found', () => {
  const yes: EventQuery[] = [
    {},
    { source: 4, type: 'track', userId: 'u1', event: 'Order Placed', from: ARRIVED, to: ARRIVED + 1 },
    { event: 'Order*' },
    { messageId: 'm' },
    { anonymousId: 'a1' },
    { event: '*' },
    { event: 'Order Placed*' },
    { from: ARRIVED },
    { to: ARRIVED + 1 },
    { userId: 'u0', joined: { userIds: ['u1'], anonymousIds: [] } },
  ];
  it.each(yes)('by %o', (query) => {
    expect(matchesEvent({ source: 4, arrivedAt: ARRIVED, event: EVENT }, query)).toBe(true);
  });

  const no: EventQuery[] = [
    { source: 5 },
    { messageId: 'm2' },
    { type: 'page' },
    { userId: 'u2' },
    { anonymousId: 'a' },
    { event: 'Order' },
    { event: 'order placed' },
    { event: '*Placed' },
    { from: ARRIVED + 1 },
    { to: ARRIVED },
    { source: 4, type: 'track', userId: 'u2' },
    // An event of another user stays one, whose device it ever was.
    { userId: 'u0', joined: { userIds: ['u2'], anonymousIds: ['a1'] } },
  ];
  it.each(no)('not by %o', (query) => {
    expect(matchesEvent({ source: 4, arrivedAt: ARRIVED, event: EVENT }, query)).toBe(false);
  });

  it('by an anonymous id that belongs to the user, where it has no userId', () => {
    const { userId: _, ...anonymous } = EVENT;
    const stored = { source: 4, arrivedAt: ARRIVED, event: anonymous };
    expect(matchesEvent(stored, { userId: 'u0', joined: { userIds: [], anonymousIds: ['a1'] } })).toBe(true);
    expect(matchesEvent(stored, { userId: 'u0' })).toBe(false);
  });

  it('by the name of a page or screen, and never by a name where it has none', () => {
    const { event: _, ...nameless } = EVENT;
    expect(
      matchesEvent(
        { source: 4, arrivedAt: ARRIVED, event: { ...nameless, type: 'page', name: 'Home' } },
        { event: 'Home' },
      ),
    ).toBe(true);
    expect(matchesEvent({ source: 4, arrivedAt: ARRIVED, event: nameless }, { event: '*' })).toBe(false);
  });

  it('by its source without being read', () => {
    const unread = {
      source: 4,
      arrivedAt: ARRIVED,
      get event(): Event {
        throw new Error('read');
      },
    };
    expect(matchesEvent(unread, { source: 5, type: 'track' })).toBe(false);
    expect(matchesEvent(unread, { source: 4 })).toBe(true);
  });
});

describe('a delivery is found', () => {
  const LANE = 2 ** 24;
  const attempt = (reason: string) => ({
    ...{ endpoint: 'http://crm/', startedAt: 1, latencyMs: 2 },
    outcome: { kind: 'retryable' as const, reason },
  });
  const dead: OnWallClock<DeliveryHistory> = {
    ...{ destination: 3 + LANE, state: 'dead', reason: 'retry_window_over' },
    attempts: [attempt('timeout'), attempt('status_503')],
  };
  const { reason: _, ...rest } = dead;
  const retrying: OnWallClock<DeliveryHistory> = { ...rest, state: 'retrying' };

  it.each<[OnWallClock<DeliveryHistory>, DeliveryQuery]>([
    [dead, {}],
    [dead, { destination: 3, state: 'dead', reason: 'retry_window_over' }],
    [retrying, { state: 'retrying', reason: 'status_503' }],
  ])('%o by %o', (delivery, query) => {
    expect(matchesDelivery(delivery, query)).toBe(true);
  });

  it.each<[OnWallClock<DeliveryHistory>, DeliveryQuery]>([
    [dead, { destination: 4 }],
    [dead, { state: 'retrying' }],
    [dead, { reason: 'status_503' }],
    [retrying, { reason: 'timeout' }],
    [{ ...retrying, attempts: [] }, { reason: 'timeout' }],
  ])('%o not by %o', (delivery, query) => {
    expect(matchesDelivery(delivery, query)).toBe(false);
  });
});
