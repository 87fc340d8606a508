import { beforeEach, expect, test } from 'vitest';
import type { Json } from '../model/json.ts';
import { DiscardSamples } from './samples.ts';
import { WriteKeyMask } from './write-key-mask.ts';

const NOW = Date.parse('2026-11-21T12:00:00.000Z');
let samples: DiscardSamples;

beforeEach(() => {
  samples = new DiscardSamples(new WriteKeyMask(() => [{ writeKeys: ['wk_of_website'] }]));
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
