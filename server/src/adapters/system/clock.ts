import { readFileSync } from 'node:fs';
import { DAY, type Duration, type Monotonic, SECOND } from '../../model/time.ts';
import type { Clock, ClockMark, ClockStep } from '../../ports/clock.ts';

/**
 * Node's timers hold less than 2^31 ms, and a longer one fires at once: longer waits are split into steps.
 */
const MAX_TIMER: Duration = DAY;

/** Smaller differences come from reading two clocks in turn, or from a wall clock that is being slewed. */
const STEP: Duration = SECOND;

/** Number of remembered steps of the wall clock; the oldest are forgotten first. */
const MAX_STEPS = 100;

/**
 * Longest downtime that the clock counts: a machine that starts with its clock a year ahead must not end
 * every retention period.
 */
const MAX_DOWNTIME: Duration = DAY;

export interface SystemClock extends Clock {
  mark(): ClockMark;
}

/**
 * The clocks of the machine. Node's timers and `performance.now` run on the monotonic clock of the system:
 * setting the wall clock lengthens or shortens no wait. The monotonic clock stands still while the machine
 * sleeps.
 *
 * @param last the reading that the previous process left: the monotonic clock continues from there
 */
export function createSystemClock(last?: ClockMark): SystemClock {
  const boot = currentBoot();
  const origin =
    (last === undefined ? Date.now() : last.monotonic + downtimeSince(last, boot)) - performance.now();
  const monotonic = () => Math.floor(origin + performance.now());
  let steps: readonly ClockStep[] = last?.steps ?? [{ at: monotonic(), ahead: Date.now() - monotonic() }];
  return {
    now: () => Date.now(),
    monotonic,
    after,
    turn: (run) => void setImmediate(run),
    elapsed: () => performance.now(),
    steps: () => {
      const ahead = Date.now() - monotonic();
      if (Math.abs(ahead - steps.at(-1)!.ahead) < STEP) return steps;
      // Read again: the thread may have been paused between the two readings.
      const again = Date.now() - monotonic();
      if (Math.abs(again - ahead) < STEP) {
        steps = [...steps.slice(1 - MAX_STEPS), { at: monotonic(), ahead: again }];
      }
      return steps;
    },
    mark() {
      const known = this.steps();
      const mark = { now: Date.now(), monotonic: monotonic(), steps: known };
      return boot === undefined ? mark : { ...mark, boot: { id: boot.id, uptime: uptime() } };
    },
  };
}

/** The clocks for programs that keep no monotonic time on disk. */
export const systemClock: Clock = createSystemClock();

function after(delay: Duration, wake: () => void): () => void {
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
}

function timeTo(end: number): Duration {
  return Math.min(Math.max(Math.ceil(end - performance.now()), 0), MAX_TIMER);
}

/**
 * The time since the previous process stopped. If the machine has not restarted since, its monotonic clock
 * gives it, even if the wall clock was set meanwhile; otherwise the wall clock gives it, within limits.
 */
export function downtimeSince(last: ClockMark, boot: ClockMark['boot'], now = Date.now()): Monotonic {
  const isSameStart = boot !== undefined && last.boot?.id === boot.id && boot.uptime >= last.boot.uptime;
  const rest = isSameStart ? boot.uptime - last.boot.uptime : now - last.now;
  return Math.min(Math.max(rest, 0), MAX_DOWNTIME);
}

function currentBoot(): ClockMark['boot'] {
  try {
    const id = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
    return { id, uptime: uptime() };
  } catch {
    // This file exists only on Linux.
    return undefined;
  }
}

/** The time since the machine started, without the time it slept. */
function uptime(): Duration {
  return Math.floor(Number(process.hrtime.bigint() / 1_000_000n));
}
