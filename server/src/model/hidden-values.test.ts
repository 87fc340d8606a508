import { describe, expect, it } from 'vitest';
import { hiddenTexts, mapHidden } from './hidden-values.ts';

const PLACES = {
  addresses: ['endpoints[].url', 'audit'],
  secrets: ['sharedSecret', 'signingSecrets[]'],
  credentials: ['login.token'],
  headers: ['endpoints[].headers'],
};

const SETTINGS = {
  endpoints: [
    {
      url: 'https://a.example/',
      headers: { 'X-Team': 'growth', Authorization: 'Bearer 1', 'x-API-key': 'k' },
    },
    { url: 'https://b.example/', headers: { Cookie: 'c', 'X-Access-Token': 't', Accept: 'any' } },
  ],
  sharedSecret: 'shared',
  signingSecrets: ['one', 'two'],
  login: { user: 'u', token: 'abc' },
  format: 'documented',
};

describe('hidden values of settings', () => {
  it('are found with what they are and where they stand, and nothing else is touched', () => {
    const shown = mapHidden(SETTINGS, PLACES, (text, { kind }) => `<${kind} ${text}>`);
    expect(shown).toEqual({
      endpoints: [
        {
          url: '<address https://a.example/>',
          headers: { 'X-Team': 'growth', Authorization: '<header Bearer 1>', 'x-API-key': '<header k>' },
        },
        {
          url: '<address https://b.example/>',
          headers: { Cookie: '<header c>', 'X-Access-Token': '<header t>', Accept: 'any' },
        },
      ],
      sharedSecret: '<secret shared>',
      signingSecrets: ['<secret one>', '<secret two>'],
      login: { user: 'u', token: '<credential abc>' },
      format: 'documented',
    });
    expect(Object.keys(shown)).toEqual(Object.keys(SETTINGS));
    expect(hiddenTexts(SETTINGS, PLACES).map(({ path }) => path.join('.'))).toEqual([
      ...['endpoints.0.url', 'endpoints.0.headers.Authorization', 'endpoints.0.headers.x-API-key'],
      ...['endpoints.1.url', 'endpoints.1.headers.Cookie', 'endpoints.1.headers.X-Access-Token'],
      ...['sharedSecret', 'signingSecrets.0', 'signingSecrets.1', 'login.token'],
    ]);
  });

  it('need not be there, and may be of another kind than they should', () => {
    const strange = {
      endpoints: 7,
      sharedSecret: { set: true },
      signingSecrets: [null, 3],
      login: [],
      audit: 'x',
    };
    expect(mapHidden(strange, PLACES, () => '…')).toEqual({ ...strange, audit: '…' });
    expect(mapHidden({}, PLACES, () => '…')).toEqual({});
  });
});
