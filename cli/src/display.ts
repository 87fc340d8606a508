import type { Clock } from './clock.ts';

/** Text waiting for a reader that does not read, above which lines are only counted: 1 MB. */
const MAX_WAITING = 1_048_576;

const WINDOW_MS = 1000;

export interface DisplayOptions<Item> {
  readonly output: Output;
  readonly clock: Clock;
  /** Lines in one second, about; `Infinity` shows everything a reader takes. */
  readonly perSecond: number;
  /** Lines in one second beyond those, for urgent items alone: a failure must not drown in successes. */
  readonly urgentPerSecond: number;
  isUrgent(item: Item): boolean;
  /** One or more lines, without the last line break. */
  draw(item: Item, now: number): string;
}

/** The part of a writable stream a display needs. */
export interface Output {
  write(text: string): unknown;
  /** Characters or bytes written that nobody has read yet. */
  readonly writableLength: number;
}

export interface Display<Item> {
  show(item: Item): void;
  /** Says what was counted and not shown. */
  stop(): void;
}

/**
 * Shows items as lines, live, and never costs more than so many lines a second: what is beyond is counted, and said in
 * one line when the second is over. An item that is not shown is not even drawn, so that under heavy traffic the
 * server, which runs on the same thread, pays one comparison and one addition for it.
 */
export function createDisplay<Item>(options: DisplayOptions<Item>): Display<Item> {
  const { output, clock } = options;
  let windowEnd = Number.NEGATIVE_INFINITY;
  let shown = 0;
  let hidden = 0;
  let cancel: (() => void) | undefined;

  const summarise = () => {
    cancel?.();
    cancel = undefined;
    if (hidden === 0) return;
    output.write(`… and ${hidden.toLocaleString('en-US')} more in the last second\n`);
    hidden = 0;
  };

  return {
    show(item) {
      const now = clock.monotonic();
      if (now >= windowEnd) {
        summarise();
        windowEnd = now + WINDOW_MS;
        shown = 0;
      }
      const room = options.perSecond + (options.isUrgent(item) ? options.urgentPerSecond : 0);
      if (shown >= room || output.writableLength > MAX_WAITING) {
        hidden += 1;
        // Without the timer a burst that ends would leave its count unsaid until the next item.
        cancel ??= clock.after(windowEnd - now, summarise);
        return;
      }
      shown += 1;
      output.write(`${options.draw(item, clock.now())}\n`);
    },
    stop: summarise,
  };
}
