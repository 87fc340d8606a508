import { describe, it } from 'vitest';
import { diskPlace, memoryPlace } from '../users/profile-places.ts';
import { compareWithModel } from '../users/profiles-model.ts';
import { SEED, timesLonger } from './rounds.ts';

/** Longer than in `npm test`. A failure prints the seed and the path that repeat it. */
describe('profiles that processes leave in the middle of their work', () => {
  it.each([
    { place: 'memory', make: memoryPlace, runs: 4000 },
    { place: 'users.db', make: diskPlace, runs: 400 },
  ])('are those of a naive model, in $place', async ({ place, make, runs }) => {
    console.log(`profiles in ${place}: MILLRACE_FAULT_SEED=${SEED}`);
    await compareWithModel(make, { numRuns: Math.ceil(runs * timesLonger()), seed: SEED });
  });
});
