import { createServer, type IncomingHttpHeaders, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { requestHeaders, webhookId } from './destination.ts';

const endpoint = {
  url: 'https://example.com/hook',
  headers: { 'X-Team': 'growth', Authorization: 'Bearer t' },
};

describe('headers', () => {
  it('are the product, the content type, the id and what the endpoint adds', () => {
    expect(requestHeaders(endpoint, 'm-1')).toEqual({
      'User-Agent': 'Millrace/1.0',
      'Content-Type': 'application/json',
      'Webhook-Id': 'm-1',
      'X-Team': 'growth',
      Authorization: 'Bearer t',
    });
  });

  it('carry the signature only when there is one', () => {
    expect(requestHeaders(endpoint, 'm-1', { signature: 'abc' })).toHaveProperty('X-Signature', 'abc');
    expect(requestHeaders(endpoint, 'm-1')).not.toHaveProperty('X-Signature');
  });

  it('are made anew for each request, and leave the settings alone', () => {
    const made = requestHeaders(endpoint, 'm-1', { signature: 'abc' });
    expect(requestHeaders(endpoint, 'm-1', { signature: 'abc' })).not.toBe(made);
    expect(endpoint.headers).toEqual({ 'X-Team': 'growth', Authorization: 'Bearer t' });
  });

  it('carry what the Standard Webhooks scheme adds, beside the other signature', () => {
    const standardWebhooks = { 'Webhook-Timestamp': '1', 'Webhook-Signature': 'v1,x' };
    expect(requestHeaders(endpoint, 'm-1', { signature: 'abc', standardWebhooks })).toMatchObject({
      'X-Signature': 'abc',
      ...standardWebhooks,
    });
  });

  it('of the product beat a static header of the same name', () => {
    const sly = {
      url: endpoint.url,
      headers: { 'User-Agent': 'other', 'X-Signature': 'forged', 'Webhook-Signature': 'forged' },
    };
    const standardWebhooks = { 'Webhook-Timestamp': '1', 'Webhook-Signature': 'v1,x' };
    expect(requestHeaders(sly, 'm-1', { signature: 'abc', standardWebhooks })).toMatchObject({
      'User-Agent': 'Millrace/1.0',
      'X-Signature': 'abc',
      'Webhook-Signature': 'v1,x',
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
    const received = await overTheWire(requestHeaders(endpoint, webhookId(messageId), { signature: 'abc' }));
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
