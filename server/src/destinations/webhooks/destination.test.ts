import { createHmac, createPublicKey, verify } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { lanesIn, targetsIn } from '../../../test/support/lanes.ts';
import type { Destination } from '../../model/destination.ts';
import type { Endpoint } from '../../model/endpoint.ts';
import type { Event } from '../../model/event.ts';
import type { Lane } from '../../model/lane.ts';
import { lineOf, type SerializedEvent } from '../../model/serialized-event.ts';
import { AUDIENCES_SOURCE } from '../../model/settings.ts';
import { publicKeyOf, type SigningKey } from '../../model/signing-key.ts';
import type { Time } from '../../model/time.ts';
import { signBody, standardWebhooksHeaders } from '../http/signatures.ts';
import { requestsOf } from './destination.ts';
import { serializePayload } from './payload.ts';
import type { WebhookSettings } from './settings.ts';

const written = (event: Event) => ({ event, arrivedAt: Date.parse(event.receivedAt) });

/** The first key of RFC 8032. */
const KEY: SigningKey = {
  id: 'k1',
  privateKey: 'MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g',
  publicKey: '11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=',
};

const NOW = Date.parse('2026-01-02T03:04:05.678Z');

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

const TOOLS: Parameters<typeof requestsOf>[1] = {
  sourceOf: (id) => ({ ...AUDIENCES_SOURCE, id, name: 'website', ...(id === 8 ? { projectId: 'p_8' } : {}) }),
};

function destination(settings: Partial<WebhookSettings>): Destination {
  return {
    id: 1,
    name: 'crm',
    type: 'webhooks',
    sources: ['website'],
    enabled: true,
    settings: { endpoints, format: 'documented', ...settings },
    version: 1,
  };
}

/** The requests to the targets whose bits are set. */
function requestsFor(
  serialized: SerializedEvent,
  to: Destination | Lane,
  {
    endpoints,
    now,
    replay,
    source,
  }: { endpoints: number; now: Time; replay?: string | undefined; source?: number | undefined },
) {
  const all = 'targets' in to ? to.targets : targetsIn(to);
  const targets = all.filter((_, place) => (endpoints & (1 << place)) !== 0);
  return requestsOf({ destination: to, targets, events: [{ serialized, replay, source }], now }, TOOLS);
}

describe('webhooks', () => {
  it('makes one request for each endpoint whose bit is set, each with its place, URL and static headers', () => {
    const placed = requestsFor(written(event), destination({}), { endpoints: 0b10101, now: NOW });
    expect(placed.map(({ target }) => target.place)).toEqual([0, 2, 4]);
    expect(placed.map(({ request }) => request.url)).toEqual(
      [0, 2, 4].map((place) => `https://e${place + 1}.example/hook`),
    );
    expect(placed.map(({ request }) => request.fixedHeaders?.['X-Endpoint'])).toEqual(['1', '3', '5']);
  });

  it('names a pool of its own for each endpoint of each destination, whatever their URLs, and the same for its worker', () => {
    const same = endpoints.map((endpoint) => ({ ...endpoint, url: 'https://e.example/hook' }));
    const pools = [1, 2, 16_000_000].flatMap((id) => {
      const all = { ...destination({ endpoints: same }), id };
      const wanted = { endpoints: 0b11111, now: NOW };
      const ofAny = requestsFor(written(event), all, wanted).map(({ request }) => request.pool);
      const each = { ...all, success: 'each' as const };
      const ofLanes = lanesIn(each).flatMap((lane) => requestsFor(written(event), lane, wanted));
      expect(ofLanes.map(({ request }) => request.pool)).toEqual(ofAny);
      return ofAny;
    });
    expect(new Set(pools).size).toBe(15);
  });

  it('makes no request for bits that have no endpoint', () => {
    expect(
      requestsFor(written(event), destination({ endpoints: endpoints.slice(0, 2) }), {
        endpoints: 0b11100,
        now: NOW,
      }),
    ).toEqual([]);
  });

  it('sends every endpoint the same bytes with the signature of exactly these bytes', () => {
    const placed = requestsFor(written(event), destination({ sharedSecret: 's' }), {
      endpoints: 0b11111,
      now: NOW,
    });
    const bytes = Buffer.from(serializePayload(event, 'documented'));
    for (const { request } of placed) {
      expect(request.body).toEqual(bytes);
      expect(request.headers['X-Signature']).toBe(signBody(bytes, 's'));
    }
    expect(placed).toHaveLength(5);
  });

  it('uses the format of the settings', () => {
    const [placed] = requestsFor(written(event), destination({ format: 'canonical' }), {
      endpoints: 1,
      now: NOW,
    });
    expect(JSON.parse(String(placed?.request.body))).toEqual(event);
  });

  it('tells the project of the source in the format segment: its projectId, or its name', () => {
    const projectOf = (source: number | undefined) => {
      const options = { endpoints: 1, now: NOW, source };
      const [placed] = requestsFor(written(event), destination({ format: 'segment' }), options);
      return JSON.parse(String(placed?.request.body)).projectId;
    };
    expect([7, 8, undefined].map(projectOf)).toEqual(['website', 'p_8', '']);
  });

  it('has the same body in the format segment for an event in memory and for its stored line', () => {
    const stored = { ...written(event), line: lineOf(JSON.stringify(event)) };
    const to = destination({ format: 'segment', endpoints: endpoints.slice(0, 1) });
    const bodies = [written(event), stored].map(
      (one) => requestsFor(one, to, { endpoints: 1, now: NOW, source: 7 })[0]?.request.body,
    );
    expect(bodies[0]).toEqual(bodies[1]);
    expect(JSON.parse(String(bodies[0]))).toMatchObject({ version: 2, projectId: 'website' });
  });

  it('sends the user agent of its settings, and its own without one', () => {
    const agentOf = (settings: Partial<WebhookSettings>) => {
      const own = { endpoints: [{ url: 'https://e.example/', headers: {} }], ...settings };
      const [placed] = requestsFor(written(event), destination(own), { endpoints: 1, now: NOW });
      return placed?.request.fixedHeaders?.['User-Agent'];
    };
    expect(agentOf({ userAgent: 'Segment.io/1.0' })).toBe('Segment.io/1.0');
    expect(agentOf({})).toBe('Millrace/1.0');
  });

  it('does not sign without a secret, nor with an empty one', () => {
    for (const settings of [{}, { sharedSecret: '' }]) {
      const [placed] = requestsFor(written(event), destination(settings), { endpoints: 1, now: NOW });
      expect(placed?.request.headers).not.toHaveProperty('X-Signature');
    }
  });

  it('signs with the secret the settings have now, not with one they had before', () => {
    const signed = (sharedSecret: string): string | undefined =>
      requestsFor(written(event), destination({ sharedSecret }), { endpoints: 1, now: NOW })[0]?.request
        .headers['X-Signature'];
    const before = signed('old');
    expect(signed('new')).not.toBe(before);
    expect(signed('old')).toBe(before);
  });

  it('signs by the Standard Webhooks scheme for every secret, over the id and the time it sends', () => {
    const signingSecrets = [1, 2].map((fill) => `whsec_${Buffer.alloc(24, fill).toString('base64')}`);
    const strange = { ...event, messageId: '50% größer' };
    const [placed] = requestsFor(written(strange), destination({ signingSecrets, sharedSecret: 's' }), {
      endpoints: 1,
      now: NOW,
    });
    const { headers, body: bytes } = placed!.request;
    expect(headers['Webhook-Timestamp']).toBe('1767323045');
    const signed = (fill: number) =>
      createHmac('sha256', Buffer.alloc(24, fill))
        .update(`${headers['Webhook-Id']}.${headers['Webhook-Timestamp']}.${bytes}`)
        .digest('base64');
    expect(headers['Webhook-Signature']).toBe(`v1,${signed(1)} v1,${signed(2)}`);
    expect(headers['X-Signature']).toBe(signBody(bytes, 's'));
  });

  it('adds a signature that the public key of the destination verifies, beside the others', () => {
    const signingSecrets = [`whsec_${Buffer.alloc(24, 1).toString('base64')}`];
    const crm = { ...destination({ signingSecrets, publicSignature: true }), signingKey: KEY };
    const [placed] = requestsFor(written(event), crm, { endpoints: 1, now: NOW });
    const { headers, body } = placed!.request;
    const [shared, signature] = headers['Webhook-Signature']!.split(' ');
    expect(shared).toMatch(/^v1,/);
    const [version, base64] = signature!.split(',');
    expect(version).toBe('v1a');
    const text = Buffer.from(`${headers['Webhook-Id']}.${headers['Webhook-Timestamp']}.${body}`);
    const { pem } = publicKeyOf(KEY);
    expect(verify(null, text, createPublicKey(pem), Buffer.from(base64!, 'base64'))).toBe(true);
    text[text.length - 1]! ^= 1;
    expect(verify(null, text, createPublicKey(pem), Buffer.from(base64!, 'base64'))).toBe(false);
  });

  it('makes the ed25519 signature and the key in PEM that another program makes', () => {
    // By the package cryptography of Python, with the first key of RFC 8032.
    const bytes = Buffer.from('{"version":1,"type":"track","userId":"größe"}');
    const headers = standardWebhooksHeaders({ id: 'm-1', at: NOW, bytes }, [], KEY);
    expect(headers['Webhook-Signature']).toBe(
      'v1a,ZS2I5SQU/dV+EbdncgQKK7rYmimMNG4LKXASL9Ld3bvDAerjYWwMz0AbWbfui5X0GrjoYb6OPIoEGQDRgm9jAg==',
    );
    expect(publicKeyOf(KEY)).toEqual({
      id: 'k1',
      algorithm: 'ed25519',
      publicKey: 'whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=',
      pem:
        '-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n' +
        '-----END PUBLIC KEY-----\n',
    });
  });

  it('signs publicly only where the setting says so', () => {
    for (const settings of [{}, { publicSignature: false }]) {
      const crm = { ...destination(settings), signingKey: KEY };
      const [placed] = requestsFor(written(event), crm, { endpoints: 1, now: NOW });
      expect(placed?.request.headers).not.toHaveProperty('Webhook-Signature');
    }
  });

  it('signs with the next shared secret too, under a name of its own', () => {
    const settings = { sharedSecret: 'now', nextSharedSecret: 'soon' };
    const [placed] = requestsFor(written(event), destination(settings), { endpoints: 1, now: NOW });
    const { headers, body } = placed!.request;
    expect(headers['X-Signature']).toBe(createHmac('sha1', 'now').update(body).digest('hex'));
    expect(headers['X-Signature-Next']).toBe(createHmac('sha1', 'soon').update(body).digest('hex'));
    const [plain] = requestsFor(written(event), destination({ sharedSecret: 'now' }), {
      ...{ endpoints: 1, now: NOW },
    });
    expect(plain!.request.headers).not.toHaveProperty('X-Signature-Next');
  });

  it('dates every try anew and sends the same body and id', () => {
    const signingSecrets = [`whsec_${Buffer.alloc(32, 7).toString('base64')}`];
    const [first] = requestsFor(written(event), destination({ signingSecrets }), {
      endpoints: 1,
      now: NOW,
    });
    const [second] = requestsFor(written(event), destination({ signingSecrets }), {
      endpoints: 1,
      now: NOW + 60_000,
    });
    expect(Number(second!.request.headers['Webhook-Timestamp'])).toBe(
      Number(first!.request.headers['Webhook-Timestamp']) + 60,
    );
    expect(second!.request.headers['Webhook-Signature']).not.toBe(
      first!.request.headers['Webhook-Signature'],
    );
    expect(second!.request.headers['Webhook-Id']).toBe(first!.request.headers['Webhook-Id']);
    expect(second!.request.body).toEqual(first!.request.body);
  });

  it('sends none of its headers without such a secret', () => {
    for (const settings of [{}, { signingSecrets: [] }]) {
      const [placed] = requestsFor(written(event), destination(settings), { endpoints: 1, now: NOW });
      expect(placed?.request.headers).not.toHaveProperty('Webhook-Signature');
      expect(placed?.request.headers).not.toHaveProperty('Webhook-Timestamp');
    }
  });

  it('gives an endpoint 5 seconds', () => {
    expect(requestsFor(written(event), destination({}), { endpoints: 1, now: NOW })[0]?.request.timeout).toBe(
      5000,
    );
  });

  it('names the replay that an event is sent for, and changes nothing else of the request', () => {
    const requested = (replay?: string) =>
      requestsFor(written(event), destination({ sharedSecret: 's' }), {
        endpoints: 1,
        now: NOW,
        replay,
      })[0]!.request;
    const [first, replayed] = [requested(), requested('r-1')];
    expect(replayed).toEqual({ ...first, headers: { ...first.headers, 'X-Replay-Id': 'r-1' } });
    expect(first.headers).not.toHaveProperty('X-Replay-Id');
  });
});
