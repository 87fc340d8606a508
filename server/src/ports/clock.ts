import type { Time } from '../model/time.ts';

/** The only source of time. Tests hand in one they move themselves. */
export interface Clock {
  now(): Time;

  /** Calls `wake` once, at `at` or soon after; the returned function cancels it. Does not keep the process alive. */
  at(at: Time, wake: () => void): () => void;
}
