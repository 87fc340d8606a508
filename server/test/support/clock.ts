import type { Duration, Monotonic, Time } from '../../src/model/time.ts';
import type { Clock, ClockStep } from '../../src/ports/clock.ts';

/** The part of a clock that a test never moves: turns of the event loop, and how long work takes. */
export const realTurns: Pick<Clock, 'turn' | 'elapsed'> = {
  turn: (run) => void setImmediate(run),
  elapsed: () => performance.now(),
};

/** Two clocks that stand still until a test moves them. */
export interface HandClock extends Clock {
  /**
   * Moves both clocks on. Each waiter on the way is woken exactly at its time, in order, and all work that
   * follows without a wait of its own ends before the clock moves on: promises are settled, other parts
   * woken. This holds for work in memory; the clock does not wait for a real disk or socket.
   */
  pass(time: Duration): Promise<void>;

  /**
   * Moves the clocks on until the condition holds; looks at it after every wake. Throws when `limit` has
   * passed before.
   */
  passUntil(condition: () => boolean, limit: Duration): Promise<void>;

  /** Runs all work that waits for no time. */
  settle(): Promise<void>;

  /** Sets the wall clock forward by this much, or back where it is negative. No time passes. */
  step(by: Duration): void;
}

/**
 * Clocks that show `start` and run only by hand. `ahead`: how much the wall clock shows more than the
 * monotonic one.
 */
export function handClock(start: Time, ahead: Duration = 0): HandClock {
  let now: Monotonic = start - ahead;
  let steps: readonly ClockStep[] = [{ at: now, ahead }];
  let waiting: { readonly at: Monotonic; readonly wake: () => void }[] = [];

  function after(delay: Duration, wake: () => void): () => void {
    const entry = { at: now + delay, wake };
    // Goes behind waiters of the same time: the first to ask is woken first.
    let place = waiting.length;
    while (place > 0 && waiting[place - 1]!.at > entry.at) place -= 1;
    waiting.splice(place, 0, entry);
    return () => {
      waiting = waiting.filter((other) => other !== entry);
    };
  }

  /** Wakes the waiters of the next time; false when there is none before `end`. */
  async function step(end: Monotonic): Promise<boolean> {
    const first = waiting[0];
    if (first === undefined || first.at > end) return false;
    now = Math.max(now, first.at);
    while (waiting[0] !== undefined && waiting[0].at <= now) waiting.shift()!.wake();
    await settle();
    return true;
  }

  return {
    now: () => Math.floor(now + steps.at(-1)!.ahead),
    monotonic: () => now,
    after,
    ...realTurns,
    settle,
    steps: () => steps,
    step(by) {
      steps = [...steps, { at: now, ahead: steps.at(-1)!.ahead + by }];
    },
    async pass(time) {
      const end = now + time;
      await settle();
      while (await step(end));
      now = end;
    },
    async passUntil(condition, limit) {
      const end = now + limit;
      await settle();
      while (!condition()) {
        if (!(await step(end))) throw new Error(`after ${limit} ms it had not happened: ${condition}`);
      }
    },
  };
}

/** A turn of the event loop: every promise that waits for nothing outside is settled when it comes round. */
function settle(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
