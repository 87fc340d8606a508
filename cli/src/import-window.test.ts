import { describe, expect, it } from 'vitest';
import { type Fate, ImportWindow, type WindowLine } from './import-window.ts';

const ACCEPTED: Fate = { kind: 'accepted' };
const REFUSED: Fate = { kind: 'refused', reason: 'r', message: 'm', text: 't' };
const START = { offset: 0, line: 0, accepted: 0, refused: 0 };

const line = (number: number, fate?: Fate): WindowLine => ({ number, end: number * 10, weight: 5, fate });

describe('the window of an import', () => {
  it('passes lines in the order of the file, whatever the order they are answered for in', () => {
    const passed: number[] = [];
    const window = new ImportWindow(START, ({ number }) => passed.push(number));
    const lines = [line(1), line(2, REFUSED), line(3), line(4, { kind: 'empty' }), line(5)];
    for (const one of lines) window.add(one);
    window.settle(lines[2]!, ACCEPTED);
    window.settle(lines[4]!, ACCEPTED);
    expect([window.passed, passed, window.weight]).toEqual([START, [], 25]);
    window.settle(lines[0]!, ACCEPTED);
    expect(window.passed).toEqual({ offset: 50, line: 5, accepted: 3, refused: 1 });
    expect([passed, window.weight]).toEqual([[1, 2, 3, 4, 5], 0]);
  });

  it('goes on from what an earlier run has passed', () => {
    const from = { offset: 100, line: 10, accepted: 8, refused: 2 };
    const window = new ImportWindow(from, () => {});
    expect(window.passed).toEqual(from);
    window.add(line(11, REFUSED));
    expect(window.passed).toEqual({ offset: 110, line: 11, accepted: 8, refused: 3 });
  });

  it('counts the same for any order of a hundred thousand answers', () => {
    const window = new ImportWindow(START, () => {});
    const lines = Array.from({ length: 100_000 }, (_, nth) => line(nth + 1));
    for (const one of lines) window.add(one);
    // 7919 is prime and does not divide the count, which makes every line come once.
    for (let nth = 0; nth < lines.length; nth++) {
      const one = lines[(nth * 7919) % lines.length]!;
      window.settle(one, one.number % 10 === 0 ? REFUSED : ACCEPTED);
    }
    expect(window.passed).toEqual({ offset: 1_000_000, line: 100_000, accepted: 90_000, refused: 10_000 });
  });
});
