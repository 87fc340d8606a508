import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startTestServer, type TestServer } from '../../test/support/http-server.ts';
import { ConsoleFiles } from './console.ts';

const PAGE = '<!doctype html><title>Millrace</title>';
const SCRIPT = `export const answer = 42; // ${'x'.repeat(2000)}`;
const HTML = { accept: 'text/html,*/*' };

let folder: string;
let running: TestServer;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-console-'));
  running = await startTestServer({ console: new ConsoleFiles(join(folder, 'dist')) });
});

afterEach(async () => {
  await running.listener.stop();
  rmSync(folder, { recursive: true, force: true });
});

function build(page = PAGE, at = 1_700_000_000): void {
  mkdirSync(join(folder, 'dist/assets'), { recursive: true });
  writeFileSync(join(folder, 'dist/assets/main-0a1b2c3d.js'), SCRIPT);
  writeFileSync(join(folder, 'secret'), 'not for the web');
  writeFileSync(join(folder, 'dist/index.html'), page);
  utimesSync(join(folder, 'dist/index.html'), at, at);
}

async function ask(path: string, headers: Record<string, string> = {}, method = 'GET') {
  const asked = request({ port: running.port, path, method, headers }).end();
  const response = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
    asked.once('response', resolve);
    asked.once('error', reject);
  });
  return { status: response.statusCode, headers: response.headers, body: await buffer(response) };
}

describe('without a build', () => {
  test('the first page says how to make one, and it is found when it is there', async () => {
    const { status, headers, body } = await ask('/', HTML);
    expect([status, headers['cache-control']]).toEqual([503, 'no-store']);
    expect(String(body)).toContain('npm run build --workspace console');
    expect((await ask('/assets/main-0a1b2c3d.js')).status).toBe(404);
    build();
    expect(String((await ask('/', HTML)).body)).toBe(PAGE);
  });
});

describe('with a build', () => {
  beforeEach(() => build());

  test.each(['/', '/?a=1', '/destinations', '/events/a%20b?x=1', '/users/ada@example.com', '/sign-in'])(
    'a browser gets the page at %s, which may run nothing of others',
    async (path) => {
      const { status, headers, body } = await ask(path, HTML);
      expect([status, String(body)]).toEqual([200, PAGE]);
      expect(headers).toMatchObject({
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-cache',
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
        'referrer-policy': 'no-referrer',
      });
      const policy = headers['content-security-policy'] ?? '';
      expect(policy).toContain("default-src 'self'");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toMatch(/unsafe|https?:|\*/);
    },
  );

  test.each([
    ['/destinations', { accept: '*/*' }],
    ['/assets/other.js', HTML],
    ['/../secret', { accept: '*/*' }],
    ['/%2e%2e%2fsecret', { accept: '*/*' }],
    ['/..%2f..%2fsecret.html', HTML],
    ['/assets', { accept: '*/*' }],
    ['/%zz', HTML],
    ['/v1/unknown', HTML],
    ['/api', HTML],
  ])('there is nothing at %s', async (path, headers) => {
    const { status, body } = await ask(path, headers);
    expect([status, JSON.parse(String(body)).code]).toEqual([404, 'not_found']);
  });

  test('a file with a hash in its name is kept for a year, and works before any page was asked for', async () => {
    const { status, headers, body } = await ask('/assets/main-0a1b2c3d.js');
    expect([status, String(body)]).toEqual([200, SCRIPT]);
    expect(headers['cache-control']).toBe('public, max-age=31536000, immutable');
    expect(headers['content-type']).toBe('text/javascript; charset=utf-8');
  });

  test.each([
    ['gzip, deflate, br', 'br', brotliDecompressSync],
    ['gzip', 'gzip', gunzipSync],
    ['br;q=0, gzip;q=0.5', 'gzip', gunzipSync],
    ['identity', undefined, (bytes: Buffer) => bytes],
  ])('a client that takes %s gets %s', async (accepted, encoding, decode) => {
    for (let n = 0; n < 2; n++) {
      const { headers, body } = await ask('/assets/main-0a1b2c3d.js', { 'accept-encoding': accepted });
      expect([headers['content-encoding'], headers.vary]).toEqual([encoding, 'Accept-Encoding']);
      expect(Number(headers['content-length'])).toBe(body.length);
      expect(String(decode(body))).toBe(SCRIPT);
    }
  });

  test('an unchanged page is not sent again, and a new build is', async () => {
    const { headers } = await ask('/', HTML);
    const again = { ...HTML, 'if-none-match': `"other", W/${headers.etag}` };
    expect(await ask('/live', again)).toMatchObject({ status: 304, body: Buffer.alloc(0) });
    build('<!doctype html><title>Newer</title>', 1_700_000_100);
    const { status, body } = await ask('/live', again);
    expect([status, String(body)]).toEqual([200, '<!doctype html><title>Newer</title>']);
  });

  test('HEAD is GET without the body, and no other method is taken', async () => {
    const { status, headers, body } = await ask('/', HTML, 'HEAD');
    expect([status, headers['content-length'], body.length]).toEqual([200, String(PAGE.length), 0]);
    const refused = await ask('/', HTML, 'POST');
    expect([refused.status, refused.headers.allow]).toEqual([405, 'GET, HEAD, OPTIONS']);
  });

  test('calls and health are where they were', async () => {
    expect((await ask('/healthz', HTML)).status).toBe(200);
    expect((await ask('/v1/track', HTML)).status).toBe(405);
  });
});
