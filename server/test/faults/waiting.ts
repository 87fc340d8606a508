/**
 * A pause whose length is itself part of the test: a fault that lasts, a moment drawn by lot. Not a wait for
 * an event.
 */
export function lasting(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
