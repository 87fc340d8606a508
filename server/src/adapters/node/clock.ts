import { DAY, type Duration, type Monotonic } from '../../model/time.ts';
import type { Clock } from '../../ports/clock.ts';

/** Timers of Node hold no more than 2^31 ms, and a longer one fires at once: a longer wait is walked in steps. */
const LONGEST_TIMER: Duration = DAY;

/**
 * The clocks of the machine. Node's timers and `performance.now` run on the monotonic clock of the system, so that
 * setting the wall clock makes nothing wait longer or end sooner. It stands still while the machine sleeps.
 *
 * @param start what the monotonic clock shows now; the wall clock's time where nothing is to be gone on with
 */
export function clockFrom(start: Monotonic): Clock {
  const origin = start - performance.now();
  const monotonic = () => Math.floor(origin + performance.now());
  return {
    now: () => Date.now(),
    monotonic,
    after: (delay, wake) => {
      const end = performance.now() + delay;
      let timer = setTimeout(step, timeTo(end));
      timer.unref();
      // A timer may fire up to a millisecond before its time; `wake` promises "never before".
      function step() {
        if (performance.now() >= end) {
          wake();
          return;
        }
        timer = setTimeout(step, timeTo(end));
        timer.unref();
      }
      return () => clearTimeout(timer);
    },
  };
}

/** For whatever keeps no monotonic time on disk. */
export const systemClock: Clock = clockFrom(Date.now());

function timeTo(end: number): Duration {
  return Math.min(Math.max(Math.ceil(end - performance.now()), 0), LONGEST_TIMER);
}
