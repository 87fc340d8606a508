/**
 * A shop that sends to eight destinations, of which some fail: the data behind the pictures of the console.
 * Everything of it happens on a real server, so that each screen shows what it would show anywhere.
 */
import type { RunningServer } from '../test/support/running-server.ts';

const webhook = (name: string, sources: string, more = '', settings = '') =>
  `  - { name: ${name}, type: webhooks, sources: [${sources}]${more}, settings: { endpoints: [{ url: RECEIVER/${name} }], sharedSecret: secret-of-${name}${settings} } }`;

export const STORY = `
profiles: on
identities: { externalIds: [email] }
sources:
  - { name: website, writeKeys: [wk_web_7f3a91c2] }
  - { name: backend, writeKeys: [wk_srv_b81f00de], mode: strict }
  - { name: ios-app, writeKeys: [wk_ios_41c07ab3] }
  - { name: kiosk, writeKeys: [wk_kio_90aa3e11], enabled: false }
destinations:
${[
  webhook('crm', 'website, backend'),
  webhook(
    'warehouse',
    'website, backend, ios-app',
    '',
    ', signingSecrets: [whsec_bWlsbHJhY2UtYWxlcnRzLWV4YW1wbGUtMTIzNDU2]',
  ),
  webhook('newsletter', 'website'),
  webhook(
    'ads',
    'website, ios-app',
    '',
    ', filter: { types: [track], events: [Order Completed, Checkout *] }',
  ),
  webhook('support-desk', 'backend'),
  webhook('fraud-screening-of-the-payment-team', 'backend'),
  webhook('recommendations', 'website, ios-app', ', paused: true'),
  webhook('legacy-export', 'backend', ', enabled: false'),
].join('\n')}
audiences:
  - { name: Repeat Buyers, definition: "event('Order Completed').within(30 days).count() >= 2", destinations: [crm, ads] }
  - { name: Big Spenders, definition: "event('Order Completed').sum(property('total')) > 150 and trait('plan') = 'pro'", destinations: [crm] }
  - { name: Lapsed Browsers, definition: "event('Product Viewed').count() >= 3 and not event('Order Completed').within(7 days)", destinations: [newsletter] }
traits:
  - { name: Total Spent, definition: "event('Order Completed').sum(property('total'))", destinations: [crm] }
  - { name: Favourite Category, definition: "event('Product Viewed').mode(property('category'))", destinations: [] }
alerts:
  - { name: on-call, type: webhook, after: 5s, settings: { url: RECEIVER/alerts, signingSecrets: [whsec_bWlsbHJhY2UtYWxlcnRzLWV4YW1wbGUtMTIzNDU2] } }
  - { name: operators, type: webhook, after: 5s, on: [deliveries_dying, ledger_unbalanced, disk_filling], settings: { url: RECEIVER/broken-pager } }
  - { name: night-shift, type: email, enabled: false, settings: { server: "smtps://smtp.example.com", from: millrace@example.com, to: [night@example.com, ops@example.com] } }
`;

/** Ids of users that the pictures open. */
export const PEOPLE = { buyer: 'cus_10042', browser: 'cus_10007', deleted: 'cus_90001' } as const;
export const ORDER_ID = 'order-118842';

const KEYS = { website: 'wk_web_7f3a91c2', backend: 'wk_srv_b81f00de', ios: 'wk_ios_41c07ab3' };
const USERS = 120;
const CATEGORIES = ['coffee', 'grinders', 'cups', 'filters'];
const PAGES = ['Home', 'Pricing', 'Grind sizes explained', 'Checkout'];
const NAMES = ['Ada Vries', 'Björn Ås', 'Chidi Eze', 'Dana Levi', 'Emre Kaya', 'Fumiko Ito', 'Grace Obi'];

type Call = Readonly<Record<string, unknown>>;

async function post(server: RunningServer, key: string, path: string, body: object): Promise<void> {
  await fetch(`${server.url}/v1/${path}`, {
    method: 'POST',
    headers: { Authorization: `Basic ${btoa(`${key}:`)}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
}

async function control(
  server: RunningServer,
  method: string,
  path: string,
  body: object = {},
): Promise<Call> {
  const response = await fetch(`${server.url}/api/v1/${path}`, {
    method,
    headers: { Authorization: `Bearer ${server.token}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Call;
}

/** Makes the events before a visit. */
export async function beginStory(server: RunningServer): Promise<void> {
  server.answerAt('/crm', 503);
  server.answerAt('/newsletter', 401);
  server.answerAt('/support-desk', 410);
  server.answerAt('/broken-pager', 500);
  const people = Array.from({ length: USERS }, (_, nth) => identifyOf(nth));
  await post(server, KEYS.backend, 'batch', { batch: people });
  await post(server, KEYS.website, 'batch', { batch: discardedCalls() });
  await post(server, KEYS.website, 'alias', { previousId: 'anon-ada-phone', userId: PEOPLE.buyer });
  await post(server, KEYS.website, 'identify', {
    userId: PEOPLE.buyer,
    anonymousId: 'anon-ada-laptop',
    traits: {
      name: 'Ada Vries',
      email: 'ada@example.com',
      plan: 'pro',
      address: { city: 'Utrecht', country: 'NL' },
    },
  });
  for (const total of [64.5, 120, 18.9])
    await post(server, KEYS.website, 'track', orderOf(PEOPLE.buyer, total));
  await post(server, KEYS.website, 'track', {
    ...orderOf(PEOPLE.buyer, 64.5),
    messageId: ORDER_ID,
    integrations: { ads: false },
  });
  await post(server, KEYS.website, 'track', orderOf(PEOPLE.deleted, 12));
  await control(server, 'POST', 'tokens', { name: 'jonas', role: 'viewer' });
  await control(server, 'POST', 'tokens', { name: 'deploy', role: 'editor' });
  await control(server, 'PATCH', 'destinations/ads', { settings: { rateLimit: 200 } });
  await control(server, 'POST', 'regulations', {
    type: 'SUPPRESS_ONLY',
    subjectIds: ['cus_90002', 'cus_90003'],
  });
}

/** Makes the events that need profiles and tried deliveries. */
export async function endStory(server: RunningServer): Promise<void> {
  const erased = { type: 'SUPPRESS_WITH_DELETE', subjectIds: [PEOPLE.deleted] };
  await control(server, 'POST', 'regulations', erased);
  const { id } = await control(server, 'POST', 'replays', {
    destination: 'warehouse',
    from: new Date(Date.now() - 3_600_000).toISOString(),
    to: new Date().toISOString(),
    rate: 5,
  });
  if (typeof id !== 'string') throw new Error('the replay has no id');
}

/** Some calls of a quarter of a second, a little more or less each time. */
export async function tellMore(server: RunningServer): Promise<void> {
  const wave = 1 + Math.sin(Date.now() / 12_000) / 2;
  const calls = (most: number) => Array.from({ length: Math.ceil(most * wave * Math.random()) }, callOf);
  await post(server, KEYS.website, 'batch', { batch: calls(14), context: WEB });
  await post(server, KEYS.backend, 'batch', { batch: calls(5), context: SERVER });
  await post(server, KEYS.ios, 'batch', { batch: calls(4) });
}

const WEB = { library: { name: 'analytics.js', version: '2.11.1' } };
const SERVER = { library: { name: 'analytics-python', version: '2.4.0' } };

function callOf(): Call {
  const userId = `cus_${10_000 + Math.floor(Math.random() * USERS)}`;
  const chance = Math.random();
  const category = CATEGORIES[Math.floor(Math.random() * CATEGORIES.length)];
  if (chance < 0.1) return { type: 'page', userId, name: PAGES[Math.floor(Math.random() * PAGES.length)] };
  if (chance < 0.15) return { ...identifyOf(Number(userId.slice(4)) - 10_000) };
  if (chance < 0.25) return orderOf(userId, Math.round(Math.random() * 12_000) / 100);
  if (chance < 0.4)
    return { type: 'track', userId, event: 'Checkout Started', integrations: { newsletter: false } };
  if (chance < 0.6) return { type: 'track', userId, event: 'Product Added', properties: { category } };
  return { type: 'track', userId, event: 'Product Viewed', properties: { category, sku: 'SID-250' } };
}

function identifyOf(nth: number): Call {
  const name = NAMES[nth % NAMES.length] ?? '';
  const plan = nth % 3 === 0 ? 'pro' : 'free';
  return { type: 'identify', userId: `cus_${10_000 + nth}`, traits: { name, plan, logins: nth * 3 } };
}

function orderOf(userId: string, total: number): Call {
  const products = [{ sku: 'SID-250', name: 'Sidamo, 250 g', price: 14.5, quantity: 1 }];
  const properties = { order_id: '118842', total, currency: 'EUR', products };
  return { type: 'track', userId, event: 'Order Completed', properties };
}

function discardedCalls(): Call[] {
  const nameless = Array.from({ length: 14 }, (_, nth) => ({
    type: 'track',
    userId: `cus_${nth}`,
    properties: {},
  }));
  const anonymous = Array.from({ length: 5 }, () => ({ type: 'track', event: 'Product Viewed' }));
  return [...nameless, ...anonymous, { type: 'purchase', userId: 'cus_1' }];
}
