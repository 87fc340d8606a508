import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { realTurns } from '../../test/support/clock.ts';
import { TurnScheduler } from './admission.ts';

/**
 * Keeps the thread for this many milliseconds, on a clock that stands still otherwise: a machine that is busy
 * uses up no slice.
 */
function spend(ms: number): void {
  vi.advanceTimersByTime(ms);
}

/** A scheduler whose slice is short, because deliveries have just used the thread. */
async function sharedTurns(): Promise<TurnScheduler> {
  const turns = new TurnScheduler(realTurns);
  turns.run(() => {});
  turns.delivered(1);
  await nextTurn();
  return turns;
}

describe('the turns of calls and deliveries', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['performance'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('run every call at once where no delivery needs the thread', () => {
    const turns = new TurnScheduler(realTurns);
    const done: string[] = [];
    turns.run(() => done.push('first'));
    turns.run(() => spend(10));
    turns.run(() => done.push('second'));
    expect(done).toEqual(['first', 'second']);
  });

  it('let calls wait for the next turn when the slice is used up, in their order', async () => {
    const turns = await sharedTurns();
    const done: number[] = [];
    turns.run(() => spend(10));
    for (let n = 0; n < 5000; n++) turns.run(() => done.push(n));
    expect(done).toEqual([]);
    for (let turn = 0; done.length < 5000 && turn < 5000; turn++) await nextTurn();
    expect(done).toEqual(Array.from({ length: 5000 }, (_, n) => n));
  });

  it('give calls a seventh of what deliveries use, however many calls wait', async () => {
    const turns = await sharedTurns();
    let done = 0;
    for (let n = 0; n < 200; n++) {
      turns.run(() => {
        spend(1);
        done++;
      });
    }
    let delivering = 0;
    for (let turn = 0; turn < 20; turn++) {
      turns.delivered(8);
      delivering += 8;
      await nextTurn();
    }
    // The last turn may begin one task with a moment left.
    expect(done).toBeLessThanOrEqual(delivering * 0.15 + 1);
    expect(done).toBeGreaterThan(delivering * 0.15 - 2);
  });

  it('take what a long task used beyond its slice off the next turns', async () => {
    const turns = await sharedTurns();
    let done = 0;
    turns.run(() => spend(40));
    turns.run(() => done++);
    for (let turn = 0; turn < 5; turn++) {
      turns.delivered(8);
      await nextTurn();
    }
    expect(done).toBe(0);
  });

  it('forgive it when no delivery needs the thread', async () => {
    const turns = await sharedTurns();
    let done = 0;
    turns.run(() => spend(40));
    turns.run(() => done++);
    await nextTurn();
    expect(done).toBe(1);
  });

  it('charge calls for the commit of their group', async () => {
    const turns = await sharedTurns();
    let done = 0;
    turns.accepted(100);
    turns.run(() => done++);
    expect(done).toBe(0);
    turns.delivered(1);
    await nextTurn();
    expect(done).toBe(0);
    await nextTurn();
    expect(done).toBe(1);
  });
});
