import type { Time } from '../../model/time.ts';
import { MINUTE } from '../../model/time.ts';
import type { Clock } from '../../ports/clock.ts';

/**
 * The clock of the machine. A wait is walked in steps of at most a minute: Node's timers hold no more than 2^31 ms (a longer
 * one fires at once), and they run on a clock that stands still while the machine sleeps and knows nothing of a
 * corrected wall clock; with steps such a change is noticed within a minute.
 */
export const systemClock: Clock = {
  now: () => Date.now(),
  at: waitUntil,
};

function waitUntil(at: Time, wake: () => void): () => void {
  let timer = setTimeout(step, stepTo(at));
  timer.unref();
  // A timer may fire up to a millisecond before the wall clock says so; `wake` promises "not before".
  function step() {
    if (Date.now() >= at) {
      wake();
      return;
    }
    timer = setTimeout(step, stepTo(at));
    timer.unref();
  }
  return () => clearTimeout(timer);
}

function stepTo(at: Time): number {
  return Math.min(Math.max(at - Date.now(), 0), MINUTE);
}
