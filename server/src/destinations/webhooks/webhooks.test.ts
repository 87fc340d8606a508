import { describe, expect, it } from 'vitest';
import type { Destination, Endpoint } from '../../model/destination.ts';
import type { Event } from '../../model/event.ts';
import { body } from './body.ts';
import { signature } from './signature.ts';
import { webhooks } from './webhooks.ts';

const event: Event = {
  messageId: 'm-1',
  type: 'track',
  channel: 'server',
  userId: 'größe',
  event: 'Signed Up',
  context: {},
  integrations: {},
  timestamp: '2026-01-02T03:04:05.678Z',
  receivedAt: '2026-01-02T03:04:05.678Z',
};

const endpoints: readonly Endpoint[] = [1, 2, 3, 4, 5].map((n) => ({
  url: `https://e${n}.example/hook`,
  headers: { 'X-Endpoint': String(n) },
}));

function destination(settings: Partial<Destination['settings']>): Destination {
  return {
    id: 1,
    name: 'crm',
    type: 'webhooks',
    sources: ['website'],
    enabled: true,
    settings: { endpoints, format: 'documented', success: 'any', ...settings },
    version: 1,
  };
}

describe('webhooks', () => {
  it('makes one request for each endpoint whose bit is set, each with its place, URL and static headers', () => {
    const placed = webhooks.requests(event, destination({}), 0b10101);
    expect(placed.map(({ place }) => place)).toEqual([0, 2, 4]);
    expect(placed.map(({ request }) => request.url)).toEqual(
      [0, 2, 4].map((place) => `https://e${place + 1}.example/hook`),
    );
    expect(placed.map(({ request }) => request.headers['X-Endpoint'])).toEqual(['1', '3', '5']);
  });

  it('makes no request for bits that have no endpoint', () => {
    expect(webhooks.requests(event, destination({ endpoints: endpoints.slice(0, 2) }), 0b11100)).toEqual([]);
  });

  it('sends every endpoint the same bytes with the signature of exactly these bytes', () => {
    const placed = webhooks.requests(event, destination({ sharedSecret: 's' }), 0b11111);
    const bytes = Buffer.from(body(event, 'documented'));
    for (const { request } of placed) {
      expect(request.body).toEqual(bytes);
      expect(request.headers['X-Signature']).toBe(signature(bytes, 's'));
    }
    expect(placed).toHaveLength(5);
  });

  it('uses the format of the settings', () => {
    const [placed] = webhooks.requests(event, destination({ format: 'canonical' }), 1);
    expect(JSON.parse(String(placed?.request.body))).toEqual(event);
  });

  it('does not sign without a secret, nor with an empty one', () => {
    for (const settings of [{}, { sharedSecret: '' }]) {
      const [placed] = webhooks.requests(event, destination(settings), 1);
      expect(placed?.request.headers).not.toHaveProperty('X-Signature');
    }
  });

  it('signs with the secret the settings have now, not with one they had before', () => {
    const signed = (sharedSecret: string): string | undefined =>
      webhooks.requests(event, destination({ sharedSecret }), 1)[0]?.request.headers['X-Signature'];
    const before = signed('old');
    expect(signed('new')).not.toBe(before);
    expect(signed('old')).toBe(before);
  });

  it('gives an endpoint 5 seconds', () => {
    expect(webhooks.requests(event, destination({}), 1)[0]?.request.timeout).toBe(5000);
  });
});
