import { type Browser, chromium, type Page } from 'playwright-core';
import type { RunningServer } from './running-server.ts';

/** Debian's Chromium, or the one of `CHROMIUM_PATH`. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  });
}

/** Signs a page in as a person does: with the token, at the form. It ends on the page that was asked for. */
export async function signIn(page: Page, { url, token }: RunningServer, path = '/'): Promise<void> {
  await page.goto(url + path);
  await page.getByRole('textbox', { name: 'Token' }).fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Sections' }).waitFor();
}
