import { describe, expect, it } from 'vitest';
import type { Clock } from './clock.ts';
import { createDisplay, type DisplayOptions } from './display.ts';

/** A clock that stands still until a test moves it. */
function stillClock(): Clock & { move(ms: number): void } {
  let now = 1_000_000;
  let waiting: { at: number; wake: () => void }[] = [];
  return {
    now: () => now,
    monotonic: () => now,
    after(delay, wake) {
      const entry = { at: now + delay, wake };
      waiting.push(entry);
      return () => {
        waiting = waiting.filter((other) => other !== entry);
      };
    },
    move(ms) {
      now += ms;
      const due = waiting.filter(({ at }) => at <= now);
      waiting = waiting.filter(({ at }) => at > now);
      for (const { wake } of due) wake();
    },
  };
}

function display(options: Partial<DisplayOptions<string>> = {}) {
  const clock = stillClock();
  const output = {
    lines: [] as string[],
    writableLength: 0,
    write: (text: string) => output.lines.push(text),
  };
  let drawn = 0;
  const shown = createDisplay<string>({
    output,
    clock,
    perSecond: 3,
    urgentPerSecond: 2,
    isUrgent: (item) => item.startsWith('!'),
    draw: (item) => {
      drawn += 1;
      return item;
    },
    ...options,
  });
  return { clock, output, drawn: () => drawn, ...shown };
}

describe('a display', () => {
  it('shows items at once while there are few', () => {
    const { show, output } = display();
    show('a');
    show('b');
    expect(output.lines).toEqual(['a\n', 'b\n']);
  });

  it('counts what is beyond its lines a second, draws none of it, and says so when the second is over', () => {
    const { show, output, clock, drawn } = display();
    for (let i = 0; i < 1237; i += 1) show(`n${i}`);
    clock.move(999);
    expect(output.lines).toEqual(['n0\n', 'n1\n', 'n2\n']);
    clock.move(1);
    expect(output.lines.slice(3)).toEqual(['… and 1,234 more in the last second\n']);
    expect(drawn()).toBe(3);
  });

  it('starts every second afresh, with the count of the last one before its first line', () => {
    const { show, output, clock } = display();
    for (const item of ['a', 'b', 'c', 'd']) show(item);
    clock.move(1500);
    for (const item of ['e', 'f', 'g', 'h', 'i']) show(item);
    clock.move(1000);
    expect(output.lines.map((line) => line.trim())).toEqual([
      'a',
      'b',
      'c',
      '… and 1 more in the last second',
      'e',
      'f',
      'g',
      '… and 2 more in the last second',
    ]);
  });

  it('says a count only once, even if the next item comes before the timer', () => {
    let now = 0;
    const late: Clock = { now: () => now, monotonic: () => now, after: () => () => {} };
    const { show, output } = display({ clock: late });
    for (const item of ['a', 'b', 'c', 'd']) show(item);
    now = 1000;
    show('e');
    expect(output.lines).toEqual(['a\n', 'b\n', 'c\n', '… and 1 more in the last second\n', 'e\n']);
  });

  it('keeps room for urgent items, and limits them too', () => {
    const { show, output } = display();
    for (const item of ['a', 'b', 'c', 'd', '!1', '!2', '!3', 'e']) show(item);
    expect(output.lines).toEqual(['a\n', 'b\n', 'c\n', '!1\n', '!2\n']);
  });

  it('holds back while nobody reads what it wrote', () => {
    const { show, output, clock } = display({ perSecond: Number.POSITIVE_INFINITY });
    show('a');
    output.writableLength = 2_000_000;
    show('b');
    show('c');
    output.writableLength = 0;
    clock.move(1000);
    show('d');
    expect(output.lines).toEqual(['a\n', '… and 2 more in the last second\n', 'd\n']);
  });

  it('says what it still has to say when it stops', () => {
    const { show, stop, output } = display();
    for (const item of ['a', 'b', 'c', 'd']) show(item);
    stop();
    stop();
    expect(output.lines.slice(3)).toEqual(['… and 1 more in the last second\n']);
  });
});
