import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../server/test/support/until.ts';
import { DESK, launchBrowser, openPage, signIn } from './support/browser.ts';
import { type RunningServer, startServer } from './support/running-server.ts';

/**
 * The console tells the truth with a browser clock that is wrong, and while somebody else edits the same
 * record.
 */

const CONFIG = `
profiles: on
sources:
  - { name: website, writeKeys: [wk] }
destinations:
  - { name: crm, type: webhooks, sources: [website], settings: { endpoints: [{ url: RECEIVER/crm }], sharedSecret: secret-of-the-crm } }
  - { name: lake, type: webhooks, sources: [website], settings: { endpoints: [{ url: RECEIVER/lake }] } }
audiences:
  - { name: Buyers, definition: "event('Order Completed').count() >= 3", destinations: [] }
`;

const HOUR = 3_600_000;

let server: RunningServer;
let browser: Browser;
let page: Page;
let complaints: readonly string[] = [];

beforeAll(async () => {
  [server, browser] = await Promise.all([startServer(CONFIG), launchBrowser()]);
  for (const userId of ['ann', 'bob'])
    await server.call('track', { userId, event: 'Order Completed', properties: { plan: 'pro' } });
  await server.call('page', { userId: 'ann', name: 'Home' });
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

describe('a browser whose clock', () => {
  it.each([
    ['is right', 0],
    ['is an hour ahead', HOUR],
    ['is an hour behind', -HOUR],
  ])('%s gets every range, and ages that are true', async (_, ahead) => {
    const refused: string[] = [];
    page.on('response', (response) => {
      if (response.status() >= 400 && response.status() !== 401)
        refused.push(`${response.status()} ${response.url()}`);
    });
    await page.clock.install({ time: Date.now() + ahead });
    await signIn(page, server);
    for (const range of ['15 min', '1 h', '24 h', '7 d']) {
      const answered = page.waitForResponse((response) => response.url().includes('/api/v1/timeline'));
      await button(range).click();
      expect([range, (await answered).status()]).toEqual([range, 200]);
      await page.getByText('Both sums come out').waitFor();
    }
    expect(refused).toEqual([]);
    await page.goto(`${server.url}/settings/system`);
    // It runs for seconds or a few minutes, and neither for an hour nor since tomorrow.
    const facts = page.locator('section', { hasText: 'Millrace' }).locator('dl').first();
    await facts.getByText('Since').waitFor();
    expect(await facts.innerText()).toMatch(/Up\s+(\d+(\.\d)?\ss|\d+\smin)/);
  });
});

describe('a destination that two change at once', () => {
  it('keeps what each has changed', async () => {
    await signIn(page, server, '/destinations/crm?tab=settings');
    const rate = page.getByRole('textbox', { name: /Requests a second/ });
    await rate.fill('50');
    await server.api('PATCH', 'destinations/crm', { settings: { concurrency: 7 } });
    await button('Save changes').click();
    await page.getByText('Somebody else has changed this destination').waitFor();
    expect(await server.api('GET', 'destinations/crm')).not.toHaveProperty('settings.rateLimit');
    await button('Keep my changes on top of theirs').click();
    expect(await rate.inputValue()).toBe('50');
    await button('Save changes').click();
    await page.getByText('Saved until the next start. The next request is made with it.').waitFor();
    expect(await server.api('GET', 'destinations/crm')).toMatchObject({
      settings: { rateLimit: 50, concurrency: 7 },
    });
  });

  it('shows what somebody else has made of it while nothing is typed', async () => {
    await signIn(page, server, '/destinations/crm?tab=settings');
    await page.getByRole('textbox', { name: /Requests a second/ }).waitFor();
    await server.api('PATCH', 'destinations/crm', { settings: { rateLimit: 77 } });
    await page.waitForFunction(() =>
      [...document.querySelectorAll('input')].some((input) => input.value === '77'),
    );
  });
});

describe('a destination without a source', () => {
  it('is asked about before it is made, and says so afterwards', async () => {
    await signIn(page, server, '/destinations?new=true');
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('lonely');
    await page.getByRole('textbox', { name: 'URL', exact: true }).fill(`${server.receiver}/lonely`);
    await button('Create destination').click();
    await page.getByText('It has no source').waitFor();
    await button('Create destination').click();
    await page.getByText('Nothing is sent to it until it has a source').waitFor();
    await page.getByText('no source').first().waitFor();
    await page.getByText('nothing will be sent to it').waitFor();
  });
});

describe('trouble that is over', () => {
  it('is told as past, and what died of it still needs a person', async () => {
    server.answerAt('/lake', 410);
    await server.call('track', { userId: 'ann', event: 'Lost' });
    await until('the delivery has died', async () => (await statusOf('lake')).dead === 1);
    server.answerAt('/lake', 200);
    for (const event of ['One', 'Two', 'Three']) await server.call('track', { userId: 'ann', event });
    await until('it is healthy again', async () => (await statusOf('lake')).state === 'healthy');
    await signIn(page, server);
    const need = page.locator('article', { hasText: 'What died before stays' });
    await need.getByRole('heading', { name: 'lake' }).waitFor();
    await need.getByRole('link', { name: 'Redeliver…' }).click();
    await button(/^Redeliver 1$/).click();
    await page.getByRole('tab', { name: 'Health' }).click();
    await page.getByRole('heading', { name: 'What went wrong' }).waitFor();
    await page
      .getByRole('gridcell')
      .or(page.getByRole('cell', { name: /^over/ }))
      .first()
      .waitFor();
    await page.goto(server.url);
    await page.getByText('Nothing does.').waitFor();
  });
});

describe('a range of the past', () => {
  it('has the rates of then, nothing of now, and links that keep it', async () => {
    const hour = Math.floor(Date.now() / HOUR) * HOUR;
    const [from, to] = [hour - 2 * HOUR, hour - HOUR].map((time) => new Date(time).toISOString());
    await signIn(page, server, `/?${new URLSearchParams({ from: from!, to: to! })}`);
    const way = page.getByRole('region', { name: 'The way of events' });
    await way.getByText('avg 0').first().waitFor();
    expect(await way.getByRole('link', { name: /^Pending/ }).count()).toBe(0);
    await way
      .getByRole('link', { name: /^Received/ })
      .first()
      .click();
    await page.waitForURL(/\/events\?/);
    expect([...new URL(page.url()).searchParams]).toEqual([
      ['from', from],
      ['to', to],
    ]);
  });
});

describe('an address that nothing has', () => {
  it('is said within the frame, in words of the console', async () => {
    await signIn(page, server, '/nothing/is/here');
    await page.getByText('No page has this address').waitFor();
    await page.getByRole('navigation', { name: 'Sections' }).getByRole('link', { name: 'Sources' }).click();
    await page.getByRole('heading', { level: 1, name: 'Sources' }).waitFor();
    await page.goto(`${server.url}/sources/nobody`);
    const said = await page.getByRole('alert').innerText();
    expect(said).toContain('"nobody" is no source.');
    expect(said).not.toMatch(/GET|\/api\//);
  });
});

describe('an id that nobody has', () => {
  it('is said to be looked for, and the other kinds of ids are offered', async () => {
    await signIn(page, server, '/events/ann');
    await page.getByText('No call had the messageId ann').waitFor();
    await page.getByRole('link', { name: 'As anonymousId' }).click();
    await page.getByText('Nothing is known of ann').waitFor();
    await page.getByRole('link', { name: 'As userId' }).click();
    await page.getByRole('heading', { level: 2, name: 'ann' }).waitFor();
  });
});

describe('a new secret', () => {
  it('is saved only by who says that it is kept', async () => {
    await signIn(page, server, '/destinations/crm?tab=settings');
    await button('Replace').click();
    const secret = await page.getByRole('textbox', { name: /^Shared secret/ }).inputValue();
    await button(/^Save changes/).click();
    await page.getByText('Copy the new secret to where the receiver has it').waitFor();
    const kept = page.getByRole('checkbox', { name: /^I have kept it/ });
    expect(await kept.evaluate((element) => element === document.activeElement)).toBe(true);
    await kept.check();
    await button(/^Save changes/).click();
    await page.getByText('The next request is made with it.').waitFor();
    expect(await server.api('GET', 'destinations/crm')).toMatchObject({
      settings: { sharedSecret: { set: true, hint: secret.slice(-4) } },
    });
  });
});

describe('a public signature', () => {
  it('shows the key that the server has made, and where everybody gets it', async () => {
    await signIn(page, server, '/destinations/crm?tab=settings');
    const choice = page.getByRole('checkbox', { name: /^Sign so that receivers verify/ });
    await choice.check();
    await button(/^Save changes/).click();
    await page.getByText('The next request is made with it.').waitFor();
    const { publicKey } = (await server.api('GET', 'destinations/crm/status')) as {
      publicKey: { publicKey: string; path: string };
    };
    await page.getByText(publicKey.publicKey).waitFor();
    await page.getByText(publicKey.path).waitFor();
    await choice.uncheck();
    await page.getByText('The key is forgotten').waitFor();
  });
});

describe('the builder of an audience', () => {
  it('suggests what somebody did, saw and had, and counts nothing twice once it is saved', async () => {
    await signIn(page, server, '/users/audiences/Buyers');
    const suggested = async (label: string) =>
      await page
        .getByRole('combobox', { name: label })
        .evaluate((input: HTMLInputElement) => [...(input.list?.options ?? [])].map(({ value }) => value));
    await page.locator('datalist option').first().waitFor({ state: 'attached' });
    expect(await suggested('Name of the event')).toContain('Order Completed');
    expect(await suggested('Name of the event')).not.toContain('Home');
    await button('where').click();
    expect(await suggested('Property of the event')).toEqual(['plan']);
    await button('Remove where 1').click();
    await page.getByRole('textbox', { name: 'Value' }).fill('1');
    await page.getByText('+ 2 would enter').waitFor();
    await button(/^Save and sync/).click();
    await page.getByText('2 now').waitFor();
    expect(await page.getByText('would enter').count()).toBe(0);
  });
});

describe('an id that no line can carry', () => {
  it('is found, searched and erased as JSON text, and only where that is asked for', async () => {
    const id = 'line\nend ';
    const text = JSON.stringify(id);
    await server.call('track', { userId: id, event: 'Order Completed' });
    await server.call('track', { userId: text, event: 'Order Completed' });
    await signIn(page, server, '/users');
    const search = page.getByRole('searchbox', { name: 'userId' });
    await search.fill(text);
    await button('Find').click();
    await page.getByRole('heading', { name: text, exact: true }).waitFor();
    await page.getByRole('checkbox', { name: 'as JSON text' }).check();
    await button('Find').click();
    await page.getByRole('heading', { name: 'line⏎end' }).waitFor();
    await button('Delete user…').click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.getByRole('checkbox', { name: 'as JSON text' }).isChecked()).toBe(true);
    await dialog.getByRole('textbox', { name: `Type ${text} to go on` }).fill(text);
    await dialog.getByRole('button', { name: /^Delete/ }).click();
    await page.waitForURL(/\/users\/deletions\//);
    await until('it is erased everywhere', async () => {
      const { data } = await server.api<{ data: { overallStatus: string }[] }>('GET', 'regulations');
      return data[0]?.overallStatus === 'FINISHED';
    });
    const events = async (query: string) =>
      (await server.api<{ data: object[] }>('GET', `events?${query}`)).data.length;
    expect(await events(`userIdJson=${encodeURIComponent(text)}`)).toBe(0);
    expect(await events(`userId=${encodeURIComponent(text)}`)).toBe(1);
    await page.goto(`${server.url}/events`);
    await page.getByRole('textbox', { name: 'userId' }).fill('"ann"');
    await page.getByRole('checkbox', { name: 'as JSON text' }).check();
    await page.getByRole('main').getByRole('button', { name: 'Search' }).click();
    await page.waitForURL(/userIdJson=%22ann%22/);
    await page.getByRole('gridcell', { name: 'ann', exact: true }).first().waitFor();
  });
});

describe('a viewer', () => {
  it('is not shown the write keys of a source', async () => {
    const { token } = await server.api<{ token: string }>('POST', 'tokens', {
      name: 'looker',
      role: 'viewer',
    });
    await server.api('POST', 'sources', { name: 'kiosk', writeKeys: ['wk_of_the_kiosk'] });
    await signIn(page, { ...server, token }, '/sources/kiosk');
    await page.getByText('viewers are not shown them').waitFor();
    expect(await page.locator('main').innerText()).not.toContain('wk_of_the_kiosk');
    expect(await button('Reveal').count()).toBe(0);
  });
});

describe('more destinations than a page of the API has', () => {
  it('are all there, and all counted', async () => {
    const { destinations } = await server.api<{ destinations: object[] }>('GET', 'config');
    const others = Array.from({ length: 500 }, (_, nth) => ({
      ...{ name: `many-${nth}`, type: 'webhooks', sources: [] },
      settings: { endpoints: [{ url: `${server.receiver}/many` }] },
    }));
    await server.api('PUT', 'config?confirm=true', { destinations: others });
    await signIn(page, server, '/destinations');
    await button(`All ${destinations.length + 500}`).waitFor();
  });
});

async function statusOf(name: string): Promise<{ readonly state: string; readonly dead: number }> {
  return await server.api('GET', `destinations/${name}/status`);
}
