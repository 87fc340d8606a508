import type { Time } from './time.ts';

/**
 * Two ids that are never ids of one profile, because an operator has taken a wrong merge apart. They are known by their keyed hashes alone, so that
 * a deletion has nothing to erase here.
 */
export interface SplitRecord {
  readonly id: string;
  /** The keys of the two ids, as profiles find them. */
  readonly keys: readonly [number, number];
  readonly createdAt: Time;
  /** The name of the token. */
  readonly by: string;
}
