import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ROOT } from '../../server/test/support/program.ts';
import { writeBundle } from '../../server/test/support/program-bundle.ts';
import { DESK, launchBrowser, openPage, signIn } from './support/browser.ts';
import { type RunningServer, startServer } from './support/running-server.ts';

/** A program with one more type of destination, for which the console has no form of its own. */
let folder: string;
let server: RunningServer;
let browser: Browser;
let page: Page;
let complaints: readonly string[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-types-'));
  await writeBundle(folder, join(ROOT, 'server/test/destination-types/list.ts'));
  server = await startServer(undefined, join(folder, 'cli/bin/millrace.js'));
  browser = await launchBrowser();
  ({ page, complaints } = await openPage(browser, DESK));
});

afterAll(async () => {
  await browser?.close();
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

describe('a destination of a type without a form of its own', () => {
  const field = (name: string | RegExp) => page.getByRole('textbox', { name });

  it('is made and changed in a plain form, and says what it drops', async () => {
    await signIn(page, server, '/destinations?new=true');
    await page.getByRole('button', { name: 'lines' }).click();
    await field(/^Name/).fill('box');
    await page.getByRole('checkbox', { name: 'website' }).check();
    await field(/^File/).fill('nowhere');
    await page.getByRole('button', { name: 'Create destination' }).click();
    await page.getByText('must be the path of a file').waitFor();
    const file = join(folder, 'events.jsonl');
    await field(/^File/).fill(file);
    await field(/^Token/).fill('t0ken-of-the-box');
    await page.getByRole('button', { name: 'Create destination' }).click();
    await page.getByText('box is made.').waitFor();
    const made = await server.api<{ settings: object }>('GET', 'destinations/box');
    expect(made.settings).toMatchObject({ path: file, token: { set: true, hint: '-box' } });

    await server.call('track', { userId: 'u1', event: 'Kept', messageId: 'kept' });
    await server.call('track', {
      ...{ userId: 'u1', event: 'Dropped', messageId: 'dropped' },
      properties: { answer: 'drop' },
    });
    await signIn(page, server, '/events/dropped');
    await page.getByText('dropped: no line for it').waitFor();
    await signIn(page, server, '/destinations/box?tab=deliveries&state=dropped');
    await page.getByText('Redeliver all').waitFor();
    await page.getByRole('link', { name: 'Dropped' }).waitFor();
    expect(readFileSync(file, 'utf8')).toContain('"messageId":"kept"');

    await signIn(page, server, '/destinations/box?tab=settings');
    await field(/^File/).fill(`${file}.2`);
    await page.getByRole('button', { name: /Save changes/ }).click();
    await page.getByText('Saved').waitFor();
    expect(await server.api('GET', 'destinations/box')).toMatchObject({ settings: { path: `${file}.2` } });
    expect(complaints).toEqual([]);
  });
});
