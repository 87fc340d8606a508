import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { quoted } from '../../../clients/e2e/sentences/quoted.ts';
import { startTestServer, type TestServer } from '../../test/support/http-server.ts';

const SCRIPT = `a();window.analyticsWriteKey="__WRITE_KEY__";${'b();'.repeat(5000)}`;
const CHUNK = 'auto-track.bundle.f131ce01a05e3a33a8c1.js';

describe('the browser library', () => {
  let folder: string;
  let server: TestServer;

  const start = async (where: string | undefined) => {
    const keyAt = (path: string) => (path === '/acme/shop.js' ? 'wk_alias' : undefined);
    server = await startTestServer({ browserLibrary: { folder: where, keyAt } });
  };

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-library-'));
    writeFileSync(join(folder, 'standalone.js'), SCRIPT);
    writeFileSync(join(folder, CHUNK), 'chunk()');
    writeFileSync(join(folder, 'secret.txt'), 'no');
    await start(folder);
  });

  afterEach(async () => {
    await server.listener.stop();
    rmSync(folder, { recursive: true });
  });

  const get = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
    fetch(`http://127.0.0.1:${server.port}${path}`, { method, headers });
  const scriptOf = (key: string) => `/analytics.js/v1/${key}/analytics.min.js`;

  it('is the file with the key of the page, the same bytes compressed and plain', async () => {
    const plain = await get(scriptOf('wk_site'), { 'accept-encoding': 'identity' });
    const text = await plain.text();
    expect(text.endsWith(SCRIPT.replace('__WRITE_KEY__', 'wk_site'))).toBe(true);
    const compressed = await get(scriptOf('wk_site'), { 'accept-encoding': 'br, gzip' });
    expect(compressed.headers.get('content-encoding')).toBe('gzip');
    expect(Number(compressed.headers.get('content-length'))).toBeLessThan(text.length / 4);
    expect(await compressed.text()).toBe(text);
    expect(plain.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    expect(plain.headers.get('access-control-allow-origin')).toBe('*');
  });

  it('keeps a key inside its quotes, whatever characters it has', async () => {
    const key = `a";alert(1)//'<\\/script>`;
    const answer = await get(scriptOf(encodeURIComponent(key)));
    const text = await answer.text();
    const found: { analyticsWriteKey?: string } = {};
    new Function('window', 'document', 'a', 'b', text)(
      found,
      {},
      () => {},
      () => {},
    );
    expect(found.analyticsWriteKey).toBe(key);
  });

  it(
    quoted('A script is asked for again at each page, and answered 304 while nothing has changed.'),
    async () => {
      const first = await get(scriptOf('wk_site'));
      expect(first.headers.get('cache-control')).toBe('public, no-cache');
      await first.text();
      const ifNoneMatch = { 'if-none-match': first.headers.get('etag')! };
      expect((await get(scriptOf('wk_site'), ifNoneMatch)).status).toBe(304);
      expect((await get(scriptOf('wk_other'), ifNoneMatch)).status).toBe(200);
      writeFileSync(join(folder, 'standalone.js'), `${SCRIPT}c()`);
      utimesSync(join(folder, 'standalone.js'), 1, 1);
      expect((await get(scriptOf('wk_site'), ifNoneMatch)).status).toBe(200);
    },
  );

  it('has chunks that are kept for ever, because their names have their hash', async () => {
    const answer = await get(`/analytics-next/bundles/${CHUNK}`);
    expect(answer.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    expect(await answer.text()).toBe('chunk()');
  });

  it.each([
    '/analytics-next/bundles/none.bundle.0123456789abcdef.js',
    '/analytics-next/bundles/secret.txt',
    '/analytics-next/bundles/..%2fstandalone.js',
    '/next-integrations/integrations/google/2.0.0/google.dynamic.js.gz',
    '/next-integrations/actions/braze/1.js',
    '/analytics.js/v1/%ff/analytics.min.js',
    '/acme/other.js',
  ])(`${quoted('What the settings of its maker would load is not there (404).')} %s`, async (path) => {
    const answer = await get(path);
    expect(answer.status).toBe(404);
    expect(await answer.json()).toMatchObject({ success: false, code: 'not_found' });
  });

  it('is there by the path that a source has chosen, under any name of the server', async () => {
    const answer = await get('/acme/shop.js', { host: 'cdn.acme.example' });
    expect(await answer.text()).toContain('window.analyticsWriteKey="wk_alias"');
  });

  it('says once that it is missing, answers 404, and is there when the folder is', async () => {
    await server.listener.stop();
    await start(join(folder, 'later'));
    for (const path of [scriptOf('wk_site'), scriptOf('wk_site'), '/acme/shop.js']) {
      const answer = await get(path);
      expect([answer.status, answer.headers.get('cache-control')]).toEqual([404, 'no-store']);
    }
    expect(server.logged.filter(({ event }) => event === 'browser_library.missing')).toHaveLength(1);
  });

  it('answers 404 on an installation without the package', async () => {
    await server.listener.stop();
    await start(undefined);
    expect((await get(scriptOf('wk_site'))).status).toBe(404);
    expect(server.logged.map(({ facts }) => facts['missing'])).toEqual(['@segment/analytics-next']);
  });

  it('has nothing else but GET and HEAD', async () => {
    const head = await get(scriptOf('wk_site'), {}, 'HEAD');
    expect([head.status, await head.text()]).toEqual([200, '']);
    expect((await get(scriptOf('wk_site'), {}, 'POST')).status).toBe(405);
  });
});

describe('the paths of other browser libraries', () => {
  let server: TestServer;

  beforeEach(async () => {
    server = await startTestServer();
  });
  afterEach(() => server.listener.stop());

  const send = (path: string, init: RequestInit) => fetch(`http://127.0.0.1:${server.port}${path}`, init);
  const ORIGIN = { origin: 'https://shop.example' };
  const BASIC = `Basic ${Buffer.from('wk_site:').toString('base64')}`;

  it('tell RudderStack that its source has nothing to load', async () => {
    for (const [path, headers] of [
      ['/sourceConfig/?p=npm&writeKey=wk_site', ORIGIN],
      ['/sourceConfig?p=cdn', { ...ORIGIN, authorization: BASIC }],
    ] as const) {
      const answer = await send(path, { headers });
      expect(answer.headers.get('access-control-allow-origin')).toBe(ORIGIN.origin);
      expect(await answer.json()).toEqual({
        source: {
          ...{ id: 'wk_site', name: 'wk_site', writeKey: 'wk_site', enabled: true, config: {} },
          ...{ connections: [], destinations: [], workspaceId: '', dataplanes: {} },
        },
      });
    }
  });

  it('take the beacons of RudderStack, whose key is in the query', async () => {
    const body = '{"batch":[]}';
    const answer = await send('/beacon/v1/batch?writeKey=wk_site', { method: 'POST', headers: ORIGIN, body });
    expect(answer.status).toBe(200);
    expect(server.calls).toMatchObject([{ type: 'batch', writeKey: 'wk_site' }]);
  });

  it('take the calls of Jitsu, whose key in the body is a mask', async () => {
    const body = '{"event":"Seen","anonymousId":"a","writeKey":"***"}';
    const headers = { ...ORIGIN, 'x-write-key': 'wk_site:secret', authorization: BASIC };
    expect((await send('/api/s/track', { method: 'POST', headers, body })).status).toBe(200);
    expect(server.calls).toMatchObject([{ type: 'track', writeKey: 'wk_site', ignoresBodyKeys: true }]);
    expect((await send('/api/s/other', { method: 'POST', headers, body })).status).toBe(404);
    const preflight = await send('/api/s/track', {
      method: 'OPTIONS',
      headers: { ...ORIGIN, 'access-control-request-headers': 'content-type,x-write-key' },
    });
    expect(preflight.headers.get('access-control-allow-headers')).toBe('content-type,x-write-key');
  });
});
