import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { launchBrowser, openPage, signIn, startSession } from './support/browser.ts';
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

/**
 * Parts of the page that are cut: words behind an edge that does not scroll, and chosen tabs behind the edge
 * of their list.
 */
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

/** Twice as large is half as many pixels. */
const ENLARGED = {
  'on a small screen': { width: 512, height: 384 },
  'on a large one': { width: 720, height: 450 },
};

describe.each(PAGES)('the screen %s', (path) => {
  it('cuts no word at 200 %', async () => {
    await startSession(page, server);
    await open(path);
    if (path.includes('new=true')) await page.getByRole('button', { name: 'Text', exact: true }).click();
    for (const [screen, size] of Object.entries(ENLARGED)) {
      await page.setViewportSize(size);
      expect(await cutParts(), screen).toEqual([]);
    }
  });

  it('shows where the focus is, whatever the key Tab comes to, and stands still for those who ask for it', async () => {
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await startSession(page, server);
    await open(path);
    const moving = await page.evaluate(() =>
      document
        .getAnimations()
        .filter(({ effect }) => Number(effect?.getComputedTiming().duration ?? 0) > 1)
        .map(({ effect }) => (effect as KeyframeEffect).target?.className),
    );
    expect(moving).toEqual([]);
    expect(await unseenFocuses()).toEqual([]);
  });
});

/** The elements that get the focus by Tab and do not show it. */
async function unseenFocuses(): Promise<string[]> {
  const unseen: string[] = [];
  for (let nth = 0; nth < 40; nth++) {
    await page.keyboard.press('Tab');
    const focused = await page.evaluate(() => {
      const element = document.activeElement;
      if (element === null || element === document.body) return 'the end';
      // A field shows it at the box around it.
      const [own, box] = [element, element.closest('.input') ?? element].map((one) => getComputedStyle(one));
      const isShown = own?.outlineStyle !== 'none' || box?.boxShadow !== 'none';
      const { top, bottom } = element.getBoundingClientRect();
      const isInSight = bottom > 0 && top < window.innerHeight;
      if (isInSight && isShown) return '';
      return `${element.tagName}.${element.className}: ${element.textContent?.slice(0, 40)}`;
    });
    if (focused === 'the end') break;
    if (focused !== '') unseen.push(focused);
  }
  return unseen;
}

describe('a server', () => {
  it.each(['/events/one', '/users/deletions', '/settings/system', '/destinations'])(
    'that is slow leaves a page that says so and then has everything (%s)',
    async (path) => {
      await signIn(page, server);
      const answers = Promise.withResolvers<void>();
      await page.route('**/api/v1/**', async (route) => {
        await answers.promise;
        await route.continue();
      });
      const session = Promise.withResolvers<void>();
      await page.route('**/api/v1/session', async (route) => {
        await session.promise;
        await route.continue();
      });
      await page.goto(server.url + path);
      await page.getByText('Waiting for the server…').waitFor();
      session.resolve();
      await page.locator('main [aria-busy="true"]').first().waitFor();
      expect(await cutParts()).toEqual([]);
      answers.resolve();
      await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' });
      await page.locator('main').getByText('website').or(page.locator('main .box')).first().waitFor();
    },
  );

  it('that is away when another page is wanted brings it when it is back', async () => {
    await signIn(page, server, '/sources');
    await page.getByRole('grid').waitFor();
    await page.route('**/*', (route) => route.abort());
    await page.getByText('no answer from the server').waitFor();
    const looked = page.waitForEvent('requestfailed', (request) => request.method() === 'HEAD');
    await page.getByRole('link', { name: 'Settings' }).click();
    await looked;
    await page.getByText('no answer from the server').waitFor();
    await page.unrouteAll();
    await page.getByRole('heading', { level: 1, name: 'Settings' }).waitFor();
  });

  it('that has lost the code of a page is asked once more, and then it is said', async () => {
    // The browser's complaint about the missing file belongs to it.
    const { page: other } = await openPage(browser);
    await signIn(other, server, '/sources');
    await other.route(/assets\/tokens-page.*js/, (route) => route.fulfill({ status: 404 }));
    let documents = 0;
    other.on('request', (request) => {
      if (request.isNavigationRequest()) documents++;
    });
    await other.getByRole('link', { name: 'Settings' }).click();
    await other.getByRole('alert').waitFor();
    expect(documents).toBe(1);
    await other.context().close();
  });

  it('that dies leaves what was shown, and says that it is gone', async () => {
    const mortal = await startServer(CONFIG);
    try {
      await mortal.call('track', { messageId: 'last', userId: 'u1', event: 'Order Placed' });
      const palette = page.waitForResponse(/assets\/palette.*js/);
      await signIn(page, mortal, '/events/last');
      await page.getByText('delivered to 3 of 3').waitFor();
      await (await palette).finished();
    } finally {
      await mortal.stop();
    }
    await page.getByText('no answer from the server').waitFor();
    await page.getByText('delivered to 3 of 3').waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Search or jump' }).fill('system');
    await page.getByRole('option', { name: 'System', exact: true }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByText('delivered to 3 of 3').waitFor();
  });
});

/** The largest event that a client may send: 32 KB, with many properties. */
const HOSTILE = {
  messageId: 'hostile',
  userId: 'u1',
  event: 'Order Placed',
  context: {
    direct: true,
    ip: '<img src=x onerror="window.owned=1">\u202e1.2.3.4',
    library: { name: 'w'.repeat(3_000), version: '\u202e\u0000' },
    userAgent: 'ﷺ'.repeat(1_000),
  },
  properties: Object.fromEntries(Array.from({ length: 2_000 }, (_, nth) => [`p${nth}`, nth])),
};

describe('strangers', () => {
  it('do no harm with what they say of themselves', async () => {
    await server.call('track', HOSTILE);
    await signIn(page, server);
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 900 });
      await open('/events/hostile');
      await page.getByText('⟨U+202E⟩1.2.3.4').first().waitFor();
      expect(await page.evaluate(() => 'owned' in window)).toBe(false);
      expect(await page.locator('body').innerText()).not.toMatch(/[\u202a-\u202e]|\p{Cc}(?<![\n\t])/u);
      expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBe(0);
    }
  });

  it('are looked for with a name of 200 kB, and the page goes on', async () => {
    await signIn(page, server, '/sources');
    await page.keyboard.press('Control+k');
    const field = page.getByRole('combobox', { name: 'Search or jump' });
    await field.fill(`${'w'.repeat(200_000)}\u202e`);
    await page.getByText('No section, record or action').waitFor();
    const { right } = await page
      .locator('dialog .pal-opt')
      .evaluateAll((all) => ({ right: Math.max(...all.map((one) => one.getBoundingClientRect().right)) }));
    expect(right).toBeLessThanOrEqual(await page.evaluate(() => window.innerWidth));
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Users' }).waitFor();
    await page.locator('main [role="alert"]').first().waitFor();
    expect(await cutParts()).toEqual([]);
  });
});
