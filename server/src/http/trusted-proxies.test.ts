import { afterEach, describe, expect, test } from 'vitest';
import { controlHandler, post, startTestServer, type TestServer } from '../../test/support/http-server.ts';
import { TrustedProxies } from './trusted-proxies.ts';

const proxies = new TrustedProxies(['10.0.0.0/8', '192.0.2.7/32', 'fd00::/8']);
const sender = (connection: string | undefined, forwardedFor?: string) =>
  proxies.clientBehind({ remoteAddress: connection }, forwardedFor).remoteAddress;

describe('the sender of a request', () => {
  test.each([
    ['is who called a trusted proxy', '10.0.0.1', '203.0.113.9', '203.0.113.9'],
    ['is who connected, when that is no trusted proxy', '198.51.100.1', '203.0.113.9', '198.51.100.1'],
    [
      'is who called the first of several proxies',
      '10.0.0.1',
      '203.0.113.9, 192.0.2.7, 10.9.9.9',
      '203.0.113.9',
    ],
    ['is not what a client made up', '10.0.0.1', '10.0.0.5, 1.2.3.4, 203.0.113.9', '203.0.113.9'],
    ['is not behind a proxy nobody trusts', '10.0.0.1', '203.0.113.9, 192.0.2.8', '192.0.2.8'],
    ['is the first address, when all are trusted', '10.0.0.1', '10.0.0.3,10.0.0.2', '10.0.0.3'],
    ['may have IPv6', 'fd00::1', '2001:db8::9', '2001:db8::9'],
    [
      'is behind a proxy on IPv4, seen by a listener on IPv6',
      '::ffff:10.0.0.1',
      '203.0.113.9',
      '203.0.113.9',
    ],
    ['may have its port behind it', '10.0.0.1', '203.0.113.9:4711', '203.0.113.9'],
    ['may have IPv6 and a port', '10.0.0.1', '[2001:db8::9]:4711', '2001:db8::9'],
    ['may have IPv6 in brackets', '10.0.0.1', '[2001:db8::9]', '2001:db8::9'],
    ['is the proxy, when it says nothing that is an address', '10.0.0.1', '203.0.113.9, unknown', '10.0.0.1'],
    ['is the proxy, when it says nothing', '10.0.0.1', '', '10.0.0.1'],
    ['is the last proxy that was named', '10.0.0.1', '203.0.113.999, 10.0.0.2', '10.0.0.2'],
  ])('%s', (_, connection, forwardedFor, expected) => {
    expect(sender(connection, forwardedFor)).toBe(expected);
  });

  test('is who connected, when nothing was forwarded', () => {
    expect(sender('10.0.0.1')).toBe('10.0.0.1');
  });

  test('is unknown on a connection that is gone', () => {
    expect(sender(undefined, '203.0.113.9')).toBeUndefined();
  });
});

describe('behind a proxy', () => {
  let running: TestServer | undefined;

  afterEach(async () => {
    await running?.listener.stop();
    running = undefined;
  });

  /** Calls as the plain reader and as `node:http` read them, and an image. */
  const REQUESTS = (headers: readonly string[]): readonly [string, Buffer][] => [
    ['plain', post('/v1/track', '{}', headers)],
    ['not plain', post('/v1/track', '{}', [...headers, 'X-Odd:  x'])],
    [
      'an image',
      Buffer.from(['GET /v1/pixel/track?a=b HTTP/1.1', 'Host: a', ...headers, '\r\n'].join('\r\n')),
    ],
  ];

  async function senders(trustedProxies: readonly string[] | undefined, headers: readonly string[]) {
    running = await startTestServer(trustedProxies === undefined ? {} : { trustedProxies });
    for (const [, request] of REQUESTS(headers)) {
      const connection = await running.connect();
      await connection.send(request);
      expect((await connection.nextResponse()).status).toBe(200);
    }
    return running.calls.map((call) => call.peer?.remoteAddress);
  }

  test('calls come from whoever the proxy says', async () => {
    const found = await senders(['127.0.0.0/8'], ['x-forwarded-for: 1.2.3.4, 203.0.113.9']);
    expect(found).toEqual(['203.0.113.9', '203.0.113.9', '203.0.113.9']);
  });

  test('the header may be there more than once', async () => {
    const headers = ['X-Forwarded-For: 1.2.3.4', 'X-Forwarded-For: 203.0.113.9'];
    expect(await senders(['127.0.0.0/8'], headers)).toEqual(['203.0.113.9', '203.0.113.9', '203.0.113.9']);
  });

  test.each([
    ['nobody is trusted', undefined],
    ['others are trusted', ['10.0.0.0/8']],
  ])('calls come from the connection when %s', async (_, trustedProxies) => {
    const found = await senders(trustedProxies, ['X-Forwarded-For: 203.0.113.9']);
    expect(found).toEqual(['127.0.0.1', '127.0.0.1', '127.0.0.1']);
  });

  test('the control API is asked by whoever the proxy says', async () => {
    const asked: string[] = [];
    running = await startTestServer({
      trustedProxies: ['127.0.0.1/32'],
      control: controlHandler(({ address }) => {
        asked.push(address);
        return { status: 200, headers: {}, body: '{}' };
      }),
    });
    const connection = await running.connect();
    await connection.send('GET /api/v1/ledger HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n');
    expect((await connection.nextResponse()).status).toBe(200);
    expect(asked).toEqual(['203.0.113.9']);
  });
});
