import { describe, expect, it } from 'vitest';
import type { Destination } from '../../model/destination.ts';
import type { Event } from '../../model/event.ts';
import type { DeliveryOutcome, OutboundBatch } from '../../ports/destination-type.ts';
import type { HttpClient, HttpResult, OutboundRequest } from '../../ports/http-client.ts';
import { segment } from './destination.ts';

const NOW = Date.parse('2026-01-02T04:00:00.000Z');

const TEE: Destination = {
  ...{ id: 1, name: 'tee', type: 'segment', sources: ['website'], enabled: true, version: 1 },
  settings: { host: 'https://api.segment.example/', writeKey: 'wk_there' },
};

function eventOf(messageId: string, part: Partial<Event> = {}): Event {
  return {
    messageId,
    type: 'track',
    channel: 'server',
    userId: 'u-1',
    event: 'Order Placed',
    properties: { total: 1 },
    context: {},
    integrations: { All: false, Webhooks: true },
    timestamp: '2026-01-02T03:04:05.678Z',
    receivedAt: '2026-01-02T03:04:05.678Z',
    ...part,
  };
}

function batchOf(events: readonly Event[], now = NOW): OutboundBatch {
  return {
    ...{ destination: TEE, targets: segment.targets(TEE.settings as never), now },
    events: events.map((event) => ({ serialized: { event, arrivedAt: 0 } })),
  };
}

/** Sends a batch to a service that answers with the status that `answer` gives for the calls of a request. */
async function sent(events: readonly Event[], answer: (ids: string[]) => number = () => 200) {
  const requests: OutboundRequest[] = [];
  const http: HttpClient = {
    send: (request, ended) => {
      requests.push(request);
      const status = answer(bodyOf(request).batch.map((one) => String(one['messageId'])));
      const received: HttpResult = {
        kind: 'answered',
        status,
        body: `wk_there says ${status}`,
        latencyMs: 1,
      };
      queueMicrotask(() => ended(received));
    },
    stop: async () => {},
  };
  const silent = { debug() {}, info() {}, warn() {}, error() {} };
  const clock = { now: () => NOW, monotonic: () => NOW };
  const sender = segment.open!({ http, clock, logger: silent, sourceOf: () => undefined });
  const outcomes = await new Promise<readonly DeliveryOutcome[]>((resolve) =>
    sender.send(batchOf(events), (_, all) => resolve(all)),
  );
  return { requests, outcomes };
}

function bodyOf({ body }: Pick<OutboundRequest, 'body'>) {
  return JSON.parse(body.toString()) as { batch: Record<string, unknown>[]; sentAt: string };
}

/** The time that a service of this protocol gives a call that it receives at a time. */
function timeThere(call: Record<string, unknown>, sentAt: string, receivedAt: number): number {
  const skew = receivedAt - Date.parse(sentAt);
  return Date.parse(String(call['timestamp'])) + skew;
}

describe('a destination of type segment', () => {
  it('posts calls together to /v1/batch of the host, with the write key there', async () => {
    const { requests, outcomes } = await sent([eventOf('m1'), eventOf('m2')]);
    expect(requests.map(({ url }) => url)).toEqual(['https://api.segment.example/v1/batch']);
    expect(requests[0]?.headers['Authorization']).toBe(`Basic ${btoa('wk_there:')}`);
    expect(bodyOf(requests[0]!).batch.map(({ messageId }) => messageId)).toEqual(['m1', 'm2']);
    expect(outcomes.map(({ outcome }) => outcome.kind)).toEqual(['accepted', 'accepted']);
  });

  it('sends the call as the client made it: its integrations, consent and unknown fields, and nothing of ours', async () => {
    const consent = { categoryPreferences: { ads: false } };
    const { requests } = await sent([
      eventOf('m1', { context: { consent }, _metadata: { bundled: [] }, channel: 'web' }),
    ]);
    const [call] = bodyOf(requests[0]!).batch;
    expect(call).toMatchObject({
      ...{ type: 'track', userId: 'u-1', event: 'Order Placed', properties: { total: 1 }, channel: 'web' },
      ...{ integrations: { All: false, Webhooks: true }, context: { consent }, _metadata: { bundled: [] } },
    });
    expect(call).not.toHaveProperty('receivedAt');
    expect(bodyOf((await sent([eventOf('m2')])).requests[0]!).batch[0]).not.toHaveProperty('channel');
  });

  it.each([
    ['a clock that is right', {}],
    [
      'a clock an hour behind',
      { originalTimestamp: '2026-01-02T02:04:04.000Z', sentAt: '2026-01-02T02:04:05.678Z' },
    ],
    ['a clock three days ahead', { originalTimestamp: '2026-01-05T03:04:05.678Z' }],
    [
      'an old event',
      { originalTimestamp: '2020-05-05T00:00:00.000Z', timestamp: '2020-05-05T00:00:00.000Z' },
    ],
    ['a time that is none', { originalTimestamp: 'yesterday' }],
  ])('keeps the time of an event there, however late it is passed on: %s', async (_, part) => {
    const event = eventOf('m1', part);
    for (const delay of [0, 3_600_000, 86_400_000]) {
      const now = NOW + delay;
      const [request] = (await sentAt(event, now)).map(bodyOf);
      const [call] = request!.batch;
      const wanted = Date.parse(event.timestamp);
      expect(timeThere(call!, String(call!['sentAt']), now)).toBe(wanted);
      expect(Math.abs(timeThere(call!, request!.sentAt, now) - wanted)).toBeLessThanOrEqual(250);
      if (event.originalTimestamp?.startsWith('20') === true)
        expect(call!['timestamp']).toBe(event.originalTimestamp);
    }
  });

  it('sends calls of clocks that differ apart, because a batch has one time of sending', async () => {
    const late = { originalTimestamp: '2026-01-02T02:04:05.678Z' };
    const { requests, outcomes } = await sent(
      [eventOf('m1'), eventOf('m2', late), eventOf('m3'), eventOf('m4', late)],
      (ids) => (ids.includes('m2') ? 503 : 200),
    );
    expect(requests.map((one) => bodyOf(one).batch.map(({ messageId }) => messageId))).toEqual([
      ['m1', 'm3'],
      ['m2', 'm4'],
    ]);
    expect(outcomes.map(({ outcome }) => outcome.kind)).toEqual([
      ...['accepted', 'retryable', 'accepted', 'retryable'],
    ]);
  });

  it('sends an address of nobody for browsers and phones whose address was left out', async () => {
    const browser = { library: { name: 'analytics.js' } };
    const { requests } = await sent([
      eventOf('m1', { context: browser }),
      eventOf('m2', { context: { ...browser, ip: '203.0.113.7' } }),
      eventOf('m3', { context: { library: { name: 'analytics-go' } } }),
    ]);
    expect(bodyOf(requests[0]!).batch.map(({ context }) => (context as { ip?: string }).ip)).toEqual([
      ...['0.0.0.0', '203.0.113.7', undefined],
    ]);
  });

  it('finds the call for which a batch is refused, and delivers the others', async () => {
    const events = Array.from({ length: 20 }, (_, nth) => eventOf(`m${nth}`));
    const { requests, outcomes } = await sent(events, (ids) => (ids.includes('m13') ? 400 : 200));
    expect(outcomes.map(({ outcome }) => outcome.kind)).toEqual(
      events.map(({ messageId }) => (messageId === 'm13' ? 'refused' : 'accepted')),
    );
    expect(requests.length).toBeLessThanOrEqual(11);
  });

  it('does not look for the one call where the write key is refused', async () => {
    const { requests, outcomes } = await sent([eventOf('m1'), eventOf('m2')], () => 401);
    expect(requests).toHaveLength(1);
    expect(outcomes.map(({ outcome, answer }) => [outcome.kind, answer])).toEqual([
      ['refused', '… says 401'],
      ['refused', '… says 401'],
    ]);
  });
});

/** The requests of one event at a time. */
async function sentAt(event: Event, now: number): Promise<readonly { readonly body: Buffer }[]> {
  const silent = { debug() {}, info() {}, warn() {}, error() {} };
  const http: HttpClient = { send() {}, stop: async () => {} };
  const clock = { now: () => now, monotonic: () => now };
  const sender = segment.open!({ http, clock, logger: silent, sourceOf: () => undefined });
  return sender.preview!(batchOf([event], now));
}
