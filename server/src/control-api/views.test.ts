import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { duration } from '../config/names.ts';
import { DESTINATION_TYPES } from '../destinations/list.ts';
import type { JsonObject } from '../model/json.ts';
import type { DestinationRecord } from '../model/settings.ts';
import { destinationView, formatDuration, toJson, unmaskedDestination, unmaskSecrets } from './views.ts';

const schema = duration();

test.each([
  [604_800_000, '7d'],
  [86_400_000, '1d'],
  [90_000_000, '25h'],
  [5_400_000, '90m'],
  [60_000, '1m'],
  [61_000, '61s'],
  [250, '250ms'],
  [1001, '1001ms'],
])('%i ms are %s', (length, text) => {
  expect(formatDuration(length)).toBe(text);
});

test('whatever the configuration file can say comes back as the same duration', () => {
  const written = fc
    .tuple(fc.integer({ min: 1, max: 9_999_999 }), fc.constantFrom('ms', 's', 'm', 'h', 'd'))
    .map(([count, unit]) => `${count}${unit}`);
  fc.assert(
    fc.property(written, (text) => {
      const length = schema.parse(text);
      expect(schema.parse(formatDuration(length))).toBe(length);
    }),
  );
});

const A = {
  url: 'https://a.example/in',
  headers: { Authorization: 'Bearer of-a-0123456', 'X-Team': 'growth' },
};
const B = { url: 'https://b.example/in', headers: { Authorization: 'Bearer of-b-0123456' } };
const SETTINGS = {
  endpoints: [A, B],
  sharedSecret: 'the-shared-secret',
  signingSecrets: ['the-first-secret-1111', 'the-second-secret-2222'],
  format: 'documented',
};
const STORED: DestinationRecord = {
  name: 'crm',
  type: 'webhooks',
  sources: ['site'],
  enabled: true,
  settings: SETTINGS,
};
const MASK = { set: true };

/** The record as it is shown, with other settings. */
function wanted(settings: object): JsonObject {
  const shown = toJson(destinationView(STORED, DESTINATION_TYPES));
  return { ...shown, settings: { ...(shown['settings'] as JsonObject), ...settings } } as JsonObject;
}

function settingsOf(wish: JsonObject, stored: DestinationRecord | undefined = STORED): JsonObject {
  return unmaskSecrets(wish, stored, DESTINATION_TYPES)['settings'] as JsonObject;
}

describe('a destination that is sent as it was read', () => {
  test('has its secrets back', () => {
    expect(unmaskSecrets(wanted({}), STORED, DESTINATION_TYPES)).toEqual(
      unmaskedDestination(STORED, DESTINATION_TYPES),
    );
  });

  test('has them back when its endpoints have changed places', () => {
    const [a, b] = destinationView(STORED, DESTINATION_TYPES).settings['endpoints'] as unknown[];
    expect(settingsOf(wanted({ endpoints: [b, a] }))['endpoints']).toEqual([B, A]);
  });

  test('has them back when the query of a URL was changed, and not when its host or its path was', () => {
    const at = (url: string) =>
      settingsOf(wanted({ endpoints: [{ url, headers: { Authorization: MASK } }] }))['endpoints'];
    expect(at('https://a.example/in?x=1')).toEqual([
      { url: 'https://a.example/in?x=1', headers: { Authorization: A.headers.Authorization } },
    ]);
    for (const url of [
      'https://a.example/other',
      'https://a.example/in/',
      'https://a.example/in/../other',
      'https://evil.example/in',
      'http://a.example/in',
      'https://a.example:444/in',
      'no URL',
    ])
      expect(at(url)).toEqual([{ url, headers: { Authorization: MASK } }]);
  });

  test('has back the values of the queries of its URLs, and each endpoint its own, whatever looks the same', () => {
    const at = (token: string) => ({
      url: `https://a.example/in/${token}-0123456789ab?token=${token}&v=1`,
      headers: { Authorization: `Bearer ${token}-0123456` },
    });
    const settings = { ...STORED.settings, endpoints: [at('alpha'), at('omega')] };
    const stored = { ...STORED, settings };
    const shown = toJson(destinationView(stored, DESTINATION_TYPES));
    expect(JSON.stringify(shown)).not.toMatch(/alpha|omega/);
    expect(unmaskSecrets(shown, stored, DESTINATION_TYPES)).toEqual(
      unmaskedDestination(stored, DESTINATION_TYPES),
    );
    const other = (url: string) => {
      const wish = { ...shown, settings: { ...settings, endpoints: [{ url, headers: {} }] } };
      return settingsOf(wish as unknown as JsonObject, stored)['endpoints'];
    };
    expect(other('https://a.example/in/…?v=2&token=…')).toEqual([
      { url: 'https://a.example/in/alpha-0123456789ab?v=2&token=alpha', headers: {} },
    ]);
    const moved = 'https://a.example/moved/…?token=…';
    expect(other(moved)).toEqual([{ url: moved, headers: {} }]);
    // Nobody gets a value by naming a host of their own.
    expect(other('https://evil.example/in?token=…&v=…')).toEqual([
      { url: 'https://evil.example/in?token=…&v=…', headers: {} },
    ]);
  });

  test('has new secrets where it holds new ones', () => {
    expect(
      settingsOf(wanted({ sharedSecret: 'new', signingSecrets: ['new', MASK], endpoints: [A] })),
    ).toMatchObject({
      sharedSecret: 'new',
      signingSecrets: ['new', 'the-second-secret-2222'],
      endpoints: [A],
    });
  });

  test('has a signing secret wherever its mask is put, so that one can be replaced without a gap', () => {
    const { signingSecrets } = destinationView(STORED, DESTINATION_TYPES).settings;
    const [first, second] = signingSecrets as unknown[];
    const secretsOf = (list: unknown[]) => settingsOf(wanted({ signingSecrets: list }))['signingSecrets'];
    expect(secretsOf(['new', first])).toEqual(['new', 'the-first-secret-1111']);
    expect(secretsOf([second])).toEqual(['the-second-secret-2222']);
    expect(secretsOf([second, first])).toEqual(['the-second-secret-2222', 'the-first-secret-1111']);
    expect(secretsOf([{ set: true, hint: 'none' }])).toEqual([{ set: true, hint: 'none' }]);
  });

  test('has none where nothing is stored', () => {
    const more = { endpoints: [A, B, { url: 'https://c.example/', headers: { Authorization: MASK } }] };
    expect(settingsOf(wanted(more))['endpoints']).toEqual(more.endpoints);
    expect(settingsOf(wanted({ signingSecrets: [MASK, MASK, MASK] }))['signingSecrets']).toEqual([
      'the-first-secret-1111',
      'the-second-secret-2222',
      MASK,
    ]);
    const { sharedSecret: _, ...without } = SETTINGS;
    expect(
      settingsOf(wanted({ sharedSecret: MASK }), { ...STORED, settings: without })['sharedSecret'],
    ).toEqual(MASK);
    const endpoints = [{ url: A.url, headers: { constructor: MASK, toString: MASK, authorization: MASK } }];
    expect(settingsOf(wanted({ endpoints }))['endpoints']).toEqual(endpoints);
  });

  test.each([
    [{ name: 'crm' }],
    [{ settings: 7 }],
    [{ settings: { endpoints: 'x', signingSecrets: 7, sharedSecret: null } }],
    [{ settings: { endpoints: [null, 7, { url: 5, headers: 'x' }, { headers: { a: MASK } }] } }],
  ])('stays as it is where it makes no sense: %j', (wish) => {
    expect(unmaskSecrets(wish as JsonObject, STORED, DESTINATION_TYPES)).toEqual(wish);
  });

  test('stays as it is when there is no such destination', () => {
    expect(unmaskSecrets(wanted({}), undefined, DESTINATION_TYPES)).toEqual(wanted({}));
  });
});
