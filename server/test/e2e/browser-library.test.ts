import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { createRequire } from 'node:module';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { quoted } from '../../../clients/e2e/sentences/quoted.ts';
import { makePlace, type Place, type Program, startServer } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { GIVE_UP_AFTER } from '../support/until.ts';

const { resolve } = createRequire(import.meta.url);

/** The snippet as sites have it, with this host in the place of its maker's. */
const snippet = createRequire(import.meta.url)('@segment/snippet') as {
  max(options: { host: string; apiKey: string; ajsPath?: string; globalAnalyticsKey?: string }): string;
};

/** The npm package as a bundler makes it part of a page: one file, with all its chunks. */
async function bundledLibrary(): Promise<string> {
  const input = resolve('@segment/analytics-next/package.json').replace('package.json', 'dist/pkg/index.js');
  const bundle = await rolldown({ input, platform: 'browser', logLevel: 'silent' });
  const { output } = await bundle.generate({ format: 'iife', name: 'AnalyticsNext', codeSplitting: false });
  await bundle.close();
  return output[0].code.replaceAll('</script', '<\\/script');
}

const SHOP = 'shop.example';
const EVENTS = 'events.shop.example';

/** A site in one scheme: its pages, and the server that takes its calls under a name of its own. */
interface Site {
  readonly scheme: 'http' | 'https';
  readonly page: string;
  readonly events: string;
  readonly program: Program;
  readonly place: Place;
  readonly receiver: TestReceiver;
  stop(): Promise<void>;
}

/** Certificate and key for the names of the site; the browser is told not to ask who signed it. */
function makeKeyPair(folder: string) {
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const names = `subjectAltName=DNS:${SHOP},DNS:${EVENTS}`;
  const subject = ['-subj', `/CN=${SHOP}`, '-addext', names];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  execFileSync('openssl', ['req', '-x509', ...kind, ...subject, '-keyout', key, '-out', cert], {
    stdio: 'ignore',
  });
  return { key, cert };
}

async function startSite(scheme: Site['scheme'], bodies: Map<string, string>): Promise<Site> {
  const receiver = await startReceiver();
  const place = makePlace('');
  const tls = scheme === 'https' ? makeKeyPair(place.folder) : undefined;
  const yaml = `
egress: { allow: [127.0.0.0/8] }
${tls === undefined ? '' : `tls: { cert: ${tls.cert}, key: ${tls.key} }`}
sources:
  - { name: site, writeKeys: [wk_site], scriptPath: /acme/shop.min.js }
destinations:
  - { name: crm, type: webhooks, sources: [site], settings: { endpoints: [{ url: "${receiver.url}" }] } }
`;
  execFileSync('tee', [place.config], { input: yaml, stdio: ['pipe', 'ignore', 'inherit'] });
  const program = await startServer(place);
  const pages =
    tls === undefined
      ? createServer()
      : createTlsServer({ key: readFileSync(tls.key), cert: readFileSync(tls.cert) });
  pages.on('request', (request, response) => {
    const body = bodies.get(new URL(request.url!, 'http://x').pathname);
    response.writeHead(body === undefined ? 404 : 200, { 'Content-Type': 'text/html' }).end(body);
  });
  await once(pages.listen(0, '127.0.0.1'), 'listening');
  return {
    scheme,
    page: `${scheme}://${SHOP}:${(pages.address() as AddressInfo).port}`,
    events: `${EVENTS}:${new URL(program.url).port}`,
    ...{ program, place, receiver },
    async stop() {
      pages.close();
      pages.closeAllConnections();
      await program.kill();
      await receiver.stop();
      place.remove();
    },
  };
}

interface ArrivedEvent {
  readonly type: string;
  readonly event?: string;
  readonly context: { readonly page?: { readonly path: string } };
}

/** The type and name of each event that has arrived, in their order. */
function arrived({ receiver }: Site, page: string): string[] {
  return receiver.arrivals
    .map(({ body }) => JSON.parse(body.toString()) as ArrivedEvent)
    .filter(({ context }) => context.page?.path === page)
    .map(({ type, event }) => `${type} ${event ?? ''}`.trim())
    .sort();
}

/** The host that a connection is for: in `Host` of a request, or in the greeting of TLS (RFC 6066, 3). */
function hostIn(bytes: Buffer): string | undefined {
  if (bytes[0] !== 0x16) return /^host: *([^\s:]+)/im.exec(bytes.toString('latin1'))?.[1];
  for (let at = 5; at + 9 < bytes.length; at++) {
    const [length, list, name] = [2, 4, 7].map((offset) => bytes.readUInt16BE(at + offset));
    const isName = bytes.readUInt16BE(at) === 0 && list === length! - 2 && name === length! - 5;
    if (isName && at + 9 + name! <= bytes.length) return bytes.toString('latin1', at + 9, at + 9 + name!);
  }
  return undefined;
}

describe('a page whose library is told one host', () => {
  const bodies = new Map<string, string>();
  const foreign: string[] = [];
  const recorder = createTcpServer((socket) => {
    let seen = Buffer.alloc(0);
    socket.on('data', (bytes) => {
      seen = Buffer.concat([seen, bytes]);
      const host = hostIn(seen);
      if (host === undefined) return;
      // The browser looks for news of itself whatever page it shows.
      if (!/\.google(apis)?\.com$/.test(host)) foreign.push(host);
      socket.destroy();
    });
    socket.on('error', () => {});
  });
  let sites: readonly Site[];
  let browser: Browser;

  beforeAll(async () => {
    await once(recorder.listen(0, '127.0.0.1'), 'listening');
    sites = await Promise.all([startSite('http', bodies), startSite('https', bodies)]);
    const { port } = recorder.address() as AddressInfo;
    const ours = [SHOP, EVENTS].map((name) => `MAP ${name} 127.0.0.1`);
    browser = await chromium.launch({
      timeout: GIVE_UP_AFTER,
      executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
      args: [
        ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
        ...['--disable-component-update', '--ignore-certificate-errors'],
        `--host-resolver-rules=${ours.join(', ')}, EXCLUDE 127.0.0.1, MAP * 127.0.0.1:${port}`,
      ],
    });
  });

  afterAll(async () => {
    await browser?.close();
    await Promise.all((sites ?? []).map((site) => site.stop()));
    recorder.close();
  });

  /** Opens a page with this script, uses it, and leaves when everything has arrived. */
  async function visit(site: Site, path: string, script: string, wanted: readonly string[], query = '') {
    bodies.set(path, `<!doctype html><title>Shop</title><a id="go" href="/after">Go</a>${script}`);
    bodies.set('/after', '<!doctype html><title>After</title>');
    const context = await browser.newContext({ ignoreHTTPSErrors: true });
    context.setDefaultTimeout(GIVE_UP_AFTER);
    const page: Page = await context.newPage();
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(error.message));
    const strangers: string[] = [];
    page.on('request', (request) => {
      const { hostname } = new URL(request.url());
      if (hostname !== SHOP && hostname !== EVENTS) strangers.push(request.url());
    });
    await page.goto(`${site.page}${path}${query}`);
    await page.waitForFunction('window.isTracked === true');
    await page.click('#go');
    await page.waitForURL('**/after');
    await site.receiver.until(() => arrived(site, path).length >= wanted.length);
    await context.close();
    expect(errors).toEqual([]);
    expect(strangers).toEqual([]);
    expect(arrived(site, path)).toEqual([...wanted].sort());
  }

  const USE = `a.ready(function () { a.trackLink(document.getElementById('go'), 'Left').then(function () { window.isTracked = true; }); });`;
  const ALL = ['page', 'identify', 'track Landed', 'track Left'];
  const QUERY = '?ajs_uid=u-7&ajs_event=Landed';

  const withSnippet = (site: Site, options: { ajsPath?: string; globalAnalyticsKey?: string } = {}) => {
    const text = snippet.max({ host: site.events, apiKey: 'wk_site', ...options });
    const inScheme = site.scheme === 'https' ? text : text.replaceAll('https://', 'http://');
    const name = options.globalAnalyticsKey ?? 'analytics';
    return `<script>${inScheme}\nvar a = window.${name}; ${USE}</script>`;
  };

  it(
    quoted(
      'A page whose snippet names this server loads the library from it, by http as by https, and sends its calls to it.',
    ),
    async () => {
      for (const site of sites) await visit(site, '/snippet', withSnippet(site), ALL, QUERY);
    },
  );

  it(
    quoted('With `scriptPath` a source has a further address for the script, which has its first write key.'),
    async () => {
      for (const site of sites) {
        await visit(site, '/alias', withSnippet(site, { ajsPath: '/acme/shop.min.js' }), ALL, QUERY);
      }
    },
  );

  it('does so when the page gives the library another name', async () => {
    for (const site of sites) {
      await visit(site, '/named', withSnippet(site, { globalAnalyticsKey: 'tracker' }), ALL, QUERY);
    }
  });

  it('does so with the npm library and its option cdnURL alone', async () => {
    const library = await bundledLibrary();
    for (const site of sites) {
      const load = `AnalyticsNext.AnalyticsBrowser.load({ writeKey: 'wk_site', cdnURL: '${site.scheme}://${site.events}' })`;
      const script = `<script>${library}</script><script>var a = ${load}; a.page(); ${USE}</script>`;
      await visit(site, '/npm', script, ALL, QUERY);
    }
  });

  it(quoted('It asks no other host for anything.'), () => {
    expect(foreign).toEqual([]);
  });
});
