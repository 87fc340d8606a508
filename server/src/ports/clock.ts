import type { Attempt, Drop, Outcome } from '../model/delivery.ts';
import type { Duration, Monotonic, OnWallClock, Time } from '../model/time.ts';

/**
 * The only source of time. It has two readings that are never mixed. The wall clock says when something
 * happened, and may be set at any moment. The monotonic clock is for durations and due times, and runs evenly
 * whatever happens to the wall clock. Tests hand in a clock that they move themselves.
 */
export interface Clock {
  /** The wall clock's time, for timestamps that people and other machines read. */
  now(): Time;

  /**
   * The monotonic time, for durations, due times and everything that a store compares. It never jumps. See
   * `Monotonic`.
   */
  monotonic(): Monotonic;

  /**
   * Calls `wake` once after so much monotonic time or soon after, never before. The returned function cancels
   * it. Does not keep the process alive.
   */
  after(delay: Duration, wake: () => void): () => void;

  /**
   * Calls `run` in the next turn of the event loop, after the sockets that have something to say were read.
   */
  turn(run: () => void): void;

  /**
   * Milliseconds with their fractions, to measure how long a piece of work takes: the difference of two
   * readings. Has nothing to do with the other readings.
   */
  elapsed(): Duration;

  /**
   * The steps in which the wall clock was set, as far as remembered. The first says how it was before. Never
   * empty.
   */
  steps(): readonly ClockStep[];
}

/**
 * From this monotonic time on, the wall clock was so much ahead of the monotonic clock, or behind it when
 * negative.
 */
export interface ClockStep {
  readonly at: Monotonic;
  readonly ahead: Duration;
}

/** Both clocks at one moment, as a store keeps them for the next process. */
export interface ClockMark {
  readonly now: Time;
  readonly monotonic: Monotonic;
  /** Id of the machine's boot and the time since then, when the system tells. */
  readonly boot?: { readonly id: string; readonly uptime: Duration };
  readonly steps: readonly ClockStep[];
}

/**
 * The wall clock's time at a monotonic time. For a future time, the one that it will show unless it is set
 * before.
 */
export function wallTimeOf(at: Monotonic, clock: Pick<Clock, 'steps'>): Time {
  const steps = clock.steps();
  const inForce = steps.findLast((step) => step.at <= at) ?? steps[0]!;
  return at + inForce.ahead;
}

/** The attempt with its times as the wall clock showed them. */
export function attemptOnWallClock<
  Kept extends Pick<Attempt, 'startedAt'> & { readonly outcome: Outcome | Drop },
>(attempt: Kept, clock: Pick<Clock, 'steps'>): OnWallClock<Kept> {
  const { outcome } = attempt;
  const shown = { ...attempt, startedAt: wallTimeOf(attempt.startedAt, clock) };
  if (!('notBefore' in outcome)) return shown as OnWallClock<Kept>;
  const notBefore = wallTimeOf(outcome.notBefore, clock);
  return { ...shown, outcome: { ...outcome, notBefore } } as OnWallClock<Kept>;
}

/** How long ago the wall clock showed this time, whatever it was set to since. */
export function elapsedSince(at: Time, clock: Pick<Clock, 'monotonic' | 'steps'>): Duration {
  const now = clock.monotonic();
  const steps = clock.steps();
  for (let nth = steps.length - 1; nth >= 0; nth--) {
    const moment = at - steps[nth]!.ahead;
    if (moment <= now && moment >= (nth === 0 ? moment : steps[nth]!.at)) return now - moment;
  }
  return 0;
}

/** Resolves when the promise does, or after `limit`. Rejects when the promise does before. */
export async function waitAtMost(
  promise: Promise<unknown>,
  limit: Duration,
  clock: Pick<Clock, 'after'>,
): Promise<void> {
  const timeout = Promise.withResolvers<void>();
  const cancel = clock.after(limit, timeout.resolve);
  try {
    await Promise.race([promise, timeout.promise]);
  } finally {
    cancel();
  }
}

/** Resolves in the next turn of the event loop. */
export function nextTurn(clock: Pick<Clock, 'turn'>): Promise<void> {
  return new Promise((resolve) => clock.turn(resolve));
}

/** Waits between two tries that a stop or a change of the settings can cut short. One wait at a time. */
export class InterruptibleSleep {
  readonly #clock: Pick<Clock, 'after'>;
  #wake: (() => void) | undefined;

  constructor(clock: Pick<Clock, 'after'>) {
    this.#clock = clock;
  }

  /** Resolves after `delay`, or at `interrupt`. */
  sleep(delay: Duration): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#clock.after(delay, resolve);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
  }

  /** Ends the wait. Without one it does nothing; it does not shorten the next. */
  interrupt(): void {
    this.#wake?.();
  }
}
