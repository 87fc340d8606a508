import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { GIVE_UP_AFTER } from '../../../server/test/support/until.ts';
import type { RunningServer } from './running-server.ts';

/**
 * Milliseconds after which a wait for a page is given up; below the limit of a test, whose message would not
 * say what was waited for.
 */
export const LONGEST = GIVE_UP_AFTER;

/** Debian's Chromium, or the one of `CHROMIUM_PATH`. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    timeout: LONGEST,
    executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  });
}

type Admission = Pick<RunningServer, 'url' | 'token'>;

/**
 * Signs a page in by the request that the form makes. The form, which costs a load of the page, has tests of
 * its own in frame.browser.ts.
 */
export async function startSession(page: Page, { url, token }: Admission): Promise<void> {
  const context = page.context();
  const answer = await context.request.post(`${url}/api/v1/session`, { data: { token } });
  if (!answer.ok()) throw new Error(`nobody is signed in: ${answer.status()} ${await answer.text()}`);
  const { key } = (await answer.json()) as { readonly key: string };
  await context.addInitScript(keepKey, { key, origin: url });
}

/** Globals of a page that the function below uses. */
interface PageGlobals {
  readonly location: { readonly origin: string };
  readonly localStorage: { getItem(key: string): string | null; setItem(key: string, value: string): void };
}

/**
 * Runs in the page, before its own scripts: keeps the value of the sign-in once, so that a later one is not
 * undone.
 */
function keepKey({ key, origin }: { readonly key: string; readonly origin: string }): void {
  const isKept = `kept ${key}`;
  const { location, localStorage } = globalThis as unknown as PageGlobals;
  if (location.origin !== origin || localStorage.getItem(isKept) !== null) return;
  localStorage.setItem(isKept, 'yes');
  localStorage.setItem('millrace.session-key', key);
}

/** Signs a page in, and opens a page of the console. */
export async function signIn(page: Page, server: Admission, path = '/'): Promise<void> {
  await startSession(page, server);
  await page.goto(server.url + path);
  await page.getByRole('navigation', { name: 'Sections' }).waitFor();
}

export interface WatchedPage {
  readonly page: Page;
  /**
   * Errors of scripts, what the content security policy refused, and what the server has forbidden or could
   * not do.
   */
  readonly complaints: readonly string[];
}

/** A page in a context of its own: no cookies, no storage. Close its context when it is done with. */
export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<WatchedPage> {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(LONGEST);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    // The browser reports each answer of 4xx and 5xx, and most belong to what is tested.
    if (message.type() === 'error' && !message.text().includes('Failed to load resource')) {
      complaints.push(message.text());
    }
  });
  page.on('response', (response) => {
    const status = response.status();
    if (status === 403 || status >= 500) complaints.push(`${status}: ${response.url()}`);
  });
  return { page, complaints };
}

/**
 * The screen of a desk, on which nothing moves: for tests that are about what is said, and not about how it
 * looks.
 */
export const DESK: BrowserContextOptions = {
  viewport: { width: 1440, height: 900 },
  reducedMotion: 'reduce',
};
