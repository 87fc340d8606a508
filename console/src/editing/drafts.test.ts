import { expect, test } from 'vitest';
import { plainAddress } from './drafts.ts';

test.each([
  ['https://a.example/hook', 'https://a.example/hook'],
  ['https://me:secret@a.example/hook', 'https://a.example/hook'],
  ['https://a.example/hook?token=secret&x', 'https://a.example/hook'],
  ['https://a.example/#secret', 'https://a.example/'],
  ['not an address', 'not an address'],
])('%s is kept in the browser as %s', (address, kept) => {
  expect(plainAddress(address)).toBe(kept);
});
