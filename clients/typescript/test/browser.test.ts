import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Chromium,
  findChromium,
  type Page,
  startChromium,
} from '../../../server/test/clients/chromium.ts';
import {
  makePlace,
  oneDestination,
  type Place,
  type Program,
  startServer,
} from '../../../server/test/support/program.ts';
import { startReceiver, type TestReceiver } from '../../../server/test/support/receiver.ts';
import { bundleForBrowsers, LARGEST } from '../tools/bundle.ts';

/** The page of the README. */
const [, example = ''] =
  /```html\n([\s\S]*?)```/.exec(readFileSync(new URL('../README.md', import.meta.url), 'utf8')) ?? [];

const chromium = findChromium();
if (chromium === undefined)
  console.log('Chromium is not installed: the browser client is not tried in a browser');

it('weighs what a page can afford', async () => {
  const { code, gzipped } = await bundleForBrowsers();
  console.log(`browser client: ${code.length} bytes, ${gzipped} gzipped, at most ${LARGEST}`);
  expect(gzipped).toBeLessThanOrEqual(LARGEST);
  expect(code).not.toMatch(/\b(import\s*[{"'(]|require\()/);
});

/** The real browser, the real server, and what arrives at a webhook. */
describe.runIf(chromium !== undefined)('the browser client in Chromium', () => {
  let browser: Chromium;
  let receiver: TestReceiver;
  let place: Place;
  let program: Program;
  let site: Server;
  let url: string;

  beforeAll(async () => {
    const { code } = await bundleForBrowsers();
    site = createServer((request, response) => {
      const isScript = request.url === '/client.js' || request.url === '/browser.min.js';
      const html = request.url === '/readme' ? example.replace('http://localhost:8080', program.url) : '';
      response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html; charset=utf-8');
      response.end(isScript ? code : `<!doctype html><title>A page</title>${html}`);
    }).listen(0, '127.0.0.1');
    await once(site, 'listening');
    url = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
    receiver = await startReceiver();
    // The README's key beside that of the tests.
    place = makePlace(oneDestination([receiver.url]).replace('[wk]', '[wk, dev]'));
    [program, browser] = await Promise.all([startServer(place), startChromium(chromium!)]);
  });

  afterAll(async () => {
    await browser.stop();
    await program.stop();
    await receiver.stop();
    site.closeAllConnections();
    site.close();
    place.remove();
  });

  /** A visitor without history, on a page whose client is the global `client`. */
  async function visit(path = '/', options = '{}'): Promise<Page> {
    const page = await browser.newPage();
    await open(page, path, options);
    return page;
  }

  async function open(page: Page, path: string, options = '{}'): Promise<void> {
    await page.open(`${url}${path}`);
    await page.evaluate(`(async () => {
      const { BrowserClient } = await import('/client.js');
      window.client = new BrowserClient('wk', { endpoint: '${program.url}', ...${options} });
    })()`);
  }

  /** The events with this word in their properties, when so many of them have arrived. */
  async function events(word: string, count: number): Promise<Record<string, unknown>[]> {
    const found = () => receiver.arrivals.filter(({ body }) => body.includes(`"${word}"`));
    await receiver.until(() => found().length >= count);
    return found().map(({ body }) => JSON.parse(body.toString()) as Record<string, unknown>);
  }

  it('knows the visitor and the page', async () => {
    const page = await visit('/shop?q=1&utm_source=mail&utm_campaign=may');
    const counts = await page.evaluate(`
      client.page({ traits: { word: 'known' } });
      client.track({ event: 'Seen', properties: { word: 'known' } });
      client.identify({ userId: 'u1', traits: { word: 'known' } });
      client.track({ event: 'Bought', properties: { word: 'known' } });
      client.flush()`);
    expect(counts).toEqual({ accepted: 4, delivered: 4, failed: 0, pending: 0 });
    const all = await events('known', 4);
    const byName = new Map(all.map((event) => [event['event'] ?? event['type'], event]));
    const anonymousId = String(byName.get('Seen')!['anonymousId']);
    expect(anonymousId).toMatch(/^[0-9a-f-]{36}$/);
    expect(all.every((event) => event['anonymousId'] === anonymousId)).toBe(true);
    expect(byName.get('Seen')).not.toHaveProperty('userId');
    expect(byName.get('Bought')).toMatchObject({ userId: 'u1' });
    expect(byName.get('page')).toMatchObject({
      properties: {
        path: '/shop',
        search: '?q=1&utm_source=mail&utm_campaign=may',
        title: 'A page',
        referrer: '',
      },
    });
    expect(byName.get('Bought')!['context']).toMatchObject({
      page: { path: '/shop', title: 'A page', url: `${url}/shop?q=1&utm_source=mail&utm_campaign=may` },
      campaign: { source: 'mail', name: 'may' },
      userAgent: expect.stringContaining('Chrome'),
      locale: expect.any(String),
      timezone: expect.any(String),
      library: { name: '@millrace/client/browser' },
    });
    await open(page, '/other');
    await page.evaluate(`client.track({ event: 'Later', properties: { word: 'later' } }); client.reset();
      client.track({ event: 'Reset', properties: { word: 'later' } }); client.flush()`);
    const later = await events('later', 2);
    expect(later.find(({ event }) => event === 'Later')).toMatchObject({ anonymousId, userId: 'u1' });
    const reset = later.find(({ event }) => event === 'Reset')!;
    expect(reset).not.toHaveProperty('userId');
    expect(reset['anonymousId']).not.toBe(anonymousId);
    await page.close();
  });

  it('works as the page of the README says', async () => {
    const page = await browser.newPage();
    await page.open(`${url}/readme`);
    await page.evaluate(`document.querySelector('button').click()`);
    await page.open('about:blank');
    const isOurs = ({ body }: { body: Buffer }) => body.includes(`"path":"/readme"`);
    await receiver.until(() => receiver.arrivals.filter(isOurs).length === 2);
    const bodies = receiver.arrivals.filter(isOurs).map(({ body }) => JSON.parse(body.toString()) as object);
    expect(bodies).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ type: 'page' }),
        expect.objectContaining({ type: 'track', event: 'Clicked' }),
      ]),
    );
    await page.close();
  });

  it('joins the visitor with the user by an alias', async () => {
    const page = await visit();
    const anonymousId = await page.evaluate(`client.alias({ userId: 'u2', context: { word: 'alias' } });
      client.track({ event: 'E', properties: { word: 'alias' } }); client.flush().then(() => client.anonymousId)`);
    const [alias, track] = (await events('alias', 2)).toSorted((a) => (a['type'] === 'alias' ? -1 : 1));
    expect(alias).toMatchObject({ 'Previous ID': anonymousId, 'User ID': 'u2' });
    expect(track).toMatchObject({ userId: 'u2' });
    await page.close();
  });

  it('has calls delivered although the page is left right after them', async () => {
    const page = await visit();
    await page.evaluate(
      `for (let n = 0; n < 5; n++) client.track({ event: 'Left', properties: { word: 'left', n } })`,
    );
    // The next page has no client: nothing but the departing request can have brought them.
    await page.open('about:blank');
    expect(await events('left', 5)).toHaveLength(5);
    await page.close();
  });

  it('takes up what an earlier page could not send, and the server keeps each call once', async () => {
    const nowhere = `{ endpoint: 'http://127.0.0.1:9' }`;
    const page = await visit('/', nowhere);
    await page.evaluate(
      `for (let n = 0; n < 3; n++) client.track({ event: 'Kept', properties: { word: 'kept', n } })`,
    );
    await page.open(`${url}/without-client`);
    expect(
      await page.evaluate(`Object.keys(localStorage).filter((key) => key.startsWith('millrace:wk:')).length`),
    ).toBe(3);
    const later = `{ clock: { now: () => Date.now() + 60_000, random: Math.random, scale: 1 } }`;
    await open(page, '/', later);
    expect(await page.evaluate(`client.flush()`)).toEqual({
      accepted: 3,
      delivered: 3,
      failed: 0,
      pending: 0,
    });
    expect(
      await page.evaluate(`Object.keys(localStorage).filter((key) => key.startsWith('millrace:wk:'))`),
    ).toEqual([]);
    const kept = await events('kept', 3);
    expect(kept.map(({ properties }) => (properties as { n: number }).n).toSorted()).toEqual([0, 1, 2]);
    await page.close();
  });

  it('tries again as soon as the network is back', async () => {
    const page = await visit(
      '/',
      `{ clock: { now: Date.now, random: Math.random, scale: 1_000 },
         fetch: (url, init) => window.down ? Promise.reject(new TypeError('offline')) : fetch(url, init) }`,
    );
    const counts = await page.evaluate(`(async () => {
      window.down = true;
      client.track({ event: 'Offline', properties: { word: 'offline' } });
      await client.flush({ timeout: 100 });
      window.down = false;
      window.dispatchEvent(new Event('online'));
      return client.flush();
    })()`);
    expect(counts).toMatchObject({ delivered: 1 });
    expect(await events('offline', 1)).toHaveLength(1);
    await page.close();
  });

  it('keeps nothing on the machine of a visitor who has not agreed to it', async () => {
    const page = await visit('/', `{ storage: false }`);
    await page.evaluate(
      `client.identify({ userId: 'u9', traits: { word: 'private' } }); client.track({ event: 'E', properties: { word: 'private' } }); client.flush()`,
    );
    const [first, second] = await events('private', 2);
    expect(second!['anonymousId']).toBe(first!['anonymousId']);
    expect(await page.evaluate(`localStorage.length`)).toBe(0);
    await page.close();
  });

  it('reports what the server refuses, with the reason', async () => {
    const page = await visit();
    const failure = await page.evaluate(`(async () => {
      const { BrowserClient } = await import('/client.js');
      return new Promise((resolve) => {
        const other = new BrowserClient('nobody', { endpoint: '${program.url}', onFailure: resolve });
        other.track({ event: 'E' });
        other.flush();
      });
    })()`);
    expect(failure).toMatchObject({
      code: 'refused',
      status: 401,
      message: expect.stringContaining('invalid_write_key'),
    });
    await page.close();
  });
});
