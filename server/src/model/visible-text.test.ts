import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { printable, visible, visibleJson, visibleOnScreen } from './visible-text.ts';

/** C1 controls, direction marks, overrides and isolates, separators, and what shows as nothing. */
const UNSEEN = [
  ...Array.from({ length: 33 }, (_, nth) => 0x7f + nth),
  ...[0x61c, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e],
  ...[0x2060, 0x2066, 0x2067, 0x2068, 0x2069, 0xad, 0x34f, 0x115f, 0x1160, 0x180e, 0x3164, 0xfeff, 0xffa0],
  ...[0xfff9, 0xfffb, 0xe0001, 0xe0041, 0xe0100, 0x1d173],
].map((code) => String.fromCodePoint(code));
const C0 = Array.from({ length: 32 }, (_, nth) => String.fromCharCode(nth));
const SEEN = 'Größe "1" 日本 🚀 ❤️ é 1️⃣';

describe('a text of a stranger', () => {
  it.each([...UNSEEN, ...C0])('shows that there is %j', (character) => {
    expect(printable(`a${character}b`)).toBe('a·b');
    expect(JSON.parse(`"${visible(`a${character}b`)}"`)).toBe(`a${character}b`);
    expect(visible(`a${character}b`)).toMatch(/^a(\\u[0-9a-f]{4})+b$/);
  });

  it('keeps what can be seen', () => {
    for (const show of [printable, visible, visibleJson, visibleOnScreen]) expect(show(SEEN)).toBe(SEEN);
  });

  it('is the same in JSON, whatever it is', () => {
    const text = fc.string({ unit: fc.constantFrom(...UNSEEN, ...C0, 'a', '\\', '"', '🚀', '\ud800') });
    fc.assert(
      fc.property(text, (it) => {
        const json = visibleJson(JSON.stringify({ it }));
        expect(JSON.parse(json)).toEqual({ it });
        expect(UNSEEN.filter((character) => json.includes(character))).toEqual([]);
        expect(visibleOnScreen(json)).toBe(json);
      }),
    );
  });
});

describe('what is written to a terminal', () => {
  it('has our colours, and no other sequence than taking back the line being written', () => {
    const ours = '\u001b[31mdead\u001b[39m\t1\n\r\u001b[2K[##--]\r\u001b[K';
    expect(visibleOnScreen(ours)).toBe(ours);
    expect(visibleOnScreen('a\r\u001b[1Ab\u001b]0;title\u0007\u009b2J\u202e')).toBe(
      'a\\u000d\\u001b[1Ab\\u001b]0;title\\u0007\\u009b2J\\u202e',
    );
  });
});
