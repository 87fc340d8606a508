import { expect, test } from 'vitest';
import { quoted } from '../../../clients/e2e/sentences/quoted.ts';
import { openMemoryStore } from '../../test/memory-store/store.ts';
import { handClock } from '../../test/support/clock.ts';
import { ingestServiceOf } from '../../test/support/ingest.ts';
import { until } from '../../test/support/until.ts';
import type { Batch } from '../ports/event-log.ts';

const NOW = 1_700_000_000_000;

/** A service in which the user `gone` is suppressed. Its log stores nothing before `let`. */
function service() {
  const { log } = openMemoryStore();
  const gate = Promise.withResolvers<void>();
  const appended: Batch[] = [];
  const append = async (batch: Batch) => {
    appended.push(batch);
    await gate.promise;
    return await log.append(batch);
  };
  const ingest = ingestServiceOf({
    log: { append },
    clock: handClock(NOW),
    suppression: {
      isEmpty: false,
      suppresses: ({ bytes, from, to }) => bytes.toString('utf8', from, to).includes('"gone"'),
      names: () => false,
    },
  });
  const answers: string[] = [];
  const call = (userId: string) => {
    const body = Buffer.from(JSON.stringify({ writeKey: 'wk', userId, event: 'E' }));
    ingest.handle({ type: 'track', body, receivedAt: NOW }, ({ kind }) => answers.push(`${userId} ${kind}`));
  };
  return { call, answers, appended, let: gate.resolve };
}

test(
  quoted('Its answer waits for a commit as any other does, so that its time tells nobody who is suppressed.'),
  async () => {
    for (const userId of ['gone', 'ann']) {
      const { call, answers, appended, let: release } = service();
      call(userId);
      await until('the log is asked to commit', () => appended.length === 1);
      expect([userId, answers]).toEqual([userId, []]);
      expect(appended[0]!.received).toHaveLength(1);
      release();
      await until('it is answered', () => answers.length === 1);
      expect(answers).toEqual([`${userId} stored`]);
      expect(appended[0]!.events).toHaveLength(userId === 'gone' ? 0 : 1);
    }
  },
);
