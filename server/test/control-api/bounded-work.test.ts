import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import described from '../../../spec/openapi.json' with { type: 'json' };
import { type App, createLogger, startApp } from '../../src/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import { amountOf } from '../support/runs.ts';
import { Document, targetOf } from './document.ts';
import { hostileBodyOf, list, mapping, nested } from './hostile-bodies.ts';
import { requestOf } from './random-requests.ts';
import { WorkCounter } from './work-counter.ts';

/**
 * The control API of a whole server, asked for what takes long: the work of each answer is counted, not
 * timed, and is bounded by the length of the request.
 */
const OPERATIONS = new Document(described).operations.filter(({ path }) => path.startsWith('/api/v1/'));
const TOKEN = 'admin-token-of-the-tests';
const DRAWN = amountOf({ gate: 25, long: 400 });

/** Calls of functions: some for any request, and some for each byte of it. */
const FOR_ANY = 60_000;
const FOR_A_BYTE = 12;

const work = new WorkCounter();
let folder: string;
let app: App;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-work-'));
  await work.start();
  const { config } = loadConfig({
    env: { MILLRACE_ADMIN_TOKEN: TOKEN },
    flags: { data: join(folder, 'data'), port: 0 },
    defaults: { host: '127.0.0.1' },
  });
  const logger = createLogger('error');
  app = await startApp({ ...config, egress: { allow: ['127.0.0.0/8'] } }, { logger });
});

afterAll(async () => {
  await app.stop();
  await work.stop();
  rmSync(folder, { recursive: true });
});

interface Answer {
  readonly status: number;
  readonly calls: number;
  readonly body: string;
}

/** The answer, and the work that it took. */
async function ask(method: string, target: string, body: string): Promise<Answer> {
  await work.take();
  const { status, text } = await send(method, target, body);
  return { status, calls: await work.take(), body: text };
}

function send(method: string, target: string, body: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-length': Buffer.byteLength(body) };
    const asked = request(app.url + target, { method, headers, agent: false }, (response) => {
      const { statusCode: status = 0 } = response;
      if (response.headers['content-type'] === 'text/event-stream') {
        asked.destroy();
        resolve({ status, text: '' });
        return;
      }
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.once('end', () => resolve({ status, text: Buffer.concat(parts).toString() }));
    });
    asked.once('error', reject);
    asked.end(body);
  });
}

function problemIn(body: string) {
  return JSON.parse(body) as { code: string; errors: { path: string; message: string }[]; truncated?: true };
}

const destination = (settings: string) =>
  `{"name":"a","type":"webhooks","sources":[],"settings":{"endpoints":[${settings}]}}`;
const withHeaders = (headers: string) => destination(`{"url":"http://127.0.0.1/","headers":${headers}}`);

describe('the control API', () => {
  test.each([
    [
      'POST',
      'destinations',
      'endpoints that are none',
      `{"settings":{"endpoints":${list('{"u":1}', 156_000)}}}`,
    ],
    ['POST', 'destinations', 'headers', withHeaders(mapping(() => '""', 243_000))],
    ['POST', 'destinations', 'names of sources', `{"sources":${list('"a"')}}`],
    ['POST', 'destinations', 'unknown keys', mapping(() => '1')],
    ['POST', 'destinations', 'lists inside one another', nested('[')],
    ['PATCH', 'destinations/a', 'mappings inside one another', nested('{"a":')],
    ['PATCH', 'destinations/a', 'endpoints that are none', `{"settings":{"endpoints":${list('{"u":1}')}}}`],
    ['POST', 'sources', 'write keys', `{"name":"a","writeKeys":${list('"a"')}}`],
    ['PUT', 'config', 'sources that are none', `{"sources":${list('1')}}`],
    ['PUT', 'config', 'destinations inside one another', `{"destinations":${nested('[')}}`],
    ['POST', 'redeliveries', 'ids', `{"destination":"a","ids":${list('"1-1"')}}`],
    ['POST', 'replays', 'types', `{"destination":"a","types":${list('"track"')}}`],
  ])('refuses %s %s with too many %s', async (method, path, _what, text) => {
    const { status, calls, body } = await ask(method, `/api/v1/${path}`, text);
    const { code, errors } = problemIn(body);
    expect({ status, code }).toEqual({ status: 422, code: 'invalid_parameters' });
    expect(errors.length).toBeLessThanOrEqual(20);
    expect(calls).toBeLessThan(FOR_ANY);
  });

  test('tells the first twenty problems of many, and that there are more', async () => {
    const keys = Object.fromEntries(Array.from({ length: 900 }, (_, nth) => [`k${nth}`, 1]));
    const one = await ask('POST', '/api/v1/destinations', JSON.stringify({ type: 'webhooks', ...keys }));
    const records = Array.from({ length: 900 }, () => ({ name: 7, type: 'webhooks' }));
    const many = await ask(
      'PUT',
      '/api/v1/config',
      JSON.stringify({ sources: records, destinations: records }),
    );
    for (const { status, body } of [one, many]) {
      const { errors, truncated } = problemIn(body);
      expect([status, errors.length, truncated]).toEqual([422, 20, true]);
      expect(body).toContain('There are more than the first 20.');
    }
  });

  test('takes a thousand destinations in one request, with work in proportion', async () => {
    const sources = Array.from({ length: 1000 }, (_, nth) => ({ name: `s${nth}`, writeKeys: [`k${nth}`] }));
    const destinations = sources.map(({ name }, nth) => ({
      name: `d${nth}`,
      type: 'webhooks',
      sources: [name],
      settings: { endpoints: [{ url: `http://127.0.0.1:${nth + 1}/` }] },
    }));
    const text = JSON.stringify({ sources, destinations });
    const { status, calls } = await ask('PUT', '/api/v1/config', text);
    expect(status).toBe(200);
    expect(calls).toBeLessThan(FOR_ANY + FOR_A_BYTE * text.length);
    expect((await send('PUT', '/api/v1/config?prune=true&confirm=true', '{}')).status).toBe(200);
  });

  test('answers methods that no path takes with 405 and those that it takes', async () => {
    for (const method of ['QUERY', 'PROPFIND', 'LOCK', 'M-SEARCH', 'TRACE']) {
      expect((await ask(method, '/api/v1/sources', '{"a":1}')).status).toBe(405);
      expect((await ask(method, '/api/v1/nothing', '')).status).toBe(404);
    }
  });

  test(`does work in proportion to what it is asked: ${DRAWN} requests drawn by lot`, async () => {
    const drawn = fc
      .constantFrom(...OPERATIONS)
      .chain((operation) => fc.tuple(fc.constant(operation), requestOf(operation), hostileBodyOf(operation)));
    const run = fc.asyncProperty(drawn, async ([operation, plan, body]) => {
      const target = targetOf(operation, plan);
      const { status, calls } = await ask(operation.method, target, body);
      const most = FOR_ANY + FOR_A_BYTE * Buffer.byteLength(body);
      const said = { request: `${operation.method} ${target}`, status, calls, most };
      if (calls > most || (status >= 500 && status !== 503)) throw new Error(JSON.stringify(said));
      // What was made must not make the next request larger.
      if (status < 300 && operation.method !== 'GET')
        await send('PUT', '/api/v1/config?prune=true&confirm=true', '{}');
    });
    // What is drawn is made smaller by none: a smaller request takes less work.
    await fc.assert(run, { numRuns: DRAWN, endOnFailure: true });
  });
});
