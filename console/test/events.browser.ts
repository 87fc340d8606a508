import { execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { IS_LONG } from '../../server/test/support/runs.ts';
import { until } from '../../server/test/support/until.ts';
import { axeViolations } from './support/axe.ts';
import { launchBrowser, openPage, signIn } from './support/browser.ts';
import { type RunningServer, startServer } from './support/running-server.ts';

let browser: Browser;
let page: Page;
let complaints: readonly string[] = [];

beforeAll(async () => {
  browser = await launchBrowser();
});

afterAll(async () => {
  await browser?.close();
});

beforeEach(async () => {
  ({ page, complaints } = await openPage(browser));
});

afterEach(async () => {
  await page.context().close();
  expect(complaints).toEqual([]);
});

describe('a new server', () => {
  let server: RunningServer;

  beforeAll(async () => {
    server = await startServer();
  });

  afterAll(async () => {
    await server?.stop();
  });

  it('leads from nothing to the first delivered event, and notices each step by itself', async () => {
    await signIn(page, server);
    await page.getByText('Waiting for the first event').waitFor();
    // The command on the screen is run as it stands there.
    const command = await page.getByRole('group', { name: 'Command that sends an event' }).innerText();
    execFileSync('sh', ['-c', `${command} --silent --fail`]);
    await page.getByText('Events arrive, and go nowhere yet').waitFor();

    await addDestination(server);
    await page.getByText('Nothing does.').waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('l');
    await page.getByText('following').waitFor();
    await server.call('track', { messageId: 'first-1', userId: 'u1', event: 'Order Placed' });
    await page.getByRole('row').filter({ hasText: 'Order Placed' }).waitFor();
    await page.keyboard.press('j');
    await page.locator('tr[data-row]:focus').waitFor();
    await page.keyboard.press('Enter');
    const inspector = page.getByRole('complementary', { name: 'The event that is open' });
    await inspector.getByText('crm').waitFor();
    await inspector.getByText(/^200 in/).waitFor();
    await inspector.getByRole('link', { name: 'Open' }).click();
    await page.getByText('delivered to 1 of 1').waitFor();
    await page.getByRole('link', { name: 'Overview' }).first().click();
    await page.getByText('Both sums come out').waitFor();
  });
});

async function addDestination({ url, token, receiver }: RunningServer): Promise<void> {
  const settings = { endpoints: [{ url: `${receiver}/crm` }], sharedSecret: 'secret-of-crm' };
  const response = await fetch(`${url}/api/v1/destinations`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ name: 'crm', type: 'webhooks', sources: ['website'], settings }),
  });
  expect(response.status).toBe(201);
}

const TWO_DESTINATIONS = `
sources: [{ name: website, writeKeys: [wk] }]
destinations:
  - { name: crm, type: webhooks, sources: [website], settings: { endpoints: [{ url: RECEIVER/crm }], sharedSecret: one-secret } }
  - { name: ads, type: webhooks, sources: [website], settings: { endpoints: [{ url: RECEIVER/ads }], sharedSecret: two-secret } }
`;

describe('events', () => {
  let server: RunningServer;

  beforeAll(async () => {
    server = await startServer(TWO_DESTINATIONS);
    server.answerAt('/ads', 401);
    await server.call('track', { messageId: 'order-1', userId: 'u1', event: 'Order Placed' });
  });

  afterAll(async () => {
    await server?.stop();
  });

  it('are paused with a key, and what passes is counted', async () => {
    await signIn(page, server, '/live');
    await page.getByText('following').waitFor();
    await page.keyboard.press('p');
    await page.getByText('Paused; 0 more have come since.').waitFor();
    await server.call('track', { userId: 'u1', event: 'While Paused' });
    await page.getByText('Paused; 1 more have come since.').waitFor();
    expect(await page.getByText('While Paused').count()).toBe(0);
    await page.keyboard.press('p');
    await page.getByRole('row').filter({ hasText: 'While Paused' }).waitFor();
  });

  it('are filtered by the server, with the filter in the address', async () => {
    await signIn(page, server, '/live');
    // The server listens from its answer on; what came before it would be missed.
    const opened = page.waitForResponse((response) => response.url().includes('/api/v1/tail?failed=true'));
    await page.getByRole('button', { name: 'Only failures' }).click();
    await opened;
    await page.waitForURL((url) => url.search === '?failed=true');
    await page.getByText('following').waitFor();
    await server.call('track', { userId: 'u1', event: 'Half Refused' });
    const row = page.getByRole('row').filter({ hasText: 'Half Refused' });
    await row.getByText('ads').waitFor();
    await page.reload();
    await page.locator('[aria-pressed="true"]').filter({ hasText: 'Only failures' }).waitFor();
  });

  it('are found by their user, and by a messageId in the palette', async () => {
    await signIn(page, server, '/events?userId=u1');
    await page.getByRole('row').filter({ hasText: 'Order Placed' }).first().waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Search or jump' }).fill('order-1');
    await page.getByRole('option', { name: /^messageId/ }).click();
    await page.getByRole('heading', { level: 1, name: 'Order Placed' }).waitFor();
    await page.getByText('delivered to 1 of 2').waitFor();
    await page.getByText('The endpoint does not accept the key or signature of the request.').waitFor();
  });

  it('are opened from their rows whatever their messageId is', async () => {
    const ids = ['..', '.', '~"x"', 'a/b?c#d%41', ' e '];
    for (const messageId of ids) await server.call('track', { userId: 'odd-ids', event: 'Odd', messageId });
    await signIn(page, server, '/events?userId=odd-ids');
    for (const [nth] of ids.entries()) {
      const row = page.getByRole('row').filter({ hasText: 'Odd' }).nth(nth);
      await row.click();
      await page.getByRole('heading', { level: 1, name: 'Odd' }).waitFor();
      const id = ids.at(-1 - nth)!;
      await page.getByText(id.trim(), { exact: true }).first().waitFor();
      await page.getByText('delivered to 1 of 2').waitFor();
      await page.goBack();
    }
  });

  it('say how the call came, as far as it is kept', async () => {
    const context = { ip: '203.0.113.9', library: { name: 'analytics.js', version: '2.11.1' } };
    await server.call('track', { messageId: 'direct-1', userId: 'ü1', event: 'Came Directly', context });
    await signIn(page, server, '/events/direct-1');
    const received = page.getByRole('tabpanel');
    const facts = await received.locator('dl').innerText();
    expect(facts).toMatch(
      /Address\s+203\.0\.113\.9 context\.ip: said by the client, or where the call came from/,
    );
    expect(facts).toMatch(/Library\s+analytics\.js 2\.11\.1/);
    const response = await fetch(`${server.url}/api/v1/events/direct-1`, {
      headers: { Authorization: `Bearer ${server.token}` },
    });
    const { data } = (await response.json()) as { data: { event: object }[] };
    const size = Buffer.byteLength(JSON.stringify(data[0]!.event));
    await received.getByText(new RegExp(`The event, ${size}\\sB as it is stored`)).waitFor();
    await page.goto(`${server.url}/events/order-1`);
    expect(await received.locator('dl').innerText()).toMatch(/Address\s+not kept/);
  });

  it('show each request as it was sent, with the signature of its exact bytes', async () => {
    await signIn(page, server, '/events/order-1?tab=sent');
    const choice = page.getByRole('combobox', { name: 'Which try' });
    const crm = await choice.getByRole('option', { name: /^crm/ }).getAttribute('value');
    await choice.selectOption(crm);
    await page.getByText('headers, X-Signature and bytes are as sent').waitFor();
    const sent = page.getByRole('tabpanel');
    await sent.getByRole('button', { name: 'Bytes' }).click();
    const body =
      (await sent.getByRole('group', { name: 'the body that was sent', exact: true }).textContent()) ?? '';
    const signature = createHmac('sha1', 'one-secret').update(body).digest('hex');
    await sent.getByText(signature).first().waitFor();
  });

  it('are opened over the list on a phone', async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await signIn(page, server, '/live?open=order-1');
    const inspector = page.getByRole('complementary', { name: 'The event that is open' });
    await inspector.getByText('crm').waitFor();
    await inspector.getByRole('button', { name: 'Close' }).click();
    await inspector.waitFor({ state: 'detached' });
  });

  // Before anything is delivered to ads: steps in which something is are not shaded.
  it('that fail shade the charts of the overview, and it says so in words', async () => {
    const words = page.getByText(/Shaded: requests failed and nothing was delivered to ads/);
    await signIn(page, server, '/?range=15m');
    await words.waitFor();
    // A range that is over is read once: its shades come into a chart that stands already.
    const chartStands = Promise.withResolvers<void>();
    await page.route(/timeline.*by=destination/, async (route) => {
      await chartStands.promise;
      await route.continue();
    });
    // The point of the step that is shaded stands at the top of the chart, where the bar of its shade is.
    await page.route(/timeline(?!.*by=destination)/, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: withLatencies(await response.json(), { p50: 20, p99: 99 }) });
    });
    const [from, to] = [600_000, 0].map((ago) => new Date(Date.now() - ago).toISOString());
    await page.goto(`${server.url}/?from=${from}&to=${to}`);
    const chart = page.getByRole('img', { name: /^Latency/ }).locator('canvas');
    await chart.waitFor();
    expect(await pixelsOf(chart, '--bad')).toBe(0);
    chartStands.resolve();
    await words.waitFor();
    await until('the chart is shaded', async () => (await pixelsOf(chart, '--bad')) > 0);
  });

  it('are sent once more after a question', async () => {
    await signIn(page, server, '/events/order-1');
    await page.getByText('delivered to 1 of 2').waitFor();
    server.answerAt('/ads', 200);
    await page.keyboard.press('r');
    await page.getByRole('dialog', { name: 'Send this event once more?' }).waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Resend' }).click();
    await page.getByText('delivered to 2 of 2').waitFor();
    server.answerAt('/ads', 401);
  });

  // In the gate the other theme is looked at on all other pages.
  it.each(IS_LONG ? (['light', 'dark'] as const) : (['dark'] as const))(
    'stand on pages that axe finds nothing wrong with (%s)',
    async (colorScheme) => {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      // Steps of a few seconds: within longer ones something was delivered too.
      await signIn(page, server, '/?range=15m');
      await page.getByText('Both sums come out').waitFor();
      await page.getByRole('figure').first().waitFor();
      await page.getByText('Shaded:').waitFor();
      expect(await axeViolations(page)).toEqual([]);
      await page.goto(`${server.url}/live?open=order-1`);
      await page.getByText('following').waitFor();
      await server.call('track', { userId: 'u1', event: 'Seen By Axe' });
      await page.getByRole('row').filter({ hasText: 'Seen By Axe' }).waitFor();
      await page.getByRole('complementary').getByText('crm').waitFor();
      expect(await axeViolations(page)).toEqual([]);
      await page.goto(`${server.url}/events`);
      await page.getByRole('row').filter({ hasText: 'Seen By Axe' }).first().waitFor();
      expect(await axeViolations(page)).toEqual([]);
      for (const tab of ['received', 'sent', 'answered']) {
        await page.goto(`${server.url}/events/order-1?tab=${tab}`);
        await page.getByRole('tabpanel').waitFor();
        expect(await axeViolations(page)).toEqual([]);
      }
    },
  );
});

interface Timeline {
  readonly groups: readonly { readonly series: Readonly<Record<string, readonly (number | null)[]>> }[];
}

/** A timeline in which every delivery took as long, in milliseconds. */
function withLatencies(timeline: Timeline, { p50, p99 }: { readonly p50: number; readonly p99: number }) {
  const set = (values: readonly (number | null)[] = [], value: number) =>
    values.map((one) => (one === null ? null : value));
  const groups = timeline.groups.map(({ series, ...group }) => {
    const { deliveryP50, deliveryP99 } = series;
    const latencies = { deliveryP50: set(deliveryP50, p50), deliveryP99: set(deliveryP99, p99) };
    return { ...group, series: { ...series, ...latencies } };
  });
  return { ...timeline, groups };
}

/** How many pixels of a canvas have a colour of the tokens. */
function pixelsOf(canvas: Locator, token: string): Promise<number> {
  return canvas.evaluate((element: HTMLCanvasElement, name) => {
    element.style.color = `var(${name})`;
    const wanted = getComputedStyle(element).color.match(/\d+/g)?.slice(0, 3).map(Number);
    const context = element.getContext('2d');
    if (context === null || wanted === undefined) throw new Error('this canvas cannot be read');
    const { data } = context.getImageData(0, 0, element.width, element.height);
    let found = 0;
    for (let at = 0; at < data.length; at += 4)
      if (data[at + 3] === 255 && wanted.every((part, nth) => data[at + nth] === part)) found++;
    return found;
  }, token);
}

/**
 * Hostile contents of events: markup, text that runs backwards, control characters, piles of marks, sizes and
 * depths.
 */
const HOSTILE = {
  messageId: 'hostile-1"><script>',
  userId: 'ad\u202enim\u0000\u001b[31m',
  event: `<img src=x onerror="window.owned=1">\u202e${'z\u0301'.repeat(10)}${'\u0301'.repeat(300)}`,
  properties: {
    __proto__x: '</script><script>window.owned=1</script>',
    long: 'w'.repeat(9_000),
    wide: 'ﷺ'.repeat(400),
    url: 'javascript:alert(1)',
    deep: JSON.parse(`${'{"a":'.repeat(40)}1${'}'.repeat(40)}`) as object,
  },
};

describe('events of strangers', () => {
  let server: RunningServer;

  beforeAll(async () => {
    server = await startServer(TWO_DESTINATIONS);
    server.answerAt('/ads', 401);
  });

  afterAll(async () => {
    await server?.stop();
  });

  it('harm no screen: nothing of them runs, hides or pushes the page apart', async () => {
    const id = encodeURIComponent(HOSTILE.messageId);
    await signIn(page, server, '/live');
    await page.getByText('following').waitFor();
    await server.call('track', HOSTILE);
    const row = page.getByRole('row').filter({ hasText: '<img src=x' });
    await row.waitFor();
    await row.click();
    await page.getByRole('complementary').getByText('⟨U+202E⟩').first().waitFor();
    await expectUnharmed();
    for (const path of [`/events/${id}`, `/events/${id}?tab=answered`, '/events', `/live?q=${id}`]) {
      for (const width of [1440, 390]) {
        await page.setViewportSize({ width, height: 900 });
        await page.goto(server.url + path);
        await page.getByRole('heading', { level: 1 }).waitFor();
        if (!path.includes('live')) await page.getByText('⟨U+202E⟩').first().waitFor({ state: 'attached' });
        await expectUnharmed();
      }
    }
  });

  async function expectUnharmed(): Promise<void> {
    expect(await page.evaluate(() => 'owned' in window)).toBe(false);
    expect(await page.locator('img, script:not([src]), a[href^="javascript"]').count()).toBe(0);
    expect(await page.locator('body').innerText()).not.toMatch(/[\u202a-\u202e]|\p{Cc}(?<![\n\t])/u);
    const wide = await page.evaluate(() =>
      document.documentElement.scrollWidth <= window.innerWidth
        ? []
        : [...document.querySelectorAll('main *')]
            .filter((element) => element.getBoundingClientRect().right > window.innerWidth)
            .map((element) => `${element.tagName}.${element.className} at ${location.href}`),
    );
    expect(wide).toEqual([]);
  }
});
