import { describe, expect, test } from 'vitest';
import { digestOf, isSame, tokenIn } from './bearer.ts';

test.each([
  ['a token', 'Bearer abc', 'abc'],
  ['a scheme in other letters', 'bEARER abc', 'abc'],
  ['more than one blank, and one at the end', 'Bearer   abc ', 'abc'],
  ['every visible letter', 'Bearer !#$%&*+-./:=?@_~', '!#$%&*+-./:=?@_~'],
])('%s is found', (_, header, token) => {
  expect(tokenIn(header)).toBe(token);
});

test.each([
  ['no header', undefined],
  ['an empty header', ''],
  ['the scheme alone', 'Bearer '],
  ['another scheme', 'Basic abc'],
  ['a token without a scheme', 'abc'],
  ['two words', 'Bearer abc def'],
  ['letters that no token has', 'Bearer abç'],
])('%s has no token', (_, header) => {
  expect(tokenIn(header)).toBeUndefined();
});

describe('digests', () => {
  test('are the same of a token and of no other, of whatever length', () => {
    const matches = (other: string) => isSame(digestOf('s3cret-token'), digestOf(other));
    expect(matches('s3cret-token')).toBe(true);
    for (const other of ['', 's', 's3cret-tokem', 's3cret-token ', 'S3CRET-TOKEN', 'x'.repeat(100_000)])
      expect(matches(other)).toBe(false);
  });

  test('are never the same as something that is no digest', () => {
    expect(isSame('', digestOf(''))).toBe(false);
  });
});
