import { expect, it } from 'vitest';
import { handClock } from '../../test/support/clock.ts';
import { MINUTE, SECOND } from '../model/time.ts';
import type { Preview } from '../ports/users.ts';
import { type PreviewAsker, PreviewDesk } from './preview-desk.ts';

const NOON = Date.UTC(2026, 0, 1, 12);
const ANSWER: Preview = {
  members: 3,
  sample: [],
  enters: 0,
  leaves: 0,
  eventsBehind: 0,
  textForNumbers: [],
  unknownNames: [],
};

function asker(by: string): PreviewAsker & { leave(): void } {
  const controller = new AbortController();
  return { by, gone: controller.signal, leave: () => controller.abort() };
}

it('computes one at a time, and says whose it is', async () => {
  const desk = new PreviewDesk(handClock(NOON));
  const { promise, resolve } = Promise.withResolvers<Preview>();
  const first = desk.preview('a', asker('ann'), () => promise);
  await expect(desk.preview('b', asker('bob'), async () => ANSWER)).rejects.toMatchObject({
    ...{ code: 'preview_running', retryAfter: 5 },
    hint: expect.stringContaining('"ann" has asked for one at 2026-01-01T12:00:00.000Z'),
  });
  resolve(ANSWER);
  expect(await first).toMatchObject({ members: 3, computedAt: NOON });
  expect(await desk.preview('b', asker('bob'), async () => ANSWER)).toMatchObject({ members: 3 });
});

it('waits for the end of one that nobody waits for', async () => {
  const desk = new PreviewDesk(handClock(NOON));
  const { promise, reject } = Promise.withResolvers<Preview>();
  const ann = asker('ann');
  const first = desk.preview('a', ann, () => promise);
  first.catch(() => {});
  ann.leave();
  let begun = 0;
  const second = desk.preview('b', ann, async () => {
    begun++;
    return ANSWER;
  });
  await Promise.resolve();
  expect(begun).toBe(0);
  reject(new Error('nobody waits for it'));
  await expect(first).rejects.toThrow();
  expect(await second).toMatchObject({ members: 3 });
});

it('gives an answer again for a minute, where it took long and was complete', async () => {
  const clock = handClock(NOON);
  const desk = new PreviewDesk(clock);
  const ask = (key: string, takes: number, answer = ANSWER) =>
    desk.preview(key, asker('ann'), async () => {
      await clock.pass(takes);
      return { ...answer, members: clock.now() - NOON };
    });
  for (const [key, takes, eventsBehind, isKept] of [
    ['quick', SECOND - 1, 0, false],
    ['long', SECOND, 0, true],
    ['incomplete', SECOND, 7, false],
  ] as const) {
    const first = await ask(key, takes, { ...ANSWER, eventsBehind });
    const second = await ask(key, takes);
    expect([key, second.members === first.members]).toEqual([key, isKept]);
    if (isKept) expect(second.computedAt).toBe(first.computedAt);
  }
  await clock.pass(MINUTE);
  expect((await ask('long', SECOND)).members).toBeGreaterThan(MINUTE);
});
