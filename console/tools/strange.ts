/**
 * Extreme contents that some server will have: names as long as they may be, texts that run from right to
 * left, ten thousand dead letters. The pictures show whether a screen holds.
 */
import type { RunningServer } from '../test/support/running-server.ts';

const LONG = `customer-relationship-management-of-the-northern-region-${'x'.repeat(44)}`;
const ARABIC = 'مستودع البيانات الرئيسي';
const HEBREW = 'אתר החנות';
const AUDIENCE = 'مشترون Buyers 2026';
const MANY = 10_000;

export const STRANGE = `
profiles: on
sources:
  - { name: ${HEBREW}, writeKeys: [wk] }
  - { name: ${LONG}, writeKeys: [wk_long] }
  - { name: "<b>bold</b> & co", writeKeys: [wk_bold] }
destinations:
  - { name: ${ARABIC}, type: webhooks, sources: [${HEBREW}, ${LONG}], settings: { endpoints: [{ url: "RECEIVER/refuses?token=abc" }], sharedSecret: secret-one } }
  - { name: ${LONG}, type: webhooks, sources: [${HEBREW}], settings: { endpoints: [{ url: "RECEIVER/${'path-that-goes-on/'.repeat(8)}" }], sharedSecret: secret-two } }
audiences:
  - { name: ${AUDIENCE}, definition: "event('طلب').count() >= 1", destinations: [${ARABIC}] }
`;

export const STRANGE_NAMES = {
  destination: ARABIC,
  audience: AUDIENCE,
  long: LONG,
  event: 'strange-1',
} as const;

export async function beginStrange(server: RunningServer): Promise<void> {
  server.answerAt('/refuses?token=abc', 410);
  await server.call('identify', {
    userId: 'משתמש-1',
    traits: {
      name: 'ليلى بنت أحمد',
      note: 'w'.repeat(3_000),
      'a key of some length that goes on': { deep: [[1]] },
    },
  });
  await server.call('track', {
    messageId: STRANGE_NAMES.event,
    userId: 'משתמש-1',
    event: `طلب جديد ${'very long name of an event '.repeat(12)}`,
    properties: { url: `https://example.com/${'p/'.repeat(300)}`, total: 12.5 },
  });
  const track = (nth: number) => ({
    type: 'track',
    userId: `u-${nth % 700}`,
    event: nth % 3 === 0 ? 'طلب' : 'Order Placed',
  });
  for (let sent = 0; sent < MANY; sent += 500)
    await server.call('batch', { batch: Array.from({ length: 500 }, (_, nth) => track(sent + nth)) });
}
