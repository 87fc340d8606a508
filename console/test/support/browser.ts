import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { GIVE_UP_AFTER } from '../../../server/test/support/until.ts';
import type { RunningServer } from './running-server.ts';

/** Milliseconds after which a wait for a page is given up; below the limit of a test, whose message would not say what was waited for. */
export const LONGEST = GIVE_UP_AFTER;

/** Debian's Chromium, or the one of `CHROMIUM_PATH`. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    timeout: LONGEST,
    executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  });
}

/** Signs a page in as a person does: with the token, at the form. It ends on the page that was asked for. */
export async function signIn(
  page: Page,
  { url, token }: Pick<RunningServer, 'url' | 'token'>,
  path = '/',
): Promise<void> {
  await page.goto(url + path);
  await page.getByRole('textbox', { name: 'Token' }).fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Sections' }).waitFor();
}

export interface WatchedPage {
  readonly page: Page;
  /** Errors of scripts, what the content security policy refused, and what the server has forbidden or could not do. */
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

/** The screen of a desk, on which nothing moves: for tests that are about what is said, and not about how it looks. */
export const DESK: BrowserContextOptions = {
  viewport: { width: 1440, height: 900 },
  reducedMotion: 'reduce',
};
