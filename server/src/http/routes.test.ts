import { afterEach, describe, expect, test } from 'vitest';
import { CALL_TYPES, SHORT_FORMS } from '../model/call.ts';
import { type Connection, post, type Running, type RunOptions, run } from './testing.ts';

let running: Running | undefined;

async function start(options?: RunOptions): Promise<Connection> {
  running = await run(options);
  return running.connect();
}

afterEach(async () => {
  await running?.listener.stop();
  running = undefined;
});

const get = (path: string, method = 'GET') => `${method} ${path} HTTP/1.1\r\nHost: test\r\n\r\n`;

describe('paths', () => {
  const typed = [
    ...CALL_TYPES.map((type) => [`/v1/${type}`, type]),
    ...Object.entries(SHORT_FORMS).map(([letter, type]) => [`/v1/${letter}`, type]),
    ...['/v1/batch', '/v1/b', '/v1/import'].map((path) => [path, 'batch']),
  ] as const;

  test('of every kind of call hand it to the receiver, with and without a slash and a query', async () => {
    const connection = await start();
    for (const [path, type] of typed) {
      for (const end of ['', '/', '?a=1', '/?a=/v1/group']) {
        await connection.send(post(`${path}${end}`, '{}'));
        expect((await connection.answer()).status, path + end).toBe(200);
        expect(running!.calls.pop()?.type, path + end).toBe(type);
      }
    }
  });

  test('answer success with exactly these bytes', async () => {
    const connection = await start();
    await connection.send(post('/v1/track', '{}'));
    const { status, headers, body } = await connection.answer();
    expect([status, body]).toEqual([200, '{"success":true}']);
    expect(headers.get('content-type')).toBe('application/json');
    expect(headers.get('content-length')).toBe('16');
  });

  test('never look at the content type', async () => {
    const connection = await start();
    const types = ['text/plain', 'application/x-www-form-urlencoded', 'application/json; charset=utf-8', ''];
    for (const type of types) {
      await connection.send(post('/v1/track', '{}', [`Content-Type: ${type}`]));
      expect((await connection.answer()).status).toBe(200);
    }
    expect(running!.calls).toHaveLength(types.length);
  });

  test('of client telemetry accept and discard', async () => {
    const connection = await start();
    await connection.send(post('/v1/m', '{"series":[]}'));
    expect(await connection.answer()).toMatchObject({ status: 200, body: '{"success":true}' });
    expect(running!.calls).toEqual([]);
  });

  test.each(['/', '/v1', '/v1/delete', '/v2/track', '/v1/track/x', '/v1//track', '/V1/track'])(
    'such as %s do not exist',
    async (path) => {
      const connection = await start();
      await connection.send(post(path, '{}'));
      const { status, body } = await connection.answer();
      expect(status).toBe(404);
      expect(JSON.parse(body)).toEqual({ success: false, code: 'not_found', message: expect.any(String) });
    },
  );

  test.each([
    ['GET', '/v1/track', 'POST'],
    ['PUT', '/v1/batch/', 'POST'],
    ['DELETE', '/v1/m', 'POST'],
    ['POST', '/healthz', 'GET, HEAD'],
  ])('refuse %s %s and say what they allow', async (method, path, allow) => {
    const connection = await start();
    await connection.send(get(path, method));
    const { status, headers, body } = await connection.answer();
    expect(status).toBe(405);
    expect(headers.get('allow')).toBe(allow);
    expect(JSON.parse(body)).toMatchObject({ success: false, code: 'method_not_allowed' });
  });
});

describe('health', () => {
  test('is alive and ready', async () => {
    const connection = await start();
    await connection.send(get('/healthz'));
    expect(await connection.answer()).toMatchObject({ status: 200, body: '{"status":"alive"}' });
    await connection.send(get('/readyz/'));
    expect(await connection.answer()).toMatchObject({ status: 200, body: '{"status":"ready"}' });
  });

  test('is not ready for reasons that it names, and is alive all the same', async () => {
    const connection = await start({ readiness: () => ['storage_unavailable'] });
    await connection.send(get('/readyz'));
    const { status, body } = await connection.answer();
    expect(status).toBe(503);
    expect(JSON.parse(body)).toEqual({ status: 'not_ready', reasons: ['storage_unavailable'] });
    await connection.send(get('/healthz'));
    expect((await connection.answer()).status).toBe(200);
  });

  test('answers HEAD without a body', async () => {
    const connection = await start();
    await connection.send('HEAD /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n');
    await connection.closed;
    await expect(connection.answer()).rejects.toThrow(/200 OK.*Content-Length: 18.*\\r\\n\\r\\n"$/);
  });
});

describe('what the receiver is given', () => {
  test('is the body, the time of arrival and the key of the header', async () => {
    const connection = await start();
    await connection.send(post('/v1/track', '{"a":"é"}', ['aUTHORIZATION: Basic d2s6']));
    await connection.answer();
    expect(running!.calls).toEqual([
      { type: 'track', writeKey: 'wk', body: Buffer.from('{"a":"é"}'), receivedAt: 1000 },
    ]);
  });

  test.each([
    ['without the header', []],
    ['with a malformed header', ['Authorization: Basic ???']],
    ['with a token', ['Authorization: Bearer abc']],
  ])('%s has no key', async (_, headers) => {
    const connection = await start();
    await connection.send(post('/v1/batch', '{}', headers));
    await connection.answer();
    expect(running!.calls[0]).not.toHaveProperty('writeKey');
  });
});
