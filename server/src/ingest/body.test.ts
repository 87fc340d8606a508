import { describe, expect, test } from 'vitest';
import { sourceWith } from '../../test/support/sources.ts';
import { firstInvalid } from '../model/utf8.ts';
import { parseJson, readBody } from './body.ts';
import { indexWriteKeys } from './calls.ts';
import { parseRequest } from './parse.ts';

const MOST = 524_288;
const keys = indexWriteKeys([sourceWith()], 'refuse');
const parse = (text: string) =>
  parseRequest(
    { type: 'batch', writeKey: 'wk', body: Buffer.from(text, 'latin1'), receivedAt: 0 },
    keys,
    () => 'm',
  );

/**
 * Each is as large as a body may be. Work that grows with its square would not end within the limit of a
 * test.
 */
describe('a hostile body', () => {
  test('without the end of a text is refused, however many quotes are in it', () => {
    expect(() => parseJson(`[1234567890123456,"${'\\"'.repeat(MOST / 2)}`)).toThrow(SyntaxError);
  });

  test('is read although it has nearly every character for private use, and bytes that are no UTF-8', () => {
    const escapes = Array.from({ length: 6399 }, (_, n) => `\\u${(0xe000 + n).toString(16)}`).join('');
    const body = Buffer.from(`["${escapes}","${'\xff'.repeat(MOST - escapes.length)}"]`, 'latin1');
    const { value, invalidAt, hasInvalid } = readBody(body);
    expect(invalidAt).toBe(escapes.length + 5);
    expect((value as string[]).map((part) => hasInvalid(part))).toEqual([false, true]);
  });

  test('that is nested deep and no UTF-8 is refused, and its other calls are taken', () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    const good = '{"type":"track","userId":"u1","event":"E"}';
    const calls = [`{"type":"track","userId":"\xff","event":"E","deep":${deep}}`, good].join(',');
    const received = parse(`{"batch":[${calls}]}`);
    expect(received).toMatchObject({ kind: 'received', counts: [{ discarded: { not_utf8: 1 } }] });
    expect(parse(`{"other":"\xff","deep":${deep},"batch":[${good}]}`)).toMatchObject({ code: 'not_utf8' });
  });
});

test.each([
  ['ü', 4],
  ['\xc3\xbc', 2],
  ['\xc0\x80', 0],
  ['\xed\xa0\x80', 0],
  ['a\xf4\x90\x80\x80', 1],
  ['\xf0\x9f\x98\x80', 4],
  ['ab\xe2\x82', 2],
])('%j: the first byte that is no UTF-8 is found', (text, at) => {
  const bytes = Buffer.from(text, text === 'ü' ? 'utf8' : 'latin1');
  expect(firstInvalid(bytes)).toBe(Math.min(at, bytes.length));
});
