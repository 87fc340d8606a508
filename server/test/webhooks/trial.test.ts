import { createHmac } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { createHttpClient } from '../../src/adapters/http-client/client.ts';
import { egressRules } from '../../src/adapters/http-client/egress.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { sendTestDelivery } from '../../src/delivery/test-delivery.ts';
import { webhooks } from '../../src/destinations/webhooks/destination.ts';
import type { Destination } from '../../src/model/destination.ts';
import type { Event } from '../../src/model/event.ts';
import { targetsIn } from '../support/lanes.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

const event: Event = {
  messageId: 'trial-1',
  type: 'track',
  channel: 'server',
  userId: 'u1',
  event: 'Order Placed',
  context: {},
  integrations: {},
  timestamp: '2026-01-02T03:04:05.678Z',
  receivedAt: '2026-01-02T03:04:05.678Z',
};

describe('a test delivery to a destination', () => {
  it('sends every endpoint what a delivery would, and waits for each of them', async () => {
    const receivers: TestReceiver[] = [];
    for (const status of [200, 503, 410]) {
      receivers.push(
        await startReceiver({ answer: (response) => void response.writeHead(status).end('so') }),
      );
    }
    const urls = [...receivers.map(({ url }) => `${url}/`), 'http://10.0.0.1/'];
    const transport = createHttpClient({ egress: egressRules(['127.0.0.1/32']) });
    stops.push(() => transport.stop(), ...receivers.map(({ stop }) => stop));
    const destination: Destination = {
      id: 1,
      name: 'crm',
      type: 'webhooks',
      sources: [],
      enabled: false,
      version: 1,
      settings: {
        endpoints: urls.map((url, place) => ({ url, headers: { 'X-Place': String(place) } })),
        sharedSecret: 's',
        format: 'documented',
      },
    };
    const trials = await sendTestDelivery(event, destination, {
      sender: webhooks.open!({
        http: transport,
        clock: systemClock,
        logger: SILENT,
        sourceOf: () => undefined,
      }),
      targets: targetsIn(destination),
      clock: systemClock,
    });
    expect(trials.map(({ place, attempt }) => [place, attempt.endpoint, attempt.outcome.reason])).toEqual([
      [0, urls[0], 'status_200'],
      [1, urls[1], 'status_503'],
      [2, urls[2], 'status_410'],
      [3, urls[3], 'egress_refused'],
    ]);
    expect(trials[1]!.attempt.answer).toBe('so');
    for (const [place, { arrivals }] of receivers.entries()) {
      const { request } = trials[place]!;
      expect(arrivals).toHaveLength(1);
      const [{ headers, body }] = arrivals as [TestReceiver['arrivals'][number]];
      expect(body).toEqual(request.body);
      expect(headers).toMatchObject({
        'x-place': String(place),
        'webhook-id': 'trial-1',
        'x-signature': createHmac('sha1', 's').update(body).digest('hex'),
      });
      expect(request.headers['X-Signature']).toBe(headers['x-signature']);
    }
  });
});
