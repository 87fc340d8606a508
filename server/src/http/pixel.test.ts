import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import {
  startTestServer,
  type TestConnection,
  type TestServer,
  type TestServerOptions,
} from '../../test/support/http-server.ts';
import { bodyFromQuery } from './pixel.ts';

const parsed = (query: string) => JSON.parse(bodyFromQuery(query).toString());

describe('the call in a query', () => {
  const call = { writeKey: 'wk', userId: 'u?>~', event: 'E' };
  const text = JSON.stringify(call);

  test.each([
    ['base64', `data=${encodeURIComponent(Buffer.from(text).toString('base64'))}`],
    ['base64 that nobody percent-encoded', `data=${Buffer.from(text).toString('base64')}`],
    ['URL-safe base64 without padding', `data=${Buffer.from(text).toString('base64url')}`],
    ['base64 beside other keys', `x=1&data=${Buffer.from(text).toString('base64url')}&event=no`],
  ])('is read from %s', (_, query) => {
    expect(parsed(query)).toEqual(call);
  });

  test('is read from keys that are paths', () => {
    const query =
      'writeKey=wk&userId=u+1&event=Email%20Opened&properties.subject=a%3Db&properties.a.b=1&context.ip=1.2.3.4';
    expect(parsed(query)).toEqual({
      ...{ writeKey: 'wk', userId: 'u 1', event: 'Email Opened' },
      properties: { subject: 'a=b', a: { b: '1' } },
      context: { ip: '1.2.3.4' },
    });
  });

  test('knows true and false where a text would mean something else', () => {
    const query =
      'integrations.All=false&integrations.crm=true&context.direct=true&properties.paid=false&integrations.x=y';
    expect(parsed(query)).toEqual({
      integrations: { All: false, crm: true, x: 'y' },
      context: { direct: true },
      properties: { paid: 'false' },
    });
  });

  test('takes the last of keys that contradict each other, and leaves out what is nested without end', () => {
    expect(parsed('a=1&a=2&b=1&b.c=2&d.e=1&d=2')).toEqual({ a: '2', b: { c: '2' }, d: '2' });
    expect(parsed(`${'a.'.repeat(1000)}b=1&c=1`)).toEqual({ c: '1' });
    expect(parsed('')).toEqual({});
    expect(parsed('.=1&..a=2')).toEqual({ '': { '': { a: '2' } } });
  });

  test('has keys that mean something to the language as keys and nothing else', () => {
    const text = bodyFromQuery('__proto__.polluted=1&constructor.prototype.polluted=1&toString=1').toString();
    expect(text).toBe(
      '{"__proto__":{"polluted":"1"},"constructor":{"prototype":{"polluted":"1"}},"toString":"1"}',
    );
    expect(({} as { polluted?: string }).polluted).toBeUndefined();
  });

  test('is read as URLSearchParams reads it, where that is UTF-8', () => {
    const piece = fc.oneof(
      fc.string({
        unit: fc.constantFrom('%', '&', '=', '+', '2', '4', 'a', '%41', '%2', '%C3%BC'),
        maxLength: 8,
      }),
      fc.string({ maxLength: 8 }),
    );
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const query = pieces.join('').replaceAll(/[.#]|data/g, '');
        const expected = Object.fromEntries(new URLSearchParams(query));
        if (!JSON.stringify(expected).includes('\ufffd')) expect(parsed(query)).toEqual(expected);
      }),
    );
  });

  test('keeps bytes that are no UTF-8, so that the call is refused for them', () => {
    const bodies = ['M%FCller', 'M%F6ller'].map((id) => bodyFromQuery(`userId=${id}`));
    expect(bodies.map((body) => body.toString('latin1'))).toEqual([
      '{"userId":"Müller"}',
      '{"userId":"Möller"}',
    ]);
    expect(parsed('userId=M%C3%BCller')).toEqual({ userId: 'Müller' });
  });

  test('is a body whatever the query is', () => {
    // The characters of a request line are bytes.
    const byte = fc.integer({ min: 0, max: 0xff }).map((code) => String.fromCharCode(code));
    fc.assert(
      fc.property(fc.string({ unit: byte, maxLength: 300 }), (query) => {
        if (!/(^|&)data=/.test(query)) expect(typeof parsed(query)).toBe('object');
        expect(bodyFromQuery(`data=${query}`)).toBeInstanceOf(Buffer);
      }),
    );
  });
});

describe('GET /v1/pixel', () => {
  let running: TestServer | undefined;

  async function start(options?: TestServerOptions): Promise<TestConnection> {
    running = await startTestServer(options);
    return running.connect();
  }

  afterEach(async () => {
    await running?.listener.stop();
    running = undefined;
  });

  const get = (path: string, method = 'GET') =>
    `${method} ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Basic d2s6\r\n\r\n`;

  test.each([
    ['/v1/pixel/track?event=E', 'track', '{"event":"E"}'],
    ['/v1/pixel/page/?name=n', 'page', '{"name":"n"}'],
    ['/v1/pixel/t', 'track', '{}'],
    ['/v1/pixel/identify?data=bm8ganNvbg', 'identify', 'no json'],
  ])('hands the call of %s to the receiver', async (path, type, body) => {
    const connection = await start();
    await connection.send(get(path));
    expect((await connection.nextResponse()).status).toBe(200);
    expect(running!.calls).toMatchObject([{ type, writeKey: 'wk', body: Buffer.from(body) }]);
  });

  test.each([
    ['a refusal', { kind: 'refused', code: 'invalid_json' }],
    ['a wrong key', { kind: 'refused', code: 'invalid_write_key' }],
    ['a full disk', { kind: 'unavailable', code: 'storage_unavailable', retryAfter: 5 }],
  ] as const)('answers %s with the image too', async (_, verdict) => {
    const connection = await start({ verdict });
    await connection.send(get('/v1/pixel/track?event=E'));
    const { status, headers } = await connection.nextResponse();
    expect([status, headers.get('content-type'), headers.get('content-length')]).toEqual([
      200,
      'image/gif',
      '42',
    ]);
    expect(headers.get('cache-control')).toContain('no-store');
    expect(running!.calls).toHaveLength(1);
  });

  test('answers a type that is none and an error of ours with the image, and HEAD without a call', async () => {
    const discarded: object[] = [];
    const connection = await start({
      verdict: () => {
        throw new Error('bug');
      },
      discards: {
        discarded: (reasons) => discarded.push(reasons),
        refused() {},
        changed() {},
        rateLimited() {},
        publicCalls() {},
      },
    });
    await connection.send(get('/v1/pixel/delete?event=E'), get('/v1/pixel/track'));
    expect((await connection.nextResponse()).headers.get('content-type')).toBe('image/gif');
    expect((await connection.nextResponse()).headers.get('content-type')).toBe('image/gif');
    expect(discarded).toEqual([{ unknown_type: 1 }]);
    expect(running!.logged).toMatchObject([{ event: 'request.failed' }]);
    expect(running!.calls).toHaveLength(1);
    const other = await running!.connect();
    await other.send(get('/v1/pixel/track', 'HEAD').replace('Host: a', 'Host: a\r\nConnection: close'));
    await other.closed;
    expect(running!.calls).toHaveLength(1);
  });
});
