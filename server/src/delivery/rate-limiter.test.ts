import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nextRequestAt } from './rate-limiter.ts';

/** Times of requests under the rate limit; `wanted`: when each was ready, `late`: the delay of a timer. */
function times(wanted: readonly number[], perSecond: number, late: () => number): number[] {
  let at = 0;
  let now = 0;
  return wanted.map((time) => {
    now = Math.max(now, time);
    if (at > now) now = Math.ceil(at) + late();
    at = nextRequestAt(at, now, perSecond);
    return now;
  });
}

describe('a rate limit', () => {
  it('holds in every second, within a fortieth and one request, whatever the arrivals', () => {
    const arrivals = fc.array(fc.nat({ max: 300 }), { minLength: 1, maxLength: 300 });
    fc.assert(
      fc.property(
        arrivals,
        fc.integer({ min: 1, max: 2000 }),
        fc.nat({ max: 20 }),
        (gaps, perSecond, late) => {
          let time = 0;
          const wanted = gaps.map((gap) => {
            time += gap % 7 === 0 ? gap : 0;
            return time;
          });
          const sent = times(wanted, perSecond, () => late);
          for (const from of sent) {
            const within = sent.filter((at) => at >= from && at < from + 1000).length;
            expect(within).toBeLessThanOrEqual(Math.ceil(perSecond * 1.025) + 1);
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it.each([1, 3, 100, 7000])('of %i a second is reached', (perSecond) => {
    const wanted = Array.from({ length: perSecond * 5 }, () => 0);
    const sent = times(wanted, perSecond, () => 0);
    expect(sent.at(-1)).toBeLessThanOrEqual(5000);
    expect(sent.at(-1)).toBeGreaterThanOrEqual(5000 - 1000 / perSecond - 26);
  });
});
