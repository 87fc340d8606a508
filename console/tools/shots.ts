/**
 * Pictures of every screen in both themes and three widths, over a server with some traffic: for the person
 * who changes them.
 *
 *   npm run console:shots -- [FOLDER] [NAME …]     default: every screen of a shop, in a folder below the temporary one
 *
 * A name is that of a screen, or of all screens of a server: `shop`, `viewer` (the same shop, with a token
 * that only reads), `empty`, `strange` (long names, texts from right to left, ten thousand dead letters).
 * Quickly prepared screens have fewer points in their charts.
 */
import { mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Browser, Page } from 'playwright-core';
import { launchBrowser, signIn } from '../test/support/browser.ts';
import { type RunningServer, startServer } from '../test/support/running-server.ts';
import { beginStory, endStory, ORDER_ID, PEOPLE, STORY, tellMore } from './story.ts';
import { beginStrange, STRANGE, STRANGE_NAMES } from './strange.ts';

interface Screen {
  readonly name: string;
  readonly path: string;
  /** Actions before the picture is taken. */
  readonly act?: (page: Page) => Promise<unknown>;
}

const press = (name: string | RegExp) => (page: Page) => page.getByRole('button', { name }).first().click();
const NEW_AUDIENCE = "event('Order Completed').within(30 days).count() >= 2";

const search = (text: string) => async (page: Page) => {
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Search or jump' }).fill(text);
};

/** From now on nothing answers, as when the server is stopped. */
async function loseServer(page: Page): Promise<void> {
  await page.route('**/api/**', (route) => route.abort());
  await page.getByText('no answer from the server').waitFor();
}

const SCREENS: readonly Screen[] = [
  { name: 'sign-in', path: '/sign-in' },
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
    act: async (page) => {
      await page.getByRole('button', { name: 'Text', exact: true }).click();
      await page.getByRole('textbox', { name: 'Who belongs' }).fill(NEW_AUDIENCE);
      await page.getByRole('button', { name: 'Builder' }).click();
    },
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
  { name: 'palette-found', path: '/', act: search('new') },
  { name: 'keys', path: '/live', act: (page) => page.keyboard.press('?') },
  { name: 'gone', path: '/', act: loseServer },
];
/** Pixels; a larger height shows what stands below the fold. */
const HEIGHT = Number(process.env['HEIGHT'] ?? 900);
const SIZES = [
  { width: 1440, height: HEIGHT },
  { width: 1024, height: HEIGHT },
  { width: 390, height: Math.max(844, HEIGHT - 56) },
];
const THEMES = ['light', 'dark'] as const;
/**
 * Until profiles have followed, charts have points and numbers were read twice; `WARM_UP` in seconds makes
 * longer lines.
 */
const WARM_UP = Number(process.env['WARM_UP'] ?? 40) * 1000;
const SETTLED = 1_500;

/** A server with something to see, and its screens. */
interface World {
  readonly name: string;
  readonly config: string;
  readonly screens: readonly Screen[];
  /** Makes what the screens show; what it returns is called at the end. */
  readonly prepare: (server: RunningServer, isQuick: boolean) => Promise<() => Promise<void>>;
  /** Token of the viewer; by default the first one. */
  readonly tokenOf?: (server: RunningServer) => Promise<string>;
}

const paths = (prefix: string, all: readonly string[]): Screen[] =>
  all.map((path) => ({ name: prefix + path.replaceAll(/[^a-z]+/g, '-').replace(/-$/, ''), path }));

const EMPTY_PAGES = [
  '/overview',
  '/live',
  '/events',
  '/destinations',
  '/sources',
  '/users',
  '/users/audiences',
];
const MORE_EMPTY = [
  '/users/traits',
  '/users/deletions',
  '/users/suppressions',
  '/settings/alerts',
  '/settings/audit',
];
const VIEWED = [
  '/destinations',
  '/destinations/crm',
  '/sources/website',
  '/users/audiences',
  '/settings',
  '/settings/alerts',
];

const WORLDS: readonly World[] = [
  { name: 'shop', config: STORY, screens: SCREENS, prepare: prepareShop },
  {
    name: 'viewer',
    config: STORY,
    screens: paths('viewer', VIEWED),
    prepare: prepareShop,
    tokenOf: viewerToken,
  },
  {
    name: 'empty',
    config: '',
    screens: paths('empty', [...EMPTY_PAGES, ...MORE_EMPTY, '/settings/system', '/no-such-page']).map(
      (screen) => ({
        ...screen,
        path: screen.path.replace('/overview', '/'),
      }),
    ),
    prepare: async () => async () => {},
  },
  {
    name: 'strange',
    config: STRANGE,
    screens: [
      { name: 'strange-overview', path: '/' },
      { name: 'strange-destinations', path: '/destinations' },
      { name: 'strange-destination', path: `/destinations/${STRANGE_NAMES.destination}` },
      { name: 'strange-long', path: `/destinations/${STRANGE_NAMES.long}?tab=settings` },
      { name: 'strange-dead', path: `/destinations/${STRANGE_NAMES.destination}?tab=deliveries&state=dead` },
      { name: 'strange-events', path: '/events' },
      { name: 'strange-nothing', path: '/events?event=Nothing' },
      { name: 'strange-event', path: `/events/${STRANGE_NAMES.event}` },
      { name: 'strange-sources', path: '/sources' },
      { name: 'strange-user', path: '/users?userId=משתמש-1' },
      { name: 'strange-audience', path: `/users/audiences/${STRANGE_NAMES.audience}` },
      { name: 'strange-palette', path: '/', act: (page) => page.keyboard.press('Control+k') },
    ],
    prepare: async (server) => {
      await beginStrange(server);
      await sleep(WARM_UP / 4);
      return async () => {};
    },
  },
];

async function main(): Promise<void> {
  const [folder = join(tmpdir(), 'millrace-shots'), ...wanted] = process.argv.slice(2);
  mkdirSync(resolve(folder), { recursive: true });
  const isWanted = (world: World) => (screen: Screen) =>
    wanted.length === 0 ? world.name === 'shop' : wanted.includes(screen.name) || wanted.includes(world.name);
  const browser = await launchBrowser();
  try {
    for (const world of WORLDS) {
      const screens = world.screens.filter(isWanted(world));
      if (screens.length > 0) await show(browser, { ...world, screens }, folder, wanted.length > 0);
    }
  } finally {
    await browser.close();
  }
}

async function show(browser: Browser, world: World, folder: string, isQuick: boolean): Promise<void> {
  const server = await startServer(world.config);
  try {
    const end = await world.prepare(server, isQuick);
    const token = (await world.tokenOf?.(server)) ?? server.token;
    await Promise.all(
      THEMES.map((theme) =>
        takeAll(browser, { ...server, token }, { theme, screens: world.screens, folder }),
      ),
    );
    await end();
    console.log(`${world.screens.length} screens of ${world.name} are in ${resolve(folder)}`);
  } finally {
    await server.stop();
  }
}

async function prepareShop(server: RunningServer, isQuick: boolean): Promise<() => Promise<void>> {
  await beginStory(server);
  // The server may be stopped while the last calls are under way.
  const traffic = setInterval(() => void tellMore(server).catch(() => undefined), 250);
  await sleep(isQuick ? WARM_UP / 4 : WARM_UP);
  await endStory(server);
  return async () => clearInterval(traffic);
}

async function viewerToken({ url, token }: RunningServer): Promise<string> {
  const response = await fetch(`${url}/api/v1/tokens`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ name: 'onlooker', role: 'viewer' }),
  });
  return ((await response.json()) as { token: string }).token;
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
      await page.unrouteAll();
    }
  }
  await context.close();
}

await main();
