import { expect, test } from 'vitest';
import { consentedIn, consentOf, MAX_CATEGORIES, newerConsent } from './profile-consent.ts';

const preferring = (categoryPreferences: object) =>
  consentedIn({ consent: { categoryPreferences } as never });

test('only what is exactly true is consented to, and an event that names no preferences says nothing', () => {
  expect(preferring({ b: true, a: true, c: false, d: 'true', e: 1, f: null })).toEqual(['a', 'b']);
  expect(preferring({})).toEqual([]);
  expect(preferring(['a'])).toEqual([]);
  for (const context of [{}, { consent: {} }, { consent: null }, { consent: 'yes' }])
    expect(consentedIn(context)).toBeUndefined();
  expect(consentedIn({ consent: { categoryPreferences: null } })).toBeUndefined();
});

test('ids that no destination can ask for are left away, and more than a profile keeps are counted', () => {
  expect(preferring({ ['n'.repeat(101)]: true, ['n'.repeat(100)]: true, '\ud800': true })).toEqual([
    'n'.repeat(100),
  ]);
  const many = Object.fromEntries(
    Array.from({ length: 1000 }, (_, n) => [`c${String(n).padStart(4, '0')}`, true]),
  );
  const { consent, leftOut } = consentOf({ consented: preferring(many)!, at: 1, messageId: 'm' });
  expect([consent.categories.length, consent.categories.at(-1), leftOut]).toEqual([
    MAX_CATEGORIES,
    'c0099',
    900,
  ]);
});

test('the newest counts, whichever comes first, and of one time that with the greater messageId', () => {
  const said = (at: number, messageId: string) => ({ categories: [messageId], at, messageId });
  const [older, newer, same] = [said(1, 'z'), said(2, 'a'), said(2, 'b')];
  for (const [a, b, newest] of [
    [older, newer, newer],
    [newer, same, same],
    [older, undefined, older],
  ] as const) {
    expect(newerConsent(a, b)).toBe(newest);
    expect(newerConsent(b, a)).toBe(newest);
  }
  expect(newerConsent(undefined, undefined)).toBeUndefined();
});
