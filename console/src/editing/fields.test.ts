import { describe, expect, it } from 'vitest';
import { changedFields, mergeFields } from './fields.ts';

const base = { rate: '100', format: 'documented', sources: ['website'], success: 'any' };

describe('the fields of a form', () => {
  it('that were changed are told by their values', () => {
    expect(changedFields(base, { ...base, sources: ['website'] })).toEqual([]);
    expect(changedFields(base, { ...base, sources: [], rate: '' })).toEqual(['rate', 'sources']);
  });

  it('that one has changed are taken from him, and those that both have changed are named', () => {
    const theirs = { ...base, rate: '7', sources: ['app'], success: 'each' };
    const mine = { ...base, rate: '5', format: 'canonical', success: 'each' };
    expect(mergeFields({ base, mine, theirs })).toEqual({
      draft: { ...theirs, rate: '5', format: 'canonical' },
      news: ['rate', 'sources'],
      disputed: ['rate'],
    });
  });

  it('that nobody has typed into are as others have left them', () => {
    const theirs = { ...base, rate: '7' };
    expect(mergeFields({ base, mine: base, theirs }).draft).toEqual(theirs);
  });

  it('have no news where others have made of them what is typed already', () => {
    const mine = { ...base, rate: '7' };
    expect(mergeFields({ base, mine, theirs: mine })).toEqual({ draft: mine, news: [], disputed: [] });
  });
});
