import { gzipSync } from 'node:zlib';
import type { Browser, Page, Response } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { axeViolations } from './support/axe.ts';
import { launchBrowser, openPage, signIn } from './support/browser.ts';
import { type RunningServer, startServer } from './support/running-server.ts';

let server: RunningServer;
let browser: Browser;
let page: Page;
let complaints: readonly string[] = [];

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer(), launchBrowser()]);
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

describe('the frame of the console', () => {
  it('asks for a token, refuses a wrong one with a sentence, and leads to the page that was asked for', async () => {
    await page.goto(`${server.url}/components`);
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect(await axeViolations(page)).toEqual([]);
    await page.getByRole('textbox', { name: 'Token' }).fill('wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('token', { exact: false }).and(page.locator('.bad')).waitFor();
    await page.getByRole('textbox', { name: 'Token' }).fill(server.token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { level: 1, name: 'Components' }).waitFor();
  });

  it('signs out, and the session is gone', async () => {
    await signIn(page, server);
    await page.getByRole('button', { name: 'admin' }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByRole('textbox', { name: 'Token' }).waitFor();
    await page.goto(server.url);
    await page.getByRole('textbox', { name: 'Token' }).waitFor();
  });

  it.each(['light', 'dark'] as const)(
    'has parts that axe finds nothing wrong with (%s)',
    async (colorScheme) => {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await signIn(page, server, '/components');
      await page.getByRole('heading', { level: 1 }).waitFor();
      await page.getByRole('figure').waitFor();
      expect(await axeViolations(page)).toEqual([]);
      await page.getByRole('button', { name: 'Delete…' }).click();
      await page.getByRole('dialog').waitFor();
      expect(await axeViolations(page)).toEqual([]);
    },
  );

  it('is moved through with the keyboard', async () => {
    await signIn(page, server, '/components');
    await page.getByRole('grid').waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.locator('tr[data-row="warehouse"]:focus').waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Search or jump' }).fill('setti');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Settings' }).waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('o');
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  });

  it('loads at most 250 kB compressed before the first page stands, and nothing from elsewhere', async () => {
    const sizes: number[] = [];
    const foreign: string[] = [];
    const reading: Promise<void>[] = [];
    const read = (response: Response) => {
      if (!response.url().startsWith(server.url)) foreign.push(response.url());
      if (!response.url().includes('/assets/') && response.request().resourceType() !== 'document') return;
      reading.push(response.body().then((body) => void sizes.push(gzipSync(body).length)));
    };
    page.on('response', read);
    await signIn(page, server);
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    // Later responses do not count, and the page may be closed before they are read.
    page.off('response', read);
    await Promise.all(reading);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    console.log(`first load: ${total} bytes compressed, ${sizes.length} files`);
    expect(total).toBeLessThanOrEqual(250_000);
    expect(foreign).toEqual([]);
  });
});
