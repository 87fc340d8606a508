import { discards } from './discards.ts';
import { due } from './due.ts';
import { erased } from './erased.ts';
import { owed, settled } from './owed.ts';
import { profiles } from './profiles.ts';
import type { PromiseFamily } from './promise.ts';
import { bounded, soon } from './recovery.ts';
import { notAgain, notNow } from './requests.ts';
import { stored } from './stored.ts';

/** All promises. A new stage of the program adds its own here. */
export const PROMISES: readonly PromiseFamily[] = [
  stored,
  owed,
  settled,
  notAgain,
  notNow,
  erased,
  soon,
  due,
  bounded,
  discards,
  profiles,
];
