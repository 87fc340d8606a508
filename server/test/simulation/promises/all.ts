import { answers } from './answers.ts';
import { discards } from './discards.ts';
import { due } from './due.ts';
import { erased, goesOn, suppressed } from './erased.ts';
import { leases } from './leases.ts';
import { owed, settled } from './owed.ts';
import { profiles } from './profiles.ts';
import type { PromiseFamily } from './promise.ts';
import { bounded, soon } from './recovery.ts';
import { notAgain, notNow, oneProbes } from './requests.ts';
import { stored } from './stored.ts';
import { taken } from './taken.ts';

/** All promises. A new stage of the program adds its own here. */
export const PROMISES: readonly PromiseFamily[] = [
  stored,
  taken,
  owed,
  settled,
  notAgain,
  notNow,
  oneProbes,
  answers,
  leases,
  erased,
  suppressed,
  goesOn,
  soon,
  due,
  bounded,
  discards,
  profiles,
];
