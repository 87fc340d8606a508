import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import type { ControlHandler } from '../../src/control-api/contract.ts';
import { createControlApi } from '../../src/control-api/server.ts';
import type { IngestResult } from '../../src/ports/ingest.ts';
import type { IngestCounters } from '../../src/ports/telemetry.ts';
import { testAuthenticator } from '../support/authenticator.ts';
import {
  controlHandler,
  post,
  postHead,
  startTestServer,
  stillClock,
  type TestConnection,
  type TestServer,
  type TestServerOptions,
  type WireResponse,
} from '../support/http-server.ts';
import { until } from '../support/until.ts';

/** The bounds of the listener, over real sockets. spec/specification.md, "Overload". */

let running: TestServer | undefined;
const connections: TestConnection[] = [];

async function start(options: TestServerOptions): Promise<TestServer> {
  running = await startTestServer(options);
  return running;
}

async function connect(): Promise<TestConnection> {
  const connection = await running!.connect();
  connections.push(connection);
  return connection;
}

afterEach(async () => {
  for (const connection of connections.splice(0)) connection.destroy();
  await running?.listener.stop();
  running = undefined;
});

const BOUNDS = { connections: 1000, requests: 20, bytes: 1_000_000 };

/**
 * A request whose body does not come to its end; resolves when the server has the head, as it asks for the
 * body.
 */
async function hang(path = '/v1/batch', more: Uint8Array | string = ''): Promise<TestConnection> {
  const connection = await connect();
  await connection.send(postHead(path, 500_000, ['Expect: 100-continue']));
  expect((await connection.nextResponse()).status).toBe(100);
  await connection.send(more);
  return connection;
}

async function ask(body: Uint8Array | string = '{}', path = '/v1/batch'): Promise<WireResponse> {
  const connection = await connect();
  await connection.send(post(path, body));
  return connection.nextResponse();
}

function expectOverloaded({ status, headers, body }: WireResponse): void {
  expect([status, JSON.parse(body).code]).toEqual([429, 'overloaded']);
  expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
  expect(headers.get('x-ratelimit-reset')).toBe(headers.get('retry-after'));
}

/** Asks until the answer has the status: what a client did a moment ago may not have arrived yet. */
async function askUntil(status: number, body?: Uint8Array): Promise<WireResponse> {
  return until(`an answer has the status ${status}`, async () => {
    const answer = await ask(body);
    return answer.status === status && answer;
  });
}

function tallied(): IngestCounters & { readonly codes: string[] } {
  const codes: string[] = [];
  return {
    codes,
    refused: (code) => void codes.push(code),
    discarded() {},
    changed() {},
    rateLimited() {},
    publicCalls() {},
  };
}

describe('the bound on requests', () => {
  test('turns away what is beyond it, counts and logs it, and takes the next when one is over', async () => {
    const discards = tallied();
    await start({ bounds: BOUNDS, discards });
    const hanging = await Promise.all(Array.from({ length: 20 }, () => hang()));
    for (let nth = 0; nth < 5; nth++) expectOverloaded(await ask());
    expect(running!.calls).toEqual([]);
    expect(discards.codes).toEqual(Array(5).fill('overloaded'));
    // One line for all of the last seconds.
    expect(running!.logged).toMatchObject([
      { event: 'listener.overloaded', facts: { turnedAway: 1, requests: 20, connections: 21 } },
    ]);
    hanging[0]!.destroy();
    await askUntil(200);
  });

  test('counts a call until its verdict, also when its client is gone', async () => {
    const held: ((verdict: IngestResult) => void)[] = [];
    await start({ bounds: BOUNDS, verdict: (_, answer) => held.push(answer) });
    const waiting = await Promise.all(Array.from({ length: 20 }, () => connect()));
    for (const connection of waiting) await connection.send(post('/v1/track', '{}'));
    await until('calls wait for their verdict', () => held.length >= 20);
    expectOverloaded(await ask());
    for (const connection of waiting.slice(0, 10)) connection.destroy();
    await Promise.all(waiting.slice(0, 10).map(({ closed }) => closed));
    expectOverloaded(await ask());
    for (const answer of held.splice(0)) answer({ kind: 'stored' });
    for (const connection of waiting.slice(10)) expect((await connection.nextResponse()).status).toBe(200);
    const last = await connect();
    await last.send(post('/v1/track', '{}'));
    await until('a call waits for its verdict', () => held.length >= 1);
    held[0]!({ kind: 'stored' });
    expect((await last.nextResponse()).status).toBe(200);
  });

  test('is free again after every client that left in the middle of its body', async () => {
    await start({ bounds: BOUNDS });
    for (let round = 0; round < 10; round++) {
      const hanging = await Promise.all(
        Array.from({ length: 20 }, () => hang('/v1/batch', 'x'.repeat(1000))),
      );
      expectOverloaded(await ask());
      for (const connection of hanging) connection.destroy();
      await askUntil(200);
      // All twenty places are free again: the next turn of the loop takes every one of them.
      await askUntil(200);
    }
    expect(running!.calls.length).toBeGreaterThanOrEqual(20);
  });

  test('gives an image to a pixel all the same, and keeps health and preflights out of it', async () => {
    const discards = tallied();
    await start({ bounds: BOUNDS, discards });
    await Promise.all(Array.from({ length: 20 }, () => hang()));
    const client = await connect();
    await client.send('GET /v1/pixel/track?userId=u1&event=E HTTP/1.1\r\nHost: a\r\n\r\n');
    expect((await client.nextResponse()).headers.get('content-type')).toBe('image/gif');
    expect([running!.calls, discards.codes]).toEqual([[], ['overloaded']]);
    await client.send('GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n', 'OPTIONS /v1/t HTTP/1.1\r\nHost: a\r\n\r\n');
    expect((await client.nextResponse()).status).toBe(200);
    expect((await client.nextResponse()).status).toBe(204);
  });
});

describe('the bound on bytes', () => {
  const half = Buffer.alloc(450_000, 'x');

  test('turns away what is beyond it, and takes the same again when there is room', async () => {
    await start({ bounds: BOUNDS });
    const [first] = [await hang('/v1/batch', half), await hang('/v1/batch', half)];
    await askUntil(429, half);
    // What still fits is taken.
    expect((await ask('{}')).status).toBe(200);
    first.destroy();
    await askUntil(200, half);
  });

  test('counts what gzip inflates to', async () => {
    const { gzipSync } = await import('node:zlib');
    const held: ((verdict: IngestResult) => void)[] = [];
    await start({ bounds: BOUNDS, verdict: (_, answer) => held.push(answer) });
    const zipped = gzipSync(Buffer.alloc(500_000, 'x'));
    const clients = [await connect(), await connect(), await connect()];
    for (const client of clients.slice(0, 2)) await client.send(post('/v1/batch', zipped));
    await until('calls wait for their verdict', () => held.length >= 2);
    await clients[2]!.send(post('/v1/batch', zipped));
    expectOverloaded(await clients[2]!.nextResponse());
    for (const answer of held.splice(0)) answer({ kind: 'stored' });
    await clients[2]!.send(post('/v1/batch', zipped));
    await until('a call waits for its verdict', () => held.length >= 1);
  });
});

describe('bodies of the control API', () => {
  const control = controlHandler(({ body }) => ({ status: 200, headers: {}, body: String(body.length) }));

  test('are bounded like those of calls, whoever sends them', async () => {
    await start({ bounds: BOUNDS, control });
    const half = Buffer.alloc(450_000, 'x');
    const [first] = [await hang('/api/v1/x', half), await hang('/api/v1/x', half)];
    for (;;) {
      const answer = await ask(half, '/api/v1/x');
      if (answer.status === 200) continue;
      expectOverloaded(answer);
      break;
    }
    first.destroy();
    while ((await ask(half, '/api/v1/x')).status !== 200);
  });

  test('are forgotten when their clients are gone', async () => {
    await start({ bounds: BOUNDS, control });
    for (let round = 0; round < 3; round++) {
      const hanging = await Promise.all(Array.from({ length: 20 }, () => hang('/api/v1/x', '123')));
      expectOverloaded(await ask('{}', '/api/v1/x'));
      for (const connection of hanging) connection.destroy();
      while ((await ask('{}', '/api/v1/x')).status !== 200);
    }
  });
});

describe('bodies that arrive slowly', () => {
  test('make room for others when everything is full, the oldest first, and no sooner than after 5 s', async () => {
    let now = 1000;
    await start({ bounds: BOUNDS, clock: { ...stillClock, monotonic: () => now } });
    const oldest = await hang('/v1/batch', '1');
    now += 1000;
    const younger = await Promise.all(Array.from({ length: 19 }, () => hang()));
    now += 3999;
    expectOverloaded(await ask());
    now += 1;
    expect((await ask()).status).toBe(200);
    const answer = await oldest.nextResponse();
    expectOverloaded(answer);
    expect(answer.headers.get('connection')).toBe('close');
    await oldest.closed;
    // The others are four seconds old and keep their places.
    expect(younger.some(({ isGone }) => isGone)).toBe(false);
    await younger[0]!.send(Buffer.alloc(500_000, 'x'));
    expect((await younger[0]!.nextResponse()).status).toBe(200);
  });

  test('make room for bytes too', async () => {
    let now = 1000;
    await start({ bounds: BOUNDS, clock: { ...stillClock, monotonic: () => now } });
    const body = Buffer.alloc(490_000, 'x');
    const slow = [await hang('/v1/batch', body), await hang('/v1/batch', body)];
    await askUntil(429, body);
    now += 5000;
    expect((await ask(body)).status).toBe(200);
    expectOverloaded(await slow[0]!.nextResponse());
    expect(slow[1]!.isGone).toBe(false);
  });

  test('are cut off with 408 at the time limit, each of hundreds, and keep nobody waiting', async () => {
    await start({ timeouts: { head: 2000, request: 2000, checkInterval: 50 } });
    const parts = ['POST /v1/track HTTP/1.1\r\nHo', postHead('/v1/track', 1000), `${postHead('/v1/b', 9)}12`];
    // Each sends as soon as it is connected: the time limit runs from then on.
    const begin = async (nth: number) => {
      const connection = await connect();
      await connection.send(parts[nth % 3]!);
      return connection;
    };
    const slow = await Promise.all(Array.from({ length: 600 }, (_, nth) => begin(nth)));
    expect((await ask()).status).toBe(200);
    const answers = await Promise.all(slow.map((connection) => connection.nextResponse()));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([408]));
    await Promise.all(slow.map(({ closed }) => closed));
    expect((await ask()).status).toBe(200);
  });
});

describe('bodies in pieces of a few bytes', () => {
  const dust = (pieces: number) => `Transfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(pieces)}`;
  const head = (path: string) => `POST ${path} HTTP/1.1\r\nHost: a\r\n`;

  test('are taken up to a thousand, and then cut off', async () => {
    await start({});
    const client = await connect();
    await client.send(head('/v1/batch'), dust(1000), '0\r\n\r\n');
    expect((await client.nextResponse()).status).toBe(200);
    expect(running!.calls[0]!.body).toEqual(Buffer.alloc(1000, 'x'));
    await client.send(head('/v1/batch'), dust(5000));
    const { status, body } = await client.nextResponse();
    expect([status, JSON.parse(body)]).toEqual([
      400,
      {
        success: false,
        code: 'malformed_request',
        message: expect.stringContaining('pieces of a few bytes'),
      },
    ]);
    await client.closed;
  });

  test('are not read for long where they are refused anyway', async () => {
    await start({});
    for (const path of ['/nowhere', '/v1/m']) {
      const client = await connect();
      await client.send(head(path), dust(5000));
      await client.closed;
      expect([path, client.isGone]).toEqual([path, true]);
    }
    expect(running!.calls).toEqual([]);
  });
});

test('a client that reads nothing of its answer between two looks is cut off', async () => {
  // Larger than what the system takes off the server's hands.
  const control = await pageOf('x'.repeat(30_000_000));
  await start({ control, timeouts: { stalled: 400 }, bounds: { ...BOUNDS, connections: 1 } });
  const deaf = connectTcp(running!.port, '127.0.0.1');
  deaf.on('error', () => {});
  deaf.write('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await once(deaf, 'readable');
  // Its place is the only one: somebody else has it when it is gone.
  await untilTaken(() => ask());
  deaf.destroy();
});

/** The control API with this text as its page of metrics. */
function pageOf(text: string): Promise<ControlHandler> {
  const log = () => {};
  return createControlApi({
    operations: [],
    metrics: { isPublic: true, contentType: 'text/plain', text: async () => text },
    authenticator: testAuthenticator('s3cret'),
    clock: stillClock,
    logger: { debug: log, info: log, warn: log, error: log },
    version: '1.2.3',
  });
}

/** Tries until a connection is taken: one beyond the bound is closed as it comes. */
async function untilTaken<T>(attempt: () => Promise<T>): Promise<T> {
  return until('a connection is taken', attempt);
}

test('what finds no path is counted, where clients with a wrong base URL end up', async () => {
  const discards = tallied();
  await start({ discards });
  expect((await ask('{}', '/v1/v1/track')).status).toBe(404);
  const client = await connect();
  await client.send(
    'PUT /v1/track HTTP/1.1\r\nHost: a\r\n\r\n',
    'GET /favicon.ico HTTP/1.1\r\nHost: localhost\r\n\r\n',
  );
  expect((await client.nextResponse()).status).toBe(405);
  expect((await client.nextResponse()).status).toBe(404);
  expect((await ask('x'.repeat(600_000))).status).toBe(400);
  expect(discards.codes).toEqual(['not_found', 'method_not_allowed', 'batch_too_large']);
});

describe('the bound on connections', () => {
  test('closes what is beyond it as it comes, and takes others when some are gone', async () => {
    await start({ bounds: { ...BOUNDS, connections: 10 } });
    const open = await Promise.all(Array.from({ length: 10 }, () => connect()));
    for (const connection of open) {
      await connection.send('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n');
      expect((await connection.nextResponse()).status).toBe(200);
    }
    const beyond = await connect();
    await beyond.closed;
    expect(running!.logged).toMatchObject([{ event: 'listener.overloaded', facts: { connections: 10 } }]);
    open[0]!.destroy();
    for (;;) {
      const next = await connect();
      await next.send(post('/v1/track', '{}'));
      const answer = await next.nextResponse().catch(() => undefined);
      if (answer === undefined) continue;
      expect(answer.status).toBe(200);
      break;
    }
  });
});

describe('requests behind each other on one connection', () => {
  test('with garbage behind them have their answers first, in their order', async () => {
    const held: ((verdict: IngestResult) => void)[] = [];
    await start({ verdict: (_, answer) => held.push(answer) });
    const client = await connect();
    await client.send(
      post('/v1/track', '{"n":1}'),
      post('/v1/nowhere', ''),
      post('/v1/track', '{"n":2}'),
      'garbage\r\n\r\n',
      'more',
    );
    await until('calls wait for their verdict', () => held.length >= 2);
    await client.send('more garbage');
    held[1]!({ kind: 'stored' });
    held[0]!({ kind: 'stored' });
    const answers = [];
    for (let nth = 0; nth < 4; nth++) answers.push(await client.nextResponse());
    expect(answers.map(({ status }) => status)).toEqual([200, 404, 200, 400]);
    expect(JSON.parse(answers[3]!.body)).toMatchObject({ success: false, code: 'malformed_request' });
    await client.closed;
  });

  test('with a body that stops behind them have their answers first', async () => {
    await start({ timeouts: { head: 1000, request: 1000, checkInterval: 20 } });
    const client = await connect();
    await client.send(post('/v1/track', '{}'), postHead('/v1/track', 10), '12345');
    expect((await client.nextResponse()).status).toBe(200);
    expect((await client.nextResponse()).status).toBe(408);
    await client.closed;
  });

  test('may be a hundred; when more come at once they are turned away, and the connection is closed', async () => {
    await start({});
    const client = await connect();
    const one = post('/v1/track', '{}');
    await client.send(...Array.from({ length: 100 }, () => one));
    for (let nth = 0; nth < 100; nth++) expect((await client.nextResponse()).status).toBe(200);
    await client.send(...Array.from({ length: 300 }, () => one));
    const answers = [await client.nextResponse()];
    while (answers.at(-1)!.status === 200) answers.push(await client.nextResponse());
    expectOverloaded(answers.at(-1)!);
    expect(answers.at(-1)!.headers.get('connection')).toBe('close');
    expect(answers.length).toBeGreaterThan(100);
    await client.closed;
    expect(running!.calls).toHaveLength(100 + answers.length - 1);
    expect((await ask()).status).toBe(200);
  });

  test('whose client is gone before garbage is answered do no harm', async () => {
    const held: ((verdict: IngestResult) => void)[] = [];
    await start({ bounds: BOUNDS, verdict: (_, answer) => held.push(answer) });
    for (let nth = 0; nth < 20; nth++) {
      const client = await connect();
      await client.send(post('/v1/track', '{}'), 'garbage\r\n\r\n');
      await until('calls wait for their verdict', () => held.length >= nth + 1);
      client.destroy();
    }
    for (const answer of held.splice(0)) answer({ kind: 'stored' });
    const other = await connect();
    await other.send(post('/v1/track', '{}'));
    await until('a call waits for its verdict', () => held.length >= 1);
    held[0]!({ kind: 'stored' });
    expect((await other.nextResponse()).status).toBe(200);
  });
});
