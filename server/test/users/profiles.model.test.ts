import { test } from 'vitest';
import { diskPlace, memoryPlace } from './profile-places.ts';
import { compareWithModel } from './profiles-model.ts';

/** The suite of faults makes 4000 runs. */
const runs = Number(process.env['MILLRACE_MODEL_RUNS'] ?? 150);

test('profiles, memberships and notifications are those of a naive model, whatever fails in between', () =>
  compareWithModel(memoryPlace, { numRuns: runs }));

test('so are those in users.db', () => compareWithModel(diskPlace, { numRuns: runs / 3 }));
