import { describe, expect, it } from 'vitest';
import { differencesOf } from './record-difference.ts';

describe('the differences between two records', () => {
  it('are told by their paths, down to single values', () => {
    const before = {
      name: 'crm',
      settings: { endpoints: [{ url: 'a', headers: { X: '1' } }, { url: 'b' }] },
    };
    const after = { name: 'crm', settings: { endpoints: [{ url: 'c', headers: {} }], rateLimit: 5 } };
    expect(differencesOf(before, after)).toEqual([
      { path: 'settings.endpoints[0].url', before: 'a', after: 'c' },
      { path: 'settings.endpoints[0].headers.X', before: '1', after: undefined },
      { path: 'settings.endpoints[1].url', before: 'b', after: undefined },
      { path: 'settings.rateLimit', before: undefined, after: 5 },
    ]);
  });

  it('are one where a list of texts or a secret is another', () => {
    const before = { sources: ['a', 'b'], secret: { set: true, hint: 'aaaa' }, list: [{ set: true }] };
    const after = { sources: ['b'], secret: { set: true }, list: [{ set: true }, { set: true }] };
    expect(differencesOf(before, after)).toEqual([
      { path: 'sources', before: ['a', 'b'], after: ['b'] },
      { path: 'secret', before: { set: true, hint: 'aaaa' }, after: { set: true } },
      { path: 'list', before: [{ set: true }], after: [{ set: true }, { set: true }] },
    ]);
  });

  it('are none between the same, and all of it where there was nothing', () => {
    expect(differencesOf({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] })).toEqual([]);
    expect(differencesOf(undefined, { a: [{ b: 2 }], c: {} })).toEqual([
      { path: 'a[0].b', before: undefined, after: 2 },
      { path: 'c', before: undefined, after: {} },
    ]);
  });
});
