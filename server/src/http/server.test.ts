import { describe, expect, test } from 'vitest';
import { realTurns } from '../../test/support/clock.ts';
import { post, postHead, startTestServer, stillClock } from '../../test/support/http-server.ts';
import { runningServer } from '../../test/support/running-server.ts';
import { until } from '../../test/support/until.ts';
import type { IngestResult } from '../ports/ingest.ts';
import { createHttpServer } from './server.ts';

const server = runningServer();
const { start } = server;

const get = (path: string, method = 'GET') => `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

describe('a connection', () => {
  test('serves on after every kind of refusal', async () => {
    const verdicts = new Map<string, [IngestResult, number]>([
      ['a', [{ kind: 'refused', code: 'invalid_json' }, 400]],
      ['b', [{ kind: 'refused', code: 'invalid_write_key' }, 401]],
      ['c', [{ kind: 'unavailable', code: 'overloaded', retryAfter: 1 }, 429]],
      ['d', [{ kind: 'unavailable', code: 'storage_unavailable', retryAfter: 1 }, 503]],
    ]);
    const connection = await start({
      verdict: ({ body }, answer) => answer(verdicts.get(body.toString())?.[0] ?? { kind: 'stored' }),
    });
    const requests: [Buffer | string, number][] = [
      ...Array.from(verdicts, ([body, [, status]]): [Buffer, number] => [post('/v1/track', body), status]),
      [post('/nowhere', 'x'.repeat(100_000)), 404],
      [get('/v1/track'), 405],
      [get('/v1/track', 'PATCH'), 405],
      [post('/healthz', 'x'.repeat(100_000)), 405],
      [post('/v1/track', 'x'.repeat(32_769)), 400],
      [post('/v1/batch', 'x'.repeat(600_000)), 400],
      [post('/v1/track', 'no gzip', ['Content-Encoding: gzip']), 400],
      [post('/v1/track', 'x', ['Content-Encoding: br']), 400],
      [post('/v1/m', 'x'.repeat(100_000)), 200],
    ];
    for (const [bytes, status] of requests) {
      await connection.send(bytes);
      expect((await connection.nextResponse()).status).toBe(status);
      await connection.send(post('/v1/track', '{}'));
      expect(await connection.nextResponse()).toMatchObject({ status: 200, body: '{"success":true}' });
    }
  });

  test('answers requests in their order when several are sent at once', async () => {
    const connection = await start();
    await connection.send(post('/v1/track', '{}'), post('/x', ''), get('/healthz'));
    const statuses = [
      await connection.nextResponse(),
      await connection.nextResponse(),
      await connection.nextResponse(),
    ];
    expect(statuses.map(({ status }) => status)).toEqual([200, 404, 200]);
  });

  test('that is no HTTP is told so in JSON and closed', async () => {
    const connection = await start();
    await connection.send('\u0016\u0003\u0001 hello\r\n\r\n');
    const { status, body } = await connection.nextResponse();
    expect([status, JSON.parse(body).code]).toEqual([400, 'malformed_request']);
    await connection.closed;
  });

  test('with headers beyond all measure is told so and closed', async () => {
    const connection = await start();
    await connection.send(postHead('/v1/track', 2, [`Cookie: ${'x'.repeat(20_000)}`]));
    const { status, body } = await connection.nextResponse();
    expect([status, JSON.parse(body).code]).toEqual([431, 'headers_too_large']);
    await connection.closed;
  });

  test.each([
    ['its head', 'POST /v1/track HTTP/1.1\r\n'],
    ['its body', postHead('/v1/track', 10)],
  ])('that does not finish %s in time is answered 408 and closed', async (_, bytes) => {
    const connection = await start({ timeouts: { head: 1000, request: 1000, checkInterval: 20 } });
    await connection.send(bytes);
    const { status, body } = await connection.nextResponse();
    expect([status, JSON.parse(body).code]).toEqual([408, 'request_timeout']);
    await connection.closed;
    expect(server.now.calls).toEqual([]);
  });
});

describe('start', () => {
  const listenerOn = (host: string, port: number) =>
    createHttpServer({
      receiver: () => {},
      clock: stillClock,
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      readiness: () => [],
      host,
      port,
    });

  test('says where it listens', async () => {
    const running = await server.listen();
    expect(running.port).toBeGreaterThan(0);
    const other = listenerOn('127.0.0.1', 0);
    expect(await other.start()).toEqual({ host: '127.0.0.1', port: expect.any(Number) });
    await other.stop();
  });

  test('says in one line what to do when the port is taken', async () => {
    const running = await server.listen();
    const { port } = running;
    await expect(listenerOn('127.0.0.1', port).start()).rejects.toThrow(
      `port ${port} on 127.0.0.1 is already in use: stop the other program or choose another port with --port`,
    );
  });

  test.each([
    // An address for documentation, which no machine has. RFC 5737.
    ['192.0.2.1', '192.0.2.1 is not an address of this machine: choose another with --host'],
    ['no such host', 'the host name no such host has no address: choose another with --host'],
  ])('says in one line what to do about the host %s', async (host, message) => {
    await expect(listenerOn(host, 0).start()).rejects.toThrow(message);
  });
});

describe('stop', () => {
  test('lets a request under way finish, closes its connection and takes no other', async () => {
    let answerHeld = () => {};
    const connection = await start({
      verdict: (_, answer) => {
        answerHeld = () => answer({ kind: 'stored' });
      },
    });
    const idle = await server.now.connect();
    await idle.send(get('/healthz'));
    await idle.nextResponse();
    await connection.send(post('/v1/track', '{}'));
    await until('a call has come', () => server.now.calls.length > 0);

    const stopped = server.now.listener.stop();
    await idle.closed;
    await expect(server.now.connect()).rejects.toThrow('ECONNREFUSED');
    answerHeld();
    const { status, headers } = await connection.nextResponse();
    expect(status).toBe(200);
    expect(headers.get('connection')).toBe('close');
    await connection.closed;
    await stopped;
  });

  test('closes what is not finished when the grace is over', async () => {
    let wake = () => {};
    const clock = {
      now: () => 1000,
      monotonic: () => 1000,
      steps: () => [{ at: 0, ahead: 0 }],
      ...realTurns,
      after: (delay: number, callback: () => void) => {
        expect(delay).toBe(5000);
        wake = callback;
        return () => {};
      },
    };
    const connection = await start({ verdict: () => {}, clock });
    await connection.send(post('/v1/track', '{}'));
    await until('a call has come', () => server.now.calls.length > 0);
    const stopped = server.now.listener.stop();
    wake();
    await connection.closed;
    await stopped;
  });

  test('may be called again, and before a start', async () => {
    const running = await server.listen();
    const stops = [running.listener.stop(), running.listener.stop()];
    expect(await Promise.all(stops)).toEqual([undefined, undefined]);
    await expect(running.listener.stop()).resolves.toBeUndefined();
    const { listener } = await startTestServer();
    const never = createHttpServer({
      receiver: () => {},
      clock: stillClock,
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      readiness: () => [],
      host: '127.0.0.1',
      port: 0,
    });
    await expect(never.stop()).resolves.toBeUndefined();
    await listener.stop();
  });
});
