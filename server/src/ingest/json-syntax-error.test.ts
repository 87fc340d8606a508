import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { findSyntaxError } from './json-syntax-error.ts';

const sentenceOf = (text: string) => findSyntaxError(Buffer.from(text))?.sentence;

describe('the fault of a body that is no JSON', () => {
  it.each([
    [
      '{"batch":[{"type":"track","properties":{"price":NaN}}],"writeKey":"wk"}',
      'Unexpected NaN at byte 48 (line 1), in batch[0].properties.price. JSON has no such number: send null, or leave the field out.',
    ],
    [
      '{"a":[1,\n-Infinity]}',
      'Unexpected -Infinity at byte 9 (line 2), in a[1]. JSON has no such number: send null, or leave the field out.',
    ],
    ['{"a":undefined}', 'Unexpected undefined at byte 5 (line 1), in a. Send null, or leave the field out.'],
    ['{"a":None}', 'Unexpected None at byte 5 (line 1), in a. Send null, or leave the field out.'],
    ['{"a":True}', 'Unexpected True at byte 5 (line 1), in a. Send true.'],
    ["{'a':1}", "Unexpected ' at byte 1 (line 1). Texts stand in double quotes."],
    ['{a:1}', 'Unexpected a at byte 1 (line 1).'],
    ['{"a":1 "b"}', 'Unexpected " at byte 7 (line 1), in a.'],
    ['{"a":[1,]}', 'Unexpected ] at byte 8 (line 1), in a[1].'],
    ['{"a":1,}', 'Unexpected } at byte 7 (line 1), in a.'],
    ['{"a":01}', 'Unexpected 01 at byte 5 (line 1), in a.'],
    ['{"a":"x\ny"}', 'Unexpected \\u{a} at byte 7 (line 1), in a.'],
    ['{"a":"\\x"}', 'Unexpected \\x at byte 6 (line 1), in a.'],
    ['{"a":1}}', 'Unexpected } at byte 7 (line 1).'],
    ['{"größe":é}', 'Unexpected é at byte 11 (line 1), in größe.'],
    ['{"a b":{"c\u202e":?}}', 'Unexpected ? at byte 15 (line 1), in ["a b"]["c\\u{202e}"].'],
    ['{"userId":', 'It breaks off at byte 10 (line 1), in userId.'],
    ['{"userId":"u', 'It breaks off at byte 12 (line 1), in userId.'],
    ['', 'It is empty.'],
    [' \n', 'It is empty.'],
  ])('is shown with its position, token and field: %s', (text, sentence) => {
    expect(sentenceOf(text)).toBe(sentence);
  });

  it('shows little of the body, and nothing of a credential', () => {
    expect(sentenceOf(`{"a":${'x'.repeat(100_000)}}`)).toBe(
      `Unexpected ${'x'.repeat(20)}… at byte 5 (line 1), in a.`,
    );
    expect(sentenceOf('{"writeKey":S3CRET}')).toBe(
      'Unexpected value without quotes at byte 12 (line 1), in writeKey.',
    );
    const deep = `${`{"${'k'.repeat(1000)}":`.repeat(400)}NaN`;
    expect(sentenceOf(deep)!.length).toBeLessThan(400);
    expect(sentenceOf('['.repeat(524_288))).toMatch(/^It breaks off at byte 524288 \(line 1\), in …/);
  });

  it.each<[string, string | undefined]>([
    ['{"batch":[{"p":NaN}],"sentAt":"x","writeKey":"wk"}', 'wk'],
    ['{"writeKey":"wk","batch":[{"p":', 'wk'],
    ['{"batch":[{"p":[1,],"q":\'it\\\'s\',}],"writeKey":"wk"}', 'wk'],
    ['{"batch":[{"properties":{"writeKey":"other"},"p":NaN}],"writeKey":"wk"}', 'wk'],
    ['{"batch":[{"p":NaN},{"writeKey":"of an item"}]}', 'of an item'],
    ['{"batch":[{"p":{"writeKey":"of a property"},"q":NaN}]}', undefined],
    ["{'batch': [], 'writeKey': 'wk'}", 'wk'],
    ['{"batch":[{"p":NaN}],"writeKey":""}', undefined],
    ['{"batch":[{"p":NaN}],"writeKey":7}', undefined],
    ['{"batch":[{"p" "q"}],"writeKey":"wk"}', undefined],
  ])('does not hide the write key where the structure can still be read: %s', (text, writeKey) => {
    expect(findSyntaxError(Buffer.from(text))).toMatchObject({ writeKey });
  });
});

test('a body has a fault exactly where JSON.parse refuses it', () => {
  const pieces = fc.constantFrom(
    ...['{', '}', '[', ']', ',', ':', '"', '""', '"a"', '"\\', '\\u00e9"', '1', '-', '0', '.5', 'e3', 'true'],
    ...['null', 'NaN', ' ', '\n', '\t', '\u00a0', "'", '"k":', '"x":1', 'é', '{}', '[]', '\u0001', '//'],
  );
  const shuffled = fc.array(pieces, { maxLength: 12 }).map((all) => all.join(''));
  const broken = fc
    .tuple(fc.json({ maxDepth: 4 }), fc.nat(), pieces, fc.nat(3))
    .map(([text, place, piece, cut]) => {
      const at = place % (text.length + 1);
      return text.slice(0, at) + piece + text.slice(at + cut);
    });
  let faults = 0;
  fc.assert(
    fc.property(fc.oneof(shuffled, broken, fc.json()), (text) => {
      const bytes = Buffer.from(text);
      let isRefused = false;
      try {
        JSON.parse(bytes.toString());
      } catch {
        isRefused = true;
        faults++;
      }
      expect(findSyntaxError(bytes) !== undefined).toBe(isRefused);
    }),
    { numRuns: 5000 },
  );
  expect(faults).toBeGreaterThan(1000);
});
