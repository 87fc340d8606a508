import { QueryClient } from '@tanstack/react-query';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../server/test/support/until.ts';
import { createAppRouter } from '../src/app/router.tsx';
import { launchBrowser, openPage, signIn } from './support/browser.ts';
import { legibilityFaults } from './support/legibility.ts';
import { fillWithLongNames, LONG_CONFIG, LONG_NAMES } from './support/long-names.ts';
import { type RunningServer, startServer } from './support/running-server.ts';

const WIDEST = 1440;
const WIDTHS = [WIDEST, 1024, 390];
const { long, arabic, audience, user, event } = LONG_NAMES;

let server: RunningServer;
let browser: Browser;
let page: Page;
let deletion: string;

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer(LONG_CONFIG), launchBrowser()]);
  deletion = await fillWithLongNames(server);
  ({ page } = await openPage(browser));
  await page.setViewportSize({ width: WIDEST, height: 900 });
  await page.addInitScript(noteShifts);
  await signIn(page, server);
});

afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

interface ShiftedWindow extends Window {
  /** Layout shifts since the page came: the score of each, and what moved. */
  shifts?: Shift[];
}

interface Shift {
  readonly score: number;
  readonly what: string;
}

type LayoutShift = PerformanceEntry & {
  readonly value: number;
  readonly sources: readonly { readonly node: Node | null }[];
};

function noteShifts(): void {
  const shifts: Shift[] = [];
  (window as ShiftedWindow).shifts = shifts;
  const nameOf = (node: Node | null): string =>
    node instanceof Element ? `${node.tagName.toLowerCase()}.${node.className}` : String(node?.nodeName);
  new PerformanceObserver((list) => {
    for (const { value, sources } of list.getEntries() as LayoutShift[])
      shifts.push({ score: value, what: sources.map(({ node }) => nameOf(node)).join(', ') });
  }).observe({ type: 'layout-shift', buffered: true });
}

const shiftsOf = async (one: Page) => await one.evaluate(() => (window as ShiftedWindow).shifts ?? []);
const sumOf = (shifts: readonly Shift[]) => shifts.reduce((sum, { score }) => sum + score, 0);

/** Visits of a route of the router: addresses, and what is done there first. */
interface Visit {
  readonly path: string;
  /** Content that is there once the page has come. */
  readonly shows?: () => Locator;
  readonly act?: () => Promise<unknown>;
}

const press = (name: string | RegExp) => () => page.getByRole('button', { name }).first().click();

const rowsOf = (table: string) => page.getByRole('grid', { name: table }).locator('tr[data-row]');
const rows = () => rowsOf('Events as they arrive').nth(4);

const VISITS: Readonly<Record<string, readonly Visit[]>> = {
  '/': [{ path: '/?range=15m' }, { path: '/', act: () => page.keyboard.press('Control+k') }],
  '/$': [{ path: '/nowhere/at-all' }],
  '/live': [
    { path: '/live', shows: rows },
    { path: `/live?open=${event}`, shows: rows },
    { path: '/live', act: () => page.keyboard.press('?') },
  ],
  '/events': [{ path: '/events' }, { path: '/events?event=Nothing' }],
  '/events/$messageId': ['received', 'sent', 'answered'].map((tab) => ({
    path: `/events/${event}?tab=${tab}`,
  })),
  '/destinations': [{ path: '/destinations' }, { path: '/destinations?new=true' }],
  '/destinations/$name': [
    { path: `/destinations/${arabic}` },
    { path: `/destinations/${long}?tab=settings` },
    { path: `/destinations/crm?tab=deliveries` },
    { path: '/destinations/crm?tab=replays' },
    { path: '/destinations/both' },
    { path: `/destinations/${long}?tab=changes` },
    { path: '/destinations/crm', act: press('Replay…') },
    { path: `/destinations/${arabic}`, act: press('Send test') },
  ],
  '/sources': [{ path: '/sources' }, { path: '/sources?new=true' }],
  '/sources/$name': ['', '?tab=discards', '?tab=compare', '?tab=settings'].map((tab) => ({
    path: `/sources/${tab === '' ? long : 'website'}${tab}`,
  })),
  '/users': [{ path: '/users' }, { path: `/users?userId=${encodeURIComponent(user)}` }],
  '/users/audiences': [
    { path: '/users/audiences' },
    { path: '/users/audiences?new=true', act: buildAudience },
  ],
  '/users/audiences/$name': [{ path: `/users/audiences/${audience}` }],
  '/users/traits': [{ path: '/users/traits' }, { path: '/users/traits?new=true' }],
  '/users/traits/$name': [{ path: '/users/traits/Total spent in all shops of the northern region' }],
  '/users/deletions': [{ path: '/users/deletions' }],
  '/users/deletions/$id': [{ path: '/users/deletions/DELETION' }],
  '/users/suppressions': [{ path: '/users/suppressions' }],
  '/settings': [{ path: '/settings' }],
  '/settings/alerts': [{ path: '/settings/alerts' }, { path: '/settings/alerts', act: press('New alert') }],
  '/settings/audit': [{ path: '/settings/audit' }],
  '/settings/configuration': [{ path: '/settings/configuration' }],
  '/settings/system': [{ path: '/settings/system' }],
  '/components': [{ path: '/components' }],
};

/** The builder with a row of each shape: two tests of properties, a group, and conditions with a value. */
async function buildAudience(): Promise<void> {
  await page.getByRole('button', { name: 'Text', exact: true }).click();
  await page
    .getByRole('textbox', { name: 'Who belongs' })
    .fill(
      "event('Order Placed').where(property('total') >= 20 and property('currency') = 'EUR').within(30 days).count() >= 2 " +
        "and trait('country') in ('DE', 'AT', 'CH') and event('Order Placed').sum(property('total')) > 150 " +
        "and (trait('plan') = 'pro' or not page('Home').count() >= 1)",
    );
  // The builder shows what the server has understood.
  await page.getByText(/^of .* profiles/).waitFor();
  await page.getByRole('button', { name: 'Builder' }).click();
  await page.getByRole('group', { name: /^Group/ }).waitFor();
}

async function open({ path, shows, act }: Visit): Promise<void> {
  await page.goto(server.url + path.replace('DELETION', deletion));
  await page.getByRole('heading', { level: 1 }).waitFor();
  // The page of components shows a skeleton, and stays busy.
  if (path !== '/components') await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' });
  await shows?.().waitFor();
  await act?.();
}

/**
 * Words that cannot be read, by width. The page is the same for all widths: nothing but style sheets depends
 * on them.
 */
async function faultsOf(one: Page): Promise<Record<string, readonly string[]>> {
  const faults: Record<string, readonly string[]> = {};
  for (const width of WIDTHS) {
    await one.setViewportSize({ width, height: 900 });
    const found = await legibilityFaults(one);
    if (found.length > 0) faults[`${width} px`] = found;
  }
  await one.setViewportSize({ width: WIDEST, height: 900 });
  return faults;
}

describe('every address of the console', () => {
  it('is one of those that are looked at here', () => {
    const { routesByPath } = createAppRouter(new QueryClient());
    expect(Object.keys(VISITS).sort()).toEqual(
      Object.keys(routesByPath)
        .filter((path) => path !== '/sign-in')
        .sort(),
    );
  });

  describe('cuts no word and lays nothing over another', () => {
    let traffic: NodeJS.Timeout;
    beforeAll(() => {
      // Something always arrives, as on a server that is used.
      const arrives = () => void server.call('track', { userId: 'u1', event: 'Arrives' }).catch(() => {});
      traffic = setInterval(arrives, 250);
    });
    afterAll(() => clearInterval(traffic));

    it.each(Object.entries(VISITS))('%s', async (_, visits) => {
      for (const visit of visits) {
        await open(visit);
        const what = `${visit.path}${visit.act === undefined ? '' : ' after a press'}`;
        expect(await faultsOf(page), what).toEqual({});
      }
    });

    it('/sign-in', async () => {
      const { page: stranger } = await openPage(browser);
      await stranger.goto(server.url);
      await stranger.getByRole('heading', { name: 'Sign in' }).waitFor();
      expect(await faultsOf(stranger)).toEqual({});
      await stranger.context().close();
    });
  });
});

describe('the live page', () => {
  it('stands still while events arrive, before the first and after it', async () => {
    const rowCount = () => rowsOf('Events as they arrive').count();
    await page.goto(`${server.url}/live`);
    await page.getByText('following').waitFor();
    for (let nth = 0; nth < 40; nth++) {
      await server.call('track', {
        userId: `u${nth}`,
        event: nth % 2 === 0 ? 'Order Placed' : 'Product Viewed',
      });
    }
    await until('all rows are there', async () => expect(await rowCount()).toBeGreaterThanOrEqual(40));
    expect(sumOf(await shiftsOf(page))).toBeLessThan(0.01);
  });
});

describe('an event', () => {
  const way = () => page.getByRole('region', { name: 'What became of it' });

  it('with two URLs names each endpoint at its request, and no word stands over a name', async () => {
    await page.goto(`${server.url}/events/${event}`);
    await way().getByText('/one', { exact: true }).waitFor();
    await way().getByText('/two', { exact: true }).waitFor();
    await page.goto(`${server.url}/live?open=${event}`);
    await page.getByRole('complementary').getByText('both /two').waitFor();
  });

  it('shows its deliveries first, and those it is not for by their reason, counted', async () => {
    await page.goto(`${server.url}/events/${event}`);
    await way().getByText('24 destinations').waitFor();
    const steps = await way().getByRole('listitem').allInnerTexts();
    const firstOf = (text: string) => steps.findIndex((step) => step.includes(text));
    expect(firstOf('24 destinations')).toBeGreaterThan(firstOf('both'));
    expect(steps.filter((step) => step.includes('skipped'))).toHaveLength(1);
    await way().getByText('24 destinations').click();
    await way().getByRole('link', { name: 'other-23' }).waitFor();
  });

  it('of another day says which, as does the range of a replay', async () => {
    const yesterday = new Date(Date.now() - 86_400_000);
    const day = new RegExp(
      `${yesterday.getDate()} ${yesterday.toLocaleDateString('en-GB', { month: 'short' })}, [0-9:.]+`,
    );
    await page.route(/api\/v1\/(events\/|replays)/, async (route) => {
      const response = await route.fetch();
      const older = (await response.text()).replaceAll(
        /"(receivedAt|from)":"[^"]+"/g,
        `"$1":"${yesterday.toISOString()}"`,
      );
      await route.fulfill({ response, body: older });
    });
    await page.goto(`${server.url}/events/${event}`);
    await page.locator('.event-about').getByText(day).waitFor();
    await page.goto(`${server.url}/destinations/crm?tab=replays`);
    await page
      .getByRole('region', { name: /^Replay of/ })
      .getByText(day)
      .waitFor();
    await page.unrouteAll();
  });
});

describe('the overview', () => {
  it('says that its charts have nothing to draw yet, after the first event', async () => {
    const fresh = await startServer();
    const { page: other } = await openPage(browser);
    try {
      await signIn(other, fresh);
      await other.getByText('Waiting for the first event').waitFor();
      await fresh.call('track', { userId: 'u1', event: 'First' });
      await other.getByRole('link', { name: /^Received 1 / }).waitFor();
      await other.getByText('Nothing to draw yet').first().waitFor();
    } finally {
      await other.context().close();
      await fresh.stop();
    }
  });
});

describe('a search', () => {
  it('goes on by itself, says how far it is, and can be stopped', async () => {
    let asked = 0;
    const held = Promise.withResolvers<void>();
    await page.route(/api\/v1\/events\?/, async (route) => {
      asked++;
      if (asked === 4) await held.promise;
      const searchedTo = new Date(Date.now() - asked * 60_000).toISOString();
      await route.fulfill({ json: { data: [], next: `${asked}`, searched: 1_000, searchedTo } });
    });
    await page.goto(`${server.url}/events?event=Nothing`);
    await page.getByText(/Looked at 3,000 events, back to/).waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    held.resolve();
    await page.getByText('Nothing found so far').waitFor();
    await page.getByRole('button', { name: 'Search on' }).click();
    await page.getByText('Searching events').waitFor();
    await page.unrouteAll();
  });

  it('finds an event by its messageId, and stands among the sections', async () => {
    await page.goto(`${server.url}/`);
    await page.getByRole('navigation', { name: 'Sections' }).getByRole('link', { name: 'Events' }).click();
    await page.getByRole('textbox', { name: 'messageId' }).fill(event);
    await page.keyboard.press('Enter');
    await page.waitForURL((url) => url.searchParams.get('messageId') === event);
    const row = page.getByRole('row').filter({ hasText: 'very long name' });
    await row.getByText('2 of 5').waitFor();
    await row.getByText(event).waitFor();
  });
});

describe('the focus', () => {
  it('is on the title of the page that Enter has opened', async () => {
    await page.goto(`${server.url}/events?messageId=${event}`);
    await rowsOf('Events').first().waitFor();
    await page.keyboard.press('j');
    await page.locator('tr[data-row]:focus').waitFor();
    await page.keyboard.press('Enter');
    await page.locator('h1:focus').getByText('very long name').waitFor();
  });

  it('is back on the row that was open, after Escape', async () => {
    await page.goto(`${server.url}/live`);
    await rowsOf('Events as they arrive').first().waitFor();
    await page.keyboard.press('p');
    await rowsOf('Events as they arrive').first().click();
    await page.getByRole('complementary').getByRole('button', { name: 'Close' }).focus();
    await page.keyboard.press('Escape');
    await page.locator('tr[data-row]:focus').waitFor();
  });
});

describe('the texts', () => {
  it('are in Inter, which comes with the page', async () => {
    await page.goto(`${server.url}/sources`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    const fonts = await page.evaluate(() =>
      [...document.fonts].map(({ family, status }) => `${family} ${status}`),
    );
    expect(fonts).toEqual(['Inter Variable loaded']);
  });

  it('of a condition stay beside each other: a value takes no line of its own', async () => {
    await page.goto(`${server.url}/users/audiences?new=true`);
    await buildAudience();
    const widths = await page
      .getByRole('textbox', { name: 'Value' })
      .evaluateAll((all) => all.map((one) => one.clientWidth));
    expect(Math.max(...widths)).toBeLessThan(200);
  });
});
