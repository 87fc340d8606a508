import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type catalogue from '../../../spec/errors.json';
import { post } from '../../test/support/http-server.ts';
import { runningServer } from '../../test/support/running-server.ts';
import { until } from '../../test/support/until.ts';
import type { FailureReason } from '../ports/http-client.ts';
import type { IngestResult } from '../ports/ingest.ts';
import { ERRORS, errorEntry, isErrorCode, parseWriteKey } from './exchange.ts';

const basic = (credentials: string) => `Basic ${Buffer.from(credentials).toString('base64')}`;

test.each([
  ['a key and an empty password', basic('wk:'), 'wk'],
  ['a key without a colon', basic('wk'), 'wk'],
  ['a key with a password, which is ignored', basic('wk:secret'), 'wk'],
  ['a password with colons', basic('wk:a:b'), 'wk'],
  ['a key of other letters', basic('schlüssel:'), 'schlüssel'],
  ['a scheme in other letters', basic('wk:').replace('Basic', 'bAsIc'), 'wk'],
  ['more than one blank', basic('wk:').replace(' ', '   '), 'wk'],
  ['base64 without its padding', basic('wk').replace(/=+$/, ''), 'wk'],
])('%s gives the key', (_, header, key) => {
  expect(parseWriteKey(header)).toBe(key);
});

test.each([
  ['an empty user', basic(':secret')],
  ['nothing', ''],
  ['a scheme alone', 'Basic'],
  ['a scheme and a blank', 'Basic '],
  ['another scheme', 'Bearer d2s6'],
  ['letters that are no base64', 'Basic wk:secret'],
  ['two tokens', 'Basic d2s6 d2s6'],
])('%s gives no key', (_, header) => {
  expect(parseWriteKey(header)).toBeUndefined();
});

const server = runningServer();
const { start } = server;

describe('verdicts', () => {
  async function answerTo(verdict: IngestResult) {
    const connection = await start({ verdict });
    await connection.send(post('/v1/track', '{}'));
    const { status, headers, body } = await connection.nextResponse();
    return { status, headers, body: JSON.parse(body) };
  }

  test.each([
    ['invalid_json', 400],
    ['no_user_anon_id', 400],
    ['batch_not_array', 400],
    ['invalid_write_key', 401],
    ['missing_write_key', 401],
  ])('of %s answer %i with success, code and message', async (code, status) => {
    const answer = await answerTo({ kind: 'refused', code });
    expect(answer.status).toBe(status);
    expect(answer.body).toEqual({ success: false, code, message: expect.stringMatching(/\.$/) });
  });

  test('carry their detail behind the message of the catalogue', async () => {
    const { body } = await answerTo({ kind: 'refused', code: 'invalid_json', detail: 'It is "empty".' });
    expect(body.message).toBe('The body is not valid JSON. It is "empty".');
  });

  test('with a code that nobody knows are our error', async () => {
    const { status, body } = await answerTo({ kind: 'refused', code: 'toString' });
    expect(status).toBe(500);
    expect(body).toMatchObject({ success: false, code: 'internal_error' });
  });

  test.each([
    ['overloaded', 429, 1, '1'],
    ['overloaded', 429, 0, '1'],
    ['storage_unavailable', 503, 4.2, '5'],
    ['storage_unavailable', 503, 9000, '300'],
  ] as const)(
    'of %s answer %i and when to come back after %f s',
    async (code, status, retryAfter, seconds) => {
      const { headers, body, ...answer } = await answerTo({ kind: 'unavailable', code, retryAfter });
      expect(answer.status).toBe(status);
      expect(headers.get('retry-after')).toBe(seconds);
      expect(headers.get('x-ratelimit-reset')).toBe(seconds);
      expect(body).toMatchObject({ success: false, code });
    },
  );

  test('may come later', async () => {
    const held: (() => void)[] = [];
    const connection = await start({ verdict: (_, answer) => held.push(() => answer({ kind: 'stored' })) });
    const other = await server.now.connect();
    await connection.send(post('/v1/track', '{}'));
    await other.send('GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n');
    await other.nextResponse();
    await until('a call has come', () => server.now.calls.length > 0);
    for (const release of held) release();
    expect((await connection.nextResponse()).status).toBe(200);
  });

  test('that throw answer 500, are logged, and end nothing', async () => {
    let first = true;
    const connection = await start({
      verdict: (_, answer) => {
        if (!first) return answer({ kind: 'stored' });
        first = false;
        throw new Error('bug');
      },
    });
    await connection.send(post('/v1/track', '{}'));
    const { status, body } = await connection.nextResponse();
    expect([status, JSON.parse(body).code]).toEqual([500, 'internal_error']);
    expect(server.now.logged).toMatchObject([{ event: 'request.failed', facts: { type: 'track' } }]);
    await connection.send(post('/v1/track', '{}'));
    expect((await connection.nextResponse()).status).toBe(200);
  });
});

const groups: Record<string, Record<string, { status?: number; message: string; hint: string }>> = JSON.parse(
  readFileSync(new URL('../../../spec/errors.json', import.meta.url), 'utf8'),
);

test('every code stands in one group only, in snake case, with a message and a hint that are sentences', () => {
  const seen = new Set<string>();
  for (const group of Object.values(groups)) {
    for (const [code, { message, hint }] of Object.entries(group)) {
      expect(seen.has(code), code).toBe(false);
      seen.add(code);
      expect(code).toMatch(/^[a-z]+(_[a-z0-9]+)*$/);
      expect(message, code).toMatch(/^[A-Z].*\.$/);
      expect(hint, code).toMatch(/^[A-Z0-9].*\.$/);
    }
  }
});

test('every answer to a request has a status that clients take as it is meant', () => {
  const passing = ['overloaded', 'rate_limited', 'storage_unavailable', 'request_timeout', 'internal_error'];
  for (const [code, { status }] of Object.entries(groups['request'] ?? {})) {
    expect(status, code).toBeDefined();
    const retried = status === 408 || status === 429 || (status ?? 0) >= 500;
    expect(retried, code).toBe(passing.includes(code));
    // Several clients retry 413. spec/specification.md, "Size limits".
    expect(status).not.toBe(413);
  }
  for (const [code, { status }] of Object.entries(groups['discard'] ?? {})) {
    expect([400, undefined], code).toContain(status);
  }
});

test('every reason of the transport is an outcome of the catalogue', () => {
  // A reason that is missing in the catalogue does not compile.
  const reasons: Record<FailureReason, keyof typeof catalogue.outcome> = {
    timeout: 'timeout',
    name_not_resolved: 'name_not_resolved',
    connection_refused: 'connection_refused',
    connection_closed: 'connection_closed',
    connection_failed: 'connection_failed',
    certificate_untrusted: 'certificate_untrusted',
    protocol_error: 'protocol_error',
    egress_refused: 'egress_refused',
    invalid_request: 'invalid_request',
  };
  for (const [reason, code] of Object.entries(reasons)) {
    expect(code).toBe(reason);
    expect(groups['outcome']).toHaveProperty(code);
  }
});

test('codes of requests and discards are known, others are not', () => {
  expect(errorEntry('invalid_write_key').status).toBe(401);
  expect(errorEntry('no_user_anon_id').status).toBe(400);
  expect(isErrorCode('retry_window_over')).toBe(false);
  expect(isErrorCode('constructor')).toBe(false);
  expect(ERRORS.size).toBe(Object.keys(groups['request']!).length + Object.keys(groups['discard']!).length);
});
