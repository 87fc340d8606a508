import type { Json } from '../model/json.ts';
import type { Time } from '../model/time.ts';

/** Keeps some of the calls that were not accepted, so that somebody can see what is wrong with them. */
export interface Samples {
  /** Called for every discarded call, so it must be quick when it keeps nothing, and it must not throw. */
  add(discarded: DiscardedCall): void;
}

export interface DiscardedCall {
  /** Name of the source; undefined when none can be named. */
  readonly source: string | undefined;
  /** One of `spec/errors.json`. */
  readonly reason: string;
  readonly at: Time;
  /** The call as it came. Only valid until `add` returns. */
  readonly call: () => Json;
}
