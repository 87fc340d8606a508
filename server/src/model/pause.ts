import type { Duration, Monotonic } from './time.ts';

/** A period in which a destination was sent nothing, because an operator had paused or disabled it. */
export interface Pause {
  readonly from: Monotonic;
  /** Absent while the pause lasts. */
  readonly to?: Monotonic;
}

/** Pauses kept within one retry window. When there are more, the oldest two become one. */
const MAX_PAUSES = 50;

/**
 * The time since which `window` has passed at `now`, pauses left out. Deliveries that first failed before it
 * have used up their retry window.
 */
export function retryWindowStart(pauses: readonly Pause[], window: Duration, now: Monotonic): Monotonic {
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

/** Paused time between `from` and `now`. */
export function pausedTimeWithin(pauses: readonly Pause[], from: Monotonic, now: Monotonic): Duration {
  let sum = 0;
  for (const pause of pauses) {
    sum += Math.max(0, Math.min(pause.to ?? now, now) - Math.max(pause.from, from));
  }
  return sum;
}

/** The pauses after a switch at `at`, without those too old for any retry window of the length `window`. */
export function recordSwitch(
  pauses: readonly Pause[],
  { isServed, at, window }: { readonly isServed: boolean; readonly at: Monotonic; readonly window: Duration },
): readonly Pause[] {
  // A store from another machine may hold pauses that this machine's clock has not reached.
  const past = pauses.filter(({ from }) => from <= at);
  const last = past.at(-1);
  const isOpen = last !== undefined && last.to === undefined;
  if (!isServed) return isOpen ? past : mergeOldest([...past, { from: Math.max(at, last?.to ?? at) }]);
  // A destination that an earlier version disabled has no beginning: all of its past counts as a pause.
  const ended = isOpen ? { from: last.from, to: at } : { from: last?.to ?? 0, to: at };
  const all = [...(isOpen ? past.slice(0, -1) : past), ended];
  const start = retryWindowStart(all, window, at);
  return mergeOldest(all.filter(({ to = at }) => to > start));
}

function mergeOldest(pauses: readonly Pause[]): readonly Pause[] {
  if (pauses.length <= MAX_PAUSES) return pauses;
  const [first, second, ...rest] = pauses;
  return [{ ...second, from: first!.from }, ...rest];
}
