import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../model/json.ts';
import { unmaskSettings } from './unmask.ts';

const PLACES = {
  addresses: ['base', 'mirrors[]'],
  secrets: ['keys[]'],
  credentials: ['token', 'login.password'],
  headers: ['extra'],
};
const STORED = {
  base: 'https://w.example/in?k=S3CRET',
  mirrors: ['https://m.example/a?k=ONE', 'https://m.example/b?k=TWO'],
  keys: ['first-key-1111', 'second-key-2222'],
  token: 'the-token-3333',
  login: { user: 'ann', password: 'the-password-4444' },
  extra: { Authorization: 'Bearer 5555', 'X-Team': 'growth' },
};
const MASK = { set: true };
const SHOWN: JsonObject = {
  base: 'https://w.example/in?k=…',
  mirrors: ['https://m.example/b?k=…', 'https://m.example/a?k=…'],
  keys: [{ set: true, hint: '2222' }, MASK],
  token: MASK,
  login: { user: 'ann', password: MASK },
  extra: { Authorization: MASK, 'X-Team': 'growth' },
};

describe('settings of a type that nobody has heard of', () => {
  it('come back whole as they were shown, with the entries of lists in another order', () => {
    expect(unmaskSettings(SHOWN, STORED, PLACES)).toEqual({
      ...STORED,
      mirrors: [...STORED.mirrors].reverse(),
      keys: ['second-key-2222', 'second-key-2222'],
    });
  });

  it('send no stored credential to another address', () => {
    for (const base of ['https://evil.example/in', 'https://w.example/other', 7, { set: true }]) {
      const back = unmaskSettings({ ...SHOWN, base }, STORED, PLACES);
      expect(back).toMatchObject({
        base,
        token: MASK,
        login: { password: MASK },
        extra: { Authorization: MASK },
      });
      // A key of signatures is sent nowhere.
      expect(back['keys']).toEqual(['second-key-2222', 'second-key-2222']);
    }
    expect(
      unmaskSettings({ ...SHOWN, mirrors: ['https://evil.example/a?k=…'] }, STORED, PLACES),
    ).toMatchObject({
      ...{ mirrors: ['https://evil.example/a?k=…'], token: MASK, extra: { Authorization: MASK } },
    });
  });

  it('may be anything at all', () => {
    for (const strange of [[], 'x', 7, null, { set: true }])
      expect(() =>
        unmaskSettings(
          { base: strange, mirrors: strange, keys: strange, token: strange, login: strange, extra: strange },
          { mirrors: 'x', keys: 7, login: [], extra: null },
          PLACES,
        ),
      ).not.toThrow();
  });
});
