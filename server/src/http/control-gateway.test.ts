import { afterEach, describe, expect, test } from 'vitest';
import {
  type ControlTestRequest,
  type ControlTestResponse,
  controlHandler,
  post,
  startTestServer,
  type TestConnection,
  type TestServer,
} from '../../test/support/http-server.ts';
import type { ControlHandler } from '../control-api/contract.ts';

let running: TestServer | undefined;

async function start(control?: ControlHandler): Promise<TestConnection> {
  running = await startTestServer(control === undefined ? {} : { control });
  return running.connect();
}

afterEach(async () => {
  await running?.listener.stop();
  running = undefined;
});

const get = (path: string, headers: readonly string[] = [], method = 'GET') =>
  `${[`${method} ${path} HTTP/1.1`, 'Host: localhost', ...headers].join('\r\n')}\r\n\r\n`;

const ANSWER: ControlTestResponse = { status: 200, headers: { 'Content-Type': 'text/x' }, body: 'grün' };

describe('paths below /api', () => {
  test('are handed over with method, path, query and authorization, and answered as they are told', async () => {
    const asked: ControlTestRequest[] = [];
    const control = controlHandler((request) => {
      asked.push(request);
      return { ...ANSWER, status: 418, headers: { ...ANSWER.headers, 'X-A': 'b' } };
    });
    const connection = await start(control);
    await connection.send(get('/api/v1/x/?a=1&b=?', ['Authorization: Bearer t']), get('/api', [], 'PATCH'));
    const { status, headers, body } = await connection.nextResponse();
    expect([status, headers.get('content-type'), headers.get('x-a'), body]).toEqual([
      418,
      'text/x',
      'b',
      'grün',
    ]);
    expect(headers.get('content-length')).toBe('5');
    expect((await connection.nextResponse()).status).toBe(418);
    expect(asked).toMatchObject([
      { method: 'GET', url: '/api/v1/x/?a=1&b=?', authorization: 'Bearer t', body: '' },
      { method: 'PATCH', url: '/api', authorization: undefined, body: '' },
    ]);
    expect(running!.calls).toEqual([]);
  });

  test('are handed over with their body, up to a megabyte', async () => {
    const bodies: string[] = [];
    const control = controlHandler(({ body }) => {
      bodies.push(body);
      return ANSWER;
    });
    const connection = await start(control);
    const large = 'ü'.repeat(512 * 1024);
    for (const body of ['{"a":"ü"}', large, `${large}.`]) {
      await connection.send(post('/api/v1/x', body));
      expect((await connection.nextResponse()).status).toBe(200);
    }
    expect(bodies.map((body) => (body === large ? 'large' : body))).toEqual([
      '{"a":"ü"}',
      'large',
      'too_large',
    ]);
  });

  test('are only those: others stay with the receiving API', async () => {
    const control: ControlHandler = () => {
      throw new Error('asked');
    };
    const connection = await start(control);
    for (const path of ['/apis', '/', '/v1/api', '//api/v1/ledger']) {
      await connection.send(get(path));
      const { status, body } = await connection.nextResponse();
      expect([path, status, JSON.parse(body).code]).toEqual([path, 404, 'not_found']);
    }
    await connection.send(get('/healthz'));
    expect((await connection.nextResponse()).status).toBe(200);
    expect(running!.logged).toEqual([]);
  });

  test('do not exist where nothing stands behind them', async () => {
    const connection = await start();
    await connection.send(get('/api/v1/ledger'));
    expect((await connection.nextResponse()).status).toBe(404);
  });

  test('answer 500 for an error of ours, which is logged, and the connection serves on', async () => {
    let failing = true;
    const control = controlHandler(() => {
      if (!failing) return ANSWER;
      failing = false;
      throw new Error('bug');
    });
    const connection = await start(control);
    await connection.send(get('/api/v1/ledger'));
    const { status, body } = await connection.nextResponse();
    expect([status, JSON.parse(body).code]).toEqual([500, 'internal_error']);
    expect(running!.logged).toMatchObject([{ event: 'request.failed', facts: { path: '/api/v1/ledger' } }]);
    await connection.send(post('/api/v1/ledger', 'x'.repeat(100_000)), post('/v1/track', '{}'));
    expect((await connection.nextResponse()).body).toBe('grün');
    expect((await connection.nextResponse()).body).toBe('{"success":true}');
  });

  /** A control API that answers when the test says so; `asked` resolves when it has the request. */
  function slow() {
    let finish = (_: ControlTestResponse) => {};
    let begin = () => {};
    const asked = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const control = controlHandler(() => {
      begin();
      return new Promise((resolve) => {
        finish = resolve;
      });
    });
    return { control, asked, finish: () => finish(ANSWER) };
  }

  test('keep nobody else waiting while their answer takes its time', async () => {
    const { control, asked, finish } = slow();
    const connection = await start(control);
    const other = await running!.connect();
    await connection.send(get('/api/v1/ledger'));
    await asked;
    await other.send(post('/v1/track', '{}'));
    expect((await other.nextResponse()).status).toBe(200);
    finish();
    expect((await connection.nextResponse()).status).toBe(200);
  });

  test('have their answer before a stop is over', async () => {
    const { control, asked, finish } = slow();
    const connection = await start(control);
    await connection.send(get('/api/v1/ledger'));
    await asked;
    const stopped = running!.listener.stop();
    finish();
    const { status, headers } = await connection.nextResponse();
    expect([status, headers.get('connection')]).toEqual([200, 'close']);
    await stopped;
  });
});
