import { readFileSync } from 'node:fs';
import { DAY, type Duration, type Monotonic, SECOND } from '../../model/time.ts';
import type { Clock, ClockMark, ClockStep } from '../../ports/clock.ts';

/** Timers of Node hold no more than 2^31 ms, and a longer one fires at once: a longer wait is walked in steps. */
const MAX_TIMER: Duration = DAY;

/** A smaller difference of the clocks is that of two readings, or of a wall clock that is being slewed. */
const STEP: Duration = SECOND;

/** Steps remembered. Of a wall clock that is set more often than this the oldest ones are forgotten. */
const MAX_STEPS = 100;

/**
 * The time in which no process ran counts no longer than this: a machine that starts with its clock a year ahead must not
 * end everything that is kept for a time.
 */
const MAX_DOWNTIME: Duration = DAY;

export interface SystemClock extends Clock {
  mark(): ClockMark;
}

/**
 * The clocks of the machine. Node's timers and `performance.now` run on the monotonic clock of the system, so that
 * setting the wall clock makes nothing wait longer or end sooner. It stands still while the machine sleeps.
 *
 * @param last what the process before has left: the monotonic clock goes on from there
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
    steps: () => {
      const ahead = Date.now() - monotonic();
      if (Math.abs(ahead - steps.at(-1)!.ahead) < STEP) return steps;
      // Once more: the thread may have been stopped between the two readings.
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

/** For whatever keeps no monotonic time on disk. */
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
 * How long no process has run. Where the machine has not been started since, its own monotonic clock knows, whatever was
 * done to the wall clock meanwhile; otherwise the wall clock is believed as far as it is believable.
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
    // Only Linux has it.
    return undefined;
  }
}

/** Since the machine was started, without the time it slept. */
function uptime(): Duration {
  return Math.floor(Number(process.hrtime.bigint() / 1_000_000n));
}
