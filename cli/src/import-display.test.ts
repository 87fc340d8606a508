import { describe, expect, it } from 'vitest';
import { handClock } from '../../server/test/support/clock.ts';
import { ImportDisplay } from './import-display.ts';
import type { RunContext } from './run-context.ts';

/** An output that may be a terminal. */
function screen(isTTY: boolean) {
  let text = '';
  const write = (part: string) => {
    text += part;
  };
  const err = { isTTY, columns: 120, write };
  const place = { err, env: {} } as object as RunContext;
  const take = () => {
    const taken = text;
    text = '';
    return taken;
  };
  return { place, take };
}

describe('the progress of an import', () => {
  it('is one line with a bar on a terminal, which goes when it is over', async () => {
    const clock = handClock(0);
    const { place, take } = screen(true);
    const now = { offset: 0, size: 1000, accepted: 0, refused: 0 };
    const display = new ImportDisplay(place, clock, () => now);
    Object.assign(now, { offset: 250, accepted: 2000, refused: 3 });
    await clock.pass(200);
    expect(take()).toBe('[####------------]   25 %  10,015/s  accepted 2,000  refused 3  1 s left');
    display.say('line 7 was refused.');
    expect(take()).toBe('\r\u001b[2Kmillrace: line 7 was refused.\n');
    await clock.pass(200);
    take();
    display.stop();
    expect(take()).toBe('\r\u001b[2K');
    await clock.pass(1000);
    expect(take()).toBe('');
  });

  it('is a line every few seconds elsewhere', async () => {
    const clock = handClock(0);
    const { place, take } = screen(false);
    const now = { offset: 0, size: 1000, accepted: 0, refused: 0 };
    const display = new ImportDisplay(place, clock, () => now);
    await clock.pass(4999);
    expect(take()).toBe('');
    Object.assign(now, { offset: 500, accepted: 500 });
    await clock.pass(1);
    expect(take()).toBe('millrace: 50 %  100/s  accepted 500  refused 0  5 s left\n');
    // A halted import has no end in sight, once its last progress is old enough.
    await clock.pass(15_000);
    expect(take().split('\n').at(-2)).toBe('millrace: 50 %  0/s  accepted 500  refused 0');
    display.stop();
    expect(take()).toBe('');
  });
});
