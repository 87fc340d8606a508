import { describe, expect, it } from 'vitest';
import { DAY, HOUR, MINUTE } from '../../model/time.ts';
import type { TimelineQuery } from '../../reporting/contract.ts';
import { timelineOperations } from './timeline.ts';

const NOW = Date.parse('2026-11-29T12:00:00.000Z');

/** Resolves to the query that the timeline gets, by a query of a URL. */
async function asked(query: Readonly<Record<string, string>>): Promise<TimelineQuery> {
  let got: TimelineQuery | undefined;
  const [operation] = timelineOperations({
    settings: {
      now: () => ({ sources: [], destinations: [], gone: { sources: [], destinations: [] } }) as never,
    },
    clock: { now: () => NOW } as never,
    timeline: async (wanted) => {
      got = wanted;
      return { from: '', to: '', step: 1, groups: [] };
    },
    failureGroups: () => [],
  });
  await operation!.run({ query: operation!.query!.parse(query) } as never);
  return got!;
}

describe('the range of a timeline', () => {
  it.each([
    [{}, HOUR],
    [{ range: '15m' }, 15 * MINUTE],
    [{ range: '24h' }, DAY],
    [{ range: '7d' }, 7 * DAY],
  ])('%j ends now, by the clock of the server', async (query, length) => {
    expect(await asked(query)).toMatchObject({ from: NOW - length, to: NOW });
  });

  it('ends where the request says so', async () => {
    const to = '2026-11-28T12:00:00.000Z';
    expect(await asked({ range: '2h', to })).toMatchObject({ from: Date.parse(to) - 2 * HOUR });
  });

  it.each(['8d', '169h', '0m', '1.5h', '7', 'd', '-1h', '1w', '9999999d'])(
    'is refused as %s',
    async (range) => {
      await expect(asked({ range })).rejects.toThrow(/at most 7 days/);
    },
  );

  it('is not said twice', async () => {
    const both = asked({ range: '1h', from: '2026-11-29T11:00:00.000Z' });
    await expect(both).rejects.toMatchObject({ code: 'invalid_parameters' });
  });
});
