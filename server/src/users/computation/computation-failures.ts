import type { Computation } from '../../model/definition.ts';
import { defined, type Json } from '../../model/json.ts';
import { definitionKey } from './computation-jobs.ts';

/** The name of the document that keeps the failures. */
export const FAILURES_DOCUMENT = 'computation-failures';

/** The error, and the slot to which an event could not be added. */
interface Cause {
  readonly error: unknown;
  readonly slot?: number;
}

/** As it is stored. */
interface StoredFailure {
  /** Key of the computation's definition (`definitionKey`). */
  readonly definition: string;
  readonly reason: string;
  readonly slot?: number;
}

/**
 * Computations that threw an exception. They are left alone until their definition is another one: their
 * values stay as they are, and all others go on. The failures are stored in the commit of the slice in which
 * they happened.
 */
export class ComputationFailures {
  readonly #failures = new Map<string, StoredFailure>();
  readonly #keys = new WeakMap<Computation, string>();
  #isStored = true;

  constructor(stored: Json | undefined = undefined) {
    for (const one of (stored ?? []) as unknown as readonly StoredFailure[])
      this.#failures.set(one.definition, one);
  }

  add(computation: Computation, { error, slot }: Cause): void {
    const definition = definitionKey(computation);
    if (this.#failures.has(definition)) return;
    const reason = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    this.#failures.set(definition, { definition, reason, ...defined({ slot }) });
    this.#isStored = false;
  }

  has(computation: Computation): boolean {
    return this.#of(computation) !== undefined;
  }

  /** Asked for every evaluation, nearly always while nothing has failed. */
  #of(computation: Computation): StoredFailure | undefined {
    if (this.#failures.size === 0) return undefined;
    const key = this.#keys.get(computation) ?? definitionKey(computation);
    this.#keys.set(computation, key);
    return this.#failures.get(key);
  }

  /** Tells whether a slot lacks events. */
  hasSlot(slot: number): boolean {
    for (const one of this.#failures.values()) if (one.slot === slot) return true;
    return false;
  }

  /** The reason, with what to do about it; undefined for a computation without a failure. */
  reasonOf(computation: Computation): string | undefined {
    const failure = this.#of(computation);
    if (failure === undefined) return undefined;
    return (
      `Millrace cannot compute its definition (${failure.reason}): its values stay as they are; write the definition in another way, ` +
      'and please report it'
    );
  }

  /** Forgets failures of definitions that no longer exist. */
  keep(computations: readonly Computation[]): void {
    const there = new Set(computations.map(definitionKey));
    for (const definition of [...this.#failures.keys()]) {
      if (there.has(definition)) continue;
      this.#failures.delete(definition);
      this.#isStored = false;
    }
  }

  /** The document that the slice at work has to store, if there is something new. */
  documents(): Record<string, Json> {
    if (this.#isStored) return {};
    this.#isStored = true;
    return { [FAILURES_DOCUMENT]: [...this.#failures.values()] as unknown as Json };
  }
}
