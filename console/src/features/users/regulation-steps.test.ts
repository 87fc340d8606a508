import { describe, expect, it } from 'vitest';
import type { Regulation } from './receipt.ts';
import { stepsOf } from './regulation-steps.ts';

const stream = (destination: string, more: Partial<Regulation['streamStatus'][number]> = {}) => ({
  ...{ source: 'website', destination, endpoint: `https://${destination}.example/in` },
  ...({ status: 'FINISHED', sent: 1, confirmed: 1 } as const),
  ...more,
});

const REGULATION: Regulation = {
  id: 'reg-1',
  type: 'SUPPRESS_WITH_DELETE',
  overallStatus: 'FINISHED',
  createdAt: '2026-11-20T09:00:00.000Z',
  erasedAt: '2026-11-20T09:00:01.500Z',
  finishedAt: '2026-11-20T11:00:00.000Z',
  by: 'mara',
  subjects: 2,
  unknown: 0,
  erased: { events: 1, deliveries: 3, deadLetters: 0 },
  profiles: 2,
  streamStatus: [
    stream('slow', { confirmedAt: '2026-11-20T10:59:00.000Z' }),
    stream('quick', { confirmedAt: '2026-11-20T09:00:02.000Z' }),
  ],
};
const words = (regulation: Regulation) => stepsOf(regulation).map(({ what, text }) => `${what}: ${text}`);

describe('the way of a deletion', () => {
  it('is asked for, suppressed, erased, confirmed by one after the other, and finished', () => {
    expect(stepsOf(REGULATION).map(({ what, after, state }) => [what, after, state])).toEqual([
      ['asked for', undefined, 'done'],
      ['suppressed', '+0\u202fs', 'done'],
      ['erased', '+1.5\u202fs', 'done'],
      ['confirmed', '+2.0\u202fs', 'done'],
      ['confirmed', '+1\u202fh 59\u202fmin', 'done'],
      ['finished', '+2\u202fh', 'done'],
    ]);
    expect(words(REGULATION)).toContain(
      'erased: 1 event, 3 pending deliveries, 0 dead letters, 2 profiles; no file holds their bytes',
    );
    expect(words(REGULATION)[3]).toBe('confirmed: by quick, for website');
  });

  it('says what is not done yet, and why an endpoint is not', () => {
    const { finishedAt: _, ...open } = REGULATION;
    const late = stream('late', {
      status: 'RUNNING',
      confirmed: 0,
      answer: { reason: 'status_503', status: 503 },
    });
    const refused = stream('never', { status: 'FAILED', confirmed: 0 });
    const quick = stream('quick', { confirmedAt: '2026-11-20T09:00:02.000Z' });
    const shown = words({ ...open, overallStatus: 'RUNNING', streamStatus: [refused, late, quick] });
    expect(shown.slice(-4)).toEqual([
      'confirmed: by quick, for website',
      'retrying: late, for website: 503',
      'not confirmed: never, for website',
      'not yet done: waits for 1 confirmation',
    ]);
  });

  it('claims no time that nobody noted, and no erasure that has not ended', () => {
    const { erasedAt: _, finishedAt: __, ...begun } = REGULATION;
    const old = stepsOf({ ...begun, finishedAt: '2026-11-20T11:00:00.000Z' })[2]!;
    expect([old.what, old.at, old.text.endsWith('the time was not noted')]).toEqual([
      'erased',
      undefined,
      true,
    ]);
    const running = stepsOf({ ...begun, overallStatus: 'RUNNING', streamStatus: [] });
    expect(running[2]).toMatchObject({ state: 'running', what: 'erasing' });
    expect(running.at(-1)).toMatchObject({ state: 'pending', what: 'not yet done' });
  });

  it('shows who did not confirm when it has ended', () => {
    const refused = stream('refusing', {
      status: 'FAILED',
      confirmed: 0,
      answer: { reason: 'connection_refused' },
    });
    const shown = words({ ...REGULATION, overallStatus: 'PARTIAL_SUCCESS', streamStatus: [refused] });
    expect(shown.slice(-2)).toEqual([
      'not confirmed: refusing, for website: connection refused',
      'ended: 1 confirmation did not come',
    ]);
  });

  it('of a suppression alone erases nothing', () => {
    const { erasedAt: _, profiles: __, ...rest } = REGULATION;
    const only = stepsOf({ ...rest, type: 'SUPPRESS_ONLY', streamStatus: [] });
    expect(only.map(({ what }) => what)).toEqual(['asked for', 'suppressed', 'finished']);
    expect(stepsOf({ ...rest, type: 'UNSUPPRESS', streamStatus: [] }).map(({ what }) => what)).toEqual([
      'asked for',
      'ended',
    ]);
  });
});
