import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { isConfirmed } from './question.ts';

function asked() {
  const keyboard = new PassThrough();
  const screen = new PassThrough().setEncoding('utf8');
  const { promise: stopping, resolve: stop } = Promise.withResolvers<void>();
  const answer = isConfirmed('Change it?', { in: keyboard, err: screen, stopping });
  return { keyboard, screen, stop, answer };
}

describe('a question', () => {
  it('is answered by a word for yes; anything else is a no', async () => {
    const answers = [
      ['y\n', true],
      ['YES\n', true],
      [' yes \r\n', true],
      ['\n', false],
      ['yesterday\n', false],
    ];
    for (const [typed, confirmed] of answers) {
      const { keyboard, screen, answer } = asked();
      expect(screen.read()).toBe('Change it? [y/N] ');
      keyboard.write(typed);
      expect(await answer).toBe(confirmed);
    }
  });

  it('is answered by what was typed when the input ends, and with no when the program is to stop', async () => {
    const ended = asked();
    ended.keyboard.end('y');
    expect(await ended.answer).toBe(true);
    const empty = asked();
    empty.keyboard.end();
    expect(await empty.answer).toBe(false);
    const stopped = asked();
    stopped.stop();
    expect(await stopped.answer).toBe(false);
  });
});
