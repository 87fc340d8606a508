/**
 * Pictures of every screen in both themes and three widths, over a server with some traffic: for the person who changes them.
 *
 *   npm run console:shots -- [FOLDER] [NAME …]     default: every screen, in a folder below the temporary one
 */
import { mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Browser, Page } from 'playwright-core';
import { launchBrowser, signIn } from '../test/support/browser.ts';
import { type RunningServer, startServer } from '../test/support/running-server.ts';
import { beginStory, endStory, ORDER_ID, PEOPLE, STORY, tellMore } from './story.ts';

interface Screen {
  readonly name: string;
  readonly path: string;
  /** What is pressed before the picture is taken. */
  readonly act?: (page: Page) => Promise<unknown>;
}

const press = (name: string | RegExp) => (page: Page) => page.getByRole('button', { name }).first().click();
const NEW_AUDIENCE = "event('Order Completed').within(30 days).count() >= 2";

const SCREENS: readonly Screen[] = [
  { name: 'overview', path: '/?range=15m' },
  { name: 'live', path: '/live' },
  { name: 'live-open', path: `/live?open=${ORDER_ID}` },
  { name: 'events', path: '/events' },
  { name: 'event', path: `/events/${ORDER_ID}` },
  { name: 'event-sent', path: `/events/${ORDER_ID}?tab=sent` },
  { name: 'event-answered', path: `/events/${ORDER_ID}?tab=answered` },
  { name: 'event-resend', path: `/events/${ORDER_ID}`, act: press(/^Resend/) },
  { name: 'destinations', path: '/destinations' },
  { name: 'destination-new', path: '/destinations?new=true' },
  { name: 'destination', path: '/destinations/crm' },
  { name: 'destination-deliveries', path: '/destinations/support-desk?tab=deliveries' },
  { name: 'destination-settings', path: '/destinations/warehouse?tab=settings' },
  { name: 'destination-replays', path: '/destinations/warehouse?tab=replays' },
  { name: 'destination-changes', path: '/destinations/ads?tab=changes' },
  { name: 'destination-replay', path: '/destinations/crm', act: press('Replay…') },
  { name: 'destination-test', path: '/destinations/support-desk', act: press('Send test') },
  { name: 'sources', path: '/sources' },
  { name: 'source', path: '/sources/website' },
  { name: 'source-waiting', path: '/sources/kiosk' },
  { name: 'source-discards', path: '/sources/website?tab=discards' },
  { name: 'source-settings', path: '/sources/website?tab=settings' },
  { name: 'users', path: '/users' },
  { name: 'user', path: `/users?userId=${PEOPLE.buyer}` },
  { name: 'audiences', path: '/users/audiences' },
  {
    name: 'audience-new',
    path: '/users/audiences?new=true',
    act: (page) => page.getByRole('textbox', { name: 'Who belongs' }).fill(NEW_AUDIENCE),
  },
  { name: 'audience', path: '/users/audiences/Repeat Buyers' },
  { name: 'traits', path: '/users/traits' },
  { name: 'trait', path: '/users/traits/Total Spent' },
  { name: 'deletions', path: '/users/deletions' },
  {
    name: 'deletion',
    path: '/users/deletions',
    act: (page) => page.locator('main tbody a, main tbody tr').first().click(),
  },
  { name: 'suppressions', path: '/users/suppressions' },
  { name: 'tokens', path: '/settings' },
  { name: 'alerts', path: '/settings/alerts' },
  { name: 'alert-new', path: '/settings/alerts', act: press('New alert') },
  { name: 'alert-test', path: '/settings/alerts', act: press(/test/i) },
  { name: 'audit', path: '/settings/audit' },
  { name: 'configuration', path: '/settings/configuration' },
  { name: 'system', path: '/settings/system' },
  { name: 'components', path: '/components' },
  { name: 'palette', path: '/destinations', act: (page) => page.keyboard.press('Control+k') },
  { name: 'keys', path: '/live', act: (page) => page.keyboard.press('?') },
];
const SIZES = [
  { width: 1440, height: 900 },
  { width: 1024, height: 900 },
  { width: 390, height: 844 },
];
const THEMES = ['light', 'dark'] as const;
/** Until profiles have followed, charts have points and numbers were read twice, in milliseconds. */
const WARM_UP = 40_000;
const SETTLED = 1_500;

async function main(): Promise<void> {
  const [folder = join(tmpdir(), 'millrace-shots'), ...wanted] = process.argv.slice(2);
  const screens = SCREENS.filter(({ name }) => wanted.length === 0 || wanted.includes(name));
  mkdirSync(resolve(folder), { recursive: true });
  const server = await startServer(STORY);
  const browser = await launchBrowser();
  await beginStory(server);
  const traffic = setInterval(() => void tellMore(server), 250);
  try {
    await sleep(wanted.length === 0 ? WARM_UP : WARM_UP / 4);
    await endStory(server);
    await Promise.all(THEMES.map((theme) => takeAll(browser, server, { theme, screens, folder })));
    console.log(`${screens.length} screens are in ${resolve(folder)}`);
  } finally {
    clearInterval(traffic);
    await browser.close();
    await server.stop();
  }
}

interface Shooting {
  readonly theme: (typeof THEMES)[number];
  readonly screens: readonly Screen[];
  readonly folder: string;
}

async function takeAll(browser: Browser, server: RunningServer, shooting: Shooting): Promise<void> {
  const { theme, screens, folder } = shooting;
  const context = await browser.newContext({ colorScheme: theme, reducedMotion: 'reduce' });
  const page = await context.newPage();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(server.url);
  await page.getByRole('textbox', { name: 'Token' }).waitFor();
  await page.screenshot({ path: resolve(folder, `sign-in-${theme}-390.png`) });
  await signIn(page, server);
  for (const { name, path, act } of screens) {
    for (const size of SIZES) {
      await page.setViewportSize(size);
      await page.goto(server.url + path);
      await page.getByRole('heading', { level: 1 }).waitFor();
      // The page of components shows a skeleton, and stays busy.
      if (name !== 'components')
        await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' });
      await act?.(page).catch((error: unknown) => console.log(`${name}: ${String(error)}`));
      await sleep(SETTLED);
      await page.screenshot({ path: resolve(folder, `${name}-${theme}-${size.width}.png`) });
    }
  }
  await context.close();
}

await main();
