import { describe, expect, it } from 'vitest';
import { parseSearch, stringifySearch, textParameters } from './search.ts';

describe('the query of an address', () => {
  it('comes back as it went, and an id that looks like a number stays a text', () => {
    const search = { userId: '42', event: 'a&b=c #1', failed: 'true' };
    expect(parseSearch(stringifySearch(search))).toEqual(search);
  });

  it('leaves out what is not set', () => {
    expect(stringifySearch({ userId: undefined, event: '', failed: false })).toBe('');
  });

  it('has only the parameters that a route knows', () => {
    expect(textParameters('source', 'type')({ source: 'web', other: 'x', type: '' })).toEqual({
      source: 'web',
    });
  });
});
