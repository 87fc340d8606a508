import { describe, expect, test } from 'vitest';
import type { WebhookSettings } from './destination.ts';
import { maskOf, type SecretPlace, withoutSecrets } from './secrets.ts';

describe('what stands for a secret', () => {
  test.each([
    ['', { set: true }],
    ['elevenchars', { set: true }],
    ['twelve-chars', { set: true, hint: 'hars' }],
    ['x'.repeat(1000), { set: true, hint: 'xxxx' }],
  ])('of %j is %j', (secret, mask) => {
    expect(maskOf(secret)).toEqual(mask);
  });
});

const SETTINGS: WebhookSettings = {
  endpoints: [
    {
      url: 'https://a.example/',
      headers: { 'X-Team': 'growth', Authorization: 'Bearer 1', 'x-API-key': 'k' },
    },
    { url: 'https://b.example/', headers: { Cookie: 'c', 'X-Access-Token': 't', Accept: 'any' } },
  ],
  sharedSecret: 'shared',
  signingSecrets: ['one', 'two'],
  format: 'documented',
  success: 'each',
  filter: { types: ['track'] },
  rateLimit: 5,
};

describe('settings without their secrets', () => {
  test('say of each secret where it stands, and keep everything else', () => {
    const places: SecretPlace[] = [];
    const shown = withoutSecrets(SETTINGS, (secret, place) => {
      places.push(place);
      return `<${secret}>`;
    });
    expect(shown).toEqual({
      ...SETTINGS,
      endpoints: [
        {
          url: 'https://a.example/',
          headers: { 'X-Team': 'growth', Authorization: '<Bearer 1>', 'x-API-key': '<k>' },
        },
        { url: 'https://b.example/', headers: { Cookie: '<c>', 'X-Access-Token': '<t>', Accept: 'any' } },
      ],
      sharedSecret: '<shared>',
      signingSecrets: ['<one>', '<two>'],
    });
    expect(places).toEqual([
      ['endpoints', 0, 'Authorization'],
      ['endpoints', 0, 'x-API-key'],
      ['endpoints', 1, 'Cookie'],
      ['endpoints', 1, 'X-Access-Token'],
      ['sharedSecret'],
      ['signingSecrets', 0],
      ['signingSecrets', 1],
    ]);
  });

  test('show a URL without the values of its query', () => {
    const url = 'https://a.example/?token=S3CRET';
    const settings = { ...SETTINGS, endpoints: [{ url, headers: {} }] };
    expect(withoutSecrets(settings, maskOf).endpoints[0]?.url).toBe('https://a.example/?token=…');
    expect(withoutSecrets(settings, maskOf, (it) => it).endpoints[0]?.url).toBe(url);
  });

  test('have no keys for secrets that are not there', () => {
    const plain: WebhookSettings = { endpoints: [], format: 'canonical', success: 'any' };
    expect(withoutSecrets(plain, maskOf)).toEqual(plain);
  });
});
