/**
 * Pictures of every screen in both themes and three widths, over a server with some traffic: for the person who changes them.
 *
 *   npm run console:shots -- [FOLDER] [PATH …]     default: docs/images/console, every screen
 */
import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { launchBrowser, signIn } from '../test/support/browser.ts';
import { type RunningServer, startServer } from '../test/support/running-server.ts';

const CONFIG = `
sources:
  - { name: website, writeKeys: [wk] }
  - { name: backend, writeKeys: [wk2] }
destinations:
  - { name: crm, type: webhooks, sources: [website], settings: { endpoints: [{ url: RECEIVER/crm }], sharedSecret: secret-of-crm } }
  - { name: warehouse, type: webhooks, sources: [website], settings: { endpoints: [{ url: RECEIVER/warehouse }], sharedSecret: secret-two } }
  - { name: newsletter, type: webhooks, sources: [website], settings: { endpoints: [{ url: RECEIVER/newsletter }], sharedSecret: secret-three } }
`;
const SCREENS = [
  '/live',
  '/live?open=order-1',
  '/events',
  '/events/order-1',
  '/destinations',
  '/destinations/crm',
  '/sources',
  '/sources/website',
  '/users',
  '/settings',
  '/settings/alerts',
  '/settings/audit',
  '/settings/configuration',
  '/settings/system',
  '/components',
  // Last: by then there is something to draw.
  '/?range=15m',
];
const WIDTHS = [1440, 1024, 390];
const THEMES = ['light', 'dark'] as const;

async function main(): Promise<void> {
  const [folder = 'docs/images/console', ...wanted] = process.argv.slice(2);
  mkdirSync(resolve(folder), { recursive: true });
  const server = await startServer(CONFIG);
  server.answerAt('/crm', 503);
  server.answerAt('/newsletter', 401);
  const browser = await launchBrowser();
  const traffic = setInterval(() => void send(server), 100);
  try {
    await server.call('track', {
      messageId: 'order-1',
      userId: 'u1',
      event: 'Order Completed',
      properties: ORDER,
    });
    for (const theme of THEMES) {
      const context = await browser.newContext({ colorScheme: theme, reducedMotion: 'reduce' });
      const page = await context.newPage();
      await signIn(page, server);
      for (const path of wanted.length > 0 ? wanted : SCREENS) {
        for (const width of WIDTHS) {
          await page.setViewportSize({ width, height: width === 390 ? 844 : 900 });
          await page.goto(server.url + path);
          await page.getByRole('heading', { level: 1 }).waitFor();
          await page.waitForTimeout(SETTLED);
          const name = path
            .replaceAll(/[^a-z0-9]+/gi, '-')
            .replaceAll(/^-|-$/g, '')
            .replace('range-15m', 'overview');
          await page.screenshot({ path: resolve(folder, `${name}-${theme}-${width}.png`) });
        }
      }
      await context.close();
    }
  } finally {
    clearInterval(traffic);
    await browser.close();
    await server.stop();
  }
}

/** Until numbers have been read twice, in milliseconds. */
const SETTLED = 2_500;
const ORDER = {
  order_id: '118842',
  total: 64.5,
  currency: 'EUR',
  products: [{ sku: 'SID-250', price: 14.5 }],
};
const EVENTS = ['Product Viewed', 'Product Added', 'Checkout Started', 'Order Completed'];

async function send(server: RunningServer): Promise<void> {
  const at = Math.floor(Math.random() * EVENTS.length);
  const userId = `cus_${10_000 + Math.floor(Math.random() * 80_000)}`;
  const integrations = Math.random() < 0.2 ? { newsletter: false } : {};
  await server.call('track', { userId, event: EVENTS[at], properties: ORDER, integrations });
}

await main();
