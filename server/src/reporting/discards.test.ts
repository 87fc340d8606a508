import fc from 'fast-check';
import { beforeEach, describe, expect, it, test } from 'vitest';
import type { Json } from '../model/json.ts';
import { DiscardSamples, IngestTotals, WriteKeyRedactor } from './discards.ts';

it('adds up what belongs to no source, by reason', () => {
  const tallies = new IngestTotals();
  expect(tallies.read()).toEqual({ discarded: {}, refused: {} });
  tallies.discarded({});
  tallies.discarded({ unknown_write_key: 2 });
  tallies.discarded({ unknown_write_key: 1, not_an_object: 1 });
  tallies.refused('invalid_write_key');
  tallies.refused('invalid_json');
  tallies.refused('invalid_write_key');
  tallies.changed('web', { counts: { unreadable_times: 1 }, unreadableTime: 'at noon' });
  tallies.changed('web', { counts: { unreadable_times: 2, skewed_clocks: 5 } });
  tallies.changed('app', { counts: { numbers_as_text: 1 } });
  expect(tallies.read()).toEqual({
    discarded: { unknown_write_key: 3, not_an_object: 1 },
    refused: { invalid_write_key: 2, invalid_json: 1 },
  });
  expect(tallies.changedValues()).toEqual({
    web: { counts: { unreadable_times: 3, skewed_clocks: 5 }, unreadableTime: 'at noon' },
    app: { counts: { numbers_as_text: 1 } },
  });
  tallies.forget((text) => text.includes('noon'));
  expect(tallies.changedValues()['web']).toEqual({ counts: { unreadable_times: 3, skewed_clocks: 5 } });
});

const KEYS = ['dev', 'wk_0123456789', 'wk_01234567', 'a"b\\c-0123', '$&{}[]()*+?.|^'];
const SOURCES = [{ writeKeys: KEYS.slice(0, 2) }, { writeKeys: KEYS.slice(2) }];
const mask = new WriteKeyRedactor(() => SOURCES);

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
    expect(mask.stringify(call)).toBe(text);
  });

  it('is JSON, and has no long key in it, whatever it is', () => {
    const text = fc.string({ unit: fc.constantFrom(...KEYS, 'a', '"', '\\', '\u0000', 'é') });
    const call = fc.object({ key: text, values: [text, fc.integer()], maxDepth: 3 });
    fc.assert(
      fc.property(call, (it) => {
        const json = mask.stringify(it as Json);
        JSON.parse(json);
        for (const key of KEYS.slice(1)) expect(json).not.toContain(JSON.stringify(key).slice(1, -1));
      }),
    );
  });

  it('knows the keys there are now', () => {
    let sources = [{ writeKeys: ['the-first-key'] }];
    const changing = new WriteKeyRedactor(() => sources);
    expect(changing.stringify('the-first-key the-other-key')).toBe('"…-key the-other-key"');
    sources = [{ writeKeys: ['the-other-key'] }];
    expect(changing.stringify('the-first-key the-other-key')).toBe('"the-first-key …-key"');
  });

  it('finds each of ten thousand', () => {
    const keyOf = (nth: number) => `wk_${String(nth).padStart(20, '0')}`;
    const many = [{ writeKeys: Array.from({ length: 10_000 }, (_, nth) => keyOf(nth)) }];
    const masking = new WriteKeyRedactor(() => many);
    const pad = 'wk_00000000000000'.repeat(1000);
    for (const nth of [0, 5000, 9999])
      expect(masking.stringify({ pad, key: `x${keyOf(nth)}x` })).toBe(
        `{"pad":"${pad}","key":"x…${keyOf(nth).slice(-4)}x"}`,
      );
  });
});

const NOW = Date.parse('2026-11-21T12:00:00.000Z');
let samples: DiscardSamples;

beforeEach(() => {
  samples = new DiscardSamples(new WriteKeyRedactor(() => [{ writeKeys: ['wk_of_website'] }]));
});

function add(call: Json, { source = 'website', reason = 'no_user_anon_id', at = NOW } = {}): void {
  samples.add({ source, reason, at, call: () => call });
}

test('shows a discarded call with its source, its reason and its time', () => {
  add({ type: 'track', event: 'E' });
  expect(samples.read()).toEqual([
    {
      source: 'website',
      reason: 'no_user_anon_id',
      at: '2026-11-21T12:00:00.000Z',
      call: '{"type":"track","event":"E"}',
      cut: false,
    },
  ]);
});

test('shows a call of nobody without a source', () => {
  samples.add({ source: undefined, reason: 'unknown_write_key', at: NOW, call: () => null });
  expect(samples.read()).toEqual([
    { reason: 'unknown_write_key', at: '2026-11-21T12:00:00.000Z', call: 'null', cut: false },
  ]);
});

test('keeps the last 5 of each source and reason, the latest first', () => {
  for (let n = 0; n < 8; n++) add(n, { at: NOW + n * 1000 });
  add('other', { reason: 'event_not_defined' });
  add('app', { source: 'app', at: NOW + 100 });
  expect(samples.read().map(({ call }) => call)).toEqual(['7', '6', '5', '4', '3', '"app"', '"other"']);
});

test('writes no more than one a second down when it has enough', () => {
  for (let n = 0; n < 5; n++) add(n);
  samples.add({
    ...{ source: 'website', reason: 'no_user_anon_id', at: NOW + 999 },
    call: () => expect.fail('it was looked at'),
  });
  add('later', { at: NOW + 1000 });
  expect(samples.read()[0]!.call).toBe('"later"');
});

test('shows the first 4,096 characters of a call, and says that there are more', () => {
  add({ pad: 'x'.repeat(5000) });
  const [sample] = samples.read();
  expect(sample!.call).toBe(`{"pad":"${'x'.repeat(4096 - 8)}`);
  expect(sample!.cut).toBe(true);
});

test('never shows a write key, and hints only at a long one', () => {
  add({ writeKey: 'wk_0123456789', event: 'E' });
  add({ writeKey: 'short', event: 'E' }, { at: NOW + 1 });
  add({ writeKey: { secret: 'inside' } }, { at: NOW + 2 });
  expect(samples.read().map(({ call }) => call)).toEqual([
    '{"writeKey":"…"}',
    '{"writeKey":"…","event":"E"}',
    '{"writeKey":"…6789","event":"E"}',
  ]);
});

test('shows no write key that stands deeper, or where none belongs', () => {
  add({
    batch: [{ context: { write_key: 'wk_0123456789' } }],
    properties: { note: 'wk_of_website is mine' },
  });
  expect(samples.read()[0]!.call).toBe(
    '{"batch":[{"context":{"write_key":"…6789"}}],"properties":{"note":"…site is mine"}}',
  );
});

test('survives a call that cannot be written', () => {
  let deep: Json = 1;
  for (let level = 0; level < 10_000; level++) deep = [deep];
  add(deep, { reason: 'too_deeply_nested' });
  expect(samples.read()).toMatchObject([{ reason: 'too_deeply_nested', call: '', cut: true }]);
});

test('keeps its size whatever is sent, and forgets what has been quiet for longest', () => {
  const call = 'x'.repeat(5000);
  for (let source = 0; source < 2000; source++) add(call, { source: `s${source}`, at: NOW + source });
  const kept = samples.read();
  const characters = kept.reduce((sum, sample) => sum + sample.call.length, 0);
  expect(characters).toBeLessThanOrEqual(2 * 1024 * 1024);
  expect(characters).toBeGreaterThan(2 * 1024 * 1024 - 4097);
  expect(kept[0]!.source).toBe('s1999');
});
