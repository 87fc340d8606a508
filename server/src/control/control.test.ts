import { describe, expect, test } from 'vitest';
import type { ControlAnswer } from '../ports/control.ts';
import { StorageError } from '../ports/event-log.ts';
import type { Facts } from '../ports/logger.ts';
import { createControl } from './control.ts';

const logged: { event: string; facts: Facts }[] = [];
const log = (facts: Facts, event: string) => void logged.push({ event, facts });
const reads: string[] = [];
const control = createControl({
  token: 's3cret',
  resources: {
    ledger: async () => {
      reads.push('ledger');
      return { sources: {}, destinations: {} };
    },
    broken: () => Promise.reject(new Error('a bug')),
    unreadable: () => Promise.reject(new StorageError('the disk is gone')),
  },
  logger: { debug: log, info: log, warn: log, error: log },
});

function ask(method: string, path: string, token?: string, query = ''): Promise<ControlAnswer> {
  return control({ method, path, query, authorization: token === undefined ? undefined : `Bearer ${token}` });
}

/** The members of RFC 9457 that contract.md section 4 asks for, checked for every error. */
function problemIn({ status, headers, body }: ControlAnswer): string {
  expect(headers['Content-Type']).toBe('application/problem+json');
  const { code, ...problem } = JSON.parse(body);
  expect(problem).toEqual({
    type: 'about:blank',
    title: expect.stringMatching(/^[A-Z][A-Za-z ]+$/),
    status,
    detail: expect.stringMatching(/^[A-Z].*\.$/),
  });
  return code;
}

describe('the control API', () => {
  test.each(['GET', 'HEAD'])('gives a resource as JSON to %s with the token', async (method) => {
    for (const path of ['/api/v1/ledger', '/api/v1/ledger/']) {
      const { status, headers, body } = await ask(method, path, 's3cret', 'pretty=1');
      expect(status).toBe(200);
      expect(headers).toEqual({ 'Content-Type': 'application/json', 'Cache-Control': 'no-store' });
      expect(JSON.parse(body)).toEqual({ sources: {}, destinations: {} });
    }
  });

  test('answers 401 without a token and with a wrong one, says how to sign in, and reads nothing', async () => {
    reads.length = 0;
    const without = await ask('GET', '/api/v1/ledger');
    expect([without.status, problemIn(without)]).toEqual([401, 'token_missing']);
    expect(without.headers['WWW-Authenticate']).toBe('Bearer realm="millrace"');
    for (const token of ['s3cre', 's3cret2', 'S3CRET']) {
      const wrong = await ask('GET', '/api/v1/ledger', token);
      expect([wrong.status, problemIn(wrong)]).toEqual([401, 'token_invalid']);
      expect(wrong.headers['WWW-Authenticate']).toBe('Bearer realm="millrace", error="invalid_token"');
      expect(wrong.body).not.toContain(token);
    }
    const basic = await control({
      method: 'GET',
      path: '/api/v1/ledger',
      query: '',
      authorization: `Basic ${Buffer.from('s3cret:').toString('base64')}`,
    });
    expect(problemIn(basic)).toBe('token_missing');
    expect(reads).toEqual([]);
  });

  test.each([
    '/api',
    '/api/',
    '/api/v1',
    '/api/v1/nothing',
    '/api/v2/ledger',
    '/api/v1/ledger/x',
    '/api/v1//ledger',
  ])('answers 404 for %s, with and without a token, and names what there is', async (path) => {
    for (const token of ['s3cret', undefined]) {
      const answer = await ask('GET', path, token);
      expect([answer.status, problemIn(answer)]).toEqual([404, 'not_found']);
      expect(answer.body).toContain('/api/v1/ledger');
    }
  });

  test.each(['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])(
    'answers 405 to %s and says what it allows',
    async (method) => {
      const answer = await ask(method, '/api/v1/ledger', 's3cret');
      expect([answer.status, problemIn(answer)]).toEqual([405, 'method_not_allowed']);
      expect(answer.headers['Allow']).toBe('GET, HEAD');
    },
  );

  test('answers 503 when the store cannot be read and 500 for an error of ours, and logs both', async () => {
    logged.length = 0;
    const unreadable = await ask('GET', '/api/v1/unreadable', 's3cret');
    expect([unreadable.status, problemIn(unreadable)]).toEqual([503, 'store_unreadable']);
    const broken = await ask('GET', '/api/v1/broken', 's3cret');
    expect([broken.status, problemIn(broken)]).toEqual([500, 'internal_error']);
    expect(broken.body).not.toContain('a bug');
    expect(logged).toMatchObject([
      { event: 'control.failed', facts: { path: '/api/v1/unreadable' } },
      { event: 'control.failed', facts: { path: '/api/v1/broken' } },
    ]);
  });
});
