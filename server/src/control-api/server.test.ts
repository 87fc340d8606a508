import { type IncomingHttpHeaders, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { testAuthenticator } from '../../test/support/authenticator.ts';
import { startTestServer, type TestServer } from '../../test/support/http-server.ts';
import { systemClock } from '../adapters/system/clock.ts';
import { StorageError } from '../ports/event-log.ts';
import type { LogFields } from '../ports/logger.ts';
import { defineOperation } from './operation.ts';
import { createControlApi } from './server.ts';

const logged: { event: string; facts: LogFields }[] = [];
const log = (facts: LogFields, event: string) => void logged.push({ event, facts });
const reads: string[] = [];
const control = await createControlApi({
  authenticator: testAuthenticator('s3cret'),
  clock: systemClock,
  version: '1.2.3',
  operations: [
    defineOperation({
      method: 'GET',
      path: 'ledger',
      role: 'viewer',
      summary: 'Does it',
      run: async () => {
        reads.push('ledger');
        return { sources: {}, destinations: {} };
      },
    }),
    defineOperation({
      method: 'GET',
      path: 'broken',
      role: 'viewer',
      summary: 'Does it',
      run: () => Promise.reject(new Error('a bug')),
    }),
    defineOperation({
      method: 'GET',
      path: 'unreadable',
      role: 'viewer',
      summary: 'Does it',
      run: () => Promise.reject(new StorageError('the disk is gone')),
    }),
    defineOperation({
      method: 'POST',
      path: 'unwritable',
      role: 'viewer',
      summary: 'Does it',
      run: () => Promise.reject(new StorageError('the disk is full')),
    }),
    defineOperation({
      method: 'POST',
      path: 'things/:name',
      role: 'viewer',
      summary: 'Does it',
      query: z.object({ fast: z.stringbool().default(false) }),
      body: z.strictObject({ size: z.number().min(1) }),
      run: async ({ client: _, ...input }) => input,
    }),
  ],
  logger: { debug: log, info: log, warn: log, error: log },
});

let running: TestServer;

beforeAll(async () => {
  running = await startTestServer({ control });
});

afterAll(() => running.listener.stop());

interface Asked {
  readonly query?: string;
  readonly body?: string | Buffer;
}

interface Answer {
  readonly status: number;
  /** Without those that the listener adds to every answer. */
  readonly headers: IncomingHttpHeaders;
  readonly length: string | undefined;
  readonly body: string;
}

/** Asks the control API behind its listener. `token` may be a whole Authorization header. */
async function ask(
  method: string,
  path: string,
  token?: string,
  { query = '', body = '' }: Asked = {},
): Promise<Answer> {
  const authorization = token?.includes(' ') === true ? token : `Bearer ${token}`;
  const headers = {
    ...(token === undefined ? {} : { authorization }),
    ...(body === '' ? {} : { 'content-length': Buffer.byteLength(body) }),
  };
  const target = query === '' ? path : `${path}?${query}`;
  const asked = request({ port: running.port, method, path: target, headers }).end(body);
  return await new Promise((resolve, reject) => {
    asked.once('error', reject);
    asked.once('response', (response) => {
      const {
        date: _,
        connection: __,
        'keep-alive': ___,
        'content-length': length,
        'x-content-type-options': ____,
        ...said
      } = response.headers;
      const answer = { status: response.statusCode ?? 0, headers: said, length };
      text(response).then((body) => resolve({ ...answer, body }), reject);
    });
  });
}

/** The members of RFC 9457 that spec/contract.md, "Conventions" asks for, checked for every error. */
function problemIn({ status, headers, body }: Answer): string {
  expect(headers['content-type']).toBe('application/problem+json');
  const { code, errors: _, ...problem } = JSON.parse(body);
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
      const { status, headers, length, body } = await ask(method, path, 's3cret');
      expect(status).toBe(200);
      expect(headers).toEqual({ 'content-type': 'application/json', 'cache-control': 'no-store' });
      const resource = JSON.stringify({ sources: {}, destinations: {} });
      expect([length, body]).toEqual([String(resource.length), method === 'HEAD' ? '' : resource]);
    }
  });

  test('answers 401 without a token and with a wrong one, says how to sign in, and reads nothing', async () => {
    reads.length = 0;
    const without = await ask('GET', '/api/v1/ledger');
    expect([without.status, problemIn(without)]).toEqual([401, 'token_missing']);
    expect(without.headers['www-authenticate']).toBe('Bearer realm="millrace"');
    for (const token of ['s3cre', 's3cret2', 'S3CRET']) {
      const wrong = await ask('GET', '/api/v1/ledger', token);
      expect([wrong.status, problemIn(wrong)]).toEqual([401, 'token_invalid']);
      expect(wrong.headers['www-authenticate']).toBe('Bearer realm="millrace", error="invalid_token"');
      expect(wrong.body).not.toContain(token);
    }
    const basic = await ask('GET', '/api/v1/ledger', `Basic ${Buffer.from('s3cret:').toString('base64')}`);
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

  test.each([
    '/api/v1/ledger/%zz',
    '/api/v1/%',
    `/api/v1/${'x'.repeat(10_000)}`,
    '/api/v1/a\\b',
    '/api/v1/#',
  ])('answers 404 for %s as for any other path, although nothing can be at it', async (path) => {
    const answer = await ask('GET', path, 's3cret');
    expect([answer.status, problemIn(answer)]).toEqual([404, 'not_found']);
  });

  test.each([
    '%zz',
    '%',
    '=',
    '&&=&',
    '__proto__=1',
    'fast[]=true',
    'fast=true&fast=true',
    '#',
    'a=%00%ff',
    'fast=%ff',
  ])('answers a query that nobody means, %s, as one that is wrong or empty', async (query) => {
    const { status } = await ask('POST', '/api/v1/things/x', 's3cret', { query, body: '{"size":1}' });
    expect([200, 422]).toContain(status);
  });

  test('refuses a query and a body that are no UTF-8: other texts would be read than were sent', async () => {
    const answer = await ask('POST', '/api/v1/things/x', 's3cret', {
      body: Buffer.from('{"size":1,"M\xfcller":1}', 'latin1'),
    });
    expect([answer.status, problemIn(answer)]).toEqual([400, 'body_not_json']);
    expect(answer.body).toContain('Byte 12 of it belongs to no character of UTF-8');
    for (const query of ['M%FCller=1', 'fast=%']) {
      const { status, body } = await ask('POST', '/api/v1/things/x', 's3cret', { query, body: '{"size":1}' });
      expect([status, JSON.parse(body).errors]).toEqual([
        422,
        [{ path: 'query', message: expect.stringContaining('percent-encoding') }],
      ]);
    }
    // Bytes that are not encoded at all are no request line.
    const connection = await running.connect();
    await connection.send('GET /api/v1/things/M\u00fcller HTTP/1.1\r\nHost: a\r\n\r\n');
    expect((await connection.nextResponse()).status).toBe(400);
  });

  test('takes names as long as a request can carry', async () => {
    const name = 'ü'.repeat(1000);
    const path = `/api/v1/things/${encodeURIComponent(name)}`;
    expect(JSON.parse((await ask('POST', path, 's3cret', { body: '{"size":1}' })).body).names).toEqual({
      name,
    });
  });

  test('takes a body of a megabyte, and one that is longer as text than it was as bytes', async () => {
    // Each of these bytes becomes a replacement character, which is three bytes long.
    const body = Buffer.concat([Buffer.from('{"size":1'), Buffer.alloc(1024 * 1024 - 9, 0xff)]);
    const answer = await ask('POST', '/api/v1/things/x', 's3cret', { body });
    expect([answer.status, problemIn(answer)]).toEqual([400, 'body_not_json']);
  });

  test('looks at no body that the operation does not take', async () => {
    const answer = await ask('POST', '/api/v1/unwritable', 's3cret', { body: '{' });
    expect([answer.status, problemIn(answer)]).toEqual([503, 'store_unwritable']);
  });

  test.each(['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'])(
    'answers 405 to %s and says what it allows',
    async (method) => {
      const answer = await ask(method, '/api/v1/ledger', 's3cret');
      expect([answer.status, problemIn(answer)]).toEqual([405, 'method_not_allowed']);
      expect(answer.headers.allow).toBe('GET, HEAD');
    },
  );

  test('answers 405 to GET and HEAD where there is nothing to get, and to everything but GET for its description', async () => {
    for (const [method, path, allow] of [
      ['GET', '/api/v1/things/x', 'POST'],
      ['HEAD', '/api/v1/things/x/', 'POST'],
      ['POST', '/api/openapi.json', 'GET, HEAD'],
    ] as const) {
      const answer = await ask(method, path);
      expect([answer.status, answer.headers.allow]).toEqual([405, allow]);
      if (method === 'HEAD') expect(answer.body).toBe('');
      else expect(problemIn(answer)).toBe('method_not_allowed');
    }
  });

  test('describes itself to everybody', async () => {
    const { status, headers, body } = await ask('GET', '/api/openapi.json');
    expect([status, headers]).toEqual([
      200,
      { 'content-type': 'application/json', 'cache-control': 'no-store' },
    ]);
    expect(JSON.parse(body)).toMatchObject({
      openapi: '3.1.0',
      info: { title: 'Millrace', version: '1.2.3' },
    });
  });

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

  test('hands over names, query and body as their schemas have them', async () => {
    const input = { query: 'fast=true', body: '{"size":2}' };
    const { status, body } = await ask('POST', '/api/v1/things/a%2Fb%20%C3%BC', 's3cret', input);
    expect(status).toBe(200);
    expect(JSON.parse(body)).toEqual({
      names: { name: 'a/b ü' },
      query: { fast: true },
      body: { size: 2 },
      by: 'admin',
    });
  });

  test('answers 422 and names each part that is wrong', async () => {
    for (const [input, paths] of [
      [{ query: 'fast=perhaps', body: '{"size":0}' }, ['query.fast', 'body.size']],
      [{ body: '{"size":1,"colour":"red"}' }, ['body.colour']],
      [{ query: 'fsat=true', body: '{"size":1}' }, ['query.fsat']],
      [{}, ['body.size']],
    ] as const) {
      const answer = await ask('POST', '/api/v1/things/x', 's3cret', input);
      expect([answer.status, problemIn(answer)]).toEqual([422, 'invalid_parameters']);
      const { errors } = JSON.parse(answer.body);
      expect(errors).toEqual(paths.map((path) => ({ path, message: expect.any(String) })));
    }
  });

  test('answers 400 for a body that is no JSON, and 413 for one that is too large', async () => {
    const broken = await ask('POST', '/api/v1/things/x', 's3cret', { body: '{"size":' });
    expect([broken.status, problemIn(broken)]).toEqual([400, 'body_not_json']);
    const large = await ask('POST', '/api/v1/things/x', 's3cret', { body: 'x'.repeat(1024 * 1024 + 1) });
    expect([large.status, problemIn(large)]).toEqual([413, 'body_too_large']);
  });

  test('answers 503 when nothing could be changed', async () => {
    const answer = await ask('POST', '/api/v1/unwritable', 's3cret');
    expect([answer.status, problemIn(answer)]).toEqual([503, 'store_unwritable']);
  });
});
