import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { rolldown } from 'rolldown';
import { carriesCalls, type Proxied } from '../support/fault-proxy.ts';
import { CALLS, type Call, type CallType, eventsIn } from './calls.ts';
import type { Chromium, Page } from './chromium.ts';
import { type Client, type Order, type Outcome, WAYS, type Way } from './client.ts';
import { versionOf } from './node-clients.ts';

const require = createRequire(import.meta.url);
export const BROWSER_VERSIONS = ['1.83', '1.84'] as const;
const packageOf = (version: string) => `segment-next-${version}`;

/** The pages of a site that uses the library: one for each version, and one without it. */
export interface Site {
  readonly url: string;
  stop(): Promise<void>;
}

/** Serves the library's own file for script tags as it was published. */
export async function startSite(): Promise<Site> {
  const page = (script: string) =>
    `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><title>Shop</title>${script}`;
  const files = new Map<string, { readonly type: string; readonly body: string | Buffer }>();
  files.set('/without', { type: 'text/html', body: page('') });
  for (const version of BROWSER_VERSIONS) {
    const script = require.resolve(`${packageOf(version)}/dist/umd/index.js`);
    files.set(`/${version}`, { type: 'text/html', body: page(`<script src="/${version}.js"></script>`) });
    files.set(`/${version}.js`, { type: 'text/javascript', body: readFileSync(script) });
  }
  const scripts = [`/${BROWSER_VERSIONS.at(-1)}.js`, '/consent-tools.js'];
  files.set('/consent', {
    type: 'text/html',
    body: page(scripts.map((src) => `<script src="${src}"></script>`).join('')),
  });
  files.set('/consent-tools.js', { type: 'text/javascript', body: await consentTools() });
  const server = createServer((request, response) => {
    const file = files.get(request.url ?? '');
    if (file === undefined) response.writeHead(404).end();
    else response.writeHead(200, { 'content-type': file.type }).end(file.body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.close();
      server.closeAllConnections();
      if (server.listening) await once(server, 'close');
    },
  };
}

/** The wrapper with which consent banners hold the library back, as one script: it is published in parts. */
async function consentTools(): Promise<string> {
  const input = require.resolve('@segment/analytics-consent-tools');
  const bundle = await rolldown({ input, platform: 'browser', logLevel: 'silent' });
  const { output } = await bundle.generate({ format: 'iife', name: 'ConsentTools' });
  await bundle.close();
  return output[0].code;
}

/** `chromium` and `site` are asked for when a client runs. */
export function browserClients(chromium: () => Chromium, site: () => Site): readonly Client[] {
  return BROWSER_VERSIONS.flatMap((version) =>
    WAYS.map((way) => ({
      name: '@segment/analytics-next',
      version: versionOf(packageOf(version)),
      way,
      inBrowser: true as const,
      // Its batches go to https, whatever `protocol` says.
      ...(version === '1.83' && way === 'batches' ? { secure: true as const } : {}),
      run: async (order: Order) => {
        const page = await chromium().newPage();
        try {
          return await visit({ page, site: site().url, version, way, order });
        } finally {
          await page.close();
        }
      },
    })),
  );
}

interface Visit {
  readonly page: Page;
  readonly site: string;
  readonly version: string;
  readonly way: Way;
  readonly order: Order;
}

/**
 * The browser's library says little about what becomes of a call it has taken. So the visit goes on until
 * what is expected has happened, and then the page is left: what the library still wants to send it keeps in
 * the page's storage, and so it is seen.
 */
async function visit({ page, site, version, way, order }: Visit): Promise<Outcome> {
  const { proxy, expected, writeKey } = order;
  await page.open(`${site}/${version}`);
  await page.evaluate(loading(order, way));
  await page.evaluate(CALLS.map((call) => calling(call, order.userId)).join('\n'));
  const early = expected.reloaded ? expected.tries - 1 : expected.tries;
  await proxy.until(() => happened(order, early));
  // An exchange that begins after all others have ended, ends after the page has been told of them.
  await page.evaluate(`fetch('${proxy.url}/healthz', { mode: 'no-cors' }).then(() => undefined)`);
  const reported = new Set((await page.evaluate('failed')) as string[]);
  await page.open(`${site}/without`);
  const kept = (await page.evaluate(storage(writeKey))) as string[];
  if (expected.reloaded) {
    if (kept.length === 0) throw new Error("nothing is left in the page's storage");
    await page.open(`${site}/${version}`);
    await page.evaluate(loading(order, way));
    await proxy.until(() => happened(order, expected.tries));
    return { reported, reloaded: true };
  }
  if (kept.length > 0) {
    throw new Error(`in the page's storage, waiting to be sent: ${kept.join(', ')}`);
  }
  return { reported };
}

/** Whether the calls the fault hits have been sent so many times, and all others have been answered. */
function happened({ proxy, victims }: Order, tries: number): boolean {
  const sent = new Map<string, Proxied[]>();
  for (const request of proxy.requests.filter(carriesCalls)) {
    for (const { messageId } of eventsIn(request.body)) {
      sent.set(messageId, [...(sent.get(messageId) ?? []), request]);
    }
  }
  if (sent.size < CALLS.length) return false;
  return [...sent].every(([id, requests]) =>
    victims().has(id) ? requests.length >= tries && over(requests.at(-1)!) : requests.some(over),
  );
}

/** Whether the proxy has nothing more to do for a request. */
function over({ fault, serverStatus, clientStatus }: Proxied): boolean {
  if ('when' in fault) return fault.when === 'before' || serverStatus !== undefined;
  return fault.kind === 'cut' ? serverStatus !== undefined : clientStatus !== undefined;
}

/** Loads the library as its documentation says, with our server for settings and for calls. */
function loading({ proxy, writeKey }: Order, way: Way): string {
  const { host, protocol } = new URL(proxy.url);
  const deliveryStrategy = { strategy: 'batching', config: { size: 10, timeout: 1000 } };
  const destination = {
    apiHost: `${host}/v1`,
    protocol: protocol.slice(0, -1),
    ...(way === 'batches' ? { deliveryStrategy } : {}),
  };
  const settings = JSON.stringify({ writeKey, cdnURL: proxy.url });
  const options = JSON.stringify({ integrations: { 'Segment.io': destination } });
  return `
    globalThis.failed = [];
    AnalyticsNext.AnalyticsBrowser.load(${settings}, ${options}).then(([analytics]) => {
      globalThis.client = analytics;
      analytics.on('error', ({ ctx }) => failed.push(ctx?.event.type));
    });`;
}

/** The call in this library's words. Its promise is not waited for: it may never be settled. */
function calling({ type, fields }: Call, userId: string): string {
  const { event, name, category, groupId, previousId, properties, traits } = fields;
  const parameters: Record<CallType, unknown[]> = {
    identify: [userId, traits],
    track: [event, properties],
    page: [category, name, properties],
    screen: [name, properties],
    group: [groupId, traits],
    alias: [userId, previousId],
  };
  return `void client.${type}(...${JSON.stringify(parameters[type])});`;
}

/** The ids of the messages the library keeps for the next page. */
function storage(writeKey: string): string {
  const key = `persisted-queue:v1:${writeKey}:dest-Segment.io:items`;
  return `JSON.parse(localStorage.getItem('${key}') ?? '[]').map(({ event }) => event.type)`;
}
