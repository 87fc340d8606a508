import { describe, expect, it } from 'vitest';
import { answerer } from './listen.ts';

describe('how listen answers', () => {
  it('fails the share it was asked to fail, with 500 and the same delay', () => {
    const draws = [0, 0.19, 0.2, 0.99];
    const answer = answerer({ status: 202, delay: 40, failRate: 0.2 }, () => draws.shift() ?? 0);
    expect([answer(), answer(), answer(), answer()]).toEqual([
      { status: 500, delayMs: 40 },
      { status: 500, delayMs: 40 },
      { status: 202, delayMs: 40 },
      { status: 202, delayMs: 40 },
    ]);
  });

  it('fails nothing at 0 and everything at 1, whatever is drawn', () => {
    for (const draw of [0, 0.5, 1 - Number.EPSILON]) {
      expect(answerer({ status: 200, delay: 0, failRate: 0 }, () => draw)().status).toBe(200);
      expect(answerer({ status: 200, delay: 0, failRate: 1 }, () => draw)().status).toBe(500);
    }
  });
});
