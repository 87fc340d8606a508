import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type DiffLine, diffLines } from './diff.ts';

const shown = (lines: readonly DiffLine[]) =>
  lines.map(({ kind, text }) => `${{ removed: '-', added: '+', same: ' ' }[kind]}${text}`);

describe('the difference of two texts', () => {
  it('keeps what both have and marks the rest', () => {
    expect(shown(diffLines('a\nb\nc\nd\n', 'a\nc\nx\nd\n'))).toEqual([' a', '-b', ' c', '+x', ' d']);
  });

  it('has only additions for what was created, and only removals for what was removed', () => {
    expect(shown(diffLines('', 'a\nb\n'))).toEqual(['+a', '+b']);
    expect(shown(diffLines('a\nb\n', ''))).toEqual(['-a', '-b']);
  });

  it('always holds both texts in their order', () => {
    const text = fc.array(fc.constantFrom('a', 'b', 'c', ''), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(text, text, (one, other) => {
        const lines = diffLines(`${one.join('\n')}\n`, `${other.join('\n')}\n`);
        expect(lines.filter(({ kind }) => kind !== 'added').map((line) => line.text)).toEqual(one);
        expect(lines.filter(({ kind }) => kind !== 'removed').map((line) => line.text)).toEqual(other);
      }),
    );
  });
});
