import { once } from 'node:events';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import errors from '../../../spec/errors.json' with { type: 'json' };
import { CALL_TYPES, SHORT_FORMS } from '../../src/model/event.ts';
import { track } from '../support/calls.ts';
import { post, startTestServer, TestConnection, type WireResponse } from '../support/http-server.ts';
import { makePlace, type Place, type Program, startServer } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { memoryOf } from './memory-of.ts';

/**
 * The ten rules of a drop-in receiver (spec/specification.md, "Facts about unmodified clients"), each against
 * the real program, byte for byte.
 */

const TOKEN = 'token-of-the-test';

let receiver: TestReceiver;
let place: Place;
let program: Program;
let connection: TestConnection;

beforeAll(async () => {
  receiver = await startReceiver();
  place = makePlace(`
egress: { allow: [127.0.0.0/8] }
sources:
  - { name: website, writeKeys: [wk, wk_next] }
  - { name: app, writeKeys: [wk_app] }
  - { name: slow, writeKeys: [wk_slow], rateLimit: 1 }
destinations:
  - name: crm
    type: webhooks
    sources: [website, app, slow]
    settings: { endpoints: [{ url: "${receiver.url}/in" }] }
`);
  program = await startServer(place, { env: { MILLRACE_ADMIN_TOKEN: TOKEN } });
  connection = await open();
});

afterAll(async () => {
  connection.destroy();
  expect(await program.stop()).toBe(0);
  await receiver.stop();
  place.remove();
});

async function open(): Promise<TestConnection> {
  const { hostname, port } = new URL(program.url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  return new TestConnection(socket);
}

const basic = (user: string) => `Authorization: Basic ${Buffer.from(user).toString('base64')}`;
const KEY = basic('wk:');
const json = (value: unknown) => JSON.stringify(value);

/** One request on the connection that all rules share, and its answer. */
async function ask(path: string, body: string | Uint8Array, headers: readonly string[] = [KEY]) {
  await connection.send(post(path, body, headers));
  return connection.nextResponse();
}

async function askWithout(method: string, path: string, headers: readonly string[] = []) {
  await connection.send(
    `${[`${method} ${path} HTTP/1.1`, 'Host: localhost', ...headers].join('\r\n')}\r\n\r\n`,
  );
  return connection.nextResponse();
}

/** Number of events that a source has accepted; the ledger has them when the client gets its 200. */
async function acceptedBy(source: string): Promise<number> {
  const answer = await fetch(`${program.url}/api/v1/ledger`, {
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  const ledger = (await answer.json()) as { sources: Record<string, { accepted: number }> };
  return ledger.sources[source]!.accepted;
}

/** The body delivered for a messageId. */
async function delivered(messageId: string): Promise<Record<string, unknown>> {
  const isIt = ({ headers }: { headers: Record<string, unknown> }) => headers['webhook-id'] === messageId;
  await receiver.until(() => receiver.arrivals.some(isIt));
  return JSON.parse(receiver.arrivals.find(isIt)!.body.toString());
}

function expectSuccess({ status, headers, body }: WireResponse): void {
  expect([status, body]).toEqual([200, '{"success":true}']);
  expect(headers.get('content-type')).toBe('application/json');
}

function expectError({ status, headers, body }: WireResponse, expected: [number, string]): void {
  const answer = JSON.parse(body);
  expect([status, answer.code]).toEqual(expected);
  expect(answer).toEqual({
    success: false,
    code: expect.any(String),
    message: expect.stringMatching(/^\w.*\.$/),
  });
  expect(headers.get('content-type')).toBe('application/json');
}

let ids = 0;
const newId = () => `m-${++ids}`;
/** A valid call of every type. */
const call = (more: object = {}) => ({
  ...{ messageId: newId(), userId: 'u1', event: 'E', groupId: 'g1', previousId: 'p1' },
  ...more,
});

describe('rule 1: success is exactly 200 with {"success":true}', () => {
  test.each([...CALL_TYPES, ...Object.keys(SHORT_FORMS)])('for a call of /v1/%s', async (type) => {
    expectSuccess(await ask(`/v1/${type}`, json(call())));
  });

  test('for batches, empty ones too', async () => {
    for (const path of ['/v1/batch', '/v1/b', '/v1/import', '/v1/imported']) {
      expectSuccess(await ask(path, json({ batch: [track(newId())] })));
      expectSuccess(await ask(path, '{"batch":[]}'));
    }
  });

  test('for what was seen before, and for client telemetry', async () => {
    const again = json(track('m-seen'));
    expectSuccess(await ask('/v1/track', again));
    expectSuccess(await ask('/v1/track', again));
    expectSuccess(await ask('/v1/m', '{"series":[]}', []));
  });

  test('for a client that waits to be told to send its body', async () => {
    const body = json(track(newId()));
    const other = await open();
    await other.send(post('/v1/track', body, [KEY, 'Expect: 100-continue']).subarray(0, -body.length));
    expect((await other.nextResponse()).status).toBe(100);
    await other.send(body);
    expectSuccess(await other.nextResponse());
    other.destroy();
  });
});

describe('rule 2: every error is a JSON object with success, code and message', () => {
  const errorCases: [string, () => Promise<WireResponse>, [number, string]][] = [
    ['no JSON', () => ask('/v1/track', '{"a":'), [400, 'invalid_json']],
    ['an empty body', () => ask('/v1/batch', ''), [400, 'invalid_json']],
    ['an invalid call', () => ask('/v1/track', '{"userId":"u"}'), [400, 'event_not_defined']],
    ['a batch that is none', () => ask('/v1/batch', '{"batch":{}}'), [400, 'batch_not_array']],
    ['a call that is too large', () => ask('/v1/t', 'x'.repeat(32_769)), [400, 'message_too_large']],
    ['a batch that is too large', () => ask('/v1/b', 'x'.repeat(524_289)), [400, 'batch_too_large']],
    ['no write key', () => ask('/v1/track', json(call()), []), [401, 'missing_write_key']],
    ['an unknown write key', () => ask('/v1/track', json(call()), [basic('no')]), [401, 'invalid_write_key']],
    ['a path that is none', () => ask('/v1/trakc', json(call())), [404, 'not_found']],
    ['a path outside the API', () => ask('/nowhere', ''), [404, 'not_found']],
    ['a wrong method', () => askWithout('GET', '/v1/track'), [405, 'method_not_allowed']],
    ['broken gzip', () => ask('/v1/t', 'x', [KEY, 'Content-Encoding: gzip']), [400, 'invalid_encoding']],
    [
      'another encoding',
      () => ask('/v1/t', 'x', [KEY, 'Content-Encoding: br']),
      [400, 'unsupported_encoding'],
    ],
  ];
  test.each(errorCases)('for %s', async (_, request, expected) => {
    expectError(await request(), expected);
  });

  test.each([
    ['what is no HTTP', 'hello\r\n\r\n', [400, 'malformed_request']],
    [
      'two lengths',
      'POST /v1/t HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n',
      [400, 'malformed_request'],
    ],
    [
      'a chunk that is none',
      'POST /v1/t HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n',
      [400, 'malformed_request'],
    ],
    [
      'headers without end',
      `POST /v1/t HTTP/1.1\r\nA: ${'x'.repeat(20_000)}\r\n\r\n`,
      [431, 'headers_too_large'],
    ],
  ] satisfies [string, string, [number, string]][])(
    'for %s, before the connection is closed',
    async (_, bytes, expected) => {
      const other = await open();
      await other.send(bytes);
      expectError(await other.nextResponse(), expected as [number, string]);
      await other.closed;
    },
  );

  test('for a source beyond its rate limit', async () => {
    const batch = json({ batch: [track(newId()), track(newId())] });
    await ask('/v1/batch', batch, [basic('wk_slow:')]);
    expectError(await ask('/v1/batch', batch, [basic('wk_slow:')]), [429, 'rate_limited']);
  });

  test('for a client that is too slow, and for a server that cannot store', async () => {
    const verdict = { kind: 'unavailable', code: 'storage_unavailable', retryAfter: 5 } as const;
    const listening = await startTestServer({
      verdict,
      timeouts: { head: 1000, request: 1000, checkInterval: 20 },
    });
    const failing = await listening.connect();
    await failing.send(post('/v1/track', '{}'));
    expectError(await failing.nextResponse(), [503, 'storage_unavailable']);
    const slow = await listening.connect();
    await slow.send('POST /v1/track HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12');
    expectError(await slow.nextResponse(), [408, 'request_timeout']);
    await listening.listener.stop();
  });

  test('and a request without Host is answered like any other', async () => {
    const other = await open();
    await other.send('POST /v1/nowhere HTTP/1.1\r\nContent-Length: 0\r\n\r\n');
    expectError(await other.nextResponse(), [404, 'not_found']);
    other.destroy();
  });
});

describe('rule 3: the write key is taken from three places', () => {
  const counts = async () => [await acceptedBy('website'), await acceptedBy('app')];
  const expectGrowth = async (request: () => Promise<WireResponse>, growth: [number, number]) => {
    const [website, app] = await counts();
    expectSuccess(await request());
    expect(await counts()).toEqual([website! + growth[0], app! + growth[1]]);
  };
  const one = (writeKey?: string) => json(call(writeKey === undefined ? {} : { writeKey }));

  test('the user of Basic, with a colon, without one, and with a password', async () => {
    for (const user of ['wk_app:', 'wk_app', 'wk_app:secret']) {
      await expectGrowth(() => ask('/v1/track', one(), [basic(user)]), [0, 1]);
    }
  });

  test('the body alone, without any header or beside a bearer token', async () => {
    await expectGrowth(() => ask('/v1/track', one('wk_app'), []), [0, 1]);
    await expectGrowth(() => ask('/v1/track', one('wk_app'), ['Authorization: Bearer abc']), [0, 1]);
    const batch = json({ writeKey: 'wk_app', batch: [track(newId())] });
    await expectGrowth(() => ask('/v1/batch', batch, []), [0, 1]);
  });

  test('an item before its batch, and the batch before the header', async () => {
    const items = [
      track(newId(), { writeKey: 'wk_app' }),
      track(newId()),
      track(newId(), { writeKey: 'wk_next' }),
    ];
    await expectGrowth(() => ask('/v1/batch', json({ writeKey: 'wk', batch: items }), [basic('no')]), [2, 1]);
    await expectGrowth(() => ask('/v1/track', one('wk_app'), [KEY]), [0, 1]);
  });

  test('every key of a source', async () => {
    await expectGrowth(() => ask('/v1/track', one(), [basic('wk_next:')]), [1, 0]);
  });
});

describe('rule 4: the content type is never looked at', () => {
  test.each([
    'application/json',
    'application/json; charset=utf-8',
    'text/plain',
    'text/plain;charset=UTF-8',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'image/png',
    '',
  ])('%s', async (type) => {
    expectSuccess(await ask('/v1/track', json(call()), [KEY, `Content-Type: ${type}`]));
  });

  test('a form type with gzip', async () => {
    const type = 'Content-Type: application/x-www-form-urlencoded';
    const body = gzipSync(json({ batch: [track('m-form')] }));
    expectSuccess(await ask('/v1/batch', body, [KEY, type, 'Content-Encoding: gzip']));
    expect(await delivered('m-form')).toMatchObject({ event: 'Order Placed' });
  });
});

describe('rule 5: gzip is accepted, and its inflated size counts', () => {
  const GZIP = [KEY, 'Content-Encoding: gzip'];
  const padded = (bytes: number) => {
    const empty = json({ batch: [], pad: '' });
    return json({ batch: [], pad: 'x'.repeat(bytes - empty.length) });
  };

  test('up to the limit', async () => {
    expectSuccess(await ask('/v1/track', gzipSync(json(track('m-gzip'))), GZIP));
    expect(await delivered('m-gzip')).toMatchObject({ userId: 'u1' });
    expectSuccess(await ask('/v1/batch', gzipSync(padded(524_288)), GZIP));
  });

  test('and not beyond', async () => {
    expectError(await ask('/v1/batch', gzipSync(padded(524_289)), GZIP), [400, 'batch_too_large']);
    expectError(await ask('/v1/track', gzipSync('x'.repeat(32_769)), GZIP), [400, 'message_too_large']);
  });

  test('and a gigabyte in half a megabyte costs no more than the limit', async () => {
    const bomb = gzipSync(Buffer.alloc(100_000_000), { level: 9 });
    const before = memoryOf(program.pid);
    for (let n = 0; n < 20; n++) expectError(await ask('/v1/batch', bomb, GZIP), [400, 'batch_too_large']);
    expect(memoryOf(program.pid) - before).toBeLessThan(50);
  });
});

describe('rule 6: the paths, with and without a slash', () => {
  const withBody = ['identify', 'track', 'page', 'screen', 'group', 'alias', 'i', 't', 'p', 's', 'g', 'a'];

  test.each(['', '/'])('with %j at the end', async (slash) => {
    for (const name of withBody) expectSuccess(await ask(`/v1/${name}${slash}`, json(call())));
    for (const name of ['batch', 'b', 'import'])
      expectSuccess(await ask(`/v1/${name}${slash}`, '{"batch":[]}'));
    expectSuccess(await ask(`/v1/m${slash}`, '{}'));
    const query = `?data=${Buffer.from(json(call({ writeKey: 'wk', messageId: `m-pixel${slash}` }))).toString('base64')}`;
    const pixel = await askWithout('GET', `/v1/pixel/track${slash}${query}`);
    expect([pixel.status, pixel.headers.get('content-type')]).toEqual([200, 'image/gif']);
    expect(await delivered(`m-pixel${slash}`)).toMatchObject({
      event: 'E',
    });
    const settings = await askWithout('GET', `/v1/projects/wk/settings${slash}`);
    expect(settings.status).toBe(200);
    expect(JSON.parse(settings.body)).toMatchObject({ integrations: { 'Segment.io': { apiKey: 'wk' } } });
  });
});

describe('rule 7: browsers may send and read from any origin', () => {
  const ORIGIN = 'Origin: https://shop.example';
  const listOf = (value: string | undefined) => value?.split(', ') ?? [];

  test.each(['/v1/t', '/v1/batch', '/v1/m', '/v1/identify/'])('a preflight of %s', async (path) => {
    const asked = [
      'Access-Control-Request-Method: POST',
      'Access-Control-Request-Headers: authorization,content-type',
    ];
    const { status, headers, body } = await askWithout('OPTIONS', path, [ORIGIN, ...asked]);
    expect([status, body]).toEqual([204, '']);
    expect(headers.get('access-control-allow-origin')).toBe('https://shop.example');
    // `sendBeacon` with JSON always sends credentials.
    expect(headers.get('access-control-allow-credentials')).toBe('true');
    expect(listOf(headers.get('access-control-allow-methods'))).toContain('POST');
    // A * would not cover Authorization.
    expect(headers.get('access-control-allow-headers')).toBe('authorization,content-type');
    expect(headers.get('vary')).toBe('Origin, Host, Access-Control-Request-Headers');
    expect(Number(headers.get('access-control-max-age'))).toBeGreaterThan(0);
  });

  test('a preflight may ask for any header that has a name, and is asked for nothing that is none', async () => {
    const allowed = async (wanted: string) => {
      const asked = `Access-Control-Request-Headers: ${wanted}`;
      const { headers } = await askWithout('OPTIONS', '/v1/t', [
        ORIGIN,
        'Access-Control-Request-Method: POST',
        asked,
      ]);
      return headers.get('access-control-allow-headers');
    };
    expect(await allowed('x-of-our-own, sentry-trace,baggage')).toBe('x-of-our-own, sentry-trace,baggage');
    expect(await allowed('a b; c')).toBe('Authorization, Content-Type, X-Retry-Count, traceparent');
  });

  test('every answer, also a refusal, can be read', async () => {
    const answers = [
      await ask('/v1/t', json(call()), [KEY, ORIGIN]),
      await ask('/v1/t', 'no json', [KEY, ORIGIN]),
      await ask('/v1/t', json(call()), [basic('no'), ORIGIN]),
      await ask('/v1/t', 'x'.repeat(100_000), [KEY, ORIGIN]),
      await ask('/v1/nothing', '', [KEY, ORIGIN]),
      await askWithout('GET', '/v1/t', [ORIGIN]),
      await askWithout('GET', '/v1/projects/wk/settings', [ORIGIN]),
      await askWithout('GET', '/v1/pixel/track?x=1', [ORIGIN]),
    ];
    for (const { status, headers } of answers) {
      expect([status, headers.get('access-control-allow-origin')]).toEqual([status, 'https://shop.example']);
      expect([status, headers.get('access-control-allow-credentials')]).toEqual([status, 'true']);
      expect([status, headers.get('vary')]).toEqual([status, expect.stringMatching(/^Origin\b/)]);
    }
    expect(listOf(answers[0]!.headers.get('access-control-expose-headers'))).toEqual([
      'Retry-After',
      'X-RateLimit-Reset',
    ]);
  });
});

describe('rule 8: the timestamps of all clients', () => {
  test.each([
    ['Go 1 and 2', { timestamp: '2026-03-04T03:35:55+0000' }, '2026-03-04T03:35:55.000Z'],
    ['Go 3', { timestamp: '2026-03-04T07:41:51.654264364Z' }, '2026-03-04T07:41:51.654Z'],
    ['Python', { timestamp: '2026-03-04T07:41:51.654264+00:00' }, '2026-03-04T07:41:51.654Z'],
    ['PHP', { timestamp: '2026-03-04T07:41:51+02:00' }, '2026-03-04T05:41:51.000Z'],
    ['Rudder', { originalTimestamp: '2026-03-04T07:41:51.654Z' }, '2026-03-04T07:41:51.654Z'],
    ["the documentation's own sample", { timestamp: '2015-2-02T00:30:08.276Z' }, '2015-02-02T00:30:08.276Z'],
  ])('%s', async (_, times, timestamp) => {
    const messageId = newId();
    expectSuccess(await ask('/v1/track', json(track(messageId, times))));
    expect(await delivered(messageId)).toMatchObject({ timestamp });
  });

  test.each([
    ['null', null],
    ['none at all', undefined],
    ['no time', 'yesterday'],
    ['a number of no time', {}],
  ])('%s: the time of arrival', async (_, timestamp) => {
    const messageId = newId();
    const before = Date.now();
    expectSuccess(await ask('/v1/track', json(track(messageId, { timestamp }))));
    const { timestamp: given } = await delivered(messageId);
    expect(Date.parse(String(given))).toBeGreaterThanOrEqual(before);
    expect(Date.parse(String(given))).toBeLessThanOrEqual(Date.now());
  });
});

describe('rule 9: one bad event does not fail its batch', () => {
  test('it is dropped, the others are kept, the answer is 200', async () => {
    const bad: unknown[] = [
      { type: 'track', userId: 'u1' },
      { type: 'track', event: 'E' },
      { type: 'nothing', userId: 'u1' },
      { type: 'group', userId: 'u1' },
      { type: 'track', userId: {}, event: 'E' },
      track(newId(), { properties: 'none' }),
      track(newId(), { writeKey: 'unknown' }),
      track(newId(), { properties: { pad: 'x'.repeat(33_000) } }),
      null,
      7,
      [],
    ];
    const batch = bad.flatMap((item, index) => [item, track(`m-kept-${index}`)]);
    const before = await acceptedBy('website');
    expectSuccess(await ask('/v1/batch', json({ batch })));
    expect(await acceptedBy('website')).toBe(before + bad.length);
    for (const index of bad.keys())
      expect(await delivered(`m-kept-${index}`)).toMatchObject({ userId: 'u1' });
  });
});

describe('rule 10: a refusal for good only where sending again can never help', () => {
  test('no code has a status that some clients take for passing and others for good', () => {
    const passing = [
      'overloaded',
      'rate_limited',
      'storage_unavailable',
      'request_timeout',
      'internal_error',
    ];
    for (const [code, { status }] of Object.entries(errors.request)) {
      // 413 and 403 are tried again by node 2.x to 3.0.0, and never accepted.
      expect([400, 401, 404, 405, 408, 429, 431, 500, 503], code).toContain(status);
      expect(status === 408 || (status >= 429 && status !== 431), code).toBe(passing.includes(code));
    }
  });

  test.each([
    [{ kind: 'unavailable', code: 'overloaded', retryAfter: 7 }, 429, '7'],
    [{ kind: 'unavailable', code: 'storage_unavailable', retryAfter: 1000 }, 503, '300'],
  ] as const)('what cannot be stored now is %o: come back', async (verdict, status, seconds) => {
    const listening = await startTestServer({ verdict });
    const client = await listening.connect();
    await client.send(post('/v1/track', '{}'));
    const answer = await client.nextResponse();
    expect(answer.status).toBe(status);
    expect([answer.headers.get('retry-after'), answer.headers.get('x-ratelimit-reset')]).toEqual([
      seconds,
      seconds,
    ]);
    await listening.listener.stop();
  });

  test('a source beyond its rate limit is told when to come back, and comes in then', async () => {
    const two = () => json({ batch: [track(newId()), track(newId())] });
    let answer = await ask('/v1/batch', two(), [basic('wk_slow:')]);
    while (answer.status === 200) answer = await ask('/v1/batch', two(), [basic('wk_slow:')]);
    const seconds = Number(answer.headers.get('retry-after'));
    expect(answer.headers.get('x-ratelimit-reset')).toBe(String(seconds));
    // The time it was told is what is tested: a client that waits for it comes in.
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    expectSuccess(await ask('/v1/batch', two(), [basic('wk_slow:')]));
  });

  test('a call that is sent again is accepted again and delivered once', async () => {
    const again = json(track('m-again'));
    for (let n = 0; n < 5; n++) expectSuccess(await ask('/v1/track', again));
    expectSuccess(await ask('/v1/track', json(track('m-last'))));
    await delivered('m-last');
    expect(receiver.arrivals.filter(({ headers }) => headers['webhook-id'] === 'm-again')).toHaveLength(1);
  });
});
