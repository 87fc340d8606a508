import { describe, expect, test } from 'vitest';
import { post, postHead, type TestServerOptions } from '../../test/support/http-server.ts';
import { runningServer } from '../../test/support/running-server.ts';
import { CALL_TYPES, SHORT_FORMS } from '../model/event.ts';

const server = runningServer();
const { start } = server;

const get = (path: string, method = 'GET') => `${method} ${path} HTTP/1.1\r\nHost: test\r\n\r\n`;

describe('paths', () => {
  const typed = [
    ...CALL_TYPES.map((type) => [`/v1/${type}`, type]),
    ...Object.entries(SHORT_FORMS).map(([letter, type]) => [`/v1/${letter}`, type]),
    ...['/v1/batch', '/v1/b', '/v1/import', '/v1/imported'].map((path) => [path, 'batch']),
  ] as const;

  test('of every kind of call hand it to the receiver, with and without a slash and a query', async () => {
    const connection = await start();
    for (const [path, type] of typed) {
      for (const end of ['', '/', '?a=1', '/?a=/v1/group']) {
        await connection.send(post(`${path}${end}`, '{}'));
        expect((await connection.nextResponse()).status, path + end).toBe(200);
        expect(server.now.calls.pop()?.type, path + end).toBe(type);
      }
    }
  });

  test('answer success with exactly these bytes', async () => {
    const connection = await start();
    await connection.send(post('/v1/track', '{}'));
    const { status, headers, body } = await connection.nextResponse();
    expect([status, body]).toEqual([200, '{"success":true}']);
    expect(headers.get('content-type')).toBe('application/json');
    expect(headers.get('content-length')).toBe('16');
  });

  test('never look at the content type', async () => {
    const connection = await start();
    const types = ['text/plain', 'application/x-www-form-urlencoded', 'application/json; charset=utf-8', ''];
    for (const type of types) {
      await connection.send(post('/v1/track', '{}', [`Content-Type: ${type}`]));
      expect((await connection.nextResponse()).status).toBe(200);
    }
    expect(server.now.calls).toHaveLength(types.length);
  });

  test('of client telemetry accept and discard', async () => {
    const connection = await start();
    await connection.send(post('/v1/m', '{"series":[]}'));
    expect(await connection.nextResponse()).toMatchObject({ status: 200, body: '{"success":true}' });
    expect(server.now.calls).toEqual([]);
  });

  test.each(['/', '/v1', '/v1/delete', '/v2/track', '/v1/track/x', '/v1//track', '/V1/track'])(
    'such as %s do not exist',
    async (path) => {
      const connection = await start();
      await connection.send(post(path, '{}'));
      const { status, body } = await connection.nextResponse();
      expect(status).toBe(404);
      expect(JSON.parse(body)).toEqual({ success: false, code: 'not_found', message: expect.any(String) });
    },
  );

  test.each([
    ['GET', '/v1/track', 'POST, OPTIONS'],
    ['PUT', '/v1/batch/', 'POST, OPTIONS'],
    ['DELETE', '/v1/m', 'POST, OPTIONS'],
    ['POST', '/healthz', 'GET, HEAD, OPTIONS'],
  ])('refuse %s %s and say what they allow', async (method, path, allow) => {
    const connection = await start();
    await connection.send(get(path, method));
    const { status, headers, body } = await connection.nextResponse();
    expect(status).toBe(405);
    expect(headers.get('allow')).toBe(allow);
    expect(JSON.parse(body)).toMatchObject({ success: false, code: 'method_not_allowed' });
  });
});

describe('what a request line may ask for', () => {
  test('is a whole URL, as proxies send it, or two slashes, as a base URL with one at its end makes them', async () => {
    const connection = await start();
    for (const url of [
      'http://collect.example/v1/track',
      'HTTPS://h:1/v1/t/?a=b',
      '//v1/track',
      '//v1/t/?x',
    ]) {
      await connection.send(post(url, '{}'));
      expect((await connection.nextResponse()).status, url).toBe(200);
    }
    expect(server.now.calls).toHaveLength(4);
    for (const url of ['http://collect.example', 'http://collect.example?/v1/track', '///v1/track']) {
      await connection.send(post(url, '{}'));
      expect((await connection.nextResponse()).status, url).toBe(404);
    }
  });

  test.each([
    ['/v1/track', 'POST, OPTIONS', 'Authorization, Content-Type, X-Retry-Count, traceparent'],
    [
      '/v1/projects/wk/settings',
      'GET, HEAD, OPTIONS',
      'Authorization, Content-Type, X-Retry-Count, traceparent',
    ],
    ['/healthz', 'GET, HEAD, OPTIONS', undefined],
    ['*', 'GET, HEAD, POST, OPTIONS', undefined],
  ])('is what %s offers', async (path, allow, headersAllowed) => {
    const connection = await start();
    await connection.send(get(path, 'OPTIONS'), get('/healthz'));
    const { status, headers, body } = await connection.nextResponse();
    expect([status, body, headers.get('allow')]).toEqual([204, '', allow]);
    expect(headers.get('access-control-allow-headers')).toBe(headersAllowed);
    // Nothing of a body was in between.
    expect((await connection.nextResponse()).body).toBe('{"status":"alive"}');
  });

  test('is nothing where nothing is', async () => {
    const connection = await start();
    await connection.send(get('/v1/nothing', 'OPTIONS'));
    expect(JSON.parse((await connection.nextResponse()).body)).toMatchObject({ code: 'not_found' });
  });

  test('is an upgrade that nobody here knows: it is a request like any other', async () => {
    const connection = await start();
    await connection.send(post('/v1/track', '{}', ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c']));
    expect((await connection.nextResponse()).status).toBe(200);
  });

  test('is an expectation that nobody knows: it is ignored', async () => {
    const connection = await start();
    await connection.send(post('/v1/track', '{}', ['Expect: a-miracle']));
    expect((await connection.nextResponse()).status).toBe(200);
  });

  test('is leave to send a body, given only where the head says it can be taken', async () => {
    const connection = await start();
    const expecting = (path: string, length: number, more: string[] = []) =>
      postHead(path, length, ['Expect: 100-continue', ...more]);
    await connection.send(expecting('/v1/track', 2));
    expect((await connection.nextResponse()).status).toBe(100);
    await connection.send('{}');
    expect((await connection.nextResponse()).status).toBe(200);
    await connection.send(expecting('/v1/track', 40_000));
    expect((await connection.nextResponse()).status).toBe(400);
    const other = await server.now.connect();
    await other.send(expecting('/v1/track', 2, ['Content-Encoding: br']));
    expect((await other.nextResponse()).status).toBe(400);
  });
});

describe('GET /v1/projects/<write key>/settings', () => {
  const settings = async (path: string, options?: TestServerOptions) => {
    const connection = await start(options);
    await connection.send(get(path));
    const { status, headers, body } = await connection.nextResponse();
    return { status, headers, settings: JSON.parse(body) };
  };

  test('has exactly one integration, which browsers need to send anything', async () => {
    const answer = await settings('/v1/projects/a%20b%2Fc/settings');
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toBe('application/json');
    expect(answer.settings).toEqual({
      integrations: { 'Segment.io': { apiKey: 'a b/c', apiHost: 'test/v1', protocol: 'http' } },
      plan: { track: { __default: { enabled: true, integrations: {} } } },
      metrics: { sampleRate: 0 },
    });
  });

  test.each([
    ['https://collect.example.com', 'collect.example.com/v1', 'https'],
    ['http://127.0.0.1:8080/', '127.0.0.1:8080/v1', 'http'],
    ['https://example.com/events/', 'example.com/events/v1', 'https'],
  ])('tells clients to send to %s', async (publicUrl, apiHost, protocol) => {
    const answer = await settings('/v1/projects/wk/settings/?x=1', { publicUrls: [publicUrl] });
    expect(answer.settings.integrations).toEqual({ 'Segment.io': { apiKey: 'wk', apiHost, protocol } });
    expect(answer.headers.get('cache-control')).toBe('public, max-age=300');
    expect(answer.headers.get('vary')).toBe('Origin, Host, Access-Control-Request-Headers');
  });

  const asked = async (headers: readonly string[], options?: TestServerOptions) => {
    const connection = await start(options);
    await connection.send(
      `GET /v1/projects/wk/settings HTTP/1.1\r\n${headers.map((one) => `${one}\r\n`).join('')}\r\n`,
    );
    const { headers: got, body } = await connection.nextResponse();
    const { apiHost, protocol } = JSON.parse(body).integrations['Segment.io'];
    return [protocol, apiHost, got.get('cache-control')?.split(',')[0]];
  };

  test('tells clients the public address whose host they asked for, else the first', async () => {
    const publicUrls = ['https://one.example', 'https://two.example/in'];
    expect(await asked(['Host: TWO.example'], { publicUrls })).toEqual([
      'https',
      'two.example/in/v1',
      'public',
    ]);
    expect(await asked(['Host: 10.0.0.7:8080'], { publicUrls })).toEqual([
      'https',
      'one.example/v1',
      'public',
    ]);
  });

  test.each([
    [['Host: h.example:8080'], 'http'],
    [['Host: h.example:8080', 'Origin: https://shop.example'], 'https'],
    [['Host: h.example:8080', 'Referer: https://shop.example/cart'], 'https'],
    [['Host: h.example:8080', 'Origin: http://shop.example', 'Referer: https://other.example'], 'http'],
    [['Host: h.example:8080', 'X-Forwarded-Proto: https'], 'http'],
  ])('tells clients the host that they asked for where no other is known: %j', async (headers, protocol) => {
    expect(await asked(headers)).toEqual([protocol, 'h.example:8080/v1', 'private']);
  });

  test.each([
    ['https', 'https'],
    ['HTTPS, http', 'https'],
    ['http', 'http'],
    ['gopher', 'http'],
  ])('believes a trusted proxy that says it was asked over %s', async (said, protocol) => {
    const headers = ['Host: h.example', `X-Forwarded-Proto: ${said}`];
    const answer = await asked(headers, { trustedProxies: ['127.0.0.0/8'] });
    expect(answer).toEqual([protocol, 'h.example/v1', 'private']);
  });

  test('are told once in the log where the host is the one that was asked for', async () => {
    const guesses = () => server.now.logged.filter(({ event }) => event === 'settings.host_guessed');
    const connection = await start();
    for (const host of ['h.example', 'other.example'])
      await connection.send(`GET /v1/projects/wk/settings HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    for (let nth = 0; nth < 2; nth++) await connection.nextResponse();
    expect(guesses()).toMatchObject([{ facts: { apiHost: 'h.example/v1', setting: 'publicUrl' } }]);
    await asked(['Host: h.example'], { publicUrls: ['https://one.example'] });
    expect(guesses()).toEqual([]);
  });

  test.each(['Host: ', 'Host: a/b', 'Host: a@b', 'Host: a:99999'])(
    'names no host that is none: %s',
    async (host) => {
      expect((await asked([host]))[1]).toBeUndefined();
    },
  );

  test('does not exist for what is no key', async () => {
    const connection = await start();
    for (const path of [
      '/v1/projects//settings',
      '/v1/projects/a/b/settings',
      '/v1/projects/%ff/settings',
      '/v1/projects/a',
    ]) {
      await connection.send(get(path));
      expect((await connection.nextResponse()).status, path).toBe(404);
    }
  });
});

describe('health', () => {
  test('is alive and ready', async () => {
    const connection = await start();
    await connection.send(get('/healthz'));
    expect(await connection.nextResponse()).toMatchObject({ status: 200, body: '{"status":"alive"}' });
    await connection.send(get('/readyz/'));
    expect(await connection.nextResponse()).toMatchObject({ status: 200, body: '{"status":"ready"}' });
  });

  test('is not ready for reasons that it names, and is alive all the same', async () => {
    const connection = await start({ readiness: () => ['storage_unavailable'] });
    await connection.send(get('/readyz'));
    const { status, body } = await connection.nextResponse();
    expect(status).toBe(503);
    expect(JSON.parse(body)).toEqual({ status: 'not_ready', reasons: ['storage_unavailable'] });
    await connection.send(get('/healthz'));
    expect((await connection.nextResponse()).status).toBe(200);
  });

  test('answers HEAD without a body', async () => {
    const connection = await start();
    await connection.send('HEAD /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n');
    await connection.closed;
    await expect(connection.nextResponse()).rejects.toThrow(/200 OK.*Content-Length: 18.*\\r\\n\\r\\n"$/);
  });
});

describe('what the receiver is given', () => {
  test('is the body, the time of arrival and the key of the header', async () => {
    const connection = await start();
    await connection.send(post('/v1/track', '{"a":"é"}', ['aUTHORIZATION: Basic d2s6']));
    await connection.nextResponse();
    expect(server.now.calls).toEqual([
      {
        ...{ type: 'track', writeKey: 'wk', body: Buffer.from('{"a":"é"}'), receivedAt: 1000 },
        peer: expect.objectContaining({ remoteAddress: '127.0.0.1' }),
        hasOrigin: false,
      },
    ]);
  });

  test('says whether the request is of a page, on both ways of reading it', async () => {
    for (const way of [[], ['Expect: 100-continue']]) {
      const connection = await start();
      await connection.send(post('/v1/track', '{}', ['Origin: https://shop.example', ...way]));
      await connection.nextResponse();
      expect(server.now.calls.at(-1)).toMatchObject({ hasOrigin: true });
    }
  });

  test.each([
    ['without the header', []],
    ['with a malformed header', ['Authorization: Basic ???']],
    ['with a token', ['Authorization: Bearer abc']],
  ])('%s has no key', async (_, headers) => {
    const connection = await start();
    await connection.send(post('/v1/batch', '{}', headers));
    await connection.nextResponse();
    expect(server.now.calls[0]).not.toHaveProperty('writeKey');
  });
});
