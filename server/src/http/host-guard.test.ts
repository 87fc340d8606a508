import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { controlHandler, post, type TestConnection } from '../../test/support/http-server.ts';
import { runningServer } from '../../test/support/running-server.ts';
import { ConsoleFiles } from './console.ts';

const server = runningServer();
const control = controlHandler(async () => ({ status: 200, headers: {}, body: 'granted' }));
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-hosts-'));
  writeFileSync(join(folder, 'index.html'), '<!doctype html>');
});

afterAll(() => rmSync(folder, { recursive: true }));

const start = (options: Parameters<typeof server.start>[0] = {}) =>
  server.start({ control, console: new ConsoleFiles(folder), ...options });

/** The answer to a request without a body, of these lines. */
async function answerTo(connection: TestConnection, ...lines: string[]) {
  await connection.send(`${[...lines, 'Accept: text/html'].join('\r\n')}\r\n\r\n`);
  return connection.nextResponse();
}

const GET = 'GET /api/v1/status HTTP/1.1';

test('a loopback listener refuses control API, metrics and console by the name of another site', async () => {
  const connection = await start();
  const lines = ['/api/v1/status', '/api/openapi.json', '/api', '/metrics', '/', '/events/a', '/index.html'];
  for (const path of [...lines.map((path) => `GET ${path}`), 'POST /api/v1/session', 'OPTIONS /api/v1/x']) {
    const { status, headers, body } = await answerTo(connection, `${path} HTTP/1.1`, 'Host: evil.example:80');
    expect([path, status]).toEqual([path, 421]);
    expect(headers.get('content-type')).toBe('application/problem+json');
    const { code, detail } = JSON.parse(body);
    expect(code).toBe('host_not_allowed');
    expect(detail).toMatch(/"evil\.example:80".*admin\.hosts/);
  }
});

test('and takes calls and says how it is, whatever the name', async () => {
  const connection = await start();
  const own = ['GET /healthz', 'GET /readyz', 'GET /v1/projects/wk/settings', 'OPTIONS /v1/track'];
  for (const path of own) {
    const { status } = await answerTo(connection, `${path} HTTP/1.1`, 'Host: evil.example');
    expect([path, status]).toEqual([path, status < 300 ? status : 'a success']);
  }
  const { status } = await answerTo(connection, 'GET /v1/nowhere HTTP/1.1', 'Host: evil.example');
  expect(status).toBe(404);
});

const PUBLIC = { publicUrls: ['https://collect.example.com/in'], adminHosts: ['Console.example.com.'] };

test.each([
  ['an address', [GET, 'Host: 127.0.0.1:8080']],
  ['any address: no name leads there', [GET, 'Host: 192.0.2.7']],
  ['an IPv6 address', [GET, 'Host: [::1]:8080']],
  ['an IPv6 address without a port', [GET, 'Host: [fe80::1]']],
  ['localhost', [GET, 'Host: localhost']],
  ['upper case, with a port that is empty', [GET, 'Host: LOCALHOST:']],
  ['a dot at the end', [GET, 'Host: localhost.:8080']],
  ['a name of publicUrl, at any port', [GET, 'Host: Collect.example.com:9000']],
  ['a name of admin.hosts', [GET, 'Host: console.EXAMPLE.com']],
  ['a whole URL as its target', ['GET http://localhost:1/api/v1/status HTTP/1.1', 'Host: 127.0.0.1']],
  ['a whole URL, in HTTP/1.0 without Host', ['GET http://localhost/metrics HTTP/1.0']],
  ['two good names', [GET, 'Host: localhost', 'Host: 127.0.0.1']],
])('passes: %s', async (_, lines) => {
  expect((await answerTo(await start(PUBLIC), ...lines)).status).toBe(200);
});

test.each([
  ['a name that begins like one of ours', [GET, 'Host: localhost.evil.example']],
  ['a name that ends like one of ours', [GET, 'Host: evil-collect.example.com']],
  ['a name below one of ours', [GET, 'Host: a.console.example.com']],
  ['a name that looks like an address', [GET, 'Host: 127.0.0.1.evil.example']],
  ['an address as no browser writes it', [GET, 'Host: 127.1']],
  ['an IPv6 address without brackets', [GET, 'Host: ::1']],
  ['something else in brackets', [GET, 'Host: [evil.example]']],
  ['a user before the name', [GET, 'Host: localhost@evil.example']],
  ['a path behind the name', [GET, 'Host: localhost/evil.example']],
  ['two dots at the end', [GET, 'Host: localhost..']],
  ['a port that is none', [GET, 'Host: localhost:evil']],
  ['a bad name behind a good one', [GET, 'Host: localhost', 'Host: evil.example']],
  ['a bad name before a good one', [GET, 'Host: evil.example', 'Host: localhost']],
  ['a bad name in the target', ['GET http://evil.example/api/v1/status HTTP/1.1', 'Host: localhost']],
  ['a good name in the target alone', ['GET http://localhost/api/v1/status HTTP/1.1', 'Host: evil.example']],
  ['no name at all', [GET]],
  ['an empty name', [GET, 'Host:']],
  ['HTTP/1.0 without a name', ['GET /metrics HTTP/1.0']],
])('is refused: %s', async (_, lines) => {
  const { status, body } = await answerTo(await start(PUBLIC), ...lines);
  expect([status, JSON.parse(body).code]).toEqual([421, 'host_not_allowed']);
});

test('no answer is taken by a browser for what it is not', async () => {
  const connection = await start();
  const told = async (...lines: string[]) =>
    (await answerTo(connection, ...lines, 'Host: localhost')).headers.get('x-content-type-options');
  for (const path of [
    '/api/v1/x',
    '/metrics',
    '/',
    '/readyz',
    '/v1/projects/wk/settings',
    '/v1/nowhere',
    '/x.js',
  ])
    expect([path, await told(`GET ${path} HTTP/1.1`)]).toEqual([path, 'nosniff']);
  await connection.send(post('/v1/track', '{}'));
  // It is the same for everybody, and the most frequent of all.
  expect((await connection.nextResponse()).headers.has('x-content-type-options')).toBe(false);
});

test('a proxy that is trusted may send any name', async () => {
  const connection = await start({ trustedProxies: ['127.0.0.1/32'] });
  expect((await answerTo(connection, GET, 'Host: console.internal')).status).toBe(200);
});

test('a listener that other machines reach takes any name: they have names for it that nobody listed', async () => {
  const connection = await start({ host: '0.0.0.0' });
  expect((await answerTo(connection, GET, 'Host: console.internal')).status).toBe(200);
});
