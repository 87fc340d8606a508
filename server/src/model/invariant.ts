/**
 * A bug of ours: something is not so that is always so, whatever clients, files, clocks and databases do. It
 * stops the part of the program in which it was found, because what that part would do next may be wrong
 * (docs/decisions/0062-invariants.md). The message is the text of the invariant, which stands in one place.
 */
export class InvariantError extends Error {
  /** For the crash file: numbers and names of operations, never anything of an event. */
  facts: Readonly<Record<string, unknown>> = {};

  constructor(text: string) {
    super(text);
    this.name = 'InvariantError';
  }
}

/**
 * Throws an `InvariantError` unless the condition holds. `text` is constant and says what is always so; no
 * other invariant has the same. Costs some three nanoseconds, so that it may stand on hot paths.
 */
export function invariant(condition: unknown, text: string): asserts condition {
  if (!condition) throw new InvariantError(text);
}

/** For whoever goes on after errors: a broken invariant is none to go on after. */
export function rethrowInvariant(error: unknown): void {
  if (error instanceof InvariantError) throw error;
}

/**
 * Ends the process with an error, outside of every catch: for what all lanes and calls share. The program
 * writes down what has happened, and ends with the code 70.
 */
export function endWith(error: InvariantError): void {
  queueMicrotask(() => {
    throw error;
  });
}
