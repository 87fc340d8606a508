import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { DESK, launchBrowser, openPage, signIn } from './support/browser.ts';
import { type RunningServer, startServer } from './support/running-server.ts';

/** Records are edited in the console while others edit them too. */

const CONFIG = `
profiles: on
sources:
  - { name: website, writeKeys: [wk] }
destinations:
  - { name: filed, type: webhooks, sources: [website], settings: { endpoints: [{ url: RECEIVER/filed }], sharedSecret: secret-of-the-file } }
`;

let server: RunningServer;
let browser: Browser;
let page: Page;
let complaints: readonly string[] = [];

/** Made by the API, so that no configuration file owns them. */
beforeAll(async () => {
  [server, browser] = await Promise.all([startServer(CONFIG), launchBrowser()]);
  await server.api('POST', 'sources', { name: 'app', writeKeys: ['wk_app'] });
  for (const name of ['crm', 'lake'])
    await server.api('POST', 'destinations', {
      ...{ name, type: 'webhooks', sources: ['app'] },
      settings: { endpoints: [{ url: `${server.receiver}/${name}` }] },
    });
  await server.api('POST', 'audiences', {
    ...{ name: 'Buyers', definition: "event('Order Completed')", destinations: [] },
  });
  await server.api('POST', 'alerts', {
    ...{ name: 'on call', type: 'webhook', settings: { url: `${server.receiver}/alerts` } },
  });
});

afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

beforeEach(async () => {
  ({ page, complaints } = await openPage(browser, DESK));
});

afterEach(async () => {
  await page.context().close();
  expect(complaints).toEqual([]);
});

const button = (name: string | RegExp) => page.getByRole('button', { name });
const field = (name: string | RegExp) => page.getByRole('textbox', { name });
const overtaken = (noun: string) => page.getByText(`Somebody else has changed this ${noun}`).waitFor();

describe('a record that two change at once', () => {
  it('keeps what each has changed of a source, and its keys', async () => {
    await signIn(page, server, '/sources/app?tab=settings');
    await field('Calls a second').fill('50');
    await server.api('PATCH', 'sources/app', { mode: 'strict' });
    await button('Save changes').click();
    await overtaken('source');
    expect(await server.api('GET', 'sources/app')).not.toHaveProperty('rateLimit');
    await button('Keep my changes on top of theirs').click();
    await button('Save changes').click();
    await page.getByText('Saved. The next call is taken with it.').waitFor();
    await page.getByRole('tab', { name: 'Send' }).click();
    await page.getByText('Write keys').first().waitFor();
    await server.api('PATCH', 'sources/app', { writeKeys: ['wk_app', 'wk_colleague'] });
    await button('Add a key').click();
    await page.getByText('The new key works at once.').waitFor();
    expect(await server.api('GET', 'sources/app')).toMatchObject({
      ...{ mode: 'strict', rateLimit: 50 },
      writeKeys: [expect.stringMatching(/^wk_/), 'wk_app', 'wk_colleague'],
    });
  });

  it('asks which value stays where both have changed the same field', async () => {
    await signIn(page, server, '/destinations/lake?tab=settings');
    await field('Requests a second').fill('50');
    await field('Requests at once').fill('5');
    await server.api('PATCH', 'destinations/lake', { settings: { rateLimit: 70, concurrency: 7 } });
    await overtaken('destination');
    await button('theirs: 70').click();
    await button('Keep my changes on top of theirs').click();
    await button('Save changes').click();
    await page.getByText('Saved. The next request is made with it.').waitFor();
    expect(await server.api('GET', 'destinations/lake')).toMatchObject({
      settings: { rateLimit: 70, concurrency: 5 },
    });
  });

  it('is saved at once where others have changed what the form does not show', async () => {
    await signIn(page, server, '/destinations/lake?tab=settings');
    await field('Requests a second').fill('51');
    await server.api('POST', 'destinations/lake/pause');
    await button('Save changes').click();
    await page.getByText('Saved. The next request is made with it.').waitFor();
    expect(await server.api('GET', 'destinations/lake')).toMatchObject({
      ...{ paused: true, settings: { rateLimit: 51 } },
    });
  });

  it('keeps what each has changed of an audience', async () => {
    await signIn(page, server, '/users/audiences/Buyers');
    await page.getByRole('checkbox', { name: 'crm' }).check();
    await server.api('PATCH', 'audiences/Buyers', { includeAnonymous: true });
    await button('Save and sync').click();
    await overtaken('audience');
    await button('Keep my changes on top of theirs').click();
    await button('Save and sync').click();
    await page.getByText('Saved. It counts the stored events now.').waitFor();
    expect(await server.api('GET', 'audiences/Buyers')).toMatchObject({
      ...{ includeAnonymous: true, destinations: ['crm'] },
    });
  });

  it('keeps what each has changed of an alert', async () => {
    await signIn(page, server, '/settings/alerts');
    await button('More about on call').click();
    await page.getByRole('menuitem', { name: 'Edit…' }).click();
    await field('After').fill('5m');
    await server.api('PATCH', 'alerts/on call', { remindEvery: '1h' });
    await button('Save').click();
    await overtaken('alert');
    await button('Keep my changes on top of theirs').click();
    await button('Save').click();
    await page.getByText('The alert on call is changed.').waitFor();
    expect(await server.api('GET', 'alerts/on call')).toMatchObject({ after: '5m', remindEvery: '1h' });
  });

  it('is changed by a configuration only as it was planned', async () => {
    await signIn(page, server, '/settings/configuration');
    await field('Configuration file').fill('sources: [{ name: app, writeKeys: [wk_app], rateLimit: 60 }]');
    await button('Plan').click();
    await page.getByText('changed source app').waitFor();
    await server.api('PATCH', 'sources/app', { rateLimit: 61 });
    await button('Apply 1 change…').click();
    await button(/^Apply$/).click();
    await page.getByText('somebody else has changed records since the plan was made').waitFor();
    expect(await server.api('GET', 'sources/app')).toMatchObject({ rateLimit: 61 });
    await button('Apply 1 change…').click();
    await button(/^Apply$/).click();
    await page.getByText('Applied.').waitFor();
    expect(await server.api('GET', 'sources/app')).toMatchObject({ rateLimit: 60 });
  });

  it('shows the same state in its badge and on its button, whoever has paused it', async () => {
    await signIn(page, server, '/destinations/crm');
    await button('Pause').waitFor();
    // Every look at the page finds a button that suits the badge.
    await page.evaluate(() => {
      const seen = new Set<string>();
      Object.assign(globalThis, { seen });
      new MutationObserver(() => {
        const badge = document.querySelector('.head .pill')?.textContent ?? '';
        const names = [...document.querySelectorAll('.head button')].map((one) => one.textContent?.trim());
        seen.add(`${badge.trim()}: ${names.find((name) => name === 'Pause' || name === 'Resume')}`);
      }).observe(document.body, { subtree: true, childList: true, characterData: true });
    });
    await server.api('POST', 'destinations/crm/pause');
    await button('Resume').waitFor();
    const seen = await page.evaluate(() => [...(globalThis as unknown as { seen: Set<string> }).seen]);
    expect(seen.filter((one) => /paused: Pause|(ready|healthy|never asked): Resume/.test(one))).toEqual([]);
    expect(seen.some((one) => one.endsWith('paused: Resume'))).toBe(true);
  });
});

describe('a form that is not finished', () => {
  it('is as it was left after a restart of the server and a sign-in, but for its secrets', async () => {
    await signIn(page, server, '/destinations?new=true');
    await field('Name').fill('half');
    await field('URL').fill(`${server.receiver}/half`);
    await page.getByRole('checkbox', { name: 'app' }).check();
    await field('Shared secret (X-Signature)').fill('typed-by-a-person');
    await field('Events').fill('Order *');
    const kept = await page.evaluate(() => JSON.stringify({ ...sessionStorage, ...localStorage }));
    expect(kept).toContain('Order *');
    expect(kept).not.toContain('typed-by-a-person');
    await server.restart();
    await page.reload();
    // A restart signs nobody out.
    await page.getByText('Secrets that you have typed are not kept').waitFor();
    await page.context().clearCookies();
    await page.getByText('The session is over').waitFor();
    await field('Token').fill(server.token);
    await button('Sign in').click();
    await page.getByText('Secrets that you have typed are not kept').waitFor();
    expect(await page.locator('form').evaluate(valuesOf)).toMatchObject({
      ...{ Name: 'half', URL: `${server.receiver}/half`, app: true, Events: 'Order *' },
      'Shared secret (X-Signature)': '',
    });
    await button('Create destination').click();
    await page.getByText('half is made.').waitFor();
    await page.goto(`${server.url}/destinations?new=true`);
    await field('Name').waitFor();
    expect(await field('Name').inputValue()).toBe('');
  });

  it('is there again after another tab of its page was looked at, and gone when its owner signs out', async () => {
    await signIn(page, server, '/sources/app?tab=settings');
    await field('Calls a second').fill('99');
    await page.getByRole('tab', { name: 'Discards' }).click();
    await page.getByRole('tab', { name: 'Settings' }).click();
    expect(await field('Calls a second').inputValue()).toBe('99');
    await page.getByText('nothing of it is saved yet').waitFor();
    await field('A repeated messageId is a duplicate within').fill('for ever');
    await button('Save changes').click();
    await page.getByText('one field is wrong').waitFor();
    expect(await page.evaluate(() => (document.activeElement as HTMLInputElement).value)).toBe('for ever');
    await button(/, admin$/).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByText('You have signed out.').waitFor();
    expect(await page.evaluate(() => JSON.stringify(sessionStorage))).not.toContain('for ever');
  });
});

describe('a record of the configuration file', () => {
  it('says so on its page, in its form and when it is saved, with the YAML that keeps the change', async () => {
    await signIn(page, server, '/destinations/filed?tab=settings');
    await page.locator('.head').getByText('of the configuration file').waitFor();
    await page.getByText('the next start makes it what the file says').waitFor();
    await field('Requests a second').fill('9');
    await button('Save changes until the next start').click();
    await page.getByText('Saved until the next start. The next request is made with it.').waitFor();
    await page.getByText('As it is now, for the file').click();
    const text = page.getByRole('group', { name: 'The record as the configuration file writes it' });
    await text.getByText('rateLimit: 9').waitFor();
    expect(await text.innerText()).toMatch(/sharedSecret: \$\{SECRET_OF_THE_FILE\}/);
    await page.goto(`${server.url}/destinations/crm?tab=settings`);
    await button(/^Save changes$/).waitFor();
    expect(await page.getByText('of the configuration file').count()).toBe(0);
  });
});

/** Contents of each field of a form, by its label. */
function valuesOf(form: Element): Record<string, string | boolean> {
  const fields = [...form.querySelectorAll<HTMLInputElement>('input, textarea')];
  return Object.fromEntries(
    fields.map((one) => [
      one.labels?.[0]?.textContent?.trim() ?? one.ariaLabel ?? '',
      one.type === 'checkbox' ? one.checked : one.value,
    ]),
  );
}

describe('a definition', () => {
  it('turns between builder and text once it is understood, and nothing that was typed is thrown away', async () => {
    await signIn(page, server, '/users/audiences?new=true');
    await button('Text').click();
    await field('Who belongs').fill("trait('plan') = 'pro'");
    await button('Builder').click();
    await field('Value').fill('team');
    await button('Text').click();
    await page.getByText("trait('plan') = 'team'", { exact: true }).first().waitFor();
    await field('Who belongs').waitFor();
    expect(await field('Who belongs').inputValue()).toBe("trait('plan') = 'team'");
    // An unfinished definition means nothing yet, and stays as it is.
    await button('Builder').click();
    await field('Value').fill('');
    await button('Text').click();
    expect(await field('Value').inputValue()).toBe('');
  });
});
