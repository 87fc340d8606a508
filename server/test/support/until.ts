/**
 * Milliseconds after which a wait gives up: long enough for a machine that does five other things, and less
 * than a test may take.
 */
export const GIVE_UP_AFTER = 240_000;

/** Milliseconds between two looks. */
const PAUSE = 20;

/** Timers of the system: a test that moves its clocks by hand waits for sockets and files all the same. */
const { setTimeout, clearTimeout } = globalThis;
const now = performance.now.bind(performance);

/**
 * Waits for something that gives no signal of its own: looks again until it has happened, and resolves to
 * what the look returned. A look that throws, such as a failed `expect`, or returns false has not seen it
 * yet.
 *
 * Tests wait for nothing in another way, so that a slow machine fails none of them: this gives up after four
 * minutes, and says what it waited for and what it saw last.
 */
export async function until<Seen>(
  what: string,
  look: () => Seen | Promise<Seen>,
  { pause = PAUSE }: { readonly pause?: number } = {},
): Promise<Exclude<Seen, false>> {
  const end = now() + GIVE_UP_AFTER;
  for (;;) {
    let last: unknown = 'false';
    try {
      const seen = await look();
      if (seen !== false) return seen as Exclude<Seen, false>;
    } catch (error) {
      last = error;
    }
    if (now() > end) {
      throw new Error(`waited ${GIVE_UP_AFTER / 1000} s until ${what}; the last look: ${String(last)}`, {
        cause: last,
      });
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/**
 * Resolves with the promise; rejects after four minutes, saying what was waited for and what `describe` has
 * to tell.
 */
export async function within<Value>(
  what: string,
  promise: Promise<Value>,
  describe: () => string = () => '',
): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`waited ${GIVE_UP_AFTER / 1000} s until ${what}. ${describe()}`)),
      GIVE_UP_AFTER,
    );
  });
  return await Promise.race([promise, tooLong]).finally(() => clearTimeout(timer));
}
