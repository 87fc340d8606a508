import { createServer, type IncomingHttpHeaders, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fixedHeaders, requestHeaders, webhookId } from '../http/headers.ts';

const endpoint = {
  url: 'https://example.com/hook',
  headers: { 'X-Team': 'growth', Authorization: 'Bearer t' },
};

describe('headers', () => {
  it('of every request are the product, the content type and what the endpoint adds', () => {
    expect(fixedHeaders(endpoint)).toEqual({
      Accept: '*/*',
      'User-Agent': 'Millrace/1.0',
      'Content-Type': 'application/json',
      'X-Team': 'growth',
      Authorization: 'Bearer t',
    });
  });

  it('take any answer, unless the endpoint names what it gives, in any case', () => {
    const headers = { accept: 'application/json' };
    expect(fixedHeaders({ url: endpoint.url, headers })).toEqual({
      accept: 'application/json',
      'User-Agent': 'Millrace/1.0',
      'Content-Type': 'application/json',
    });
  });

  it('of every request are made once for an endpoint, and leave the settings alone', () => {
    expect(fixedHeaders(endpoint)).toBe(fixedHeaders(endpoint));
    expect(fixedHeaders({ ...endpoint })).not.toBe(fixedHeaders(endpoint));
    expect(endpoint.headers).toEqual({ 'X-Team': 'growth', Authorization: 'Bearer t' });
  });

  it('of one request are the id, and the signature only when there is one', () => {
    expect(requestHeaders('m-1')).toEqual({ 'Webhook-Id': 'm-1' });
    expect(requestHeaders('m-1', { signature: 'abc' })).toEqual({
      'Webhook-Id': 'm-1',
      'X-Signature': 'abc',
    });
  });

  it('carry what the Standard Webhooks scheme adds, beside the other signature', () => {
    const standardWebhooks = { 'Webhook-Timestamp': '1', 'Webhook-Signature': 'v1,x' };
    expect(requestHeaders('m-1', { signature: 'abc', standardWebhooks })).toMatchObject({
      'X-Signature': 'abc',
      ...standardWebhooks,
    });
  });

  it('of a reserved name are not taken from the endpoint, whatever their case', () => {
    const forged = {
      'user-agent': 'other',
      'X-SIGNATURE': 'forged',
      'Webhook-Signature': 'forged',
      'content-length': '7',
    };
    expect(fixedHeaders({ url: endpoint.url, headers: { ...forged, 'X-Team': 'growth' } })).toEqual({
      Accept: '*/*',
      'User-Agent': 'Millrace/1.0',
      'Content-Type': 'application/json',
      'X-Team': 'growth',
    });
  });
});

describe('webhookId', () => {
  it('is the messageId when that is visible ASCII without a percent sign', () => {
    expect(webhookId('node-next-1760000000000-3f2504e0/a?b=c&d#e"~')).toBe(
      'node-next-1760000000000-3f2504e0/a?b=c&d#e"~',
    );
  });

  it('encodes the percent sign, spaces, controls and everything beyond ASCII', () => {
    expect(webhookId('50% größer\r\n🛒\u007f')).toBe('50%25%20gr%C3%B6%C3%9Fer%0D%0A%F0%9F%9B%92%7F');
  });

  it('gives any well-formed messageId back when decoded, and is visible ASCII throughout', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 100 }), (messageId) => {
        const id = webhookId(messageId);
        expect(id).toMatch(/^[!-~]*$/);
        expect(decodeURIComponent(id)).toBe(messageId);
      }),
      { numRuns: 1000 },
    );
  });

  it('replaces half of a surrogate pair, which no header can carry, instead of failing', () => {
    expect(webhookId('a\ud800b')).toBe('a%EF%BF%BDb');
  });

  it('arrives whole in a real request', async () => {
    const messageId = '50% größer\r\nX-Injected: yes\t🛒';
    const own = requestHeaders(webhookId(messageId), { signature: 'abc' });
    const received = await overTheWire({ ...fixedHeaders(endpoint), ...own });
    expect(decodeURIComponent(String(received['webhook-id']))).toBe(messageId);
    expect(received).not.toHaveProperty('x-injected');
    expect(received).toMatchObject({
      'x-team': 'growth',
      'x-signature': 'abc',
      'user-agent': 'Millrace/1.0',
    });
  });
});

/** Sends one request with these headers to a server of its own and resolves to the headers that arrived. */
async function overTheWire(sent: Record<string, string>): Promise<IncomingHttpHeaders> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingHttpHeaders>();
  const server = createServer((incoming, answer) => {
    resolve(incoming.headers);
    answer.end();
  });
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo;
    request({ host: '127.0.0.1', port, method: 'POST', headers: sent, agent: false }, (answer) =>
      answer.resume(),
    )
      .on('error', reject)
      .end('{}');
  });
  try {
    return await promise;
  } finally {
    server.close();
  }
}
