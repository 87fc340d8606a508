import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ControlApi } from '../support/control-api.ts';
import {
  adminTokenOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  ROOT,
  startProgram,
  startServer,
} from '../support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { BROWSER_VERSIONS, type Site } from './browser-clients.ts';
import type { Chromium, Page } from './chromium.ts';
import { WAYS, type Way } from './client.ts';

const TLS = join(ROOT, 'server/test/support/tls');

/**
 * Pages that are told one thing: where the settings are. The server, whose configuration says nothing of it,
 * tells them the rest, with nothing between the browser and it. Defines its tests; `chromium` and `site` are
 * asked for when they run.
 */
export function describePages(chromium: () => Chromium, site: () => Site): void {
  describe.each([
    { scheme: 'http', more: '' },
    { scheme: 'https', more: `tls: { cert: ${TLS}/self-signed.pem, key: ${TLS}/self-signed.key }` },
  ])('a page that knows the address of the server over $scheme', ({ scheme, more }) => {
    let receiver: TestReceiver;
    let place: Place;
    let program: Program;

    beforeAll(async () => {
      receiver = await startReceiver();
      const port = await freePort();
      const yaml = `${more}\n${oneDestination([receiver.url])}`;
      place = makePlace(yaml);
      const args = [
        '--config',
        place.config,
        '--data',
        place.data,
        '--port',
        `${port}`,
        '--host',
        '127.0.0.1',
      ];
      program = await startProgram({ args: ['start', ...args] });
    });

    afterAll(async () => {
      await program?.stop();
      await receiver?.stop();
      place?.remove();
    });

    /** The webhooks of this user, as soon as there is one. */
    async function delivered(userId: string): Promise<Record<string, unknown>[]> {
      const bodies = () =>
        receiver.arrivals
          .map(({ body }) => JSON.parse(body.toString()) as Record<string, unknown>)
          .filter((body) => body['userId'] === userId);
      await receiver.until(() => bodies().length > 0);
      return bodies();
    }

    const browsers = BROWSER_VERSIONS.flatMap((version) => WAYS.map((way) => ({ version, way })));
    it.each(
      // Batches of 1.83 go to https, whatever the settings say.
      browsers.filter(({ version, way }) => scheme === 'https' || version !== '1.83' || way !== 'batches'),
    )('sends its calls with @segment/analytics-next $version, $way', async ({ version, way }) => {
      const page = await chromium().newPage();
      try {
        const userId = `page-${version}-${way}`;
        await page.open(`${site().url}/${version}`);
        await page.evaluate(visit(program.url, userId, way));
        expect(await delivered(userId)).toMatchObject([{ type: 'track', event: 'Order Placed' }]);
      } finally {
        await page.close();
      }
    });

    it('sends a call with nothing but an image', async () => {
      const page = await chromium().newPage();
      try {
        const call = { writeKey: 'wk', userId: `image-${scheme}`, event: 'Email Opened' };
        const data = Buffer.from(JSON.stringify(call)).toString('base64url');
        await page.open(`${site().url}/without`);
        const width = await page.evaluate(`
          new Promise((resolve, reject) => {
            const image = new Image();
            image.onload = () => resolve(image.width);
            image.onerror = () => reject(new Error('not an image'));
            image.src = '${program.url}/v1/pixel/track?data=${data}';
          })`);
        expect(width).toBe(1);
        expect(await delivered(call.userId)).toMatchObject([{ type: 'track', event: 'Email Opened' }]);
      } finally {
        await page.close();
      }
    });
  });
}

/** As `describePages`, for pages behind a consent banner, whose every destination asks for consent. */
export function describeConsent(chromium: () => Chromium, site: () => Site): void {
  describe('a page behind a consent banner', () => {
    let receiver: TestReceiver;
    let place: Place;
    let program: Program;

    beforeAll(async () => {
      receiver = await startReceiver();
      const destination = (name: string, category: string) =>
        `  - { name: ${name}, type: webhooks, sources: [website], settings: { endpoints: [{ url: "${receiver.url}/${name}" }], consent: [${category}] } }`;
      place = makePlace(`
egress: { allow: [127.0.0.0/8] }
sources: [{ name: website, writeKeys: [wk] }]
destinations:
${destination('ads', 'Advertising')}
${destination('stats', 'Statistics')}
`);
      program = await startServer(place);
    });

    afterAll(async () => {
      await program?.stop();
      await receiver?.stop();
      place?.remove();
    });

    /** Opens the page for a visitor with this choice; resolves when the library has got its settings. */
    async function visitOf(categories: Readonly<Record<string, boolean>>): Promise<Page> {
      const page = await chromium().newPage();
      await page.open(`${site().url}/consent`);
      await page.evaluate(`
        globalThis.settled = new Promise((resolve) => {
          new PerformanceObserver((list) => {
            if (list.getEntries().some(({ name }) => name.endsWith('/wk/settings'))) resolve();
          }).observe({ type: 'resource', buffered: true });
        });
        const analytics = new AnalyticsNext.AnalyticsBrowser();
        ConsentTools.createWrapper({ getCategories: () => (${JSON.stringify(categories)}) })(analytics);
        void analytics.load({ writeKey: 'wk', cdnURL: '${program.url}' });
        void analytics.track('Order Placed');
        settled`);
      return page;
    }

    it('sends nothing of a visitor who refuses everything and sets no cookie, and else goes by categories', async () => {
      const refusing = await visitOf({ Advertising: false, Statistics: false });
      const choosing = await visitOf({ Advertising: true, Statistics: false });
      await receiver.until(() => receiver.arrivals.length > 0);
      expect(await refusing.evaluate('[document.cookie, localStorage.length]')).toEqual(['', 0]);
      expect(await choosing.evaluate('document.cookie')).toContain('ajs_anonymous_id=');
      const control = new ControlApi(() => ({ url: program.url, token: adminTokenOf(place) }));
      const ledger = await control.read<Ledger>('ledger');
      expect(ledger.sources['website']).toMatchObject({ received: 1, accepted: 1 });
      expect(ledger.destinations['stats']!.skipped).toEqual({ consent: 1 });
      expect(receiver.arrivals.map(({ path }) => path)).toEqual(['/ads']);
      await Promise.all([refusing.close(), choosing.close()]);
    });
  });
}

interface Ledger {
  readonly sources: Readonly<Record<string, object>>;
  readonly destinations: Readonly<Record<string, { readonly skipped: object }>>;
}

function visit(url: string, userId: string, way: Way): string {
  const deliveryStrategy = { strategy: 'batching', config: { timeout: 200 } };
  const options = way === 'batches' ? { integrations: { 'Segment.io': { deliveryStrategy } } } : {};
  const settings = { writeKey: 'wk', cdnURL: url };
  return `
    AnalyticsNext.AnalyticsBrowser.load(${JSON.stringify(settings)}, ${JSON.stringify(options)}).then(([analytics]) => {
      void analytics.identify('${userId}', {}, { integrations: { Webhooks: false } });
      void analytics.track('Order Placed');
    });`;
}
