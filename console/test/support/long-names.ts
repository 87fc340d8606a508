/**
 * A server with everything that the console can show, under names as long as they may be: what the tests of
 * its layout look at.
 */
import type { RunningServer } from './running-server.ts';

const LONG = `customer-relationship-management-of-the-northern-region-${'x'.repeat(44)}`;
const ARABIC = 'مستودع البيانات الرئيسي';
const AUDIENCE = 'Buyers who came back within a month and have not asked for their money';
const USER = 'auth0|5f7c8ec7c33c6c004bbafe82-of-the-customer-identity-service';
const LONG_PATH = 'path-that-goes-on/'.repeat(8);
/** Destinations that an event is not for. */
const SKIPPED = 24;

const destination = (name: string, urls: readonly string[], more = '') =>
  `  - { name: ${name}, type: webhooks, sources: [website], settings: { endpoints: [${urls.map((url) => `{ url: "RECEIVER/${url}" }`).join(', ')}], sharedSecret: secret-one${more} } }`;

const OTHERS = Array.from({ length: SKIPPED }, (_, nth) =>
  destination(`other-${nth}`, [`other-${nth}`], ', filter: { events: [Nothing] }'),
);

export const LONG_CONFIG = `
profiles: on
identities: { externalIds: [email] }
sources:
  - { name: website, writeKeys: [wk] }
  - { name: ${LONG}, writeKeys: [wk_long_7f3a91c2b81f00de41c07ab390aa3e11] }
destinations:
${[
  destination(LONG, [`${LONG_PATH}?token=abc`]),
  destination(ARABIC, ['refuses']),
  destination('crm', ['overloaded']),
  destination('both', ['one', 'two'], ', success: each'),
  ...OTHERS,
].join('\n')}
audiences:
  - { name: ${AUDIENCE}, definition: "event('Order Placed').count() >= 1", destinations: [crm, ${LONG}] }
traits:
  - { name: Total spent in all shops of the northern region, definition: "event('Order Placed').sum(property('total'))", destinations: [crm] }
alerts:
  - { name: ${LONG}, type: webhook, after: 5s, settings: { url: "RECEIVER/${LONG_PATH}" } }
  - { name: night-shift, type: email, enabled: false, settings: { server: "smtps://smtp.example.com", from: millrace@example.com, to: [night@example.com, "${'o'.repeat(50)}@example.com"] } }
`;

export const LONG_NAMES = {
  long: LONG,
  arabic: ARABIC,
  audience: AUDIENCE,
  user: USER,
  event: 'order-1',
} as const;

/** Fills a server before a visit. Resolves with the id of a deletion. */
export async function fillWithLongNames(server: RunningServer): Promise<string> {
  for (const path of ['/refuses', '/two']) server.answerAt(path, 410);
  server.answerAt('/overloaded', 500);
  await server.call('identify', {
    userId: USER,
    anonymousId: '018f3a5c-7d1e-7c3a-9b1e-5f0d1c2b3a4d',
    traits: {
      name: 'ليلى بنت أحمد',
      email: 'somebody.with.a.long.address@subdomain.example.com',
      note: 'w'.repeat(300),
      'a key of some length that goes on': { deep: [[1]] },
    },
  });
  await server.call('identify', { userId: 'former-id-of-the-shop-before-the-move', traits: { plan: 'pro' } });
  await server.call('alias', { previousId: 'former-id-of-the-shop-before-the-move', userId: USER });
  await server.call('track', {
    messageId: LONG_NAMES.event,
    userId: USER,
    event: `طلب جديد ${'very long name of an event '.repeat(12)}`,
    properties: { url: `https://example.com/${'p/'.repeat(300)}`, total: 12.5 },
  });
  const batch = Array.from({ length: 60 }, (_, nth) => ({
    type: 'track',
    userId: `u-${nth}`,
    event: 'Order Placed',
    properties: { total: nth },
  }));
  await server.call('batch', {
    batch: [
      ...batch,
      { type: 'track', userId: 'u' },
      { type: 'track', event: 'Nobody' },
      { type: 'purchase', userId: 'u' },
    ],
  });
  await control(server, 'tokens', { name: LONG, role: 'editor' });
  await control(server, 'replays', {
    destination: 'crm',
    from: new Date(Date.now() - 3_600_000).toISOString(),
    to: new Date().toISOString(),
  });
  await control(server, 'regulations', { type: 'SUPPRESS_ONLY', subjectIds: [`${USER}-2`] });
  const { id } = await control(server, 'regulations', { type: 'SUPPRESS_WITH_DELETE', subjectIds: ['u-1'] });
  return String(id);
}

async function control(
  { url, token }: RunningServer,
  path: string,
  body: object,
): Promise<Readonly<Record<string, unknown>>> {
  const response = await fetch(`${url}/api/v1/${path}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Readonly<Record<string, unknown>>;
}
