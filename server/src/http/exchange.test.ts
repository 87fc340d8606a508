import { expect, test } from 'vitest';
import { parseWriteKey } from './exchange.ts';

const basic = (credentials: string) => `Basic ${Buffer.from(credentials).toString('base64')}`;

test.each([
  ['a key and an empty password', basic('wk:'), 'wk'],
  ['a key without a colon', basic('wk'), 'wk'],
  ['a key with a password, which is ignored', basic('wk:secret'), 'wk'],
  ['a password with colons', basic('wk:a:b'), 'wk'],
  ['a key of other letters', basic('schlüssel:'), 'schlüssel'],
  ['a scheme in other letters', basic('wk:').replace('Basic', 'bAsIc'), 'wk'],
  ['more than one blank', basic('wk:').replace(' ', '   '), 'wk'],
  ['base64 without its padding', basic('wk').replace(/=+$/, ''), 'wk'],
])('%s gives the key', (_, header, key) => {
  expect(parseWriteKey(header)).toBe(key);
});

test.each([
  ['an empty user', basic(':secret')],
  ['nothing', ''],
  ['a scheme alone', 'Basic'],
  ['a scheme and a blank', 'Basic '],
  ['another scheme', 'Bearer d2s6'],
  ['letters that are no base64', 'Basic wk:secret'],
  ['two tokens', 'Basic d2s6 d2s6'],
])('%s gives no key', (_, header) => {
  expect(parseWriteKey(header)).toBeUndefined();
});
