import { describe } from 'vitest';
import { handClock } from '../../test/support/clock.ts';
import { itNotices } from '../../test/support/invariants.ts';
import { SingleJobs } from './single-jobs.ts';

describe('the jobs of one node', () =>
  itNotices([
    [
      'the parts of a job are there before it is asked for',
      async () => {
        const jobs = new SingleJobs({
          nodes: { take: async () => false, giveBack: async () => {}, maySend: () => false },
          mayDo: () => true,
          clock: handClock(0),
          logger: { info: () => {}, warn: () => {} },
        });
        jobs.start();
        try {
          await jobs.add('alerts', { start: () => {}, stop: () => {} });
        } finally {
          await jobs.stop();
        }
      },
    ],
  ]));
