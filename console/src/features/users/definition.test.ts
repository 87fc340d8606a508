import { describe, expect, it } from 'vitest';
import { offsetOf, pointAt, tokensOf } from './definition.ts';

describe('a mistake in a definition', () => {
  it('is pointed at under its line', () => {
    const text = "event('A')\n\tand evnt('B')";
    expect(pointAt(text, { line: 2, column: 6 })).toEqual({ line: "\tand evnt('B')", pointer: '\t    ^' });
  });

  it('is found in the text, and never behind its line', () => {
    const text = 'abc\ndefg\nhi';
    expect(text.slice(offsetOf(text, { line: 2, column: 3 }))).toBe('fg\nhi');
    expect(text.slice(offsetOf(text, { line: 2, column: 99 }))).toBe('\nhi');
    expect(offsetOf(text, { line: 9, column: 9 })).toBe(text.length);
  });
});

describe('the tokens of a definition', () => {
  it('are texts, numbers and words, and the rest between them', () => {
    const tokens = tokensOf("event('It''s').count() >= 2 and not audience('x')");
    expect(tokens.filter(({ kind }) => kind !== 'other')).toEqual([
      { kind: 'text', text: "'It''s'" },
      { kind: 'number', text: '2' },
      { kind: 'word', text: 'and' },
      { kind: 'word', text: 'not' },
      { kind: 'text', text: "'x'" },
    ]);
  });

  it.each(['', "'open", "a 'b' c 12.5.3 in ('x', 'y')", 'brand ordinary 1not'])('are all of %j', (text) => {
    expect(
      tokensOf(text)
        .map((one) => one.text)
        .join(''),
    ).toBe(text);
  });
});
