import type { Clock } from './clock.ts';

/** Unread output in bytes (1 MB), above which lines are counted instead of shown. */
const MAX_WAITING = 1_048_576;

const WINDOW_MS = 1000;

export interface DisplayOptions<Item> {
  readonly output: Output;
  readonly clock: Clock;
  /** Lines per second, approximately. `Infinity` shows everything that the reader takes. */
  readonly perSecond: number;
  /** More lines per second, for urgent items only: failures must stay visible among successes. */
  readonly urgentPerSecond: number;
  isUrgent(item: Item): boolean;
  /** One or more lines, without the final line break. */
  draw(item: Item, now: number): string;
}

/** The part of a writable stream that a display needs. */
export interface Output {
  write(text: string): unknown;
  /** Characters or bytes that are written and not yet read. */
  readonly writableLength: number;
}

export interface Display<Item> {
  show(item: Item): void;
  /** Prints the count of items not yet reported. */
  stop(): void;
}

/**
 * Shows items as lines, live, up to a limit of lines per second. Items beyond the limit are counted, and one
 * line reports the count when the second is over. They are not even drawn: under heavy traffic, each costs
 * the server, which runs on the same thread, one comparison and one addition.
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
        // Without the timer, the count of a burst would stay unreported until the next item.
        cancel ??= clock.after(windowEnd - now, summarise);
        return;
      }
      shown += 1;
      output.write(`${options.draw(item, clock.now())}\n`);
    },
    stop: summarise,
  };
}
