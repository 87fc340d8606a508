import { describe, expect, it } from 'vitest';
import { visibleLine, visibleText } from './visible-text.ts';

describe('text of strangers', () => {
  it('shows characters that hide or reorder', () => {
    expect(visibleText('admin\u202egpj.exe')).toBe('admin⟨U+202E⟩gpj.exe');
    expect(visibleText('a\u0000b\u200bc\u001b[31m')).toBe('a⟨U+0000⟩b⟨U+200B⟩c⟨U+001B⟩[31m');
    expect(visibleText('\ud800 alone')).toBe('⟨U+D800⟩ alone');
  });

  it('leaves ordinary text of any script, emoji and line breaks alone', () => {
    const text = 'Größe\n\t日本語 👩‍🚀 é🇩🇪 العربية';
    expect(visibleText(text)).toBe(text);
  });

  it('cuts piles of combining marks', () => {
    expect(visibleText(`z${'\u0301'.repeat(400)}`)).toBe(`z${'\u0301'.repeat(4)}⟨…⟩`);
  });

  it('makes one line of many, of bounded length', () => {
    expect(visibleLine('a\nb')).toBe('a⏎b');
    expect(visibleLine('x'.repeat(300), 10)).toBe(`${'x'.repeat(10)}…`);
  });
});
