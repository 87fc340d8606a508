import type { Browser, Page } from 'playwright-core';
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

const field = () => page.getByRole('combobox', { name: 'Search or jump' });
const chosen = () => page.getByRole('option', { selected: true });

describe('the palette', () => {
  it('keeps what is chosen in sight, also when the page is enlarged to 200 %', async () => {
    // Twice as large is half as many pixels.
    await page.setViewportSize({ width: 720, height: 450 });
    await signIn(page, server, '/sources');
    await page.keyboard.press('Control+k');
    await field().waitFor();
    const names = await page.getByRole('option').allInnerTexts();
    expect(names.length).toBeGreaterThan(10);
    const seen: string[] = [];
    for (const _ of names) {
      seen.push(await chosen().innerText());
      const isInSight = await chosen().evaluate((option) => {
        const { top, bottom } = option.getBoundingClientRect();
        const list = option.parentElement?.getBoundingClientRect();
        return list !== undefined && top >= list.top && bottom <= list.bottom + 1;
      });
      expect(isInSight, seen.at(-1)).toBe(true);
      await page.keyboard.press('ArrowDown');
    }
    expect(seen).toEqual(names);
    // Behind the last one is the first one.
    expect(await chosen().innerText()).toBe(names[0]);
    await page.keyboard.press('ArrowUp');
    expect(await chosen().innerText()).toBe(names.at(-1));
  });

  it('gives the focus back to where it was', async () => {
    await signIn(page, server, '/sources');
    await page.getByRole('grid').waitFor();
    await page.keyboard.press('j');
    const row = page.locator('tr[data-row]:focus');
    await row.waitFor();
    await page.keyboard.press('Control+k');
    await field().and(page.locator(':focus')).waitFor();
    await page.keyboard.press('Escape');
    await field().waitFor({ state: 'detached' });
    expect(await row.count()).toBe(1);
  });

  it.each(['light', 'dark'] as const)(
    'says that nothing has a name, and is read well with and without (%s)',
    async (colorScheme) => {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await signIn(page, server, '/sources');
      await page.keyboard.press('Control+k');
      await page.getByRole('option', { name: 'Overview' }).waitFor();
      expect(await axeViolations(page)).toEqual([]);
      await field().fill('no-such-thing<b>\u202e');
      await page
        .getByText('No section, record or action is called so. As an id it may be one of these:')
        .waitFor();
      await page.getByRole('option', { name: /^messageId/ }).waitFor();
      expect(await page.getByRole('option').count()).toBe(3);
      expect(await page.locator('dialog').innerText()).not.toContain('\u202e');
      expect(await axeViolations(page)).toEqual([]);
      await field().fill('websi');
      await page.getByText('No section, record or action').waitFor({ state: 'detached' });
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { level: 1, name: 'website' }).waitFor();
    },
  );
});
