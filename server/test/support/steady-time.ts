import { afterEach, beforeEach, vi } from 'vitest';
import { until } from './until.ts';

/** Milliseconds of a step. */
const STEP = 2;

/**
 * Gives each test of a file a time of its own for `setTimeout` and `performance`: it passes in small steps,
 * none of them quicker than the system's time, and not at all while the process stands still. For tests whose
 * two sides run in this process: a machine that is busy with other things brings neither side to a time
 * limit.
 */
export function steadyTime(): void {
  beforeEach(() => {
    const toFake = ['performance', 'setTimeout', 'clearTimeout'] as const;
    vi.useFakeTimers({ toFake: [...toFake], shouldAdvanceTime: true, advanceTimeDelta: STEP });
  });
  afterEach(() => {
    vi.useRealTimers();
  });
}

/** Lets time pass at once, and then whatever was due happen, as far as it waits for nothing outside. */
export async function pass(milliseconds: number): Promise<void> {
  vi.advanceTimersByTime(milliseconds);
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Lets time pass in steps until something has happened. */
export async function passUntil(what: string, hasHappened: () => boolean, step = 25): Promise<void> {
  await until(
    what,
    async () => {
      if (hasHappened()) return true;
      await pass(step);
      return false;
    },
    { pause: 0 },
  );
}
