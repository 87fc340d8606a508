/** Milliseconds within which a repeated signal counts as the same key press. */
const ONE_PRESS_MS = 300;

export interface StoppingOptions {
  /** The source of SIGINT and SIGTERM: the process. */
  readonly signals: { on(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown };
  now(): number;
  /** Ends the process at once. */
  abandon(): void;
}

export interface Stopping {
  /** Resolves when a stop is requested. */
  readonly requested: Promise<void>;
  request(): void;
}

/**
 * The first SIGINT or SIGTERM requests an orderly stop; a second one ends the process at once.
 *
 * Under `npm start`, Ctrl-C arrives twice: from the terminal, which signals every program in it, and from
 * npm, which forwards its own signal. A second signal this early is therefore the same key press.
 */
export function stopOnSignals(options: StoppingOptions): Stopping {
  let request: () => void = () => {};
  const requested = new Promise<void>((resolve) => {
    request = resolve;
  });
  let firstAt: number | undefined;
  const onSignal = () => {
    const now = options.now();
    if (firstAt !== undefined && now - firstAt > ONE_PRESS_MS) options.abandon();
    firstAt ??= now;
    request();
  };
  options.signals.on('SIGINT', onSignal);
  options.signals.on('SIGTERM', onSignal);
  return { requested, request };
}
