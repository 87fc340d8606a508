import type { Duration, Monotonic } from './time.ts';

/** A time in which nothing was sent to a destination because an operator had paused or disabled it. */
export interface Pause {
  readonly from: Monotonic;
  /** Absent while it lasts. */
  readonly to?: Monotonic;
}

/** More pauses than these within one retry window are joined, the oldest first. */
const MOST = 50;

/**
 * Retry windows leave pauses out: this is the time since which `window` has passed at `now`, pauses not counted. What
 * first failed before it has had its window.
 */
export function windowStart(pauses: readonly Pause[], window: Duration, now: Monotonic): Monotonic {
  let left = window;
  let end = now;
  for (let nth = pauses.length - 1; nth >= 0; nth--) {
    const { from, to = now } = pauses[nth]!;
    if (from >= end) continue;
    const sending = end - Math.min(to, end);
    if (sending >= left) break;
    left -= sending;
    end = from;
  }
  return end - left;
}

/** How much of the time from `from` to `now` was paused. */
export function pausedWithin(pauses: readonly Pause[], from: Monotonic, now: Monotonic): Duration {
  let sum = 0;
  for (const pause of pauses) {
    sum += Math.max(0, Math.min(pause.to ?? now, now) - Math.max(pause.from, from));
  }
  return sum;
}

/** The pauses after a switch at `at`. Those that no retry window (`window` long) reaches back to are left out. */
export function afterSwitch(
  pauses: readonly Pause[],
  { isServed, at, window }: { readonly isServed: boolean; readonly at: Monotonic; readonly window: Duration },
): readonly Pause[] {
  // A store from another machine may hold pauses that this machine's clock has not reached.
  const past = pauses.filter(({ from }) => from <= at);
  const last = past.at(-1);
  const isOpen = last !== undefined && last.to === undefined;
  if (!isServed) return isOpen ? past : joined([...past, { from: Math.max(at, last?.to ?? at) }]);
  // A destination that an earlier version disabled has no beginning: all of its past counts as a pause.
  const ended = isOpen ? { from: last.from, to: at } : { from: last?.to ?? 0, to: at };
  const all = [...(isOpen ? past.slice(0, -1) : past), ended];
  const start = windowStart(all, window, at);
  return joined(all.filter(({ to = at }) => to > start));
}

function joined(pauses: readonly Pause[]): readonly Pause[] {
  if (pauses.length <= MOST) return pauses;
  const [first, second, ...rest] = pauses;
  return [{ ...second, from: first!.from }, ...rest];
}
