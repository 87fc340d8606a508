import { afterEach, expect, test } from 'vitest';
import {
  post,
  startTestServer,
  type TestConnection,
  type TestServer,
  type TestServerOptions,
} from '../../test/support/http-server.ts';
import type { MetricsRecorder } from '../ports/telemetry.ts';

let running: TestServer | undefined;
afterEach(() => running?.listener.stop());

/** Counters after these bytes were sent, each on a connection of its own, and answered. */
async function counted(
  sent: readonly (string | Buffer)[],
  options: TestServerOptions = {},
): Promise<string[]> {
  const counts: string[] = [];
  const recorder: MetricsRecorder = {
    requestAnswered: (status, code) => counts.push(`${status} ${code ?? 'fine'}`),
    committed: () => {},
    forDestination: () => ({ attemptEnded: () => {} }),
  };
  running = await startTestServer({ ...options, recorder });
  for (const bytes of sent) {
    const connection: TestConnection = await running.connect();
    await connection.send(bytes);
    await connection.nextResponse();
    connection.destroy();
  }
  return counts;
}

const get = (path: string, method = 'GET') => `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
const CALL = post('/v1/track', '{}');

test('every answer of the receiving API is counted once, with what was wrong', async () => {
  const sent = [
    ...[CALL, post('/v1/m', '{}'), get('/v1/pixel/track?data=e30'), get('/v1/projects/k/settings')],
    ...[get('/v1/nothing'), get('/v1/track', 'DELETE'), post('/v1/track', '{}', ['Content-Encoding: br'])],
    ...['no HTTP at all\r\n\r\n', get('/v1/track', 'OPTIONS')],
  ];
  expect(await counted(sent)).toEqual([
    ...['200 fine', '200 fine', '200 fine', '200 fine'],
    ...['404 not_found', '405 method_not_allowed', '400 unsupported_encoding'],
    ...['400 malformed_request', '204 fine'],
  ]);
});

test('nothing else is counted', async () => {
  expect(await counted([get('/healthz'), get('/readyz'), get('/api/v1/ledger'), get('/')])).toEqual([]);
});

test.each([
  [{ kind: 'refused', code: 'invalid_write_key' }, '401 invalid_write_key'],
  [{ kind: 'refused', code: 'invalid_json', detail: 'More.' }, '400 invalid_json'],
  [
    { kind: 'refused', code: 'invalid_calls', invalid: [{ index: 0, code: 'unknown_type' }] },
    '400 invalid_calls',
  ],
  [{ kind: 'unavailable', code: 'rate_limited', retryAfter: 3 }, '429 rate_limited'],
  [{ kind: 'unavailable', code: 'storage_unavailable', retryAfter: 3 }, '503 storage_unavailable'],
] as const)('a call with the verdict %o is counted as %s', async (verdict, count) => {
  expect(await counted([CALL], { verdict })).toEqual([count]);
});

test('a call that is turned away is counted, to a browser too', async () => {
  const bounds = { connections: 10, requests: 0, bytes: 1000 };
  const fromBrowser = post('/v1/track', '{}', ['Origin: http://page']);
  expect(await counted([CALL, fromBrowser], { bounds })).toEqual(['429 overloaded', '429 overloaded']);
});
