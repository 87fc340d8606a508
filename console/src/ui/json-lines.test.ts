import { describe, expect, it } from 'vitest';
import { type JsonLimits, jsonLines } from './json-lines.ts';

const LIMITS: JsonLimits = { lines: 100, text: 20, depth: 5 };

const written = (value: unknown, limits = LIMITS): string =>
  jsonLines(value, limits)
    .map(({ depth, tokens }) => '  '.repeat(depth) + tokens.map(({ text }) => text).join(''))
    .join('\n');

describe('JSON on the screen', () => {
  it('is what JSON.stringify writes while it is small', () => {
    const value = { type: 'track', list: [1, true, null, {}, []], inner: { a: 'b"c' } };
    expect(written(value)).toBe(JSON.stringify(value, undefined, 2));
  });

  it('says how much of a long text is missing', () => {
    expect(written({ a: 'x'.repeat(50) })).toContain(`"${'x'.repeat(20)}… 30 more characters"`);
  });

  it('stops after so many lines, and says so', () => {
    const lines = jsonLines(Array(1000).fill(1), LIMITS);
    expect(lines).toHaveLength(101);
    expect(lines.at(-1)?.tokens[0]?.text).toContain('not shown');
  });

  it('stops at so many levels', () => {
    const deep = JSON.parse(`${'[{"a":'.repeat(2000)}1${'}]'.repeat(2000)}`);
    expect(written(deep)).toContain('… 1 more');
  });

  it('shows bidi characters of keys and texts', () => {
    expect(written({ 'a\u202e': '\u202eb' })).toBe('{\n  "a⟨U+202E⟩": "⟨U+202E⟩b"\n}');
  });
});
