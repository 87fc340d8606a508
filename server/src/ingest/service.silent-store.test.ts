import { expect, test } from 'vitest';
import { openMemoryStore } from '../../test/memory-store/store.ts';
import { handClock } from '../../test/support/clock.ts';
import { ingestServiceOf } from '../../test/support/ingest.ts';
import { until } from '../../test/support/until.ts';
import { SECOND } from '../model/time.ts';
import type { Batch } from '../ports/event-log.ts';

const NOW = 1_700_000_000_000;

/**
 * A service over a database that answers nothing between `hang` and `answer`, which its nodes know as soon as
 * `know` is called.
 */
function service() {
  const { log } = openMemoryStore();
  let problems: string[] = [];
  let gate = Promise.withResolvers<void>();
  gate.resolve();
  const logged: string[] = [];
  const note = (_: unknown, event: string) => void logged.push(event);
  const clock = handClock(NOW);
  let commits = 0;
  const ingest = ingestServiceOf({
    log: {
      append: async (batch: Batch) => {
        commits++;
        await gate.promise;
        return await log.append(batch);
      },
    },
    clock,
    logger: { debug: note, info: note, warn: note, error: note },
    storeProblems: () => problems,
  });
  const answers: string[] = [];
  const call = (messageId: string) => {
    const body = Buffer.from(JSON.stringify({ writeKey: 'wk', userId: 'u', event: 'E', messageId }));
    ingest.handle({ type: 'track', body, receivedAt: NOW }, (result) =>
      answers.push(`${messageId} ${result.kind === 'unavailable' ? result.code : result.kind}`),
    );
  };
  return {
    ...{ call, answers, logged, clock, log, ingest, commits: () => commits },
    hang: () => {
      gate = Promise.withResolvers();
    },
    know: () => {
      problems = ['the database has not answered for more than 2 s'];
    },
    answer: () => {
      problems = [];
      gate.resolve();
    },
  };
}

test('a store that does not answer keeps no call waiting for its answer, and stores what it has got all the same', async () => {
  const { call, answers, logged, clock, log, ingest, commits, hang, know, answer } = service();
  hang();
  for (const [nth, id] of ['under way', 'second'].entries()) {
    call(id);
    await until('its commit is under way', () => commits() === nth + 1);
  }
  // Behind two commits under way.
  for (const id of ['waits 1', 'waits 2']) call(id);
  await clock.pass(2 * SECOND);
  expect(answers).toEqual([]);
  know();
  await clock.pass(SECOND);
  expect(answers.sort()).toEqual(
    ['second', 'under way', 'waits 1', 'waits 2'].map((id) => `${id} storage_unavailable`),
  );
  call('at once');
  expect(answers.at(-1)).toBe('at once storage_unavailable');
  // It says itself that it is not ready, and is ready again when it says so: nothing is remembered of calls
  // that were not tried.
  expect(ingest.problems()).toEqual([]);
  let isOver = false;
  const over = ingest.answered().then(() => {
    isOver = true;
  });
  await clock.settle();
  // A deletion must not begin while one of them may still be stored.
  expect(isOver).toBe(false);

  answer();
  await clock.settle();
  await over;
  call('again');
  await until('it is answered', () => answers.length === 6);
  expect(answers.at(-1)).toBe('again stored');
  expect(logged).toEqual(['storage.unavailable', 'storage.recovered']);
  const stored = async (messageId: string) => (await log.find({ messageId })).positions.length;
  const ids = ['under way', 'second', 'waits 1', 'waits 2', 'at once', 'again'];
  expect(await Promise.all(ids.map(stored))).toEqual([1, 1, 0, 0, 0, 1]);
  await ingest.stop();
});
