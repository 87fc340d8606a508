import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { launchBrowser, openPage, signIn } from './support/browser.ts';
import { type RunningServer, startServer } from './support/running-server.ts';

const NAMES = ['crm', 'newsletter', 'fraud-screening-of-the-payment-team'];
const CONFIG = `
profiles: on
sources: [{ name: website, writeKeys: [wk] }]
destinations:
${NAMES.map((name) => `  - { name: ${name}, type: webhooks, sources: [website], settings: { endpoints: [{ url: RECEIVER/${name} }] } }`).join('\n')}
`;

let server: RunningServer;
let browser: Browser;
let page: Page;
let complaints: readonly string[] = [];

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer(CONFIG), launchBrowser()]);
  server.answerAt('/newsletter', 410);
  await server.call('track', { messageId: 'one', userId: 'u1', event: 'Order Placed' });
  const response = await fetch(`${server.url}/api/v1/regulations`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${server.token}` },
    body: JSON.stringify({ type: 'SUPPRESS_ONLY', subjectIds: ['u7'] }),
  });
  expect(response.status).toBe(201);
});

afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

beforeEach(async () => {
  ({ page, complaints } = await openPage(browser));
});

afterEach(async () => {
  await page.context().close();
  expect(complaints).toEqual([]);
});

/** Opens a page and waits until nothing of it is loading. */
async function open(path: string): Promise<void> {
  await page.goto(server.url + path);
  await page.getByRole('heading', { level: 1 }).waitFor();
  await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' });
}

/** Parts of the page that are cut: words behind an edge that does not scroll, and chosen tabs behind the edge of their list. */
const cutParts = () =>
  page.evaluate(() => {
    const isCut = (element: Element) =>
      element.scrollHeight > element.clientHeight + 1 || element.scrollWidth > element.clientWidth + 1;
    const boxes = [...document.querySelectorAll('main .tfoot, main .seg, main .tok, main .way .what')];
    const tabs = [...document.querySelectorAll('main .tabs-nav > [aria-current]')].filter(
      (tab) => tab.getBoundingClientRect().right > window.innerWidth,
    );
    const beside = document.documentElement.scrollWidth > window.innerWidth ? ['the page itself'] : [];
    return [
      ...[...boxes.filter(isCut), ...tabs].map((one) => `${one.className}: ${one.textContent}`),
      ...beside,
    ];
  });

const PAGES = [
  '/',
  '/events/one',
  '/destinations',
  '/destinations/newsletter?tab=deliveries',
  '/sources',
  '/users/audiences?new=true',
  '/users/deletions',
  '/users/suppressions',
  '/settings/system',
];

describe('every screen', () => {
  it('cuts no word on a phone', async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await signIn(page, server);
    for (const path of PAGES) {
      await open(path);
      if (path.includes('new=true')) await page.getByRole('button', { name: 'Text', exact: true }).click();
      expect(await cutParts(), path).toEqual([]);
    }
  });
});
