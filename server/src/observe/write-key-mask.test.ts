import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json } from '../model/json.ts';
import { WriteKeyMask } from './write-key-mask.ts';

const KEYS = ['dev', 'wk_0123456789', 'wk_01234567', 'a"b\\c-0123', '$&{}[]()*+?.|^'];
const SOURCES = [{ writeKeys: KEYS.slice(0, 2) }, { writeKeys: KEYS.slice(2) }];
const mask = new WriteKeyMask(() => SOURCES);

describe('a call without write keys', () => {
  it.each<[Json, string]>([
    [{ writeKey: 'unknown-0123', event: 'E' }, '{"writeKey":"…0123","event":"E"}'],
    [{ context: { write_key: 'short', 'WRITE-KEY': 'x' } }, '{"context":{"write_key":"…","WRITE-KEY":"…"}}'],
    [[{ a: [{ apiKey: { inside: 'x' } }] }], '[{"a":[{"apiKey":"…"}]}]'],
    [{ headers: { Authorization: 'Basic ZGV2Og==' } }, '{"headers":{"Authorization":"…Og=="}}'],
    [{ properties: { key: 'wk_0123456789' } }, '{"properties":{"key":"…6789"}}'],
    [{ url: 'https://a/?k=wk_0123456789&x=1' }, '{"url":"https://a/?k=…6789&x=1"}'],
    [{ wk_0123456789: 1, b: 'xwk_01234567x' }, '{"…6789":1,"b":"x…x"}'],
    [{ a: 'dev', b: 'development' }, '{"a":"…","b":"development"}'],
    [{ a: 'x a"b\\c-0123 x', b: '$&{}[]()*+?.|^' }, '{"a":"x … x","b":"….|^"}'.replace('….|^', '…?.|^')],
    [{ writeKey: null, n: 1, t: true }, '{"writeKey":null,"n":1,"t":true}'],
    ['wk_0123456789', '"…6789"'],
  ])('has none of %j', (call, text) => {
    expect(mask.json(call)).toBe(text);
  });

  it('is JSON, and has no long key in it, whatever it is', () => {
    const text = fc.string({ unit: fc.constantFrom(...KEYS, 'a', '"', '\\', '\u0000', 'é') });
    const call = fc.object({ key: text, values: [text, fc.integer()], maxDepth: 3 });
    fc.assert(
      fc.property(call, (it) => {
        const json = mask.json(it as Json);
        JSON.parse(json);
        for (const key of KEYS.slice(1)) expect(json).not.toContain(JSON.stringify(key).slice(1, -1));
      }),
    );
  });

  it('knows the keys there are now', () => {
    let sources = [{ writeKeys: ['the-first-key'] }];
    const changing = new WriteKeyMask(() => sources);
    expect(changing.json('the-first-key the-other-key')).toBe('"…-key the-other-key"');
    sources = [{ writeKeys: ['the-other-key'] }];
    expect(changing.json('the-first-key the-other-key')).toBe('"the-first-key …-key"');
  });

  it('finds each of ten thousand', () => {
    const keyOf = (nth: number) => `wk_${String(nth).padStart(20, '0')}`;
    const many = [{ writeKeys: Array.from({ length: 10_000 }, (_, nth) => keyOf(nth)) }];
    const masking = new WriteKeyMask(() => many);
    const pad = 'wk_00000000000000'.repeat(1000);
    for (const nth of [0, 5000, 9999])
      expect(masking.json({ pad, key: `x${keyOf(nth)}x` })).toBe(
        `{"pad":"${pad}","key":"x…${keyOf(nth).slice(-4)}x"}`,
      );
  });
});
