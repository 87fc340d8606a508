import { describe, expect, it } from 'vitest';
import { IdRedactor } from './id-redactor.ts';

const redact = (text: string, ...ids: string[]) => new IdRedactor(ids).redact(text);

describe('an id in a text', () => {
  it.each([
    ['user-1700', 'no user-1700 here', 'no … here'],
    ['user-1700', 'User-1700, USER-1700!', '…, …!'],
    ['user-1700', 'xuser-17001', 'x…1'],
    ['a.b*c[d]$', 'is a.b*c[d]$ known', 'is … known'],
    ['say "hello"', '{"id":"say \\"hello\\""}', '{"id":"…"}'],
    ['back\\slash', '{"id":"back\\\\slash"}', '{"id":"…"}'],
    ['AB-customer', '{"id":"\\u0041\\u0042-customer"}', '{"id":"…"}'],
    ['jörg@example.com', '{"id":"j\\u00F6rg@example.com"}', '{"id":"…"}'],
    ['jörg@example.com', '/in?id=j%C3%B6rg%40example.com&n=1', '/in?id=…&n=1'],
    ['jörg@example.com'.normalize('NFC'), 'JÖRG@example.com'.normalize('NFD'), '…'],
    ['jörg@example.com'.normalize('NFD'), 'a JÖRG@example.com b'.normalize('NFC'), 'a … b'],
    ['한국어사용자입니다'.normalize('NFD'), '<한국어사용자입니다>'.normalize('NFC'), '<…>'],
    ['ΟΔΥΣΣΕΥΣ', 'id: οδυσσευς', 'id: …'],
    ['İSTANBUL-34', 'id: İSTANBUL-34', 'id: …'],
    ['a/b/customer', '{"id":"a\\/b\\/customer"}', '{"id":"…"}'],
    ['say "hello"', '{"body":"{\\"id\\":\\"say \\\\\\"hello\\\\\\"\\"}"}', '{"body":"{\\"id\\":\\"…\\"}"}'],
    ['100%41customer', 'is 100%41customer known', 'is … known'],
    ['\\u0041-customer', 'is \\u0041-customer known', 'is … known'],
    ['lone\ud800surrogate', 'a lone\ud800surrogate b', 'a … b'],
    ['👩‍👩‍👧', 'x 👩‍👩‍👧 y', 'x … y'],
  ])('%j is found in %j', (id, text, redacted) => {
    expect(redact(text, id)).toBe(redacted);
    expect(new IdRedactor([id]).mentions(text)).toBe(true);
  });

  it.each([
    ['5', 'status 500 for 15 of 5a, ٣5', undefined],
    ['5', 'user 5, "5", user-5; %3A5%3A and \\n5', 'user …, "…", user-…; %3A…%3A and \\n…'],
    ['user-17', 'user-171, auser-17, user-17', 'user-171, auser-17, …'],
    ['null', '{"nullable":null}', '{"nullable":…}'],
    ['e', 'née, né e\u0301, e', 'née, né e\u0301, …'],
    ['-', 'user-17', undefined],
    ['𝒳', '𝒳𝒳 a𝒳', undefined],
    ['𝒳', 'id 𝒳.', 'id ….'],
  ])('%j is short and found only where it stands alone: %j', (id, text, redacted) => {
    expect(redact(text, id)).toBe(redacted ?? text);
    expect(new IdRedactor([id]).mentions(text)).toBe(redacted !== undefined);
  });

  it('is found beside and inside of others, each once', () => {
    expect(redact('customer-1 customer-12 customer-1customer-1', 'customer-1', 'customer-12')).toBe('… … ……');
    expect(redact('aaaaaaaaaaaa', 'aaaaaaaa')).toBe('…');
    expect(redact('overlapping', 'overlapp', 'lapping!', 'rlapping')).toBe('…');
  });

  it('is nothing when it is empty, and may have 10,000 characters', () => {
    expect(redact('anything', '')).toBe('anything');
    const long = '\\"é'.repeat(3334);
    expect(redact(`a ${long} b`, long)).toBe('a … b');
    expect(redact(JSON.stringify({ id: long }), long)).toBe('{"id":"…"}');
    expect(redact(encodeURIComponent(long), long)).toBe('…');
  });

  it('is found at every place among 5,000 of them', () => {
    const ids = Array.from({ length: 5000 }, (_, n) => `customer-${n}@example.com`);
    const redactor = new IdRedactor(ids);
    expect(redactor.redact('customer-4999@example.com and customer-5000@example.com')).toBe(
      '… and customer-5000@example.com',
    );
    expect(redactor.redact(ids.join(','))).toBe(ids.map(() => '…').join(','));
  });
});
